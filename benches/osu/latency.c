/* Half the time of a round trip between two ranks, for each message size. */
#include "common.h"

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    bench_options o = bench_parse(argc, argv, "point-to-point latency");
    bench_ranks(2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char *out = bench_buffer(o.max), *in = bench_buffer(o.max);
    if (rank == 0) printf("# Latency\n# Size          Latency (us)\n");
    for (size_t size = o.min; size <= o.max; size = bench_next(size)) {
        int iterations = bench_iterations(&o, size), warmup = bench_warmup(&o, iterations);
        double start = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int round = -warmup; round < iterations; round++) {
            if (round == 0) start = MPI_Wtime();
            if (o.check) bench_fill(out, size, round);
            if (rank == 0) {
                MPI_Send(out, (int)size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
                MPI_Recv(in, (int)size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(in, (int)size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(out, (int)size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
            }
            if (o.check) bench_verify(in, size, round);
        }
        double took = MPI_Wtime() - start;
        if (rank == 0) printf("%-15zu %12.3f\n", size, took * 1e6 / (2.0 * iterations)), fflush(stdout);
    }
    free(out), free(in);
    MPI_Finalize();
    return 0;
}
