/* The time of MPI_Init on each rank, and with -f the memory that a rank has for
 * itself alone afterwards. */
#include "common.h"

/* KiB of this process that no other process shares; 0 where the system does not report it. */
static long private_memory(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long sum = 0, value;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %ld", &value) == 1 || sscanf(line, "Private_Dirty: %ld", &value) == 1)
            sum += value;
    if (file) fclose(file);
    return sum;
}

int main(int argc, char **argv) {
    bench_options o = {0};
    double start = bench_now(), took, least, most, sum;
    long memory, most_memory;
    MPI_Init(&argc, &argv);
    took = (bench_now() - start) * 1e3;
    memory = private_memory();
    bench_parse(argc, argv, "init [options]", "fh", &o);
    MPI_Reduce(&took, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&memory, &most_memory, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (bench_rank() == 0) {
        printf("# Verbena benchmarks: MPI_Init\nnprocs: %d, min: %.3f ms, max: %.3f ms, avg: %.3f ms\n", bench_size(),
               least, most, sum / bench_size());
        if (o.full) printf("private memory, max: %.3f MB\n", most_memory * 1024 / 1e6);
    }
    MPI_Finalize();
    return 0;
}
