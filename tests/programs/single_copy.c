/* Whether a receiver copies out of the memory of a sender that is away from MPI: single_copy read, or
 * single_copy refused where the system or shm.single_copy does not allow it. Then the message comes when the
 * sender is back. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { BYTES = 4000000 };

static volatile sig_atomic_t is_called;

static void called(int number)
{
    (void)number;
    is_called = 1;
}

/* Away from MPI, until the other rank calls or the time is up. */
static void be_away(int tenths)
{
    while (!is_called && tenths-- > 0)
        usleep(100000);
}

int main(int argc, char **argv)
{
    int pid = (int)getpid(), other;
    unsigned char *data = room(BYTES);
    MPI_Request request;
    signal(SIGUSR1, called);
    start(&argc, &argv);
    CHECK(argc == 2 && ranks == 2, "single_copy read|refused, on 2 ranks");
    int is_read = !strcmp(argv[1], "read");
    MPI_Sendrecv(&pid, 1, MPI_INT, 1 - rank, 1, &other, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        fill(data, BYTES, 5);
        MPI_Isend(data, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
        kill(other, SIGUSR1); /* the sender is away before the receive begins */
        be_away(is_read ? 600 : 10);
        CHECK(is_called == is_read, is_read ? "nobody has read it" : "it was read");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        be_away(600);
    } else {
        be_away(600);
        MPI_Recv(data, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, BYTES, 5);
        kill(other, SIGUSR1);
    }
    free(data);
    return finish();
}
