/* Code that the multi-threaded programs share: thread i of rank 0 exchanges messages with thread i
 * of rank 1, all at once. A barrier of threads and a barrier of ranks stand between the warm-up and
 * the measurement, and all threads count from the same instant: where they share a processor,
 * waiting for it counts. */
#ifndef VERBENA_BENCH_THREADS_H
#define VERBENA_BENCH_THREADS_H

#include <pthread.h>

#include "window.h"

typedef struct thread_state {
    const bench_options *o;
    size_t size;
    int number;
    pthread_barrier_t *together;
    double *start;             /* when all were ready: the same for all */
    double took;               /* seconds of an iteration */
} thread_state;

/* MPI_Init for threads, or an end with a sentence. */
static inline void threads_init(int *argc, char ***argv) {
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) bench_end(3, "this MPI has no MPI_THREAD_MULTIPLE");
}

/* All threads of all ranks wait for each other. */
static inline void threads_synchronise(thread_state *thread) {
    pthread_barrier_wait(thread->together);
    if (thread->number == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        *thread->start = bench_now();
    }
    pthread_barrier_wait(thread->together);
}

/* Runs `body` on every thread for one message size; fills `all` with their times. */
static inline void threads_run(const bench_options *o, size_t size, void *(*body)(void *), thread_state *all) {
    pthread_t *threads = malloc(sizeof *threads * o->threads);
    pthread_barrier_t together;
    double start = 0;
    if (!threads) MPI_Abort(MPI_COMM_WORLD, 1);
    pthread_barrier_init(&together, NULL, o->threads);
    for (int i = 0; i < o->threads; i++) {
        all[i] = (thread_state){o, size, i, &together, &start, 0};
        if (pthread_create(&threads[i], NULL, body, &all[i])) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < o->threads; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    free(threads);
}

#endif
