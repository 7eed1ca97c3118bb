/* Messages and bytes a second of all pairs together. The first half of the
 * ranks sends, each to the rank as far into the second half. */
#include "window.h"

/* The longest time of a window of all senders. Ranks outside the pairs only take part in the barrier. */
static double slowest_window(const bench_options *o, size_t size, unsigned char *data, MPI_Request *requests) {
    int rank = bench_rank(), sender = rank < o->pairs, iterations = bench_iterations(o, size);
    int peer = sender ? rank + o->pairs : rank - o->pairs;
    double start = 0, mine, longest;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); rank < 2 * o->pairs && round < iterations; round++) {
        if (round == 0) start = bench_now();
        window_pass(o, data, size, round, sender, peer, 0, MPI_COMM_WORLD, requests);
    }
    mine = sender ? (bench_now() - start) / iterations : 0;
    MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 1000, .warmup = -1, .window = 64};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "mbw_mr [options]", "m:i:n:x:W:p:ch", &o);
    int most = bench_size() / 2;
    if (o.pairs == 0) o.pairs = most;
    if (most == 0 || o.pairs > most) bench_end(2, "mbw_mr runs on 2 ranks for each pair, or more");
    unsigned char *data = window_buffer(&o);
    MPI_Request *requests = window_requests(&o);
    if (bench_rank() == 0) printf("# [ pairs: %d ] [ window size: %d ]\n", o.pairs, o.window);
    bench_head(&o, "bandwidth and message rate of pairs", "Size                  MB/s        Messages/s");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        double rate = o.pairs * o.window / slowest_window(&o, size, data, requests);
        if (bench_rank() == 0) {
            printf("%-10zu%18.2f%18.2f", size, rate * size / 1e6, rate);
            bench_row_end(&o);
        }
    }
    free(data), free(requests);
    MPI_Finalize();
    return 0;
}
