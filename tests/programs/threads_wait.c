/* MPI_THREAD_MULTIPLE: a waiting thread may be satisfied by another thread of its process, in any
 * call, without an event of the transport. A lost wake-up hangs; the table's time limit finds
 * it. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 200, WAITERS = 8, LARGE = 3000000 };

static void nap(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void with_partner(void *(*partner)(void *), void (*body)(void))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, partner, NULL) == 0, "cannot start a thread");
    body();
    pthread_join(thread, NULL);
}

/* A receive from oneself, a probe, a synchronous send: each is answered by a
 * thread that sleeps now and then before it acts, so that the waiter sleeps too. */
static void *answers(void *nothing)
{
    int i, got;
    (void)nothing;
    for (i = 0; i < ROUNDS; i++) {
        if (i % 20 == 0)
            nap(10000);
        MPI_Send(&i, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
        MPI_Send(&i, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(got, i);
    }
    return NULL;
}

static void questions(void)
{
    int i, got;
    MPI_Status status;
    for (i = 0; i < ROUNDS; i++) {
        MPI_Recv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(got, i);
        MPI_Probe(rank, 2, MPI_COMM_WORLD, &status);
        MPI_Recv(&got, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ssend(&i, 1, MPI_INT, rank, 3, MPI_COMM_WORLD);
    }
}

static MPI_Request generalized;
static pthread_barrier_t together;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
static int release(void *state) { (void)state; return MPI_SUCCESS; }
static int cancel(void *state, int complete) { (void)state; (void)complete; return MPI_SUCCESS; }

static void *completes(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request mine;
        pthread_barrier_wait(&together);
        mine = generalized;
        pthread_barrier_wait(&together);
        if (i % 20 == 0)
            nap(10000);
        MPI_Grequest_complete(mine);
    }
    return NULL;
}

static void waits_for_generalized(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Grequest_start(query, release, cancel, NULL, &generalized);
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
        MPI_Wait(&generalized, MPI_STATUS_IGNORE);
    }
}

/* The other thread only tests: its progress completes what this one waits for. */
static int done;

static void *tests(void *nothing)
{
    int flag, dummy;
    MPI_Request request;
    (void)nothing;
    MPI_Irecv(&dummy, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &request);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Send(&dummy, 1, MPI_INT, rank, 4, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return NULL;
}

static void exchanges(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, next, 5, &got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(got, i);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
}

/* One thread sleeps in MPI; another fills the way to the next rank and leaves
 * MPI. The sleeper has to see to it that the rest leaves too. */
static void *sleeper(void *nothing)
{
    int got;
    (void)nothing;
    MPI_Recv(&got, 1, MPI_INT, (rank + 1) % ranks, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void fills(void)
{
    enum { MANY = 2000, BYTES = 2000 };
    static MPI_Request sends[MANY + 1];
    static unsigned char data[BYTES];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i;
    unsigned char *large = allocate(LARGE), *in = allocate(LARGE);
    fill(large, LARGE, 9);
    nap(20000);
    for (i = 0; i < MANY; i++)
        MPI_Isend(data, BYTES, MPI_BYTE, next, 7, MPI_COMM_WORLD, &sends[i]);
    MPI_Isend(large, LARGE, MPI_BYTE, next, 8, MPI_COMM_WORLD, &sends[MANY]);
    nap(50000);
    for (i = 0; i < MANY; i++)
        MPI_Recv(data, BYTES, MPI_BYTE, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, LARGE, MPI_BYTE, before, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_FILLED(in, LARGE, 9);
    MPI_Send(&i, 1, MPI_INT, before, 6, MPI_COMM_WORLD);
    MPI_Waitall(MANY + 1, sends, MPI_STATUSES_IGNORE);
    free(large), free(in);
}

/* Many waiters, answered one by one in another order. */
static void *waits_among_many(void *argument)
{
    int me = (int)(intptr_t)argument, got;
    MPI_Request requests[2];
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % ranks, 100 + me, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&i, 1, MPI_INT, (rank + ranks - 1) % ranks, 100 + me, MPI_COMM_WORLD, &requests[1]);
        if (me % 2)
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        else
            for (int k = 0, which; k < 2; k++)
                MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
        SAME(got, i);
    }
    return NULL;
}

/* Many threads that wait for long use no processor. */
static void *waits_for_long(void *argument)
{
    int got;
    MPI_Recv(&got, 1, MPI_INT, rank, 200 + (int)(intptr_t)argument, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void many_waiters(void *(*body)(void *), void (*meanwhile)(void))
{
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i) == 0, "cannot start a thread");
    if (meanwhile)
        meanwhile();
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
}

static void idle_second(void)
{
    nap(100000);
    double before = cpu_seconds();
    nap(1000000);
    double used = cpu_seconds() - before;
    CHECK(used < 0.05, "waiting for a second took %.3f s of a processor", used);
    for (int i = WAITERS; i-- > 0;)
        MPI_Send(&i, 1, MPI_INT, rank, 200 + i, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(provided, MPI_THREAD_MULTIPLE);
    pthread_barrier_init(&together, NULL, 2);
    with_partner(answers, questions);
    with_partner(completes, waits_for_generalized);
    with_partner(tests, exchanges);
    with_partner(sleeper, fills);
    many_waiters(waits_among_many, NULL);
    many_waiters(waits_for_long, idle_second);
    return finish();
}
