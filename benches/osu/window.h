/* Code that the bandwidth and rate programs share: a window of messages in flight from one rank to
 * another, and the answer that ends it. */
#ifndef VERBENA_BENCH_WINDOW_H
#define VERBENA_BENCH_WINDOW_H

#include "common.h"

enum { DATA = 100, ANSWER = 200 }; /* tags; each thread adds its number */

/* As many requests as twice the window. */
static inline MPI_Request *window_requests(const bench_options *o) {
    MPI_Request *requests = malloc(2 * sizeof *requests * o->window);
    if (!requests) MPI_Abort(MPI_COMM_WORLD, 1);
    return requests;
}

/* Where message `i` lies. All share one place, unless they are checked. */
static inline size_t window_slot(const bench_options *o, size_t size, int i) { return o->check ? i * size : 0; }

static inline unsigned char *window_buffer(const bench_options *o) {
    return bench_buffer(o->check ? o->max * o->window : o->max);
}

static inline void window_send(const bench_options *o, unsigned char *data, size_t size, int round, int peer,
                               int thread, MPI_Comm comm, MPI_Request *requests) {
    for (int i = 0; i < o->window; i++) {
        unsigned char *slot = data + window_slot(o, size, i);
        if (o->check) bench_fill(slot, size, round * o->window + i);
        MPI_Isend(slot, (int)size, MPI_CHAR, peer, DATA + thread, comm, &requests[i]);
    }
}

static inline void window_receive(const bench_options *o, unsigned char *data, size_t size, int peer, int thread,
                                  MPI_Comm comm, MPI_Request *requests) {
    for (int i = 0; i < o->window; i++)
        MPI_Irecv(data + window_slot(o, size, i), (int)size, MPI_CHAR, peer, DATA + thread, comm, &requests[i]);
}

static inline void window_verify(const bench_options *o, const unsigned char *data, size_t size, int round) {
    for (int i = 0; o->check && i < o->window; i++)
        bench_verify(data + window_slot(o, size, i), size, round * o->window + i);
}

/* One window from the sender to the receiver and its answer; returns when both have it. */
static inline void window_pass(const bench_options *o, unsigned char *data, size_t size, int round, int sender,
                               int peer, int thread, MPI_Comm comm, MPI_Request *requests) {
    char answer[4] = {0};
    if (sender) window_send(o, data, size, round, peer, thread, comm, requests);
    else window_receive(o, data, size, peer, thread, comm, requests);
    MPI_Waitall(o->window, requests, MPI_STATUSES_IGNORE);
    if (sender) MPI_Recv(answer, 4, MPI_CHAR, peer, ANSWER + thread, comm, MPI_STATUS_IGNORE);
    else window_verify(o, data, size, round), MPI_Send(answer, 4, MPI_CHAR, peer, ANSWER + thread, comm);
}

#endif
