/* Threads of a program that requests no thread level exchange messages at once (threads.multiple). */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, MESSAGES = 2000 };

static void *exchange(void *argument)
{
    int tag = *(int *)argument, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < MESSAGES; i++) {
        int out = i * THREADS + tag, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, next, tag, &in, 1, MPI_INT, before, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        SAME(in, out);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int tags[THREADS], level;
    start(&argc, &argv);
    MPI_Query_thread(&level);
    SAME(level, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&threads[i], NULL, exchange, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return finish();
}
