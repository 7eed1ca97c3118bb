/* Messages and bytes a second from all threads of rank 0 to those of rank 1. Each thread has a
   window of its own, all on one communicator. */
#include "threads.h"

static void *windows(void *argument) {
    thread_state *thread = argument;
    const bench_options *o = thread->o;
    size_t size = thread->size;
    int rank = bench_rank(), iterations = bench_iterations(o, size);
    unsigned char *data = window_buffer(o);
    MPI_Request *requests = window_requests(o);
    threads_synchronise(thread);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) threads_synchronise(thread);
        window_pass(o, data, size, round, rank == 0, 1 - rank, thread->number, MPI_COMM_WORLD, requests);
    }
    thread->took = (bench_now() - *thread->start) / iterations;
    free(data), free(requests);
    return NULL;
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 1 << 20, .iterations = 1000, .warmup = -1, .window = 64, .threads = 2};
    threads_init(&argc, &argv);
    bench_parse(argc, argv, "mbw_mr_mt [options]", "m:i:n:x:W:t:ch", &o);
    if (bench_size() != 2) bench_end(2, "mbw_mr_mt runs on 2 ranks");
    thread_state *all = malloc(sizeof *all * o.threads);
    if (bench_rank() == 0) printf("# [ threads: %d ] [ window size: %d ]\n", o.threads, o.window);
    bench_head(&o, "bandwidth and message rate of threads", "Size                  MB/s        Messages/s");
    for (size_t size = o.min; all && size <= o.max; size = bench_next(&o, size)) {
        double longest = 0;
        threads_run(&o, size, windows, all);
        for (int i = 0; i < o.threads; i++) longest = all[i].took > longest ? all[i].took : longest;
        double rate = o.threads * o.window / longest;
        if (bench_rank() == 0) {
            printf("%-10zu%18.2f%18.2f", size, rate * size / 1e6, rate);
            bench_row_end(&o);
        }
    }
    free(all);
    MPI_Finalize();
    return 0;
}
