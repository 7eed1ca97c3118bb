/* Sums of doubles of which each order of adding gives other bits, by all reductions and in all call
 * forms. Rank 0 prints a number that stands for all the bits; it depends on the number of ranks
 * alone. */
#include "check.h"
#include <stdint.h>

enum { MOST = 200000 };

static double mine[MOST], sums[MOST];
static uint64_t bits = 14695981039346656037u;

static uint64_t state;

static uint64_t drawn(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 20;
}

/* Numbers of all sizes and both signs, for a rank. */
static void draw(int of, int count)
{
    int i;
    state = of * 1000003u + count;
    for (i = 0; i < count; i++) {
        double number = (double)drawn() - 8796093022208.0;
        mine[i] = number * (double)(1u << drawn() % 31);
    }
}

static void mix(const double *numbers, int count)
{
    const unsigned char *bytes = (const unsigned char *)numbers;
    size_t i;
    for (i = 0; i < count * sizeof *numbers; i++)
        bits = (bits ^ bytes[i]) * 1099511628211u;
}

/* The result of one rank, at rank 0 as well. */
static void mix_of(int of, int count)
{
    MPI_Bcast(sums, count, MPI_DOUBLE, of, MPI_COMM_WORLD);
    mix(sums, count);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 100, 2500, 20000, MOST};
    size_t k;
    start(&argc, &argv);
    for (k = 0; k < sizeof counts / sizeof *counts; k++) {
        int count = counts[k], each = count / ranks, root = k % ranks;
        MPI_Request request;
        draw(rank, count);
        MPI_Allreduce(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        mix(sums, count);
        memcpy(sums, mine, count * sizeof *mine);
        MPI_Iallreduce(MPI_IN_PLACE, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        mix(sums, count);
        MPI_Allreduce_init(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        mix(sums, count);
        MPI_Reduce(mine, sums, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
        mix_of(root, count);
        MPI_Reduce_scatter_block(mine, sums, each, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        mix_of(ranks - 1, each);
        MPI_Scan(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        mix_of(ranks - 1, count);
        MPI_Exscan(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        mix_of(ranks - 1, count);
    }
    if (rank == 0)
        printf("bits %016llx\n", (unsigned long long)bits);
    return finish();
}
