/* User-defined operations: commutative and not, always in rank order; called in
 * pieces; freed while in use; called from every reducing collective. Seed cases
 * 16 and 17; with `derived` 15 and 16 on derived datatypes. */
#include "check.h"

enum { PRIME = 10007, LENGTH = 50 };

/* 2 x 2 matrices modulo a prime: associative, not commutative. */

typedef struct { int a, b, c, d; } Matrix;

static int largest_piece;

static Matrix times(Matrix x, Matrix y)
{
    Matrix z = {(x.a * y.a + x.b * y.c) % PRIME, (x.a * y.b + x.b * y.d) % PRIME,
                (x.c * y.a + x.d * y.c) % PRIME, (x.c * y.b + x.d * y.d) % PRIME};
    return z;
}

static void multiply(void *left, void *right, int *length, MPI_Datatype *type)
{
    Matrix *x = left, *y = right;
    int i;
    (void)type;
    for (i = 0; i < *length; i++)
        y[i] = times(x[i], y[i]);
}

/* Strings of digits, one after the other, as the number that they write modulo
 * a prime: in the low 32 bits, with the power of ten that is the string's length
 * in the high ones. Associative, not commutative, and of a predefined type. */
static void append(void *left, void *right, int *length, MPI_Datatype *type)
{
    uint64_t *x = left, *y = right;
    int i;
    if (*type != MPI_UINT64_T)
        FAIL("the operation got another datatype");
    if (*length > largest_piece)
        largest_piece = *length;
    for (i = 0; i < *length; i++) {
        uint64_t power = (x[i] >> 32) * (y[i] >> 32) % PRIME;
        uint64_t value = ((x[i] & 0xffffffff) * (y[i] >> 32) + (y[i] & 0xffffffff)) % PRIME;
        y[i] = power << 32 | value;
    }
}

static uint64_t digits(int r, int i)
{
    return (uint64_t)1000 % PRIME << 32 | (uint64_t)((r * 37 + i) % 1000);
}

static uint64_t expected(int first, int last, int i)
{
    uint64_t all = digits(first, i), next;
    int r, one = 1;
    MPI_Datatype type = MPI_UINT64_T;
    for (r = first + 1; r < last; r++) {
        next = digits(r, i);
        append(&all, &next, &one, &type);
        all = next;
    }
    return all;
}

static void in_rank_order(MPI_Op op, int count)
{
    uint64_t *mine = allocate(count * 8), *out = allocate(count * 8);
    MPI_Request request;
    int root, i, *counts = allocate(ranks * sizeof(int));
    for (i = 0; i < count; i++)
        mine[i] = digits(rank, i);
    for (root = 0; root < ranks; root++) {
        MPI_Reduce(mine, out, count, MPI_UINT64_T, op, root, MPI_COMM_WORLD);
        for (i = 0; i < count && rank == root; i++)
            CHECK(out[i] == expected(0, ranks, i), "Reduce to %d is out of order at %d", root, i);
    }
    MPI_Allreduce(mine, out, count, MPI_UINT64_T, op, MPI_COMM_WORLD);
    for (i = 0; i < count; i++)
        CHECK(out[i] == expected(0, ranks, i), "Allreduce is out of order at %d", i);
    MPI_Iallreduce(mine, out, count, MPI_UINT64_T, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (i = 0; i < count; i++)
        CHECK(out[i] == expected(0, ranks, i), "Iallreduce is out of order at %d", i);
    MPI_Scan(mine, out, count, MPI_UINT64_T, op, MPI_COMM_WORLD);
    for (i = 0; i < count; i++)
        CHECK(out[i] == expected(0, rank + 1, i), "Scan is out of order at %d", i);
    MPI_Exscan(mine, out, count, MPI_UINT64_T, op, MPI_COMM_WORLD);
    for (i = 0; i < count && rank > 0; i++)
        CHECK(out[i] == expected(0, rank, i), "Exscan is out of order at %d", i);
    for (i = 0; i < ranks; i++)
        counts[i] = count / ranks + (i < count % ranks);
    MPI_Reduce_scatter(mine, out, counts, MPI_UINT64_T, op, MPI_COMM_WORLD);
    for (i = 0; i < counts[rank]; i++) {
        int first = rank * (count / ranks) + (rank < count % ranks ? rank : count % ranks);
        CHECK(out[i] == expected(0, ranks, first + i), "Reduce_scatter is out of order at %d", i);
    }
    free(counts);
    free(mine);
    free(out);
}

/* Seed case 17: freed while a reduction is under way. */
static void freed_in_use(void)
{
    uint64_t mine = digits(rank, 5), out = 0;
    MPI_Request request;
    MPI_Op op;
    MPI_Op_create(append, 0, &op);
    MPI_Iallreduce(&mine, &out, 1, MPI_UINT64_T, op, MPI_COMM_WORLD, &request);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL, "Op_free leaves the handle");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(out == expected(0, ranks, 5), "a reduction whose operation was freed is wrong");
}

