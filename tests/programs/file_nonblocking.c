/* Nonblocking and split collectives of interleaved pieces: several are under way at once while the
 * ranks do other things, in an order of their own; what is written is what is read. */
#include "scratch_file.h"

enum { PIECE = 96, PIECES = 700, BYTES = PIECE * PIECES, AT_ONCE = 4, LARGE = 64 };

static unsigned char data[AT_ONCE][BYTES], back[AT_ONCE][BYTES];

static unsigned char value_of(int round, int turn, int owner, int at)
{
    return (unsigned char)(round * 37 + turn * 11 + owner * 101 + at * 3 + at / 256 + 1);
}

static MPI_File open_pieces(MPI_Comm comm, int members, int me, const char *buffering)
{
    MPI_File file;
    MPI_Info info;
    MPI_Datatype tile;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", buffering);
    MPI_Info_set(info, "romio_cb_read", buffering);
    /* Each access takes several rounds. */
    MPI_Info_set(info, "cb_buffer_size", "16384");
    DO(MPI_File_open(comm, scratch, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Type_vector(PIECES, PIECE, PIECE * members, MPI_BYTE, &tile);
    MPI_Type_commit(&tile);
    DO(MPI_File_set_view(file, me * PIECE, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&tile);
    return file;
}

/* Makes messages while files are written: each rank at a time of its own. */
static void do_other_things(int round)
{
    long sum = rank, parts[LARGE] = {0};
    MPI_Request request;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Irecv(parts, LARGE, MPI_LONG, before, round, MPI_COMM_WORLD, &request);
    for (int spin = 0, end = (rank * 7 + round) % 5 * 20000; spin < end; spin++)
        __asm__ volatile("");
    parts[0] = rank;
    MPI_Send(parts, LARGE, MPI_LONG, next, round, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    SAME((int)sum, ranks * (ranks - 1) / 2);
}

static void all_at_once(const char *buffering)
{
    MPI_File file = open_pieces(MPI_COMM_WORLD, ranks, rank, buffering);
    for (int round = 0; round < 6; round++) {
        MPI_Request requests[AT_ONCE];
        MPI_Status status;
        for (int turn = 0; turn < AT_ONCE; turn++) {
            /* Not all ranks have equally much. */
            int count = BYTES - (rank + turn) % 3 * 50;
            for (int i = 0; i < BYTES; i++)
                data[turn][i] = value_of(round, turn, rank, i);
            DO(MPI_File_iwrite_at_all(file, (MPI_Offset)turn * BYTES, data[turn], count, MPI_BYTE, &requests[turn]));
        }
        do_other_things(round);
        for (int turn = AT_ONCE - 1; turn >= 0; turn--) {
            DO(MPI_Wait(&requests[(turn + rank) % AT_ONCE], &status));
            COUNT_IS(&status, MPI_BYTE, BYTES - (rank + (turn + rank) % AT_ONCE) % 3 * 50);
        }
        for (int turn = 0; turn < AT_ONCE; turn++)
            DO(MPI_File_iread_at_all(file, (MPI_Offset)turn * BYTES, back[turn], BYTES - 150, MPI_BYTE, &requests[turn]));
        if (round % 2) {
            /* A blocking collective comes after those that were started. */
            DO(MPI_File_sync(file));
        }
        DO(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE));
        for (int turn = 0; turn < AT_ONCE; turn++)
            for (int i = 0; i < BYTES - 150; i++)
                CHECK(back[turn][i] == value_of(round, turn, rank, i), "round %d, access %d: byte %d is wrong", round, turn, i);
    }
    DO(MPI_File_close(&file));
}

/* Two files whose accesses are under way at the same time, one of them of half the ranks. */
static void two_files(void)
{
    MPI_Comm half;
    MPI_File both, mine;
    MPI_Request requests[2];
    int members, me;
    char whole[sizeof scratch];
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_size(half, &members);
    MPI_Comm_rank(half, &me);
    both = open_pieces(MPI_COMM_WORLD, ranks, rank, "enable");
    strcpy(whole, scratch);
    snprintf(scratch, sizeof scratch, "%.290s-%d", whole, rank % 2);
    mine = open_pieces(half, members, me, "enable");
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BYTES; i++)
            data[0][i] = data[1][i] = value_of(round, 0, rank, i);
        int first = (rank + round) % 2;
        for (int turn = 0; turn < 2; turn++)
            DO(MPI_File_iwrite_at_all((turn + first) % 2 ? both : mine, 0, data[turn], BYTES, MPI_BYTE, &requests[turn]));
        DO(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        DO(MPI_File_read_at_all(mine, 0, back[0], BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        DO(MPI_File_read_at_all(both, 0, back[1], BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(!memcmp(back[0], data[0], BYTES) && !memcmp(back[1], data[0], BYTES), "round %d is wrong", round);
    }
    DO(MPI_File_close(&mine));
    DO(MPI_File_close(&both));
    if (me == 0)
        DO(MPI_File_delete(scratch, MPI_INFO_NULL));
    strcpy(scratch, whole);
    MPI_Comm_free(&half);
}

static void split(void)
{
    MPI_File file = open_pieces(MPI_COMM_WORLD, ranks, rank, "enable");
    MPI_Status status;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BYTES; i++)
            data[0][i] = value_of(round, 1, rank, i);
        DO(MPI_File_write_at_all_begin(file, 0, data[0], BYTES, MPI_BYTE));
        do_other_things(round);
        DO(MPI_File_write_at_all_end(file, data[0], &status));
        COUNT_IS(&status, MPI_BYTE, BYTES);
        DO(MPI_File_seek(file, 0, MPI_SEEK_SET));
        DO(MPI_File_read_all_begin(file, back[0], BYTES, MPI_BYTE));
        do_other_things(round);
        DO(MPI_File_read_all_end(file, back[0], &status));
        COUNT_IS(&status, MPI_BYTE, BYTES);
        CHECK(!memcmp(back[0], data[0], BYTES), "round %d is wrong", round);
    }
    DO(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    scratch_file("nonblocking");
    all_at_once("enable");
    all_at_once("automatic");
    all_at_once("disable");
    two_files();
    split();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        DO(MPI_File_delete(scratch, MPI_INFO_NULL));
    return finish();
}
