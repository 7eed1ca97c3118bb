/* Collectives among neighbours: every operation in its blocking, nonblocking and
 * persistent form, on grids and graphs. The expectation for a neighbour follows from the edge
 * alone: rank `from` sends `message(from, number)` along its edge of that number. */
#include "check.h"

enum form { BLOCKING, NONBLOCKING, PERSISTENT };

#define MOST 16

static int sources, destinations, from[MOST], to[MOST], back[MOST];

static int message(int source, int edge)
{
    return 1000 * source + edge;
}

/* Runs one operation in the given `form`; a persistent one twice. */
#define RUN(name, ...) \
    do { \
        MPI_Request request; \
        switch (form) { \
        case BLOCKING: \
            MPI_Neighbor_##name(__VA_ARGS__); \
            break; \
        case NONBLOCKING: \
            MPI_Ineighbor_##name(__VA_ARGS__, &request); \
            MPI_Wait(&request, MPI_STATUS_IGNORE); \
            break; \
        case PERSISTENT: \
            MPI_Neighbor_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
            for (int again = 0; again < 2; again++) { \
                MPI_Start(&request); \
                MPI_Wait(&request, MPI_STATUS_IGNORE); \
            } \
            MPI_Request_free(&request); \
        } \
    } while (0)

static void operations(MPI_Comm comm, enum form form)
{
    int out[2 * MOST], in[2 * MOST], counts[MOST], outcounts[MOST], places[MOST], outplaces[MOST], me;
    MPI_Aint bytes[MOST], outbytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Comm_rank(comm, &me);
    for (int k = 0; k < MOST; k++) {
        counts[k] = outcounts[k] = 1;
        places[k] = 2 * (MOST - 1 - k); /* the other way round, with gaps */
        outplaces[k] = 2 * k;
        bytes[k] = places[k] * (MPI_Aint)sizeof(int);
        outbytes[k] = outplaces[k] * (MPI_Aint)sizeof(int);
        types[k] = MPI_INT;
    }
#define CLEAR() memset(in, 0x55, sizeof in)
#define FROM(k) (from[k] == MPI_PROC_NULL ? 0x55555555 : message(from[k], back[k]))

    CLEAR();
    out[0] = message(me, 0);
    RUN(allgather, out, 1, MPI_INT, in, 1, MPI_INT, comm);
    for (int k = 0; k < sources; k++)
        SAME(in[k], from[k] == MPI_PROC_NULL ? 0x55555555 : message(from[k], 0));

    CLEAR();
    RUN(allgatherv, out, 1, MPI_INT, in, counts, places, MPI_INT, comm);
    for (int k = 0; k < sources; k++)
        SAME(in[places[k]], from[k] == MPI_PROC_NULL ? 0x55555555 : message(from[k], 0));

    CLEAR();
    for (int k = 0; k < destinations; k++)
        out[k] = message(me, k);
    RUN(alltoall, out, 1, MPI_INT, in, 1, MPI_INT, comm);
    for (int k = 0; k < sources; k++)
        SAME(in[k], FROM(k));

    for (int k = 0; k < destinations; k++)
        out[outplaces[k]] = message(me, k);
    CLEAR();
    RUN(alltoallv, out, outcounts, outplaces, MPI_INT, in, counts, places, MPI_INT, comm);
    for (int k = 0; k < sources; k++) {
        SAME(in[places[k]], FROM(k));
        SAME(in[places[k] + 1], 0x55555555);
    }
    CLEAR();
    RUN(alltoallw, out, outcounts, outbytes, types, in, counts, bytes, types, comm);
    for (int k = 0; k < sources; k++)
        SAME(in[places[k]], FROM(k));
}

static void all_forms(MPI_Comm comm)
{
    for (enum form form = BLOCKING; form <= PERSISTENT; form++)
        operations(comm, form);
}

/* In a grid the block that arrives from below was sent upwards. */
static void grids(int ndims, int periodic)
{
    MPI_Comm grid;
    int dims[8] = {0}, periods[8];
    for (int k = 0; k < ndims; k++)
        periods[k] = periodic;
    MPI_Dims_create(ranks, ndims, dims);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &grid);
    sources = destinations = 2 * ndims;
    for (int k = 0; k < ndims; k++) {
        MPI_Cart_shift(grid, k, 1, &from[2 * k], &from[2 * k + 1]);
        back[2 * k] = 2 * k + 1;
        back[2 * k + 1] = 2 * k;
    }
    all_forms(grid);
    MPI_Comm_free(&grid);
}

/* Each rank sends to the ranks 0 .. k - 1 after it. */
static void graphs(int degree)
{
    MPI_Comm graph;
    sources = destinations = degree;
    for (int k = 0; k < degree; k++) {
        to[k] = (rank + k + 1) % ranks;
        from[k] = (rank + ranks * degree - k - 1) % ranks;
        back[k] = k;
    }
    if (ranks >= degree) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, sources, from, MPI_UNWEIGHTED, destinations, to,
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
        all_forms(graph);
        MPI_Comm_free(&graph);
    }
}

