/* Bytes in a second that all ranks write to a file and read from it, by pattern and size of the
 * pieces.
 *
 *     files PATTERN [independent|collective] [BYTES of each rank] [FOLDER] [-m MIN:MAX]
 *
 * Patterns: `contiguous`, each rank has a part of the file, and in turn with MPI pwrite and pread
 * move it too; `started`, the same by nonblocking accesses of one piece each, some under way at
 * once; `interleaved`, pieces of the ranks in turn; `subarray`, a matrix of doubles of which
 * each rank has a block of columns, a piece in each row; `open`, the microseconds of an open and a
 * close. Pieces have 8, 64, 512 ... bytes, from MIN to MAX. The best of some passes is shown; what
 * was read is compared with what was written. Data stays in the system's cache: no MPI_File_sync.
 * The ratios are MPI's speed to that of pwrite and pread. */
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

/* One rank's part of the file, and how to move it. */
struct part {
    MPI_File file;
    int fd; /* for the system's calls */
    int collective;
    unsigned char *data;
    long bytes;
    long started; /* bytes of a nonblocking access, or 0 */
};

static int move_by_mpi(const struct part *part, int writes) {
    MPI_File file = part->file;
    void *data = part->data;
    int bytes = (int)part->bytes;
    if (part->started > 0)
        return move_started(file, writes, part->data, part->bytes, part->started);
    if (writes)
        return part->collective ? MPI_File_write_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                                : MPI_File_write_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    return part->collective ? MPI_File_read_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                            : MPI_File_read_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
}

/* Moves the data of all ranks once; returns the seconds. */
static double pass(const struct part *part, int writes, int plain) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    int code = plain ? move_plain(part->fd, writes, part->data, part->bytes) : move_by_mpi(part, writes);
    check(code, writes ? "write" : "read");
    return longest(now() - start);
}

/* The best time of some passes by MPI, and in `plain`, if it is not NULL, by the system's calls. */
static double best(const struct part *part, int writes, double *plain) {
    double best = 1e9;
    for (int at = 0; at < (plain != NULL ? 3 : 1) * PASSES; at++) {
        double taken = pass(part, writes, 0);
        best = taken < best ? taken : best;
        taken = plain != NULL ? pass(part, writes, 1) : 1e9;
        if (plain != NULL && (at == 0 || taken < *plain))
            *plain = taken;
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
        int whole = strcmp(pattern, "contiguous") == 0;
        if (rank == 0)
            printf("%-12s %16s %16s%s\n", "# piece", "write MB/s", "read MB/s", whole ? "   pwrite, pread" : "");
        for (long piece = whole ? bytes : 8; piece <= (whole ? bytes : most); piece *= 8) {
            struct part part = {.collective = collective, .data = out, .bytes = bytes};
            if (piece < least)
                continue;
            for (long i = 0; i < bytes; i++)
                out[i] = (unsigned char)(i * 7 + i / 256 + rank * 50 + piece);
            check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &part.file),
                  "open");
            set_view(part.file, pattern, bytes, piece);
            part.fd = whole ? open(name, O_RDWR) : -1;
            part.started = strcmp(pattern, "started") == 0 ? piece : 0;
            double total = (double)bytes * ranks / 1e6, plain_write = 0, plain_read = 0;
            double writing = best(&part, 1, whole ? &plain_write : NULL);
            part.data = in;
            double reading = best(&part, 0, whole ? &plain_read : NULL);
            if (whole)
                close(part.fd);
            if (memcmp(in, out, (size_t)bytes) != 0)
                check(MPI_ERR_OTHER, "the data that was read differs");
            check(MPI_File_close(&part.file), "close");
            if (rank == 0)
                printf("%-12ld %16.0f %16.0f", piece, total / writing, total / reading);
            if (rank == 0 && whole)
                printf(" %16.0f %16.0f\nratio %16.2f %16.2f", total / plain_write, total / plain_read,
                       plain_write / writing, plain_read / reading);
            if (rank == 0)
                printf("\n");
        }
        free(out), free(in);
    }
    if (rank == 0)
        unlink(name);
    MPI_Finalize();
    return 0;
}
