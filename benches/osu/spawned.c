/* Half the time of a round trip between a process and one that it has spawned, for each message
 * size. */
#include "common.h"

static double half_round_trip(const bench_options *o, MPI_Comm other, int is_first, size_t size, unsigned char *data) {
    int iterations = bench_iterations(o, size);
    double start = 0;
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        if (is_first) MPI_Send(data, (int)size, MPI_CHAR, 0, 1, other);
        MPI_Recv(data, (int)size, MPI_CHAR, 0, 1, other, MPI_STATUS_IGNORE);
        if (!is_first) MPI_Send(data, (int)size, MPI_CHAR, 0, 1, other);
    }
    return (bench_now() - start) / (2.0 * iterations);
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 4 << 20, .iterations = 10000, .warmup = -1, .passes = 1};
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "spawned [options]", "m:i:n:x:r:h", &o);
    if (bench_size() != 1) bench_end(2, "spawned runs on 1 rank");
    MPI_Comm_get_parent(&other);
    int is_first = other == MPI_COMM_NULL;
    if (is_first)
        MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);
    unsigned char *data = bench_buffer(o.max);
    if (is_first) bench_head(&o, "spawned", "Size     Avg Latency(us)");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        double took = half_round_trip(&o, other, is_first, size, data);
        for (int pass = 1; pass < o.passes; pass++)
            took = bench_least(took, half_round_trip(&o, other, is_first, size, data));
        if (is_first) {
            printf("%-10zu%18.3f", size, took * 1e6);
            bench_row_end(&o);
        }
    }
    free(data);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
