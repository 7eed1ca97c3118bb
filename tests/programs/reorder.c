/* Topologies with reorder: each process has one rank, neighbours agree, and a graph's node keeps
 * its edges under any rank. No more edges cross from package to package than before. With `packages
 * N` (and the knob that pretends as much) the ranks of this host are dealt to N packages in turn. A
 * square must fall into blocks. */
#include "check.h"

static int packages = 1;

/* The rank in MPI_COMM_WORLD of each rank of `comm`. */
static void origins(MPI_Comm comm, int *world)
{
    MPI_Allgather(&rank, 1, MPI_INT, world, 1, MPI_INT, comm);
}

/* Every old rank is there once. */
static void all_are_there(const int *world, int count)
{
    char seen[256] = {0};
    int i;
    for (i = 0; i < count; i++) {
        CHECK(world[i] >= 0 && world[i] < ranks && !seen[world[i]], "rank %d is process %d, again", i, world[i]);
        seen[world[i]] = 1;
    }
}

/* Edges of a grid between different packages, for a given order of the processes. */
static int crossing(MPI_Comm grid, int count, const int *world)
{
    int at, dims = 0, dim, found = 0, low, high, coords[4], sizes[4], periods[4], mine[4];
    MPI_Cartdim_get(grid, &dims);
    MPI_Cart_get(grid, dims, sizes, periods, mine);
    for (at = 0; at < count; at++)
        for (dim = 0; dim < dims; dim++) {
            MPI_Cart_coords(grid, at, dims, coords);
            low = at;
            if (++coords[dim] == sizes[dim] && !periods[dim])
                continue;
            MPI_Cart_rank(grid, coords, &high);
            found += (world ? world[low] : low) % packages != (world ? world[high] : high) % packages;
        }
    return found;
}

static void grids(void)
{
    int dims[2] = {0, 0}, periods[2] = {0, 1}, world[256], place, coords[2], found[4], expected[4], i;
    MPI_Comm grid;
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    origins(grid, world);
    all_are_there(world, ranks);
    CHECK(crossing(grid, ranks, world) <= crossing(grid, ranks, NULL), "%d edges cross, without reorder %d",
          crossing(grid, ranks, world), crossing(grid, ranks, NULL));
    MPI_Comm_rank(grid, &place);
    CHECK(world[place] == rank, "rank %d is process %d", place, world[place]);
    MPI_Cart_coords(grid, place, 2, coords);
    for (i = 0; i < 2; i++)
        MPI_Cart_shift(grid, i, 1, &expected[2 * i], &expected[2 * i + 1]);
    for (i = 0; i < 4; i++)
        found[i] = expected[i] == MPI_PROC_NULL ? MPI_PROC_NULL : -1;
    MPI_Neighbor_allgather(&place, 1, MPI_INT, found, 1, MPI_INT, grid);
    for (i = 0; i < 4; i++)
        SAME(found[i], expected[i]);
    MPI_Comm_free(&grid);
}

/* 4 x 4 on four packages: four squares, with 8 edges between them. */
static void square(void)
{
    const int dims[2] = {4, 4}, periods[2] = {0, 0};
    int world[256];
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    origins(grid, world);
    SAME(crossing(grid, 16, NULL), 12);
    SAME(crossing(grid, 16, world), 8);
    MPI_Comm_free(&grid);
}

/* A ring in which each node knows its edges by their weights. */
static void check_ring(MPI_Comm ring)
{
    int place, in, out, weighted, source, destination, weight_in, weight_out, world[256];
    MPI_Comm_rank(ring, &place);
    origins(ring, world);
    all_are_there(world, ranks);
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && weighted, "%d in, %d out, weighted %d", in, out, weighted);
    MPI_Dist_graph_neighbors(ring, 1, &source, &weight_in, 1, &destination, &weight_out);
    SAME(source, (place + ranks - 1) % ranks);
    SAME(destination, (place + 1) % ranks);
    SAME(weight_in, 100 + source);
    SAME(weight_out, 100 + place);
    MPI_Neighbor_allgather(&place, 1, MPI_INT, &in, 1, MPI_INT, ring);
    SAME(in, source);
}

static void graphs(void)
{
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, one = 1;
    const int weight_out = 100 + rank, weight_in = 100 + before;
    int index[256], edges[512], i, place, count, found[2];
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &weight_in, 1, &next, &weight_out, MPI_INFO_NULL, 1, &graph);
    check_ring(graph);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &next, &weight_out, MPI_INFO_NULL, 1, &graph);
    check_ring(graph);
    MPI_Comm_free(&graph);
    for (i = 0; i < ranks; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + 1) % ranks;
        edges[2 * i + 1] = (i + ranks - 1) % ranks;
    }
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 1, &graph);
    MPI_Comm_rank(graph, &place);
    MPI_Graph_neighbors_count(graph, place, &count);
    MPI_Graph_neighbors(graph, place, 2, found);
    CHECK(count == 2 && found[0] == (place + 1) % ranks, "%d neighbours, %d first", count, found[0]);
    MPI_Comm_free(&graph);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc == 3)
        packages = atoi(argv[2]);
    grids();
    graphs();
    if (packages == 4 && ranks == 16)
        square();
    return finish();
}
