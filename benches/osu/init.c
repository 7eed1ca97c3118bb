/* The time of MPI_Init, the largest of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    double start = now(), took, largest;
    int rank, size;
    MPI_Init(&argc, &argv);
    took = now() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&took, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("# MPI_Init\n%d ranks %10.3f ms\n", size, largest);
    MPI_Finalize();
    return 0;
}
