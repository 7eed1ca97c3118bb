/* Programs that wait for long and then go on, although what their ranks wait for looks like a
 * deadlock: no_deadlock ("computing thread" | "sleeping thread" | itself | collective | tested | any |
 * stopped). mpiexec must neither call any of them a deadlock nor end it. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Longer than mpiexec takes to name a deadlock, in seconds. */
enum { LONG = 6 };

static int word;
static char *large;
static const int large_size = 1 << 20;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void compute(void)
{
    double end = now() + LONG;
    while (now() < end)
        ;
}

static void receive(int from)
{
    MPI_Recv(&word, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int to)
{
    MPI_Send(&word, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
}

/* A second thread of rank 0 sends what the first one, or rank 1, waits for: after it has computed,
 * or slept. */
struct late {
    int computes, to;
};

static void *send_late(void *argument)
{
    const struct late *late = argument;
    if (late->computes)
        compute();
    else
        sleep(LONG);
    send(late->to);
    return NULL;
}

static void beside_a_thread(struct late late)
{
    pthread_t thread;
    if (rank == 0) {
        CHECK(!pthread_create(&thread, NULL, send_late, &late), "no thread");
        receive(late.to);
        pthread_join(thread, NULL);
    } else if (rank == late.to) {
        receive(0);
        send(0);
    }
}

/* A broadcast that began early: it goes on while its rank waits for something else. */
static void beside_a_collective(void)
{
    static char data[32768];
    MPI_Request request;
    int parent = 2, leaf = 3;
    if (rank == 0)
        compute();
    MPI_Ibcast(data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    if (rank == parent)
        receive(leaf);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == leaf)
        send(parent);
}

/* A message that a test has not found is not what a later wait is for. */
static void after_a_test(void)
{
    MPI_Request request;
    int flag, size;
    void *buffer = malloc(large_size + MPI_BSEND_OVERHEAD);
    if (rank == 0) {
        MPI_Irecv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "the message came too early");
        MPI_Buffer_attach(buffer, large_size + MPI_BSEND_OVERHEAD);
        MPI_Bsend(large, large_size, MPI_BYTE, 2, 0, MPI_COMM_WORLD);
        MPI_Buffer_detach(&buffer, &size);
        send(1);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        receive(0);
        send(0);
    } else if (rank == 2) {
        compute();
        MPI_Recv(large, large_size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(buffer);
}

/* Another message ends the wait as well; its sender sleeps outside of MPI. */
static void for_any(void)
{
    MPI_Request requests[2];
    int index, words[2];
    if (rank == 0) {
        MPI_Irecv(&words[0], 1, MPI_INT, 2, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&words[1], 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        SAME(index, 0);
        send(1);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        receive(0);
        send(0);
    } else if (rank == 2) {
        sleep(LONG);
        send(0);
    }
}

/* A rank that was stopped does not know yet that its message has arrived. */
static void while_stopped(void)
{
    int pid = (int)getpid();
    if (rank == 0) {
        MPI_Send(&pid, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        receive(1);
        send(1);
    } else if (rank == 1) {
        MPI_Recv(&pid, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sleep(1);
        kill(pid, SIGSTOP);
        if (!fork()) {
            sleep(LONG);
            kill(pid, SIGCONT);
            _exit(0);
        }
        send(0);
        receive(0);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *cases[] = {"computing thread", "sleeping thread", "itself"};
    const struct late late[] = {{1, 1}, {0, 1}, {0, 0}};
    int provided, i, threads = -1;
    for (i = 0; i < 3; i++)
        threads = strcmp(what, cases[i]) ? threads : i;
    MPI_Init_thread(&argc, &argv, threads < 0 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    large = calloc(1, large_size);
    if (threads >= 0)
        beside_a_thread(late[threads]);
    else if (!strcmp(what, "collective"))
        beside_a_collective();
    else if (!strcmp(what, "tested"))
        after_a_test();
    else if (!strcmp(what, "any"))
        for_any();
    else if (!strcmp(what, "stopped"))
        while_stopped();
    else
        FAIL("no such case: %s", what);
    free(large);
    return finish();
}
