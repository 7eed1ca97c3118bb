/* Half the time of a round trip between two ranks, while every thread of one
 * exchanges messages with its twin in the other. The mean of all threads. */
#include "threads.h"

static void *half_round_trip(void *argument) {
    thread_state *thread = argument;
    const bench_options *o = thread->o;
    size_t size = thread->size;
    int rank = bench_rank(), peer = 1 - rank, tag = thread->number + 1, iterations = bench_iterations(o, size);
    unsigned char *out = bench_buffer(size), *in = bench_buffer(size);
    threads_synchronise(thread);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) threads_synchronise(thread);
        if (o->check) bench_fill(out, size, round * 64 + tag);
        if (rank == 0) MPI_Send(out, (int)size, MPI_CHAR, peer, tag, MPI_COMM_WORLD);
        MPI_Recv(in, (int)size, MPI_CHAR, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out, (int)size, MPI_CHAR, peer, tag, MPI_COMM_WORLD);
        if (o->check) bench_verify(in, size, round * 64 + tag);
    }
    thread->took = (bench_now() - *thread->start) / (2.0 * iterations);
    free(out), free(in);
    return NULL;
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 1000, .warmup = -1, .threads = 2};
    threads_init(&argc, &argv);
    bench_parse(argc, argv, "latency_mt [options]", "m:i:n:x:t:ch", &o);
    if (bench_size() != 2) bench_end(2, "latency_mt runs on 2 ranks");
    thread_state *all = malloc(sizeof *all * o.threads);
    if (bench_rank() == 0) printf("# Number of threads of each rank: %d\n", o.threads);
    bench_head(&o, "multi-threaded latency", "Size     Avg Latency(us)");
    for (size_t size = o.min; all && size <= o.max; size = bench_next(&o, size)) {
        double sum = 0;
        threads_run(&o, size, half_round_trip, all);
        for (int i = 0; i < o.threads; i++) sum += all[i].took;
        if (bench_rank() == 0) {
            printf("%-10zu%18.3f", size, sum / o.threads * 1e6);
            bench_row_end(&o);
        }
    }
    free(all);
    MPI_Finalize();
    return 0;
}
