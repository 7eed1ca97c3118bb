/* MPI_THREAD_MULTIPLE with more threads than processors: each thread of rank 0 sends windows to its
 * own thread of rank 1, and none falls back: when the first has sent all, the others have sent a
 * good part of theirs. On their own side of MPI they have all their processors, wherever they were
 * woken. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { WINDOWS = 60000, WINDOW = 16, MAX_LAG = 50, THREADS = 32 };

static atomic_int over;
static int sent[THREADS], all;

/* That this thread may run on. */
static int processors(void)
{
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0, "no processors");
    return CPU_COUNT(&set);
}

static void *windows(void *argument)
{
    int *count = argument, tag = (int)(count - sent), peer = 1 - rank, last = 0, data[WINDOW] = {0}, i;
    MPI_Request requests[WINDOW];
    for (*count = 0; !last; ++*count) {
        last = rank == 0 && (*count == WINDOWS - 1 || atomic_load(&over));
        for (i = 0; i < WINDOW; i++) {
            if (rank == 0) {
                data[i] = last;
                MPI_Isend(&data[i], 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &requests[i]);
            } else
                MPI_Irecv(&data[i], 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        SAME(processors(), all);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else {
            MPI_Send(NULL, 0, MPI_INT, peer, tag, MPI_COMM_WORLD);
            last = data[WINDOW - 1];
        }
    }
    atomic_store(&over, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t running[THREADS];
    int provided, threads, i;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(ranks, 2);
    all = processors();
    threads = all + 2;
    if (threads > THREADS)
        threads = THREADS;
    MPI_Bcast(&threads, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (i = 0; i < threads; i++)
        CHECK(pthread_create(&running[i], NULL, windows, &sent[i]) == 0, "cannot start a thread");
    for (i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    for (i = 0; i < threads && rank == 0; i++) {
        if (argc > 1)
            printf("thread %d sent %d windows\n", i, sent[i]);
        CHECK(sent[i] >= WINDOWS / MAX_LAG, "thread %d of %d has sent %d windows when another had sent %d", i, threads,
              sent[i], WINDOWS);
    }
    return finish();
}
