/* Generalized requests: completed by the program, by another thread, freed
 * before they are complete. */
#include "check.h"
#include <pthread.h>

struct state {
    int queried, freed, cancelled, cancel_argument;
};

static int query(void *extra, MPI_Status *status)
{
    struct state *state = extra;
    state->queried++;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, state->cancelled);
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 4;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    ((struct state *)extra)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    struct state *state = extra;
    state->cancel_argument = 1 + complete;
    state->cancelled = 1;
    return MPI_SUCCESS;
}

static void completed(void)
{
    struct state state = {0};
    MPI_Request request;
    MPI_Status status;
    int flag;
    MPI_Grequest_start(query, release, cancel, &state, &request);
    MPI_Test(&request, &flag, &status);
    SAME(flag, 0);
    SAME(state.queried, 0);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    SAME(flag, 1);
    SAME(state.freed, 0);
    MPI_Wait(&request, &status);
    CHECK(request == MPI_REQUEST_NULL, "the request is still there");
    CHECK_STATUS(&status, 17, 4, MPI_INT, 3);
    SAME(state.freed, 1);
}

static void cancelled(void)
{
    struct state state = {0};
    MPI_Request request;
    MPI_Status status;
    int flag;
    MPI_Grequest_start(query, release, cancel, &state, &request);
    MPI_Cancel(&request);
    SAME(state.cancel_argument, 1);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAME(flag, 1);
}

/* `free` runs when the request is both freed and complete, MPI-5.0 13.2. */
static void freed_first(void)
{
    struct state state = {0};
    MPI_Request request, kept;
    MPI_Grequest_start(query, release, cancel, &state, &request);
    kept = request;
    MPI_Request_free(&request);
    SAME(state.freed, 0);
    MPI_Grequest_complete(kept);
    SAME(state.freed, 1);
    SAME(state.queried, 0);
    MPI_Grequest_start(query, release, cancel, &state, &request);
    MPI_Grequest_complete(request);
    MPI_Request_free(&request);
    SAME(state.freed, 2);
}

static void *complete_it(void *argument)
{
    MPI_Grequest_complete(*(MPI_Request *)argument);
    return NULL;
}

/* Together with a message, completed by a thread while all wait. */
static void by_a_thread(void)
{
    struct state state = {0};
    MPI_Request requests[3], kept;
    MPI_Status statuses[3];
    pthread_t thread;
    int in = -1, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Irecv(&in, 1, MPI_INT, last, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Grequest_start(query, release, cancel, &state, &requests[2]);
    kept = requests[2];
    pthread_create(&thread, NULL, complete_it, &kept);
    MPI_Waitall(3, requests, statuses);
    pthread_join(thread, NULL);
    SAME(in, last);
    CHECK_STATUS(&statuses[2], 17, 4, MPI_INT, 3);
    SAME(state.freed, 1);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    let_errors_return();
    completed();
    cancelled();
    freed_first();
    if (provided == MPI_THREAD_MULTIPLE)
        for (int again = 0; again < 20; again++)
            by_a_thread();
    MPI_Request request;
    int value;
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    RAISES(MPI_ERR_REQUEST, MPI_Grequest_complete(request));
    RAISES(MPI_ERR_REQUEST, MPI_Grequest_complete(MPI_REQUEST_NULL));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return finish();
}
