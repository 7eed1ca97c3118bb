/* The shortest job: timed from outside, it gives the price of a start. Its second line names the
 * library. */
#include "common.h"

int main(int argc, char **argv) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Init(&argc, &argv);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = 0;
    if (bench_rank() == 0)
        printf("# Verbena benchmarks: hello\n# %s\nhello from a job of %d processes\n", library, bench_size());
    MPI_Finalize();
    return 0;
}
