/* Half the time of a round trip between two ranks, for each message size. */
#include "common.h"

static double half_round_trip(const bench_options *o, size_t size, unsigned char *out, unsigned char *in) {
    int rank = bench_rank(), peer = 1 - rank, iterations = bench_iterations(o, size);
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        if (o->check) bench_fill(out, size, round);
        if (rank == 0) MPI_Send(out, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        MPI_Recv(in, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        if (o->check) bench_verify(in, size, round);
    }
    return (bench_now() - start) / (2.0 * iterations);
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 10000, .warmup = -1, .passes = 1};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "latency [options]", "m:i:n:x:r:ch", &o);
    if (bench_size() != 2) bench_end(2, "latency runs on 2 ranks");
    unsigned char *out = bench_buffer(o.max), *in = bench_buffer(o.max);
    bench_head(&o, "latency", "Size     Avg Latency(us)");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        double took = half_round_trip(&o, size, out, in);
        for (int pass = 1; pass < o.passes; pass++) took = bench_least(took, half_round_trip(&o, size, out, in));
        if (bench_rank() == 0) {
            printf("%-10zu%18.3f", size, took * 1e6);
            bench_row_end(&o);
        }
    }
    free(out), free(in);
    MPI_Finalize();
    return 0;
}
