/* The smallest program for a profiler to look at: each rank sends 5 times. */
#include "check.h"

int main(int argc, char **argv)
{
    int i, got;
    start(&argc, &argv);
    MPI_Pcontrol(1);
    for (i = 0; i < 5; i++) {
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &request);
        MPI_Send(&i, 1, MPI_INT, (rank + 1) % ranks, i, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        SAME(got, i);
    }
    MPI_Pcontrol(0);
    return finish();
}
