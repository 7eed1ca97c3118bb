/* Bytes a second from rank 0 to rank 1, a window of messages at a time. */
#include "window.h"

static double one_window(const bench_options *o, size_t size, unsigned char *data, MPI_Request *requests) {
    int rank = bench_rank(), iterations = bench_iterations(o, size);
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        window_pass(o, data, size, round, rank == 0, 1 - rank, 0, MPI_COMM_WORLD, requests);
    }
    return (bench_now() - start) / iterations;
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 1000, .warmup = -1, .window = 64, .passes = 1};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "bw [options]", "m:i:n:x:W:r:ch", &o);
    if (bench_size() != 2) bench_end(2, "bw runs on 2 ranks");
    unsigned char *data = window_buffer(&o);
    MPI_Request *requests = window_requests(&o);
    bench_head(&o, "bandwidth", "Size    Bandwidth (MB/s)");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        double took = one_window(&o, size, data, requests);
        for (int pass = 1; pass < o.passes; pass++) took = bench_least(took, one_window(&o, size, data, requests));
        if (bench_rank() == 0) {
            double rate = size * o.window / took / 1e6;
            printf("%-10zu%18.*f", size, rate < 10 ? 4 : 2, rate);
            bench_row_end(&o);
        }
    }
    free(data), free(requests);
    MPI_Finalize();
    return 0;
}
