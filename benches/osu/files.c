/* Bytes in a second that all ranks write to a file and read from it, by pattern and size of the
 * pieces.
 *
 *     files PATTERN [independent|collective] [BYTES of each rank] [FOLDER] [-m MIN:MAX]
 *
 * Patterns: `contiguous`, each rank has a part of the file; `plain`, the same with pwrite and pread
 * instead of MPI; `started`, the same with nonblocking accesses of one piece each, some under way
 * at once; `interleaved`, pieces of the ranks in turn; `subarray`, a matrix of doubles of which
 * each rank has a block of columns, a piece in each row; `open`, the microseconds of an open and a
 * close. Pieces have 8, 64, 512 ... bytes, from MIN to MAX. The best of some passes is shown; what
 * was read is compared with what was written. Data stays in the system's cache: no MPI_File_sync. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PASSES = 7, UNDER_WAY = 16 };

static int rank, ranks;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The longest time of all ranks. */
static double longest(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void set_view(MPI_File file, const char *pattern, long bytes, long piece) {
    MPI_Datatype type = MPI_BYTE;
    MPI_Offset disp = rank * (MPI_Offset)bytes;
    if (strcmp(pattern, "interleaved") == 0) {
        MPI_Type_vector((int)(bytes / piece), (int)piece, (int)(piece * ranks), MPI_BYTE, &type);
        disp = rank * (MPI_Offset)piece;
    } else if (strcmp(pattern, "subarray") == 0) {
        int sizes[2] = {(int)(bytes / piece), (int)(piece / 8 * ranks)};
        int subsizes[2] = {sizes[0], (int)(piece / 8)}, starts[2] = {0, rank * (int)(piece / 8)};
        MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
        disp = 0;
    }
    if (type != MPI_BYTE)
        MPI_Type_commit(&type);
    check(MPI_File_set_view(file, disp, MPI_BYTE, type, "native", MPI_INFO_NULL), "set_view");
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
}

/* Moves this rank's part with the system's calls. */
static int move_plain(int fd, int writes, unsigned char *data, long bytes) {
    for (long done = 0, moved; done < bytes; done += moved) {
        off_t at = (off_t)rank * bytes + done;
        size_t rest = (size_t)(bytes - done);
        moved = writes ? pwrite(fd, data + done, rest, at) : pread(fd, data + done, rest, at);
        if (moved <= 0)
            return MPI_ERR_IO;
    }
    return MPI_SUCCESS;
}

/* Moves this rank's part by nonblocking accesses of `piece` bytes. */
static int move_started(MPI_File file, int writes, unsigned char *data, long bytes, long piece) {
    for (long at = 0; at < bytes;) {
        MPI_Request requests[UNDER_WAY];
        int begun = 0;
        for (; begun < UNDER_WAY && at < bytes; at += piece) {
            int code = writes ? MPI_File_iwrite_at(file, at, data + at, (int)piece, MPI_BYTE, &requests[begun++])
                              : MPI_File_iread_at(file, at, data + at, (int)piece, MPI_BYTE, &requests[begun++]);
            check(code, "a nonblocking access");
        }
        check(MPI_Waitall(begun, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }
    return MPI_SUCCESS;
}

/* `fd` is a descriptor to use instead of the file, or -1; `piece` the bytes of a nonblocking access, or 0. */
static double move(MPI_File file, int fd, int writes, int collective, unsigned char *data, long bytes, long piece) {
    double best = 1e9;
    for (int pass = 0; pass < PASSES; pass++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        int code;
        if (fd >= 0)
            code = move_plain(fd, writes, data, bytes);
        else if (piece > 0)
            code = move_started(file, writes, data, bytes, piece);
        else if (writes)
            code = collective ? MPI_File_write_at_all(file, 0, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                              : MPI_File_write_at(file, 0, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            code = collective ? MPI_File_read_at_all(file, 0, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                              : MPI_File_read_at(file, 0, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        check(code, writes ? "write" : "read");
        double taken = longest(now() - start);
        best = taken < best ? taken : best;
    }
    return best;
}

static void open_and_close(const char *name) {
    double best = 1e9;
    for (int pass = 0; pass < 50; pass++) {
        MPI_File file;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
        check(MPI_File_close(&file), "close");
        double taken = longest(now() - start);
        best = taken < best ? taken : best;
    }
    if (rank == 0)
        printf("%-12s %16.1f\n", "us", best * 1e6);
}

int main(int argc, char **argv) {
    char name[300];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long least = 8, most = 1 << 18;
    if (argc > 2 && strcmp(argv[argc - 2], "-m") == 0) {
        char *rest;
        least = most = strtol(argv[argc - 1], &rest, 10);
        if (*rest == ':')
            most = strtol(rest + 1, NULL, 10);
        argc -= 2;
    }
    const char *pattern = argc > 1 ? argv[1] : "interleaved", *folder = argc > 4 ? argv[4] : "/tmp";
    int collective = argc <= 2 || strcmp(argv[2], "collective") == 0;
    long bytes = argc > 3 ? atol(argv[3]) : 16 << 20;
    int pid = (int)getpid();
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s/bench-%d", folder, pid);
    if (rank == 0)
        printf("# files %s, %s, %d ranks, %ld bytes each, %s\n", pattern, collective ? "collective" : "independent",
               ranks, bytes, folder);
    if (strcmp(pattern, "open") == 0) {
        open_and_close(name);
    } else {
        unsigned char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
        if (rank == 0)
            printf("%-12s %16s %16s\n", "# piece", "write MB/s", "read MB/s");
        int plain = strcmp(pattern, "plain") == 0, whole = plain || strcmp(pattern, "contiguous") == 0;
        for (long piece = whole ? bytes : 8; piece <= (whole ? bytes : most); piece *= 8) {
            MPI_File file;
            if (piece < least)
                continue;
            for (long i = 0; i < bytes; i++)
                out[i] = (unsigned char)(i * 7 + i / 256 + rank * 50 + piece);
            check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
            set_view(file, pattern, bytes, piece);
            int fd = plain ? open(name, O_RDWR) : -1;
            long started = strcmp(pattern, "started") == 0 ? piece : 0;
            double total = (double)bytes * ranks / 1e6;
            double writing = move(file, fd, 1, collective, out, bytes, started);
            double reading = move(file, fd, 0, collective, in, bytes, started);
            if (plain)
                close(fd);
            if (memcmp(in, out, (size_t)bytes) != 0)
                check(MPI_ERR_OTHER, "the data that was read differs");
            check(MPI_File_close(&file), "close");
            if (rank == 0)
                printf("%-12ld %16.0f %16.0f\n", piece, total / writing, total / reading);
        }
        free(out), free(in);
    }
    if (rank == 0)
        unlink(name);
    MPI_Finalize();
    return 0;
}
