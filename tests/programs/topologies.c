/* Process topologies: grids, graphs, distributed graphs. */
#include "check.h"

static void grids(void)
{
    MPI_Comm grid, line;
    int dims[2] = {0, 0}, empty[2] = {0, 0}, periods[2] = {1, 0}, kind, me, found, size, from, to;
    MPI_Dims_create(ranks, 2, dims);
    SAME(dims[0] * dims[1], ranks);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &kind);
    SAME(kind, MPI_CART);
    MPI_Comm_rank(grid, &me);
    MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &found);
    CHECK(found >= 0 && found < ranks, "MPI_Cart_map: %d", found);
    empty[0] = ranks, found = 0;
    SAME(MPI_Cart_map(MPI_COMM_WORLD, 2, empty, periods, &found), MPI_SUCCESS);
    SAME(found, MPI_UNDEFINED);
    int count, got[2], rings[2], at[2], coords[2];
    MPI_Cartdim_get(grid, &count);
    SAME(count, 2);
    MPI_Cart_get(grid, 2, got, rings, at);
    MPI_Cart_coords(grid, me, 2, coords);
    for (int k = 0; k < 2; k++) {
        SAME(got[k], dims[k]);
        SAME(rings[k], periods[k]);
        SAME(at[k], coords[k]);
    }
    SAME(at[0] * dims[1] + at[1], me);
    MPI_Cart_rank(grid, (int[]){at[0] - 3 * dims[0], at[1]}, &found);
    SAME(found, me);
    MPI_Cart_shift(grid, 0, 1, &from, &to);
    SAME(to, (at[0] + 1) % dims[0] * dims[1] + at[1]);
    MPI_Cart_shift(grid, 1, 1, &from, &to);
    SAME(from, at[1] == 0 ? MPI_PROC_NULL : me - 1);
    SAME(to, at[1] == dims[1] - 1 ? MPI_PROC_NULL : me + 1);

    MPI_Cart_sub(grid, (int[]){0, 1}, &line);
    MPI_Comm_size(line, &size);
    SAME(size, dims[1]);
    MPI_Comm_rank(line, &me);
    SAME(me, at[1]);
    MPI_Cart_get(line, 1, got, rings, coords);
    SAME(got[0], dims[1]);
    SAME(rings[0], 0);
    int sum, own = at[0];
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, line);
    SAME(sum, at[0] * dims[1]);
    MPI_Comm_free(&line);
    MPI_Cart_sub(grid, (int[]){0, 0}, &line);
    MPI_Comm_size(line, &size);
    SAME(size, 1);
    MPI_Cartdim_get(line, &count);
    SAME(count, 0);
    MPI_Comm_free(&line);

    MPI_Comm_dup(grid, &line);
    MPI_Topo_test(line, &kind);
    SAME(kind, MPI_CART);
    MPI_Comm_free(&line);

    RAISES(MPI_ERR_ARG, MPI_Cart_rank(grid, (int[]){0, -1}, &found));
    RAISES(MPI_ERR_RANK, MPI_Cart_coords(grid, ranks, 2, coords));
    RAISES(MPI_ERR_ARG, MPI_Cart_coords(grid, 0, 1, coords));
    RAISES(MPI_ERR_DIMS, MPI_Cart_shift(grid, 2, 1, &from, &to));
    RAISES(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(grid, &from, &to));
    MPI_Comm_free(&grid);
}

static void smaller_grids(void)
{
    MPI_Comm grid;
    int size, none[1] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &grid);
    CHECK((grid == MPI_COMM_NULL) == (rank > 0), "a grid of no dimensions has more than one process");
    if (grid != MPI_COMM_NULL)
        MPI_Comm_free(&grid);
    if (ranks > 1) {
        MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){ranks - 1}, none, 0, &grid);
        CHECK((grid == MPI_COMM_NULL) == (rank == ranks - 1), "other processes are in the smaller grid");
        if (grid != MPI_COMM_NULL) {
            MPI_Comm_size(grid, &size);
            SAME(size, ranks - 1);
            MPI_Comm_free(&grid);
        }
    }
    RAISES(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){ranks + 1}, none, 0, &grid));
    RAISES(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, 1, none, none, 0, &grid));
    RAISES(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, -1, none, none, 0, &grid));
    RAISES(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(MPI_COMM_WORLD, &size));
    RAISES(MPI_ERR_DIMS, MPI_Dims_create(6, 2, (int[]){4, 0}));
}

