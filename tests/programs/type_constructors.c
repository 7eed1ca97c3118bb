/* Results of the constructors of datatypes, their envelopes, and predefined types without a
   name. */
#include "check.h"

static void extents(MPI_Datatype type, long long size, long long lb, long long extent, long long true_lb,
                    long long true_extent)
{
    int small;
    MPI_Count large;
    MPI_Aint found_lb, found_extent;
    MPI_Type_size(type, &small);
    SAME(small, size);
    MPI_Type_size_c(type, &large);
    SAME(large, size);
    MPI_Type_get_extent(type, &found_lb, &found_extent);
    SAME(found_lb, lb);
    SAME(found_extent, extent);
    MPI_Type_get_true_extent(type, &found_lb, &found_extent);
    SAME(found_lb, true_lb);
    SAME(found_extent, true_extent);
}

/* The contents of a type made by the `int` form, written one after the other. */
static void origin(MPI_Datatype type, int combiner, int integers, const int *wanted_integers, int addresses,
                   const MPI_Aint *wanted_addresses, int types, const MPI_Datatype *wanted_types)
{
    int ni, na, nd, made, i[40];
    MPI_Aint a[10];
    MPI_Datatype d[10];
    MPI_Type_get_envelope(type, &ni, &na, &nd, &made);
    SAME(made, combiner);
    SAME(ni, integers);
    SAME(na, addresses);
    SAME(nd, types);
    MPI_Type_get_contents(type, 40, 10, 10, i, a, d);
    for (int k = 0; k < ni; k++)
        SAME(i[k], wanted_integers[k]);
    for (int k = 0; k < na; k++)
        SAME(a[k], wanted_addresses[k]);
    for (int k = 0; k < nd; k++)
        CHECK(d[k] == wanted_types[k], "type %d of the contents is another one", k);
}

static void constructors(void)
{
    MPI_Datatype type, old = MPI_INT;
    int lengths[2] = {1, 2}, places[2] = {3, 0};
    MPI_Aint bytes[2] = {8, 0};

    MPI_Type_contiguous(5, old, &type);
    extents(type, 20, 0, 20, 0, 20);
    origin(type, MPI_COMBINER_CONTIGUOUS, 1, (int[]){5}, 0, NULL, 1, &old);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL, "MPI_Type_free left a handle");

    MPI_Type_vector(3, 2, -4, old, &type);
    extents(type, 24, -32, 40, -32, 40);
    origin(type, MPI_COMBINER_VECTOR, 3, (int[]){3, 2, -4}, 0, NULL, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_create_hvector(3, 2, 9, old, &type);
    extents(type, 24, 0, 26, 0, 26);
    origin(type, MPI_COMBINER_HVECTOR, 2, (int[]){3, 2}, 1, (MPI_Aint[]){9}, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_indexed(2, lengths, places, old, &type);
    extents(type, 12, 0, 16, 0, 16);
    origin(type, MPI_COMBINER_INDEXED, 5, (int[]){2, 1, 2, 3, 0}, 0, NULL, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed(2, lengths, bytes, old, &type);
    extents(type, 12, 0, 12, 0, 12);
    origin(type, MPI_COMBINER_HINDEXED, 3, (int[]){2, 1, 2}, 2, bytes, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_create_indexed_block(2, 2, places, old, &type);
    extents(type, 16, 0, 20, 0, 20);
    origin(type, MPI_COMBINER_INDEXED_BLOCK, 4, (int[]){2, 2, 3, 0}, 0, NULL, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed_block(2, 1, bytes, old, &type);
    extents(type, 8, 0, 12, 0, 12);
    origin(type, MPI_COMBINER_HINDEXED_BLOCK, 2, (int[]){2, 1}, 2, bytes, 1, &old);
    MPI_Type_free(&type);

    MPI_Datatype types[2] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){8, 0}, types, &type);
    extents(type, 9, 0, 16, 0, 9);
    origin(type, MPI_COMBINER_STRUCT, 3, (int[]){2, 1, 1}, 2, (MPI_Aint[]){8, 0}, 2, types);
    MPI_Type_free(&type);

    MPI_Type_create_resized(old, -4, 32, &type);
    extents(type, 4, -4, 32, 0, 4);
    origin(type, MPI_COMBINER_RESIZED, 0, NULL, 2, (MPI_Aint[]){-4, 32}, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_C, old, &type);
    extents(type, 24, 0, 80, 28, 32);
    origin(type, MPI_COMBINER_SUBARRAY, 8, (int[]){2, 4, 5, 2, 3, 1, 2, MPI_ORDER_C}, 0, NULL, 1, &old);
    MPI_Type_free(&type);

    MPI_Type_dup(old, &type);
    origin(type, MPI_COMBINER_DUP, 0, NULL, 0, NULL, 1, &old);
    MPI_Type_free(&type);
}

/* The large forms are remembered as such, and the small inquiry refuses them. */
static void large_forms(void)
{
    MPI_Datatype type, base;
    MPI_Count ni, na, nc, nd, counts[8], huge = (MPI_Count)1 << 33;
    int combiner, size;
    MPI_Type_vector_c(2, 1, huge, MPI_BYTE, &type);
    MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, &combiner);
    SAME(ni + na, 0);
    SAME(nc, 3);
    SAME(nd, 1);
    SAME(combiner, MPI_COMBINER_VECTOR);
    MPI_Type_get_contents_c(type, 0, 0, 8, 1, NULL, NULL, counts, &base);
    SAME(counts[2], huge);
    CHECK(base == MPI_BYTE, "the vector was not made of bytes");
    RAISES(MPI_ERR_TYPE, MPI_Type_get_envelope(type, &size, &size, &size, &combiner));
    MPI_Type_free(&type);

    MPI_Type_contiguous_c(huge, MPI_BYTE, &type);
    MPI_Type_size(type, &size);
    SAME(size, MPI_UNDEFINED);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed_block_c(1, 1, &huge, MPI_INT, &type);
    MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, &combiner);
    SAME(nc, 3);
    MPI_Type_free(&type);
}

