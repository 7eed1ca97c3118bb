/* Files whose system refuses or whose writer dies:
 *
 *     file_limits full FILE SEED     the file system of FILE has few bytes
 *     file_limits quota FILE SEED    the user of FILE may have few bytes
 *     file_limits readonly FILE      it may not be written; FILE exists
 *     file_limits removed FILE SEED  FILE vanishes while all write
 *     file_limits killed FILE SEED   the last rank dies while all write
 *     file_limits check FILE         after that: each byte is right or was never written
 *
 * A byte that is written has the value that belongs to its place, which is not 0. The seed selects
 * how data moves, and the form of the calls. */
#include "scratch_file.h"
#include <signal.h>
#include <sys/time.h>

enum { PIECE = 512, PIECES = 128, BYTES = PIECE * PIECES, ROUNDS = 64 };

static unsigned char data[BYTES], back[BYTES];

static unsigned char value_at(long long at)
{
    return (unsigned char)((at * 31 + at / 251) % 255 + 1);
}

/* Where a byte of a rank's part of a round lies in the file. */
static long long place(int round, int at)
{
    return ((long long)round * PIECES + at / PIECE) * PIECE * ranks + rank * PIECE + at % PIECE;
}

static MPI_File open_pieces(const char *name, const char *buffering)
{
    MPI_File file;
    MPI_Info info;
    MPI_Datatype every_nth, tile;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", buffering);
    DO(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Type_vector(PIECES, PIECE, PIECE * ranks, MPI_BYTE, &every_nth);
    MPI_Type_create_resized(every_nth, 0, (MPI_Aint)BYTES * ranks, &tile);
    MPI_Type_commit(&tile);
    DO(MPI_File_set_view(file, rank * PIECE, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&every_nth);
    MPI_Type_free(&tile);
    return file;
}

enum form { BLOCKING, NONBLOCKING, SPLIT, FORMS };

static const char *const SWITCHES[] = {"enable", "disable", "automatic"};

static int write_round(MPI_File file, enum form form, int round, MPI_Status *status)
{
    MPI_Offset at = (MPI_Offset)round * BYTES;
    MPI_Request request;
    for (int i = 0; i < BYTES; i++)
        data[i] = value_at(place(round, i));
    switch (form) {
    case NONBLOCKING:
        DO(MPI_File_iwrite_at_all(file, at, data, BYTES, MPI_BYTE, &request));
        return MPI_Wait(&request, status);
    case SPLIT:
        DO(MPI_File_write_at_all_begin(file, at, data, BYTES, MPI_BYTE));
        return MPI_File_write_at_all_end(file, data, status);
    default:
        return MPI_File_write_at_all(file, at, data, BYTES, MPI_BYTE, status);
    }
}

static void is_written(MPI_File file, int round, int count)
{
    DO(MPI_File_read_at(file, (MPI_Offset)round * BYTES, back, count, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++)
        CHECK(back[i] == value_at(place(round, i)), "byte %d of round %d is wrong", i, round);
}

/* Writes until the system refuses with an error of the class. */
static void limited(const char *name, int seed, int wanted)
{
    MPI_File file = open_pieces(name, SWITCHES[seed % 3]);
    enum form form = seed / 3 % FORMS;
    MPI_Status status;
    int round = 0, count;
    while (round < ROUNDS) {
        int code = write_round(file, form, round, &status);
        if (code != MPI_SUCCESS) {
            SAME(class_of(code), wanted);
            break;
        }
        COUNT_IS(&status, MPI_BYTE, BYTES);
        round++;
    }
    CHECK(round < ROUNDS, "all %d rounds are written", round);
    MPI_Get_count(&status, MPI_BYTE, &count);
    is_written(file, round, count);
    for (int before = 0; before < round; before++)
        is_written(file, before, BYTES);
    RAISES(wanted, MPI_File_preallocate(file, (MPI_Offset)1 << 30));
    /* btrfs refuses a user without a byte left to cut a file, too. */
    if (wanted == MPI_ERR_NO_SPACE)
        DO(MPI_File_set_size(file, 0));
    DO(MPI_File_close(&file));
}

static void read_only(const char *name)
{
    MPI_File file;
    char other[300];
    snprintf(other, sizeof other, "%s-new", name);
    RAISES(MPI_ERR_READ_ONLY, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(file == MPI_FILE_NULL, "a file that was not opened has a handle");
    RAISES(MPI_ERR_READ_ONLY, MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    RAISES(MPI_ERR_READ_ONLY, MPI_File_delete(name, MPI_INFO_NULL));
    DO(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    RAISES(MPI_ERR_READ_ONLY, MPI_File_write_at_all(file, 0, data, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    DO(MPI_File_read_at_all(file, 0, data, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    DO(MPI_File_close(&file));
}

/* The name goes; the open file stays whole. */
static void removed(const char *name, int seed)
{
    MPI_File file = open_pieces(name, SWITCHES[seed % 3]);
    enum form form = seed / 3 % FORMS;
    for (int round = 0; round < 8; round++) {
        if (round == seed % 8 && rank == seed % ranks)
            DO(MPI_File_delete(name, MPI_INFO_NULL));
        DO(write_round(file, form, round, MPI_STATUS_IGNORE));
    }
    for (int round = 0; round < 8; round++)
        is_written(file, round, BYTES);
    DO(MPI_File_close(&file));
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
}

static void die(int number)
{
    (void)number;
    raise(SIGKILL);
}

/* Does not return: the job ends when its last rank dies. */
static void killed(const char *name, int seed)
{
    MPI_File file = open_pieces(name, SWITCHES[seed % 3]);
    if (rank == ranks - 1) {
        struct itimerval soon = {{0, 0}, {0, 1 + seed % 20000 * 7919 % 20000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    for (int round = 0;; round = (round + 1) % ROUNDS)
        DO(write_round(file, seed / 3 % FORMS, round, MPI_STATUS_IGNORE));
}

static void check(const char *name)
{
    MPI_File file;
    MPI_Offset size;
    int count;
    MPI_Status status;
    DO(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    DO(MPI_File_get_size(file, &size));
    for (MPI_Offset at = 0; at < size; at += count) {
        DO(MPI_File_read_at(file, at, back, BYTES, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count > 0, "the file of %lld bytes ends at %lld", (long long)size, (long long)at);
        for (int i = 0; i < count; i++)
            CHECK(back[i] == 0 || back[i] == value_at(at + i), "byte %lld is wrong", (long long)at + i);
    }
    DO(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *mode = argc > 2 ? argv[1] : "";
    int seed = argc > 3 ? atoi(argv[3]) : 0;
    if (strcmp(mode, "full") == 0) {
        limited(argv[2], seed, MPI_ERR_NO_SPACE);
    } else if (strcmp(mode, "quota") == 0) {
        limited(argv[2], seed, MPI_ERR_QUOTA);
    } else if (strcmp(mode, "removed") == 0) {
        removed(argv[2], seed);
    } else if (strcmp(mode, "readonly") == 0) {
        read_only(argv[2]);
    } else if (strcmp(mode, "killed") == 0) {
        killed(argv[2], seed);
    } else if (strcmp(mode, "check") == 0) {
        check(argv[2]);
    } else {
        FAIL("unknown mode \"%s\"", mode);
    }
    return finish();
}