/* A ring, as a graph that every rank knows. */
static void graphs(void)
{
    MPI_Comm ring;
    int index[64], edges[128], kind, nodes, total, count, next[2], got[128];
    for (int k = 0; k < ranks; k++) {
        index[k] = 2 * (k + 1);
        edges[2 * k] = (k + ranks - 1) % ranks;
        edges[2 * k + 1] = (k + 1) % ranks;
    }
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &ring);
    MPI_Topo_test(ring, &kind);
    SAME(kind, MPI_GRAPH);
    MPI_Graphdims_get(ring, &nodes, &total);
    SAME(nodes, ranks);
    SAME(total, 2 * ranks);
    MPI_Graph_get(ring, 64, 128, index, got);
    for (int k = 0; k < total; k++)
        SAME(got[k], edges[k]);
    MPI_Graph_neighbors_count(ring, rank, &count);
    SAME(count, 2);
    MPI_Graph_neighbors(ring, rank, 2, next);
    SAME(next[0], (rank + ranks - 1) % ranks);
    SAME(next[1], (rank + 1) % ranks);
    MPI_Graph_map(MPI_COMM_WORLD, ranks, index, edges, &count);
    SAME(count, rank);
    RAISES(MPI_ERR_RANK, MPI_Graph_neighbors_count(ring, -1, &count));
    RAISES(MPI_ERR_ARG, MPI_Graph_neighbors(ring, rank, 1, next));
    MPI_Comm_free(&ring);
    MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &ring);
    CHECK(ring == MPI_COMM_NULL, "an empty graph has processes");
    edges[0] = ranks;
    RAISES(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &ring));
}

/* The edges k -> k + 1 and k -> k + 2 with the weights k and 100 + k. One process names all of
   them, or each its own, or each those of the rank before. */
static void distributed_graphs(int form)
{
    MPI_Comm graph;
    int sources[64], degrees[64], ends[128], weights[128], n = 0, m = 0, kind, in, out, weighted;
    for (int k = 0; k < ranks; k++) {
        int namer = form < 0 ? k : form == 0 ? 0 : (k + 1) % ranks;
        if (namer != rank)
            continue;
        sources[n] = k;
        degrees[n++] = 2;
        weights[m] = k;
        ends[m++] = (k + 1) % ranks;
        weights[m] = 100 + k;
        ends[m++] = (k + 2) % ranks;
    }
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, n ? weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL,
                          0, &graph);
    MPI_Topo_test(graph, &kind);
    SAME(kind, MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    SAME(in, 2);
    SAME(out, 2);
    SAME(weighted, 1);
    int from[2], from_weights[2], to[2], to_weights[2], seen = 0;
    MPI_Dist_graph_neighbors(graph, 2, from, from_weights, 2, to, to_weights);
    for (int k = 0; k < 2; k++) {
        int step = from_weights[k] >= 100 ? 2 : 1;
        SAME((from[k] + step) % ranks, rank);
        SAME(from_weights[k] % 100, from[k]);
        SAME(to[k], (rank + 1 + k) % ranks);
        SAME(to_weights[k], 100 * k + rank);
        seen += step;
    }
    SAME(seen, 3);
    MPI_Comm_free(&graph);
}

static void adjacent_graphs(void)
{
    MPI_Comm graph;
    int from[2] = {(rank + ranks - 1) % ranks, rank}, to[2] = {(rank + 1) % ranks, rank}, in, out, weighted;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    SAME(in + out, 4);
    SAME(weighted, 0);
    int sources[2] = {-1, -1}, weights[2] = {-7, -7}, destinations[1];
    MPI_Dist_graph_neighbors(graph, 2, sources, weights, 1, destinations, MPI_UNWEIGHTED);
    SAME(sources[0], from[0]);
    SAME(sources[1], from[1]);
    SAME(weights[0], -7);
    SAME(destinations[0], to[0]);
    MPI_Comm_free(&graph);
    from[0] = ranks;
    RAISES(MPI_ERR_RANK, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, from, MPI_UNWEIGHTED, 0, to, MPI_UNWEIGHTED,
                                                        MPI_INFO_NULL, 0, &graph));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    grids();
    smaller_grids();
    graphs();
    distributed_graphs(-1);
    distributed_graphs(0);
    distributed_graphs(1);
    adjacent_graphs();
    return finish();
}