/* Types of types: the contents are objects of their own. */
static void contents_are_new(void)
{
    MPI_Datatype inner, outer, copy, again;
    int count, size;
    MPI_Type_contiguous(3, MPI_SHORT, &inner);
    MPI_Type_set_name(inner, "three");
    MPI_Type_vector(2, 1, 2, inner, &outer);
    MPI_Type_free(&inner);
    int i[3];
    MPI_Type_get_contents(outer, 3, 0, 1, i, NULL, &copy);
    CHECK(copy != MPI_SHORT && copy != MPI_DATATYPE_NULL, "no object for a derived type");
    MPI_Type_get_contents(outer, 3, 0, 1, i, NULL, &again);
    CHECK(copy != again, "the same handle twice");
    MPI_Type_free(&again);
    MPI_Type_size(copy, &size);
    SAME(size, 6);
    MPI_Type_get_contents(copy, 1, 0, 1, &count, NULL, &again);
    SAME(count, 3);
    CHECK(again == MPI_SHORT, "a predefined type is not itself");
    MPI_Type_free(&copy);
    RAISES(MPI_ERR_ARG, MPI_Type_get_contents(outer, 2, 0, 1, i, NULL, &copy));
    RAISES(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 0, 0, 0, i, NULL, &copy));
    MPI_Type_free(&outer);
}

static int copied, deleted, refuse;

static int copy_value(MPI_Datatype old, int key, void *state, void *in, void *out, int *flag)
{
    (void)old, (void)key, (void)state;
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int delete_value(MPI_Datatype type, int key, void *value, void *state)
{
    (void)type, (void)key, (void)value, (void)state;
    deleted++;
    return MPI_SUCCESS;
}

static void duplicates(void)
{
    MPI_Datatype type, copy;
    int key, flag;
    char *value, base[2];
    MPI_Type_create_keyval(copy_value, delete_value, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, key, base);
    MPI_Type_dup(type, &copy);
    SAME(copied, 1);
    MPI_Type_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == base + 1, "the duplicate has another value");
    MPI_Type_free(&copy);
    SAME(deleted, 1);
    refuse = 1;
    RAISES(MPI_ERR_OTHER, MPI_Type_dup(type, &copy));
    SAME(deleted, 1);
    MPI_Type_free(&type);
    SAME(deleted, 2);
    MPI_Type_free_keyval(&key);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype type;
    MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length);
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0, "the null handle is called %s", name);
    MPI_Type_get_name(MPI_DOUBLE, name, &length);
    CHECK(strcmp(name, "MPI_DOUBLE") == 0 && length == 10, "MPI_DOUBLE is called %s", name);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &length);
    SAME(length, 0);
    MPI_Type_set_name(type, "pair of ints");
    MPI_Type_get_name(type, name, &length);
    CHECK(strcmp(name, "pair of ints") == 0, "the type is called %s", name);
    MPI_Type_free(&type);
}

