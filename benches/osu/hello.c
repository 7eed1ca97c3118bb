/* The shortest job: who times it from outside has the price of a start. */
#include "common.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (bench_rank() == 0) printf("# Verbena benchmarks: hello\nhello from a job of %d processes\n", bench_size());
    MPI_Finalize();
    return 0;
}
