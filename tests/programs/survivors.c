/* Rank 1 dies, and the job goes on (mpiexec --on-failure continue): survivors WHEN [daemon], where
 * the others receive from it, are in a collective, poll, compute meanwhile, or receive a message
 * in the middle of which it dies. Operations with it
 * fail with MPI_ERR_PROC_ABORTED, pending and new ones; all others work, also in a communicator of
 * the survivors. With `daemon` it kills the process that started it, and with it its host. */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 300000, VICTIM = 1 };

static int large[LARGE];

static void is_lost(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(code != MPI_SUCCESS, "%s has succeeded", call);
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_PROC_ABORTED && strstr(text, "rank 1"), "%s: class %d: %s", call, class_of(code), text);
}

#define LOST(call) is_lost(call, #call)

static void die(int kills_daemon)
{
    struct timespec pause = {0, 200000000};
    nanosleep(&pause, NULL);
    kill(kills_daemon ? getppid() : getpid(), SIGKILL);
    for (;;)
        sleep(1);
}

/* Sends what it may read half of. */
static void die_in_a_message(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char *half = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(half + page, page, PROT_NONE);
    MPI_Send(half, 2 * page, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    FAIL("it has sent what it may not read");
}

static void wait_for_the_end(const char *when, MPI_Comm twin)
{
    int value = 0, flag = 0, sum;
    MPI_Request requests[3];
    if (strcmp(when, "receive") == 0) {
        MPI_Irecv(&sum, 1, MPI_INT, VICTIM, 2, twin, &requests[2]);
        MPI_Comm_free(&twin);
        MPI_Irecv(&value, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(large, LARGE, MPI_INT, VICTIM, 3, MPI_COMM_WORLD, &requests[1]);
        LOST(MPI_Recv(&value, 1, MPI_INT, VICTIM, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        LOST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        LOST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        LOST(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    } else if (strcmp(when, "message") == 0) {
        LOST(MPI_Recv(large, LARGE, MPI_INT, VICTIM, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (strcmp(when, "collective") == 0) {
        LOST(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    } else if (strcmp(when, "poll") == 0) {
        MPI_Irecv(&value, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD, &requests[0]);
        int code = MPI_SUCCESS;
        while (code == MPI_SUCCESS && !flag)
            code = MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        is_lost(code, "MPI_Test");
    } else {
        sleep(1);
        LOST(MPI_Recv(&value, 1, MPI_INT, VICTIM, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

/* Messages and collectives of the others. */
static void go_on(void)
{
    MPI_Group all, group;
    MPI_Comm rest;
    int victim = VICTIM, others, me, sum, value = -1;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &victim, &group);
    SAME(MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &rest), MPI_SUCCESS);
    MPI_Comm_size(rest, &others);
    MPI_Comm_rank(rest, &me);
    SAME(others, ranks - 1);
    for (int round = 0; round < 20; round++) {
        int next = (me + 1) % others, last = (me + others - 1) % others;
        SAME(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, rest), MPI_SUCCESS);
        SAME(sum, others * (others - 1) / 2);
        SAME(MPI_Sendrecv(&me, 1, MPI_INT, next, 5, &value, 1, MPI_INT, last, 5, rest, MPI_STATUS_IGNORE), MPI_SUCCESS);
        SAME(value, last);
        SAME(MPI_Barrier(rest), MPI_SUCCESS);
    }
    if (ranks > 2 && rank == 0)
        SAME(MPI_Send(large, LARGE, MPI_INT, ranks - 1, 9, MPI_COMM_WORLD), MPI_SUCCESS);
    if (ranks > 2 && rank == ranks - 1)
        SAME(MPI_Recv(large, LARGE, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    MPI_Comm_free(&rest);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
}

int main(int argc, char **argv)
{
    int value = 0, sum;
    MPI_Comm twin, copy;
    start(&argc, &argv);
    CHECK(argc > 1 && ranks > 1, "survivors receive|collective|poll|compute|message [daemon], on 2 ranks or more");
    let_errors_return();
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == VICTIM && strcmp(argv[1], "message") == 0)
        die_in_a_message();
    if (rank == VICTIM)
        die(argc > 2);
    wait_for_the_end(argv[1], twin);
    LOST(MPI_Send(&value, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD));
    LOST(MPI_Ssend(&value, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD));
    LOST(MPI_Recv(&value, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    LOST(MPI_Probe(VICTIM, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    LOST(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    LOST(MPI_Barrier(MPI_COMM_WORLD));
    LOST(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    LOST(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    go_on();
    return finish();
}
