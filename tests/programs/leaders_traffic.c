/* Allreduces of 8 bytes or of 1 MiB, as the first argument says how many integers. The table looks
 * at the frames that ranks report: between two hosts, an allreduce of 8 bytes is one message of one
 * rank in each direction, and one of 1 MiB the bytes of one vector. */
#include "check.h"

enum { BYTES = 40 << 20 };

int main(int argc, char **argv)
{
    int count, size, calls, i, at;
    long long *mine, *sum;
    start(&argc, &argv);
    count = argc > 1 ? atoi(argv[1]) : 1;
    calls = count == 1 ? 600 : BYTES / (8 * count);
    mine = malloc(count * sizeof *mine);
    sum = malloc(count * sizeof *sum);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (i = 0; i < calls; i++) {
        for (at = 0; at < count; at++)
            mine[at] = i + at + rank;
        MPI_Allreduce(mine, sum, count, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (at = 0; at < count; at++)
            SAME(sum[at], (long long)size * (i + at) + size * (size - 1) / 2);
    }
    free(mine);
    free(sum);
    return finish();
}