/* The same reduction with matrices as a derived type. */
static void matrices(void)
{
    Matrix mine[LENGTH], out[LENGTH], all;
    MPI_Datatype type;
    MPI_Op op;
    int root, i, r;
    MPI_Type_contiguous(4, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    for (i = 0; i < LENGTH; i++)
        mine[i] = (Matrix){rank + 1, i + 1, rank + i, 2};
    for (root = 0; root < ranks; root++) {
        MPI_Reduce(mine, out, LENGTH, type, op, root, MPI_COMM_WORLD);
        for (i = 0; i < LENGTH && rank == root; i++) {
            all = (Matrix){1, i + 1, i, 2};
            for (r = 1; r < ranks; r++)
                all = times(all, (Matrix){r + 1, i + 1, r + i, 2});
            CHECK(!memcmp(&all, &out[i], sizeof all), "the product for root %d is wrong at %d", root, i);
        }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

/* Seed case 15: products of complex numbers, as contiguous(2, double). */
static void complex_product(void *left, void *right, int *length, MPI_Datatype *type)
{
    double *x = left, *y = right, real;
    int i;
    (void)type;
    for (i = 0; i < *length; i++, x += 2, y += 2) {
        real = x[0] * y[0] - x[1] * y[1];
        y[1] = x[0] * y[1] + x[1] * y[0];
        y[0] = real;
    }
}

static void complex_arrays(void)
{
    enum { NUMBERS = 100 };
    double mine[2 * NUMBERS], out[2 * NUMBERS], all[2], next[2];
    MPI_Datatype type;
    MPI_Op op;
    int root, i, r, one = 1;
    MPI_Type_contiguous(2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(complex_product, 1, &op);
    for (i = 0; i < NUMBERS; i++) {
        mine[2 * i] = rank % 2 + 1; /* small whole numbers: exact in any order */
        mine[2 * i + 1] = i % 3 - 1;
    }
    for (root = -2; root < ranks; root++) {
        int first = 0, count = NUMBERS, last = ranks;
        if (root == -2) {
            MPI_Scan(mine, out, NUMBERS, type, op, MPI_COMM_WORLD);
            last = rank + 1;
        } else if (root == -1)
            MPI_Allreduce(mine, out, NUMBERS, type, op, MPI_COMM_WORLD);
        else
            MPI_Reduce(mine, out, NUMBERS, type, op, root, MPI_COMM_WORLD);
        if (root >= 0 && rank != root)
            continue;
        for (i = first; i < count; i++) {
            all[0] = 1, all[1] = i % 3 - 1;
            for (r = 1; r < last; r++) {
                next[0] = r % 2 + 1, next[1] = i % 3 - 1;
                complex_product(all, next, &one, &type);
                all[0] = next[0], all[1] = next[1];
            }
            CHECK(out[2 * i] == all[0] && out[2 * i + 1] == all[1], "the product is wrong at %d (root %d)", i, root);
        }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

/* A function that looks at its datatype, which is freed while a reduction is under way. */
static void add_extent(void *left, void *right, int *length, MPI_Datatype *type)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(*type, &low, &extent);
    for (int i = 0; i < *length; i++) {
        int *x = (int *)((char *)left + low + i * extent), *y = (int *)((char *)right + low + i * extent);
        *y += *x;
    }
}

static void freed_type(MPI_Op op)
{
    int mine[2 * LENGTH], out[2 * LENGTH], i, again;
    MPI_Datatype type, other;
    MPI_Request requests[2];
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
    MPI_Type_commit(&type);
    for (i = 0; i < 2 * LENGTH; i++)
        mine[i] = rank + i, out[i] = -1;
    MPI_Allreduce_init(mine, out, LENGTH, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    for (again = 0; again < 2; again++) {
        MPI_Start(&requests[0]);
        if (!again)
            MPI_Type_free(&type);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        for (i = 0; i < 2 * LENGTH; i++)
            SAME(out[i], i % 2 ? -1 : ranks * (ranks - 1) / 2 + ranks * i);
        MPI_Type_contiguous(7, MPI_INT, &other);
        MPI_Type_free(&other);
    }
    MPI_Request_free(&requests[0]);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
    MPI_Type_commit(&type);
    memset(out, -1, sizeof out);
    MPI_Iallreduce(mine, out, LENGTH, type, op, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&type);
    MPI_Type_contiguous(7, MPI_INT, &other);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Type_free(&other);
    for (i = 0; i < 2 * LENGTH; i++)
        SAME(out[i], i % 2 ? -1 : ranks * (ranks - 1) / 2 + ranks * i);
}

/* A datatype of one integer at an absolute address. */
static MPI_Aint address;

static void add_at_address(void *left, void *right, int *length, MPI_Datatype *type)
{
    int *x = (int *)((char *)left + address), *y = (int *)((char *)right + address);
    (void)type;
    SAME(*length, 1);
    *y += *x;
}

static void absolute_addresses(void)
{
    static int value;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Get_address(&value, &address);
    MPI_Type_create_hindexed_block(1, 1, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_at_address, 1, &op);
    value = rank;
    MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, MPI_COMM_WORLD);
    SAME(value, ranks * (ranks - 1) / 2);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    MPI_Op op;
    int commutes = -1;
    start(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "derived")) {
        matrices();
        complex_arrays();
        MPI_Op_create(add_extent, 1, &op);
        freed_type(op);
        MPI_Op_free(&op);
        absolute_addresses();
        return finish();
    }
    MPI_Op_create(append, 0, &op);
    MPI_Op_commutative(op, &commutes);
    SAME(commutes, 0);
    in_rank_order(op, 1);
    in_rank_order(op, LENGTH);
    in_rank_order(op, 20011);
    if (argc > 1 && !strcmp(argv[1], "large")) {
        in_rank_order(op, 10000000);
        CHECK(ranks == 1 || largest_piece < 10000000, "10 M elements were reduced in one piece");
    }
    freed_in_use();
    MPI_Op_free(&op);
    return finish();
}
