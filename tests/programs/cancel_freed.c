/* Cancelled sends, short and long, that are freed: MPI_Finalize ends although
 * the peer computes until its own MPI_Finalize. */
#include "check.h"
#include <unistd.h>

enum { SENDS = 16, LONG = 1 << 20 };

int main(int argc, char **argv)
{
    static char data[SENDS][LONG];
    MPI_Request request;
    start(&argc, &argv);
    CHECK(ranks == 2, "usage: mpiexec -n 2 cancel_freed");
    for (int i = 0; i < SENDS && rank == 0; i++) {
        int bytes = i % 4 == 3 ? LONG : 8;
        MPI_Isend(data[i], bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Request_free(&request);
    }
    if (rank == 1)
        usleep(300 * 1000);
    else
        printf("ok\n");
    MPI_Finalize();
    return 0;
}
