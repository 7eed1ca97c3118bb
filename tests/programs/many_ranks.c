/* What a job of many ranks begins with: first collectives, exchanges at all distances, parts of a
 * communicator, a window. Each rank meets a few peers on most hosts; no count grows with ranks^2. */
#include "check.h"

/* Each rank exchanges messages with those at a distance of `step` in both directions. */
static void exchange(int step, int bytes)
{
    int next = (rank + step) % ranks, before = (rank + ranks - step) % ranks;
    char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Status status;
    fill(out, bytes, rank);
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, step, in, bytes, MPI_BYTE, before, step, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, before, step, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, before);
    free(out);
    free(in);
}

static void collectives(int root)
{
    enum { LONG = 100000 };
    int *one_each = allocate(ranks * sizeof(int)), *all = allocate(ranks * sizeof(int)), sum, own, i;
    char *data = allocate(LONG);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(sum, ranks * (ranks - 1) / 2);
    if (rank == root)
        fill(data, LONG, root);
    MPI_Bcast(data, LONG, MPI_BYTE, root, MPI_COMM_WORLD);
    CHECK_FILLED(data, LONG, root);
    for (i = 0; i < ranks; i++)
        one_each[i] = rank * ranks + i;
    MPI_Alltoall(one_each, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (i = 0; i < ranks; i++)
        SAME(all[i], i * ranks + rank);
    own = rank + 1;
    MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, root, MPI_COMM_WORLD);
    for (i = 0; rank == root && i < ranks; i++)
        SAME(all[i], i + 1);
    MPI_Scatter(all, 1, MPI_INT, &own, 1, MPI_INT, root, MPI_COMM_WORLD);
    SAME(own, rank + 1);
    free(one_each);
    free(all);
    free(data);
}

/* The ranks of one host, and ranks of all hosts. */
static void parts(void)
{
    MPI_Comm host, across;
    int local, size, sum;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local);
    MPI_Comm_split(MPI_COMM_WORLD, local, rank, &across);
    MPI_Comm_size(across, &size);
    MPI_Allreduce(&local, &sum, 1, MPI_INT, MPI_SUM, across);
    SAME(sum, size * local);
    MPI_Comm_free(&across);
    MPI_Comm_free(&host);
}

/* A word of each rank is written by the rank opposite. */
static void window(void)
{
    int *word, opposite = (rank + ranks / 2) % ranks;
    MPI_Win win;
    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, opposite, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    SAME(*word, (rank + ranks - ranks / 2) % ranks);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int step;
    start(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    for (step = 1; step < ranks; step *= 2) {
        exchange(step, 8);
        exchange(step, 50000);
    }
    collectives(0);
    collectives(ranks - 1);
    parts();
    window();
    return finish();
}
