/* Bytes a second in both directions at once: each rank receives a window of
 * messages while it sends one. */
#include "window.h"

static double both_windows(const bench_options *o, size_t size, unsigned char *out, unsigned char *in,
                           MPI_Request *requests) {
    int rank = bench_rank(), peer = 1 - rank, iterations = bench_iterations(o, size);
    char answer[4] = {0};
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        window_receive(o, in, size, peer, 0, MPI_COMM_WORLD, requests);
        window_send(o, out, size, round, peer, 0, MPI_COMM_WORLD, requests + o->window);
        MPI_Waitall(2 * o->window, requests, MPI_STATUSES_IGNORE);
        window_verify(o, in, size, round);
        if (rank == 0) MPI_Recv(answer, 4, MPI_CHAR, peer, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(answer, 4, MPI_CHAR, peer, ANSWER, MPI_COMM_WORLD);
    }
    return (bench_now() - start) / iterations;
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 1000, .warmup = -1, .window = 64};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "bibw [options]", "m:i:n:x:W:ch", &o);
    if (bench_size() != 2) bench_end(2, "bibw runs on 2 ranks");
    unsigned char *out = window_buffer(&o), *in = window_buffer(&o);
    MPI_Request *requests = window_requests(&o);
    bench_head(&o, "bidirectional bandwidth", "Size    Bandwidth (MB/s)");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        double took = both_windows(&o, size, out, in, requests);
        if (bench_rank() == 0) {
            printf("%-10zu%18.2f", size, 2.0 * size * o.window / took / 1e6);
            bench_row_end(&o);
        }
    }
    free(out), free(in), free(requests);
    MPI_Finalize();
    return 0;
}
