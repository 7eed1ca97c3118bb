/* The time of MPI_Init on each rank. */
#include "common.h"

int main(int argc, char **argv) {
    double start = bench_now(), took, least, most, sum;
    MPI_Init(&argc, &argv);
    took = (bench_now() - start) * 1e3;
    MPI_Reduce(&took, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (bench_rank() == 0)
        printf("# Verbena benchmarks: MPI_Init\nnprocs: %d, min: %.3f ms, max: %.3f ms, avg: %.3f ms\n", bench_size(),
               least, most, sum / bench_size());
    MPI_Finalize();
    return 0;
}
