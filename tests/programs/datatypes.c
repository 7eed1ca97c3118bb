/* Messages and collectives of derived datatypes: columns, structs with gaps, indexed blocks,
   subarrays, resized and nested types, from eager to rendezvous sizes. A type on one side and plain
   items on the other; pack and unpack; the result of Get_elements for a partial item. */
#include "check.h"

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

/* A column of an n x n matrix goes to a row of another. */
static void column_to_row(int n)
{
    double *matrix = allocate((size_t)n * n * sizeof(double)), *other = allocate((size_t)n * n * sizeof(double));
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
    MPI_Datatype column;
    MPI_Status status;
    MPI_Type_vector(n, 1, n, MPI_DOUBLE, &column);
    column = committed(column);
    for (i = 0; i < n * n; i++)
        matrix[i] = rank * 1e7 + i;
    MPI_Sendrecv(matrix + 2, 1, column, next, 1, other + n, n, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, before, 1, MPI_DOUBLE, n);
    for (i = 0; i < n; i++)
        CHECK(other[n + i] == before * 1e7 + i * n + 2, "row of %d: wrong at %d", n, i);
    MPI_Sendrecv(matrix, n, MPI_DOUBLE, next, 2, other + 1, 1, column, before, 2, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, before, 2, column, 1);
    for (i = 0; i < n; i++)
        CHECK(other[i * n + 1] == before * 1e7 + i, "column of %d: wrong at %d", n, i);
    MPI_Type_free(&column);
    free(matrix);
    free(other);
}

typedef struct {
    char letter;
    double real;
    int whole[3];
    short little;
} Record;

static MPI_Datatype record_type(void)
{
    const int lengths[] = {1, 1, 3, 1};
    const MPI_Aint places[] = {offsetof(Record, letter), offsetof(Record, real), offsetof(Record, whole),
                               offsetof(Record, little)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT};
    MPI_Datatype fields, type;
    MPI_Type_create_struct(4, lengths, places, types, &fields);
    MPI_Type_create_resized(fields, 0, sizeof(Record), &type);
    MPI_Type_free(&fields); /* `type` lives on */
    return committed(type);
}

static void records(int count)
{
    Record *out = allocate(count * sizeof *out), *in = allocate(count * sizeof *in);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i, size;
    MPI_Datatype type = record_type();
    MPI_Aint low, extent;
    MPI_Type_size(type, &size);
    SAME(size, 1 + 8 + 12 + 2);
    MPI_Type_get_extent(type, &low, &extent);
    SAME(extent, sizeof(Record));
    for (i = 0; i < count; i++)
        out[i] = (Record){(char)('a' + i % 26), i * 0.5, {i, rank, -i}, (short)(i % 1000)};
    memset(in, 0x5a, count * sizeof *in);
    MPI_Sendrecv(out, count, type, next, 3, in, count, type, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < count; i++) {
        CHECK(in[i].letter == 'a' + i % 26 && in[i].real == i * 0.5 && in[i].little == i % 1000, "record %d", i);
        CHECK(in[i].whole[0] == i && in[i].whole[1] == before && in[i].whole[2] == -i, "whole of record %d", i);
        SAME(((unsigned char *)&in[i])[1], 0x5a); /* gaps are as before */
    }
    MPI_Bcast(in, count, type, 0, MPI_COMM_WORLD);
    SAME(in[count - 1].whole[1], ranks - 1);
    MPI_Type_free(&type);
    free(out);
    free(in);
}

/* A block in the middle of a 3-D array, and the same items by index lists. */
static void subarray_and_indexed(int edge)
{
    const int sizes[] = {edge, edge, edge}, parts[] = {edge / 2, edge / 3, edge / 4}, starts[] = {1, 2, 3};
    const int items = parts[0] * parts[1] * parts[2];
    int *cube = allocate((size_t)edge * edge * edge * sizeof(int)), *list = allocate(items * sizeof(int)), *places, i, x, y, z;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Datatype block, indexed;
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &block);
    block = committed(block);
    places = allocate(items * sizeof(int));
    for (i = 0, x = 0; x < parts[0]; x++)
        for (y = 0; y < parts[1]; y++)
            for (z = 0; z < parts[2]; z++)
                places[i++] = ((x + 1) * edge + y + 2) * edge + z + 3;
    MPI_Type_create_indexed_block(items, 1, places, MPI_INT, &indexed);
    indexed = committed(indexed);
    for (i = 0; i < edge * edge * edge; i++)
        cube[i] = rank * 1000000 + i;
    MPI_Sendrecv(cube, 1, block, next, 4, list, items, MPI_INT, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < items; i++)
        SAME(list[i], before * 1000000 + places[i]);
    MPI_Sendrecv(list, items, MPI_INT, next, 5, cube, 1, indexed, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < items; i++)
        SAME(cube[places[i]], (rank + 2 * ranks - 2) % ranks * 1000000 + places[i]);
    MPI_Type_free(&indexed);
    MPI_Type_free(&block);
    free(places);
    free(cube);
    free(list);
}

