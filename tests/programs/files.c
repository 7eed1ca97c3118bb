/* Files: open modes, sizes, the three kinds of pointers, blocking, nonblocking, collective, split
 * and ordered access, views with holes, and what a file says of itself. Each rank writes its own
 * pattern, and another rank reads it. */
#include "scratch_file.h"

enum { ITEMS = 1000 };

static int mine[ITEMS], theirs[ITEMS];

static void write_ints(int seed)
{
    for (int i = 0; i < ITEMS; i++)
        mine[i] = seed * 100000 + i;
}

static void check_ints(const int *from, int seed)
{
    for (int i = 0; i < ITEMS; i++)
        SAME(from[i], seed * 100000 + i);
}

static MPI_File open_new(MPI_Comm comm, const char *name, int amode)
{
    MPI_File file;
    DO(MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file));
    return file;
}

static void explicit_offsets(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset bytes = (MPI_Offset)sizeof mine, size;
    int next = (rank + 1) % ranks;
    MPI_Status status;
    write_ints(rank);
    DO(MPI_File_write_at(file, rank * bytes, mine, ITEMS, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    DO(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_read_at(file, next * bytes, theirs, ITEMS, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    check_ints(theirs, next);
    DO(MPI_File_get_size(file, &size));
    SAME(size, ranks * bytes);
    /* A read beyond the end gets what there is. */
    DO(MPI_File_read_at(file, size - 10, theirs, ITEMS, MPI_BYTE, &status));
    COUNT_IS(&status, MPI_BYTE, 10);
    DO(MPI_File_read_at(file, size + 10, theirs, ITEMS, MPI_BYTE, &status));
    COUNT_IS(&status, MPI_BYTE, 0);
    DO(MPI_File_read_at(file, 0, theirs, 0, MPI_BYTE, MPI_STATUS_IGNORE));
    /* Collectively, with another pattern. */
    write_ints(rank + 50);
    DO(MPI_File_write_at_all(file, next * bytes, mine, ITEMS, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    DO(MPI_File_read_at_all(file, rank * bytes, theirs, ITEMS, MPI_INT, &status));
    check_ints(theirs, (rank + ranks - 1) % ranks + 50);
    DO(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "a closed file has a handle");
}

static void individual_pointers(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDWR);
    MPI_Offset at, byte;
    DO(MPI_File_seek(file, rank * (MPI_Offset)sizeof mine, MPI_SEEK_SET));
    write_ints(rank + 7);
    DO(MPI_File_write(file, mine, ITEMS / 2, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_write(file, mine + ITEMS / 2, ITEMS / 2, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_get_position(file, &at));
    SAME(at, (rank + 1) * (MPI_Offset)sizeof mine);
    DO(MPI_File_seek(file, -(MPI_Offset)sizeof mine, MPI_SEEK_CUR));
    DO(MPI_File_read_all(file, theirs, ITEMS, MPI_INT, MPI_STATUS_IGNORE));
    check_ints(theirs, rank + 7);
    DO(MPI_File_seek(file, 0, MPI_SEEK_END));
    DO(MPI_File_get_position(file, &at));
    SAME(at, ranks * (MPI_Offset)sizeof mine);
    DO(MPI_File_get_byte_offset(file, 12, &byte));
    SAME(byte, 12);
    RAISES(MPI_ERR_ARG, MPI_File_seek(file, -1, MPI_SEEK_SET));
    RAISES(MPI_ERR_ARG, MPI_File_seek(file, 0, 77));
    DO(MPI_File_close(&file));
}

static void shared_pointers(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDWR);
    MPI_Offset at;
    int *all = allocate((size_t)ranks * sizeof mine), seen = 0;
    MPI_Status status;
    write_ints(rank + 9);
    DO(MPI_File_write_shared(file, mine, ITEMS, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_get_position_shared(file, &at));
    SAME(at, ranks * (MPI_Offset)sizeof mine);
    DO(MPI_File_read_at(file, 0, all, ranks * ITEMS, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < ranks; i++) {
        int seed = all[i * ITEMS] / 100000;
        check_ints(all + i * ITEMS, seed);
        seen += seed - 9;
    }
    SAME(seen, ranks * (ranks - 1) / 2);
    DO(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    write_ints(rank + 20);
    DO(MPI_File_write_ordered(file, mine, rank == 1 ? 0 : ITEMS, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, rank == 1 ? 0 : ITEMS);
    DO(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    DO(MPI_File_read_ordered(file, theirs, rank == 1 ? 0 : ITEMS, MPI_INT, &status));
    if (rank != 1)
        check_ints(theirs, rank + 20);
    DO(MPI_File_get_position_shared(file, &at));
    SAME(at, (ranks > 1 ? ranks - 1 : 1) * (MPI_Offset)sizeof mine);
    DO(MPI_File_seek_shared(file, -4, MPI_SEEK_CUR));
    DO(MPI_File_get_position_shared(file, &at));
    SAME(at, (ranks > 1 ? ranks - 1 : 1) * (MPI_Offset)sizeof mine - 4);
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_close(&file));
    free(all);
}

static void nonblocking(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDWR);
    MPI_Offset bytes = (MPI_Offset)sizeof mine;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int flag = 0, half = ITEMS / 2;
    write_ints(rank + 30);
    DO(MPI_File_seek(file, rank * bytes, MPI_SEEK_SET));
    DO(MPI_File_iwrite(file, mine, half, MPI_INT, &requests[0]));
    DO(MPI_File_iwrite_at(file, rank * bytes + bytes / 2, mine + half, half, MPI_INT, &requests[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_Waitall(2, requests, statuses));
    COUNT_IS(&statuses[0], MPI_INT, half);
    COUNT_IS(&statuses[1], MPI_INT, half);
    DO(MPI_File_iread_at_all(file, rank * bytes, theirs, ITEMS, MPI_INT, &requests[0]));
    while (!flag)
        DO(MPI_Test(&requests[0], &flag, &statuses[0]));
    CHECK(requests[0] == MPI_REQUEST_NULL, "a complete request has a handle");
    COUNT_IS(&statuses[0], MPI_INT, ITEMS);
    check_ints(theirs, rank + 30);
    memset(theirs, 0, sizeof theirs);
    DO(MPI_File_seek(file, rank * bytes, MPI_SEEK_SET));
    DO(MPI_File_iread_all(file, theirs, half, MPI_INT, &requests[0]));
    DO(MPI_File_iread(file, theirs + half, half, MPI_INT, &requests[1]));
    /* A message completes among them. */
    MPI_Irecv(NULL, 0, MPI_INT, (rank + ranks - 1) % ranks, 5, MPI_COMM_WORLD, &requests[2]);
    MPI_Send(NULL, 0, MPI_INT, (rank + 1) % ranks, 5, MPI_COMM_WORLD);
    DO(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    check_ints(theirs, rank + 30);
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_iwrite_shared(file, mine, 1, MPI_INT, &requests[0]));
    DO(MPI_Wait(&requests[0], &statuses[0]));
    COUNT_IS(&statuses[0], MPI_INT, 1);
    DO(MPI_File_iread_shared(file, theirs, 1, MPI_INT, &requests[0]));
    DO(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_close(&file));
}

static void split(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDWR);
    MPI_Offset bytes = (MPI_Offset)sizeof mine;
    MPI_Status status;
    write_ints(rank + 40);
    DO(MPI_File_write_at_all_begin(file, rank * bytes, mine, ITEMS, MPI_INT));
    RAISES(MPI_ERR_OTHER, MPI_File_write_all_begin(file, mine, ITEMS, MPI_INT));
    RAISES(MPI_ERR_OTHER, MPI_File_read_at_all_end(file, mine, &status));
    DO(MPI_File_write_at_all_end(file, mine, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    RAISES(MPI_ERR_OTHER, MPI_File_write_at_all_end(file, mine, &status));
    DO(MPI_File_seek(file, rank * bytes, MPI_SEEK_SET));
    DO(MPI_File_read_all_begin(file, theirs, ITEMS, MPI_INT));
    DO(MPI_File_read_all_end(file, theirs, &status));
    check_ints(theirs, rank + 40);
    write_ints(rank + 41);
    DO(MPI_File_write_ordered_begin(file, mine, ITEMS, MPI_INT));
    DO(MPI_File_write_ordered_end(file, mine, &status));
    DO(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    DO(MPI_File_read_ordered_begin(file, theirs, ITEMS, MPI_INT));
    DO(MPI_File_read_ordered_end(file, theirs, &status));
    COUNT_IS(&status, MPI_INT, ITEMS);
    check_ints(theirs, rank + 41);
    DO(MPI_File_close(&file));
}

/* A filetype that is shorter than its data is used once, as HDF5 does. */
static void one_tile(MPI_File file)
{
    MPI_Datatype pair, filetype;
    int blocks[2] = {1, 1}, back[2] = {0};
    MPI_Aint places[2] = {0, 4096};
    MPI_Type_create_hindexed(2, blocks, places, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 16, &filetype);
    MPI_Type_commit(&filetype);
    DO(MPI_File_set_view(file, 8 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
    mine[0] = rank + 5, mine[1] = rank + 6;
    DO(MPI_File_write_at_all(file, 0, mine, 2, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_read_at_all(file, 0, back, 2, MPI_INT, MPI_STATUS_IGNORE));
    SAME(back[0] * 1000 + back[1], (rank + 5) * 1000 + rank + 6);
    MPI_Type_free(&pair);
    MPI_Type_free(&filetype);
}

/* Every rank has each ranks-th block of three integers. */
static void views(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDWR);
    MPI_Datatype block, tile, etype, filetype;
    MPI_Offset disp, byte, at;
    MPI_Aint extent;
    char datarep[MPI_MAX_DATAREP_STRING];
    int combiner, numbers[4], *all = allocate((size_t)ranks * sizeof mine), count = ITEMS - ITEMS % 3;
    MPI_Type_contiguous(3, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, 12 * ranks, &tile);
    MPI_Type_commit(&tile);
    DO(MPI_File_set_view(file, 8 + 12 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&tile);
    DO(MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    SAME(disp, 8 + 12 * rank);
    CHECK(etype == MPI_INT, "etype is not MPI_INT");
    CHECK(strcmp(datarep, "native") == 0, "datarep is %s", datarep);
    MPI_Type_get_envelope(filetype, &numbers[0], &numbers[1], &numbers[2], &combiner);
    SAME(combiner, MPI_COMBINER_RESIZED);
    MPI_Type_free(&filetype);
    DO(MPI_File_get_byte_offset(file, 4, &byte));
    SAME(byte, 8 + 12 * rank + 12 * ranks + 4);
    DO(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    SAME(extent, 8);
    write_ints(rank);
    DO(MPI_File_write_all(file, mine, count, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_get_position(file, &at));
    SAME(at, count);
    DO(MPI_File_seek(file, 2, MPI_SEEK_SET));
    DO(MPI_File_read(file, theirs, 5, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5; i++)
        SAME(theirs[i], mine[2 + i]);
    RAISES(MPI_ERR_ARG, MPI_File_read(file, theirs, 5, MPI_BYTE, MPI_STATUS_IGNORE));
    DO(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    DO(MPI_File_read_at_all(file, 0, all, ranks * count, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < ranks * count; i++)
        SAME(all[i], i / 3 % ranks * 100000 + i / 3 / ranks * 3 + i % 3);
    free(all);
    one_tile(file);
    RAISES(MPI_ERR_ARG, MPI_File_set_view(file, -8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    RAISES(MPI_ERR_ARG, MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL));
    RAISES(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "roman", MPI_INFO_NULL));
    if (ranks > 1) {
        MPI_Datatype own = rank == 1 ? MPI_DOUBLE : MPI_INT;
        RAISES(MPI_ERR_NOT_SAME, MPI_File_set_view(file, 0, own, own, "native", MPI_INFO_NULL));
        RAISES(rank == 0 ? MPI_ERR_TYPE : MPI_ERR_TYPE,
               MPI_File_set_view(file, 0, rank == 1 ? MPI_DATATYPE_NULL : MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    }
    DO(MPI_File_close(&file));
}

static void modes(const char *name)
{
    MPI_File file;
    MPI_Group group, world;
    MPI_Info info;
    MPI_Offset size;
    int amode, same, flag, keys;
    const int wrong[] = {0, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                         MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, 1 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RAISES(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, wrong[i], MPI_INFO_NULL, &file));
        CHECK(file == MPI_FILE_NULL, "a file that was not opened has a handle");
    }
    RAISES(MPI_ERR_FILE_EXISTS, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                                              MPI_INFO_NULL, &file));
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, "/tmp/no/such/folder/x", MPI_MODE_RDWR | MPI_MODE_CREATE,
                                               MPI_INFO_NULL, &file));
    RAISES(MPI_ERR_BAD_FILE, MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    if (ranks > 1) {
        RAISES(MPI_ERR_NOT_SAME, MPI_File_open(MPI_COMM_WORLD, name, rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY,
                                               MPI_INFO_NULL, &file));
        RAISES(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, rank == 1 ? 0 : MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    }
    file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDONLY);
    RAISES(MPI_ERR_READ_ONLY, MPI_File_write_at(file, 0, mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_READ_ONLY, MPI_File_write_at_all(file, 0, mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_READ_ONLY, MPI_File_set_size(file, 0));
    DO(MPI_File_get_amode(file, &amode));
    SAME(amode, MPI_MODE_RDONLY);
    DO(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    SAME(same, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    DO(MPI_File_set_info(file, MPI_INFO_NULL));
    DO(MPI_File_get_info(file, &info));
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 0, "no hints are in use");
    MPI_Info_free(&info);
    DO(MPI_File_set_atomicity(file, 1));
    DO(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 1);
    DO(MPI_File_read_at(file, 0, theirs, 1, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_close(&file));
    file = open_new(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE);
    RAISES(MPI_ERR_ACCESS, MPI_File_read(file, mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_set_size(file, 1000));
    DO(MPI_File_get_size(file, &size));
    SAME(size, 1000);
    DO(MPI_File_preallocate(file, 5000));
    DO(MPI_File_preallocate(file, 2000));
    DO(MPI_File_get_size(file, &size));
    SAME(size, 5000);
    RAISES(MPI_ERR_ARG, MPI_File_set_size(file, -1));
    if (ranks > 1)
        RAISES(MPI_ERR_NOT_SAME, MPI_File_set_size(file, 1000 + rank));
    DO(MPI_File_close(&file));
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
}

static void sequential(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE);
    MPI_Offset at;
    write_ints(rank);
    RAISES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write(file, mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write_at_all(file, 0, mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(file, 0, MPI_SEEK_SET));
    RAISES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_get_position(file, &at));
    DO(MPI_File_write_ordered(file, mine, ITEMS, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    DO(MPI_File_write_ordered(file, mine, ITEMS, MPI_INT, MPI_STATUS_IGNORE));
    DO(MPI_File_close(&file));
    file = open_new(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    for (int i = 0; i < 2; i++) {
        DO(MPI_File_read_at(file, (i * ranks + rank) * (MPI_Offset)sizeof mine, theirs, ITEMS, MPI_INT, MPI_STATUS_IGNORE));
        check_ints(theirs, rank);
    }
    DO(MPI_File_close(&file));
}

/* The bytes of a name are the file's, also if they are no UTF-8. */
static void any_bytes(const char *name)
{
    char mine[310], other[310];
    MPI_File file;
    snprintf(mine, sizeof mine, "%s-\xff\xc3", name);
    snprintf(other, sizeof other, "%s-\xfe\xc3", name);
    file = open_new(MPI_COMM_WORLD, mine, MPI_MODE_CREATE | MPI_MODE_RDWR);
    SAME(access(mine, F_OK), 0);
    DO(MPI_File_close(&file));
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    file = open_new(MPI_COMM_WORLD, mine, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    DO(MPI_File_close(&file));
    SAME(access(mine, F_OK), -1);
    if (rank == 0) {
        file = open_new(MPI_COMM_SELF, other, MPI_MODE_CREATE | MPI_MODE_RDWR);
        DO(MPI_File_close(&file));
        DO(MPI_File_delete(other, MPI_INFO_NULL));
        SAME(access(other, F_OK), -1);
    }
}

static int raised;

static void handler(MPI_File *file, int *code, ...)
{
    (void)file;
    raised = class_of(*code);
}

static void error_handlers(const char *name)
{
    MPI_Errhandler ours, found;
    MPI_File file, null = MPI_FILE_NULL;
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    CHECK(found == MPI_ERRORS_RETURN, "files do not start with MPI_ERRORS_RETURN");
    MPI_File_create_errhandler(handler, &ours);
    DO(MPI_File_set_errhandler(MPI_FILE_NULL, ours));
    MPI_File_open(MPI_COMM_WORLD, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    SAME(raised, MPI_ERR_NO_SUCH_FILE);
    MPI_File_delete("/no/such/file", MPI_INFO_NULL);
    SAME(raised, MPI_ERR_NO_SUCH_FILE);
    raised = 0;
    MPI_File_close(&null);
    SAME(raised, MPI_ERR_FILE);
    file = open_new(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    DO(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_File_get_errhandler(file, &found);
    CHECK(found == ours, "a file does not get the handler of MPI_FILE_NULL");
    MPI_Errhandler_free(&found);
    MPI_File_call_errhandler(file, MPI_ERR_QUOTA);
    SAME(raised, MPI_ERR_QUOTA);
    MPI_File_write_at(file, -1, mine, 1, MPI_INT, MPI_STATUS_IGNORE);
    SAME(raised, MPI_ERR_ARG);
    CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file, "a handle is another one as an int");
    DO(MPI_File_close(&file));
    MPI_Errhandler_free(&ours);
}

/* A wrong argument on one rank is an error of all: no rank waits. */
static void one_fails(const char *name)
{
    MPI_File file = open_new(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    int odd = rank == ranks - 1;
    MPI_Status status;
    RAISES(MPI_ERR_COUNT, MPI_File_write_at_all(file, 0, mine, odd ? -1 : 1, MPI_INT, &status));
    RAISES(MPI_ERR_TYPE, MPI_File_write_ordered(file, mine, 1, odd ? MPI_DATATYPE_NULL : MPI_INT, &status));
    RAISES(MPI_ERR_ARG, MPI_File_read_at_all(file, odd ? -5 : 0, mine, 1, MPI_INT, &status));
    DO(MPI_File_write_at_all(file, rank * 4, mine, 1, MPI_INT, &status));
    DO(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char name[300];
    start(&argc, &argv);
    strcpy(name, scratch_file("files"));
    explicit_offsets(name);
    individual_pointers(name);
    shared_pointers(name);
    nonblocking(name);
    split(name);
    views(name);
    modes(name);
    sequential(name);
    any_bytes(name);
    strcat(name, "-own");
    sprintf(name + strlen(name), "%d", rank);
    error_handlers(name);
    one_fails(scratch_file("files"));
    return finish();
}
