/* Rank 0 sleeps outside of MPI while all others wait for its message, for so many seconds that the
 * launcher reports a stall, and sends then: late_sender SECONDS. */
#include "check.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    int word = 1;
    start(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        sleep((unsigned)atoi(argv[1]));
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return finish();
}