/* The transpose of a matrix by one Alltoall of resized columns. */
static void transpose(int n)
{
    int *mine = allocate(n * n * ranks * sizeof(int)), *out = allocate(n * n * ranks * sizeof(int)), i, j, width = n * ranks;
    MPI_Datatype column, spaced;
    MPI_Type_vector(n, 1, width, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &spaced);
    spaced = committed(spaced);
    for (i = 0; i < n; i++)
        for (j = 0; j < width; j++)
            mine[i * width + j] = (rank * n + i) * 10000 + j;
    /* n columns for each rank; on the other side they are n * n ints in order. */
    MPI_Alltoall(mine, n, spaced, out, n * n, MPI_INT, MPI_COMM_WORLD);
    for (i = 0; i < ranks; i++)
        for (j = 0; j < n * n; j++)
            SAME(out[i * n * n + j], (i * n + j % n) * 10000 + rank * n + j / n);
    MPI_Type_free(&spaced);
    MPI_Type_free(&column);
    free(mine);
    free(out);
}

/* A message that ends inside an item: Get_count gives up, Get_elements counts. */
static void partial_items(void)
{
    MPI_Datatype pair;
    MPI_Status status;
    int data[6] = {1, 2, 3, 4, 5, 6}, in[6], count;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    pair = committed(pair);
    MPI_Sendrecv(data, 3, MPI_INT, rank, 6, in, 3, pair, rank, 6, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, pair, &count);
    SAME(count, MPI_UNDEFINED);
    MPI_Get_elements(&status, pair, &count);
    SAME(count, 3);
    MPI_Type_free(&pair);
}

static void pack_and_unpack(void)
{
    Record record = {'q', 2.5, {7, 8, 9}, 11}, back;
    MPI_Datatype type = record_type();
    char buffer[200];
    int at = 0, size, i = 42, got = 0;
    MPI_Pack_size(1, type, MPI_COMM_WORLD, &size);
    CHECK(size >= 23 && size <= 100, "Pack_size is %d", size);
    MPI_Pack(&i, 1, MPI_INT, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Pack(&record, 1, type, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(buffer, at, MPI_PACKED, (rank + 1) % ranks, 7, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    size = at;
    at = 0;
    MPI_Unpack(buffer, size, &at, &got, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(buffer, size, &at, &back, 1, type, MPI_COMM_WORLD);
    SAME(got, 42);
    SAME(at, size);
    CHECK(back.letter == 'q' && back.real == 2.5 && back.whole[2] == 9 && back.little == 11, "the record changed");
    MPI_Type_free(&type);
}

/* Seed case 14: a predefined operation is not for derived types. */
static void refused(void)
{
    MPI_Datatype pair, uncommitted;
    int data[2] = {1, 2}, out[2];
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    RAISES(MPI_ERR_TYPE, MPI_Send(data, 1, uncommitted, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    MPI_Type_dup(uncommitted, &pair);
    pair = committed(pair);
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, out, 1, pair, MPI_SUM, MPI_COMM_WORLD));
    MPI_Type_free(&pair);
    MPI_Type_free(&uncommitted);
    CHECK(uncommitted == MPI_DATATYPE_NULL, "Type_free leaves the handle");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    column_to_row(4);
    column_to_row(100);
    column_to_row(1500);
    records(1);
    records(50);
    records(30000);
    subarray_and_indexed(12);
    subarray_and_indexed(90);
    transpose(3);
    transpose(60);
    partial_items();
    pack_and_unpack();
    if (argc == 1)
        refused();
    return finish();
}
