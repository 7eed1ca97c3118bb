/* Whether a receiver copies out of the memory of a sender that is away from MPI: single_copy read, or
 * single_copy refused where the system or shm.single_copy does not allow it. Then the message comes when the
 * sender is back. With single_copy taken the sender goes when the receiver has requested the data
 * in pieces, or has got some of them. Where no process may copy, nothing happens. */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 4000000, MANY = 16000000 };

static volatile sig_atomic_t is_called;

static void called(int number)
{
    (void)number;
    is_called = 1;
}

/* Memory that was never touched, at the receiver, if that is anywhere. */
static unsigned char *fresh(unsigned char *there)
{
    void *memory = mmap(there, MANY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (there ? MAP_FIXED : 0), -1, 0);
    CHECK(memory != MAP_FAILED, "no memory");
    return memory;
}

/* Away from MPI, until the other rank calls or the time is up. */
static void be_away(int tenths)
{
    while (!is_called && tenths-- > 0)
        usleep(100000);
}

/* Whether a byte of the other rank's memory can be read. */
static int may_copy(int other)
{
    char byte = 1, theirs;
    void *ours = &byte, *at;
    MPI_Sendrecv(&ours, sizeof ours, MPI_BYTE, 1 - rank, 4, &at, sizeof at, MPI_BYTE, 1 - rank, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    struct iovec to = {&theirs, 1}, from = {at, 1};
    int may = process_vm_readv(other, &to, 1, &from, 1, 0) == 1, both;
    MPI_Allreduce(&may, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return both;
}

/* The receiver waits in MPI. The sender goes when it has announced a message, and with tests > 0
   looked whether it has left. */
static void take(unsigned char *data, int bytes, int tests, int other)
{
    MPI_Request request;
    int done = 0;
    is_called = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fill(data, bytes, tests);
        usleep(1000); /* the receiver waits by now; if it does not, that is no harm */
        MPI_Isend(data, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
        while (tests-- > 0)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        be_away(300);
        CHECK(is_called, "nobody has taken the rest");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(data, 0, bytes);
    } else {
        MPI_Recv(data, bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        kill(other, SIGUSR1);
        CHECK_FILLED(data, bytes, tests);
    }
}

/* The sender goes before the receive begins. Next time other memory is at the same place. */
static void leave(unsigned char *data, int is_read, int round, int other)
{
    MPI_Request request;
    is_called = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        data = fresh(data);
        fill(data, BYTES, round);
        MPI_Isend(data, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
        kill(other, SIGUSR1);
        be_away(is_read ? 600 : 10);
        CHECK(is_called == is_read, is_read ? "nobody has read it" : "it was read");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        be_away(600);
    } else {
        be_away(600);
        MPI_Recv(data, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, BYTES, round);
        kill(other, SIGUSR1);
    }
}

int main(int argc, char **argv)
{
    int pid = (int)getpid(), other;
    unsigned char *data = fresh(NULL);
    signal(SIGUSR1, called);
    start(&argc, &argv);
    CHECK(argc == 2 && ranks == 2, "single_copy read|refused|taken, on 2 ranks");
    int is_read = !strcmp(argv[1], "read");
    MPI_Sendrecv(&pid, 1, MPI_INT, 1 - rank, 1, &other, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(argv[1], "taken")) {
        for (int round = 0; round < 20 && may_copy(other); round++) {
            take(data, 1 << 20, 0, other);
            take(data, BYTES, 0, other);
            take(data, MANY, 1 + round % 4, other);
        }
    }
    for (int round = 0; round < (is_read ? 20 : !strcmp(argv[1], "refused")); round++)
        leave(data, is_read, round, other);
    munmap(data, MANY);
    return finish();
}
