/* MPI_THREAD_MULTIPLE with more threads than processors: the thread that owns the time slice
 * computes, sleeps until another thread wakes it, only tests, or ends. It cannot give its slice
 * away then, and the others proceed all the same; soon, when it was away before. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { BEFORE = 300, ENOUGH = 100, MOST_SECONDS = 5, THREADS = 32, NEVER = 1000 };
/* Calls of one that leaves for AWAY us after each. Of so many calls the others proceed in at least
   as many, in one attempt of these. */
enum { CALLS = 120, AWAY = 3500, LEAST = CALLS / 6, TRIALS = 8 };

static atomic_int over, exchanged;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t enough = PTHREAD_COND_INITIALIZER;
static int verbose;

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Rank 0 sends a question and the same thread of rank 1 answers; both know from the question
   whether it is the last one. */
static int exchange(int tag, int last)
{
    int answer;
    if (rank == 0) {
        MPI_Send(&last, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
        MPI_Recv(&answer, 1, MPI_INT, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(answer, last);
    } else {
        MPI_Recv(&last, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&last, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    }
    return last;
}

static void *others(void *argument)
{
    int tag = *(int *)argument;
    while (!exchange(tag, atomic_load(&over)))
        if (atomic_fetch_add(&exchanged, 1) == ENOUGH) {
            pthread_mutex_lock(&lock);
            pthread_cond_signal(&enough);
            pthread_mutex_unlock(&lock);
        }
    return NULL;
}

static int got_on(void) { return atomic_load(&exchanged) > ENOUGH; }

static void computes(double end)
{
    while (!got_on() && seconds() < end)
        ;
}

static void sleeps(double end)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(end - seconds()) + 1;
    pthread_mutex_lock(&lock);
    while (!got_on() && pthread_cond_timedwait(&enough, &lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lock);
}

static void tests(double end)
{
    int nothing, flag = 0;
    MPI_Request request;
    MPI_Irecv(&nothing, 1, MPI_INT, rank, NEVER, MPI_COMM_WORLD, &request);
    while (!got_on() && seconds() < end)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    SAME(flag, 0);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void others_get_on(const char *holder, void (*meanwhile)(double))
{
    double begun = seconds();
    atomic_store(&exchanged, 0);
    meanwhile(begun + MOST_SECONDS);
    CHECK(got_on(), "while a thread that has had its turn %s, the others exchange %d messages in %d s", holder,
          atomic_load(&exchanged), MOST_SECONDS);
    if (verbose)
        printf("%s: %.1f ms\n", holder, (seconds() - begun) * 1e3);
}

/* A call now and then, on both ranks at once. After how many of them others got on, on the rank where it was the fewest. */
static int calls_and_leaves(int tag)
{
    int call, before, fewest, soon = 0;
    for (call = 0; call < CALLS; call++) {
        exchange(tag, 0);
        before = atomic_load(&exchanged);
        usleep(AWAY);
        soon += atomic_load(&exchanged) > before + 1;
    }
    MPI_Allreduce(&soon, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (verbose)
        printf("rank %d calls and leaves: others got on after %d of %d calls\n", rank, soon, CALLS);
    return fewest;
}

/* Has the time slice, most likely, whenever it has communicated for long. */
static void *holder(void *argument)
{
    static const struct { const char *name; void (*body)(double); } holders[] = {
        {"computes", computes}, {"sleeps", sleeps}, {"tests", tests}, {"sleeps again", sleeps}};
    int tag = *(int *)argument, at, i, fewest = 0;
    for (at = 0; at < 4; at++) {
        for (i = 0; i < BEFORE; i++)
            exchange(tag, 0);
        if (rank == 0)
            others_get_on(holders[at].name, holders[at].body);
    }
    for (i = 0; i < TRIALS && fewest < LEAST; i++)
        fewest = calls_and_leaves(tag);
    CHECK(fewest >= LEAST, "a thread leaves MPI %d times for %d us, and others get on in %d of them at most", CALLS, AWAY,
          fewest);
    exchange(tag, 1);
    return NULL;
}

static void naps(double end)
{
    while (!got_on() && seconds() < end)
        usleep(1000);
}

int main(int argc, char **argv)
{
    pthread_t running[THREADS];
    int tags[THREADS], provided, threads, i;
    verbose = argc > 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(ranks, 2);
    threads = (int)sysconf(_SC_NPROCESSORS_ONLN) + 2;
    if (threads > THREADS)
        threads = THREADS;
    MPI_Bcast(&threads, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (i = 0; i < threads; i++) {
        tags[i] = i;
        CHECK(pthread_create(&running[i], NULL, i ? others : holder, &tags[i]) == 0, "cannot start a thread");
    }
    pthread_join(running[0], NULL);
    if (rank == 0)
        others_get_on("has ended", naps);
    atomic_store(&over, 1);
    for (i = 1; i < threads; i++)
        pthread_join(running[i], NULL);
    return finish();
}