static void refusals(void)
{
    MPI_Datatype type = MPI_INT, none = MPI_DATATYPE_NULL, made;
    int value = 0;
    RAISES(MPI_ERR_TYPE, MPI_Type_free(&type));
    RAISES(MPI_ERR_TYPE, MPI_Type_free(&none));
    RAISES(MPI_ERR_TYPE, MPI_Type_commit(&none));
    RAISES(MPI_ERR_TYPE, MPI_Type_contiguous(1, none, &made));
    RAISES(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &made));
    RAISES(MPI_ERR_COUNT, MPI_Type_indexed(-1, &value, &value, MPI_INT, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_vector(1, -1, 1, MPI_INT, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_contiguous(1, MPI_INT, NULL));
    RAISES(MPI_ERR_ARG, MPI_Type_indexed(1, NULL, &value, MPI_INT, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_create_subarray(1, (int[]){3}, (int[]){2}, (int[]){2}, MPI_ORDER_C, MPI_INT, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_create_subarray(1, (int[]){3}, (int[]){2}, (int[]){1}, 77, MPI_INT, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &made));
    RAISES(MPI_ERR_ARG, MPI_Type_match_size(5, 4, &made));
    MPI_Type_contiguous(1, MPI_INT, &type);
    RAISES(MPI_ERR_TYPE, MPI_Send(&value, 1, type, MPI_PROC_NULL, 0, MPI_COMM_SELF));
    MPI_Type_free(&type);
}

/* Fortran's types by precision, and pairs without a name: the same each time. */
static void predefined_without_names(void)
{
    MPI_Datatype one, other;
    int size, ni, na, nd, combiner, i[2];
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &one);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &other);
    CHECK(one == other, "another handle for the same precision");
    MPI_Type_size(one, &size);
    SAME(size, 8);
    MPI_Type_get_envelope(one, &ni, &na, &nd, &combiner);
    SAME(combiner, MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(one, 2, 0, 0, i, NULL, NULL);
    SAME(i[0], 15);
    SAME(i[1], MPI_UNDEFINED);
    RAISES(MPI_ERR_TYPE, MPI_Type_free(&one));
    MPI_Type_create_f90_integer(9, &one);
    MPI_Type_size(one, &size);
    SAME(size, 4);
    MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &one);
    MPI_Type_size(one, &size);
    SAME(size, 16);

    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &one);
    CHECK(one == MPI_DOUBLE_INT, "MPI_DOUBLE_INT was not found");
    MPI_Type_get_value_index(MPI_INT, MPI_FLOAT, &one);
    CHECK(one == MPI_DATATYPE_NULL, "a pair whose index is a float");
    struct { double value; int64_t index; } mine = {rank % 3, 100 + rank}, best;
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &one);
    if (one != MPI_DATATYPE_NULL) {
        MPI_Allreduce(&mine, &best, 1, one, MPI_MAXLOC, MPI_COMM_WORLD);
        SAME(best.value, ranks > 2 ? 2 : ranks - 1);
        SAME(best.index, 100 + (ranks > 2 ? 2 : ranks - 1));
    }
}

#define SIDE 12

/* Each rank's part of a distributed matrix: together they are all of it. */
static void distributed_array(void)
{
    int dims[2] = {0, 0}, owner[SIDE][SIDE], all[SIDE][SIDE], flat[SIDE * SIDE], position = 0, size;
    int distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, dargs[2] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Datatype part;
    MPI_Dims_create(ranks, 2, dims);
    MPI_Type_create_darray(ranks, rank, 2, (int[]){SIDE, SIDE}, distribs, dargs, dims, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    for (int k = 0; k < SIDE * SIDE; k++)
        flat[k] = 1;
    memset(owner, 0, sizeof owner);
    MPI_Type_size(part, &size);
    if (size > 0)
        MPI_Unpack(flat, size, &position, owner, 1, part, MPI_COMM_WORLD);
    MPI_Allreduce(owner, all, SIDE * SIDE, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < SIDE * SIDE; k++)
        CHECK(all[k / SIDE][k % SIDE] == 1, "element %d belongs to %d ranks", k, all[k / SIDE][k % SIDE]);
    MPI_Type_free(&part);
}

/* A column goes to the next rank and becomes a row there; the types are freed
 * while the messages are under way. */
static void transposition(int side)
{
    int *from = allocate(sizeof(int) * side * side), *to = allocate(sizeof(int) * side * side);
    MPI_Datatype column, columns, row;
    MPI_Request requests[2];
    for (int k = 0; k < side * side; k++)
        from[k] = rank * side * side + k;
    MPI_Type_vector(side, 1, side, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &columns);
    MPI_Type_contiguous(side, MPI_INT, &row);
    MPI_Type_commit(&columns);
    MPI_Type_commit(&row);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Irecv(to, side, row, last, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(from, side, columns, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
    MPI_Type_free(&row);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            SAME(to[i * side + j], last * side * side + j * side + i);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    constructors();
    large_forms();
    contents_are_new();
    duplicates();
    names();
    refusals();
    predefined_without_names();
    distributed_array();
    transposition(3);
    transposition(100);
    transposition(700);
    return finish();
}