/* Rank 0 sends to all others and receives nothing. */
static void star(void)
{
    MPI_Comm graph;
    int zero = 0, others[64];
    for (int k = 1; k < ranks; k++)
        others[k - 1] = k;
    if (ranks > MOST)
        return;
    sources = rank > 0;
    destinations = rank > 0 ? 0 : ranks - 1;
    from[0] = 0;
    back[0] = rank - 1;
    MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0, &zero, &destinations, others, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                          &graph);
    all_forms(graph);
    MPI_Comm_free(&graph);
}

/* Addresses instead of displacements, and a halo without copies. */
static void halo(void)
{
    enum { SIDE = 30 };
    static double field[SIDE][SIDE];
    MPI_Comm grid;
    MPI_Datatype column, types[4];
    MPI_Aint sends[4], receives[4];
    int counts[4] = {1, 1, 1, 1}, dims[2] = {0, 0}, next[4];
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){0, 1}, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &next[0], &next[1]);
    MPI_Cart_shift(grid, 1, 1, &next[2], &next[3]);
    MPI_Type_vector(SIDE - 2, 1, SIDE, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(SIDE - 2, MPI_DOUBLE, &types[0]);
    MPI_Type_commit(&types[0]);
    types[1] = types[0];
    types[2] = types[3] = column;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            field[i][j] = i > 0 && j > 0 && i < SIDE - 1 && j < SIDE - 1 ? rank : -1;
    MPI_Get_address(&field[1][1], &sends[0]);
    MPI_Get_address(&field[SIDE - 2][1], &sends[1]);
    MPI_Get_address(&field[1][1], &sends[2]);
    MPI_Get_address(&field[1][SIDE - 2], &sends[3]);
    MPI_Get_address(&field[0][1], &receives[0]);
    MPI_Get_address(&field[SIDE - 1][1], &receives[1]);
    MPI_Get_address(&field[1][0], &receives[2]);
    MPI_Get_address(&field[1][SIDE - 1], &receives[3]);
    MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, sends, types, MPI_BOTTOM, counts, receives, types, grid);
    for (int k = 1; k < SIDE - 1; k++) {
        SAME(field[0][k], next[0] == MPI_PROC_NULL ? -1 : next[0]);
        SAME(field[SIDE - 1][k], next[1] == MPI_PROC_NULL ? -1 : next[1]);
        SAME(field[k][0], next[2]);
        SAME(field[k][SIDE - 1], next[3]);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&types[0]);
    MPI_Comm_free(&grid);
}

/* Borders and a frame around them in one array: types of parts of it that do not overlap. */
static void halo_of_one_array(void)
{
    enum { SIDE = 6 };
    int field[SIDE][SIDE], sizes[2] = {SIDE, SIDE}, counts[2] = {1, 1}, dims[1] = {0}, next[2], i, j;
    MPI_Aint zero[2] = {0, 0};
    MPI_Datatype out[2], in[2], both_out, both_in;
    MPI_Comm ring;
    MPI_Dims_create(ranks, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, (int[]){1}, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &next[0], &next[1]);
    for (i = 0; i < 2; i++) {
        int size[2] = {1, SIDE}, from[2] = {i ? SIDE - 2 : 1, 0}, to[2] = {i ? SIDE - 1 : 0, 0};
        MPI_Type_create_subarray(2, sizes, size, from, MPI_ORDER_C, MPI_INT, &out[i]);
        MPI_Type_create_subarray(2, sizes, size, to, MPI_ORDER_C, MPI_INT, &in[i]);
        MPI_Type_commit(&out[i]), MPI_Type_commit(&in[i]);
    }
    /* Both rows, each a block of its own. */
    MPI_Type_create_resized(out[0], 0, (SIDE - 3) * SIDE * sizeof(int), &both_out);
    MPI_Type_create_resized(in[0], 0, (SIDE - 1) * SIDE * sizeof(int), &both_in);
    MPI_Type_commit(&both_out), MPI_Type_commit(&both_in);
    for (int has_types = 0; has_types < 2; has_types++) {
        for (i = 0; i < SIDE; i++)
            for (j = 0; j < SIDE; j++)
                field[i][j] = i == 0 || i == SIDE - 1 ? -1 : rank * 100 + i * SIDE + j;
        if (has_types)
            MPI_Neighbor_alltoallw(field, counts, zero, out, field, counts, zero, in, ring);
        else
            MPI_Neighbor_alltoall(field, 1, both_out, field, 1, both_in, ring);
        for (j = 0; j < SIDE; j++) {
            SAME(field[0][j], next[0] * 100 + (SIDE - 2) * SIDE + j);
            SAME(field[SIDE - 1][j], next[1] * 100 + SIDE + j);
        }
    }
    for (i = 0; i < 2; i++)
        MPI_Type_free(&out[i]), MPI_Type_free(&in[i]);
    MPI_Type_free(&both_out), MPI_Type_free(&both_in);
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    for (int periodic = 0; periodic < 2; periodic++)
        for (int ndims = 1; ndims < 4; ndims++)
            grids(ndims, periodic);
    for (int degree = 0; degree < 4; degree++)
        graphs(degree);
    star();
    halo();
    halo_of_one_array();
    int value = 0, values[2];
    RAISES(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(&value, 1, MPI_INT, values, 1, MPI_INT, MPI_COMM_WORLD));
    return finish();
}
