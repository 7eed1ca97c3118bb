/* Half the time of a round trip of a partitioned transfer between two ranks, for each message size:
 * 8 partitions on one side, 4 on the other, each made ready by itself. */
#include "common.h"

enum { SENT = 8, RECEIVED = 4 };

static double half_round_trip(const bench_options *o, size_t size, unsigned char *out, unsigned char *in) {
    int rank = bench_rank(), peer = 1 - rank, iterations = bench_iterations(o, size);
    double start = 0;
    MPI_Request send, receive;
    MPI_Psend_init(out, SENT, (int)(size / SENT), MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, RECEIVED, (int)(size / RECEIVED), MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    MPI_Start(&receive);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        for (int turn = 0; turn < 2; turn++) {
            if (rank == turn) {
                if (o->check) bench_fill(out, size, round);
                MPI_Start(&send);
                for (int i = 0; i < SENT; i++) MPI_Pready(i, send);
                MPI_Wait(&send, MPI_STATUS_IGNORE);
            } else {
                MPI_Wait(&receive, MPI_STATUS_IGNORE);
                if (o->check) bench_verify(in, size, round);
                MPI_Start(&receive);
            }
        }
    }
    double took = (bench_now() - start) / (2.0 * iterations);
    /* Ends the receive that was started last. */
    MPI_Start(&send);
    MPI_Pready_range(0, SENT - 1, send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    return took;
}

int main(int argc, char **argv) {
    bench_options o = {.min = SENT, .max = 4 << 20, .iterations = 10000, .warmup = -1, .passes = 1};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "partitioned [options]", "m:i:n:x:r:ch", &o);
    if (bench_size() != 2) bench_end(2, "partitioned runs on 2 ranks");
    if (o.min < SENT) o.min = SENT;
    unsigned char *out = bench_buffer(o.max), *in = bench_buffer(o.max);
    bench_head(&o, "partitioned latency", "Size     Avg Latency(us)");
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
