/* MPI_THREAD_MULTIPLE: threads exchange messages on one communicator, each with its own tag. Two
   run collectives on two communicators at once (seed case 22). Two wait for requests that the
   other's progress completes. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };

static MPI_Comm comms[THREADS];

static void *messages(void *argument)
{
    int tag = (int)(intptr_t)argument, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i, got;
    MPI_Request request;
    MPI_Status status;
    for (i = 0; i < ROUNDS; i++) {
        int value = i * 100 + tag;
        MPI_Irecv(&got, 1, MPI_INT, before, tag, MPI_COMM_WORLD, &request);
        MPI_Send(&value, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        CHECK_STATUS(&status, before, tag, MPI_INT, 1);
        SAME(got, value);
    }
    return NULL;
}

static void *collectives(void *argument)
{
    int which = (int)(intptr_t)argument, i, sum, value;
    for (i = 0; i < ROUNDS; i++) {
        value = i + which;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comms[which]);
        SAME(sum, ranks * (i + which));
        MPI_Barrier(comms[which]);
    }
    return NULL;
}

/* One thread waits for what the other, later, makes happen. */
static void *waits(void *argument)
{
    int got = -1;
    (void)argument;
    MPI_Recv(&got, 1, MPI_INT, rank, 900, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(got, rank);
    return NULL;
}

static void *probes(void *argument)
{
    int me = (int)(intptr_t)argument, i, got;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    for (i = 0; i < ROUNDS; i++) {
        MPI_Isend(&i, 1, MPI_INT, (rank + 1) % ranks, 500, MPI_COMM_WORLD, &request);
        MPI_Mprobe(MPI_ANY_SOURCE, 500, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
        CHECK(got >= 0 && got < ROUNDS, "thread %d got %d", me, got);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void run(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i) == 0, "cannot start a thread");
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The contents of MPI_INFO_ENV depend on the process: no call may lock itself out. */
static void started_with(void)
{
    MPI_Info copy;
    char level[MPI_MAX_INFO_VAL];
    int size = sizeof level, flag = 0;
    MPI_Info_dup(MPI_INFO_ENV, &copy);
    MPI_Info_get_string(copy, "thread_level", &size, level, &flag);
    CHECK(flag && !strcmp(level, "MPI_THREAD_MULTIPLE"), "MPI_INFO_ENV says \"%s\"", flag ? level : "");
    MPI_Info_free(&copy);
}

int main(int argc, char **argv)
{
    int provided, i;
    pthread_t waiter;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(provided, MPI_THREAD_MULTIPLE);
    started_with();
    for (i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    run(messages);
    run(collectives);
    run(probes);
    CHECK(pthread_create(&waiter, NULL, waits, NULL) == 0, "cannot start a thread");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, rank, 900, MPI_COMM_WORLD);
    pthread_join(waiter, NULL);
    for (i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish();
}
