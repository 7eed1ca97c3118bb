/* One rank of a job fails in the way of the first argument; the second is the rank. The others wait
   for it; therefore a job that is not ended hangs. */
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

/* A signal in 200 ms, so that it meets the rank inside an MPI call. */
static void die_soon(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 200000}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static int delete_and_sleep(MPI_Comm comm, int keyval, void *value, void *state)
{
    int size;
    (void)keyval, (void)value, (void)state;
    MPI_Comm_size(comm, &size);
    sleep(100);
    return MPI_SUCCESS;
}

static int refuse_to_delete(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    return MPI_ERR_OTHER;
}

static void come_to_grief(const char *how, const char *number)
{
    static int value[8];
    if (!strcmp(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, atoi(number));
    else if (!strcmp(how, "abort-self"))
        MPI_Abort(MPI_COMM_SELF, atoi(number));
    else if (!strcmp(how, "exit"))
        exit(atoi(number));
    else if (!strcmp(how, "signal"))
        raise(atoi(number));
    else if (!strcmp(how, "die-in-recv")) {
        die_soon();
        MPI_Recv(value, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "die-in-send")) {
        die_soon();
        MPI_Ssend(value, 1, MPI_INT, (rank + 1) % ranks, 77, MPI_COMM_WORLD);
    } else if (!strcmp(how, "die-in-barrier")) {
        die_soon();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(how, "bad-rank"))
        MPI_Send(value, 1, MPI_INT, ranks + 3, 5, MPI_COMM_WORLD);
    else if (!strcmp(how, "bad-tag"))
        MPI_Send(value, 1, MPI_INT, 0, -9, MPI_COMM_WORLD);
    else if (!strcmp(how, "truncate")) {
        MPI_Request request;
        MPI_Isend(value, 8, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
        MPI_Recv(value, 2, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "named")) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_set_name(comm, "my own");
        MPI_Send(value, -4, MPI_INT, 0, 5, comm);
    } else if (!strcmp(how, "small-buffer")) {
        MPI_Buffer_attach(value, sizeof value);
        MPI_Bsend(value, 8, MPI_INT, 0, 5, MPI_COMM_WORLD);
    } else if (!strcmp(how, "in-place"))
        MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else if (!strcmp(how, "delete")) {
        MPI_Comm comm;
        int keyval;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_to_delete, &keyval, NULL);
        MPI_Comm_set_attr(comm, keyval, NULL);
        MPI_Comm_free(&comm);
    } else if (!strcmp(how, "child")) {
        if (system("sleep 300 >/dev/null 2>&1 </dev/null &") != 0)
            FAIL("cannot start a child");
        MPI_Abort(MPI_COMM_WORLD, atoi(number));
    } else if (!strcmp(how, "hang-in-callback")) {
        MPI_Comm comm;
        int keyval;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_and_sleep, &keyval, NULL);
        MPI_Comm_set_attr(comm, keyval, NULL);
        MPI_Comm_free(&comm);
    } else if (!strcmp(how, "hang"))
        for (;;)
            sleep(100);
    else if (!strcmp(how, "nothing"))
        return;
    else
        FAIL("unknown way to come to grief: %s", how);
}

int main(int argc, char **argv)
{
    int value;
    if (argc > 4 && !strcmp(argv[4], "deaf"))
        signal(SIGTERM, SIG_IGN);
    if (argc > 4 && !strcmp(argv[4], "after-session")) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Session_finalize(&session);
    } else if (argc > 4 && !strcmp(argv[4], "open-session")) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    }
    start(&argc, &argv);
    CHECK(argc >= 3, "usage: fatal HOW RANK [NUMBER]");
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[1], "large-window")) {
        void *memory;
        MPI_Win win;
        MPI_Aint size = rank == atoi(argv[2]) ? (MPI_Aint)1 << 50 : 0;
        MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    }
    if (rank == atoi(argv[2]))
        come_to_grief(argv[1], argc > 3 ? argv[3] : "0");
    else if (strcmp(argv[1], "nothing"))
        MPI_Recv(&value, 1, MPI_INT, atoi(argv[2]), 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return !strcmp(argv[1], "nothing") && rank == atoi(argv[2]) && argc > 3 ? atoi(argv[3]) : 0;
}
