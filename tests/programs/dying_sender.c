/* A sender that is away from MPI while its message is read, and is killed so many milliseconds after it began to
 * send: dying_sender MILLISECONDS. The receiver waits until the sender is away. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { BYTES = 200000000 };

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc == 2 && ranks == 2, "dying_sender MILLISECONDS, on 2 ranks");
    unsigned char *data = allocate(BYTES);
    memset(data, rank, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request request;
        MPI_Isend(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        usleep(1000 * atoi(argv[1]));
        kill(getpid(), SIGKILL);
    }
    usleep(5000);
    MPI_Recv(data, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(data, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return finish();
}
