/* Persistent requests: all four send modes, started many times, alone and by
 * Startall; inactive after completion, never null. */
#include "check.h"

typedef int (*Init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

enum { ROUNDS = 20 };

static void rounds(Init init, int mode, int bytes)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, round;
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Recv_init(in, bytes, MPI_BYTE, before, mode, MPI_COMM_WORLD, &requests[0]);
    init(out, bytes, MPI_BYTE, next, mode, MPI_COMM_WORLD, &requests[1]);
    for (round = 0; round < ROUNDS; round++) {
        fill(out, bytes, round * 100 + rank);
        memset(in, 0, bytes);
        MPI_Start(&requests[0]);
        MPI_Barrier(MPI_COMM_WORLD); /* so that a ready send finds its receive */
        MPI_Start(&requests[1]);
        MPI_Waitall(2, requests, statuses);
        CHECK_STATUS(&statuses[0], before, mode, MPI_BYTE, bytes);
        CHECK_FILLED(in, bytes, round * 100 + before);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL, "a persistent request became null");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}

static void many_by_startall(void)
{
    enum { MANY = 16 };
    int out[MANY], in[MANY], round, i, done, partner = rank ^ 1;
    MPI_Request requests[2 * MANY];
    if (partner >= ranks)
        partner = MPI_PROC_NULL;
    for (i = 0; i < MANY; i++) {
        MPI_Recv_init(&in[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Send_init(&out[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &requests[MANY + i]);
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < MANY; i++) {
            out[i] = round * 1000 + i + rank;
            in[i] = -1;
        }
        MPI_Startall(2 * MANY, requests);
        for (done = 0; !done;)
            MPI_Testall(2 * MANY, requests, &done, MPI_STATUSES_IGNORE);
        for (i = 0; i < MANY && partner != MPI_PROC_NULL; i++)
            SAME(in[i], round * 1000 + i + partner);
    }
    for (i = 0; i < 2 * MANY; i++)
        MPI_Request_free(&requests[i]);
}

/* Freed while active: the operation still completes. */
static void freed_while_active(void)
{
    int value = 77 + rank, got = -1;
    MPI_Request request;
    MPI_Send_init(&value, 1, MPI_INT, (rank + 1) % ranks, 50, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL, "a freed request is not null");
    MPI_Recv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(got, 77 + (rank + ranks - 1) % ranks);
    MPI_Barrier(MPI_COMM_WORLD); /* `value` was read by then */
}

int main(int argc, char **argv)
{
    static const Init inits[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};
    static const int sizes[] = {0, 40, 5000, 300000};
    void *buffer = allocate(1 << 20), *detached;
    int mode, i, size;
    start(&argc, &argv);
    MPI_Buffer_attach(buffer, 1 << 20);
    for (mode = 0; mode < 4; mode++)
        for (i = 0; i < 4; i++)
            rounds(inits[mode], mode, sizes[i]);
    many_by_startall();
    freed_while_active();
    MPI_Buffer_detach(&detached, &size);
    free(buffer);
    return finish();
}
