/* Seed case 8: Isend(tag 1), a barrier, the peer probes for tag 2, a barrier,
 * then Cancel, Wait, Test_cancelled: true, whether the peer is still in the
 * barrier, computing, or in Finalize. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int value = 5, there, cancelled, late;
    MPI_Request request;
    MPI_Status status;
    start(&argc, &argv);
    CHECK(argc == 2 && ranks == 2, "usage: mpiexec -n 2 cancel_finalize MILLISECONDS");
    late = atoi(argv[1]);
    if (rank == 0)
        MPI_Isend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Iprobe(0, 2, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        CHECK(!there, "Iprobe found tag 2");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        usleep(late > 0 ? late * 1000 : 0);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "the send was not cancelled");
        printf("ok\n");
    } else if (late < 0) {
        usleep(-late * 1000); /* the peer is late to come back to MPI */
    }
    MPI_Finalize();
    return 0;
}
