/* Sends itself three messages. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int round, out, in;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    for (round = 0; round < 3; round++) {
        out = round;
        MPI_Irecv(&in, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &request);
        MPI_Send(&out, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (in != round) return 1;
    }
    MPI_Finalize();
    printf("done\n");
    return 0;
}
