/* Cancel of receives, of sends that were received already (`late`), and of sends that no rank
   received (`sends`), in any state of the other side. */
#include "check.h"

enum { SMALL = 16, LARGE = 3000000 };

/* Completes the request and returns whether it was cancelled. */
static int was_cancelled(MPI_Request *request)
{
    MPI_Status status;
    int cancelled;
    MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(*request == MPI_REQUEST_NULL, "a cancelled request is not null after Wait");
    return cancelled;
}

static void receives(void)
{
    int value = -1, got = -1, partner = rank ^ 1;
    MPI_Request first, second;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &first);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &second);
    MPI_Cancel(&first);
    CHECK(first != MPI_REQUEST_NULL, "Cancel itself nulls the request");
    CHECK(was_cancelled(&first), "a receive that nobody matched is not cancelled");
    /* The message goes to the second receive, the first has left the queue. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, partner < ranks ? partner : rank, 1, NULL, 0, MPI_INT, MPI_PROC_NULL, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(!was_cancelled(&second), "a receive that matched counts as cancelled");
    SAME(got, partner < ranks ? partner : rank);
    SAME(value, -1);
}

/* Seed case 8: rank 0 sends, rank 1 does not receive, rank 0 cancels. */
static void unmatched_send(int bytes, int mode)
{
    unsigned char *data = allocate(bytes);
    MPI_Request request;
    int there;
    fill(data, bytes, 1);
    if (rank == 0) {
        if (mode == 0)
            MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        else if (mode == 1)
            MPI_Issend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        else {
            MPI_Send_init(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Iprobe(0, 2, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        CHECK(!there, "Iprobe found a tag that nobody sent");
        MPI_Iprobe(0, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        CHECK(there, "Iprobe misses a message that was sent before a barrier");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Status status;
        int cancelled;
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "a send of %d bytes that nobody received is not cancelled (mode %d)", bytes, mode);
        if (mode == 2)
            MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        CHECK(!there, "a cancelled message is still there");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
}

/* Seed case 9: the receiver has probed the message; if the cancel succeeds, a
 * later receive does not get it. */
static void send_that_was_probed(int bytes)
{
    unsigned char *data = allocate(bytes);
    MPI_Request request;
    int cancelled = 0;
    if (rank == 0) {
        fill(data, bytes, 1);
        MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Cancel(&request);
        cancelled = was_cancelled(&request);
        MPI_Send(&cancelled, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        fill(data, bytes, 9);
        MPI_Send(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else {
        if (rank == 1)
            MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Recv(&cancelled, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!cancelled) {
                MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK_FILLED(data, bytes, 1);
            }
            MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_FILLED(data, bytes, 9);
        }
    }
    free(data);
}

/* Too late: the message was matched, the cancel fails, the data is right. */
static void send_that_was_received(int bytes)
{
    unsigned char *data = allocate(bytes);
    MPI_Request request;
    int go = 0;
    if (rank == 0) {
        fill(data, bytes, 4);
        MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Recv(&go, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Cancel(&request);
        CHECK(!was_cancelled(&request), "a send was cancelled whose message had been received");
    } else if (rank == 1) {
        MPI_Request receive;
        MPI_Irecv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &receive);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Send(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        CHECK_FILLED(data, bytes, 4);
    }
    free(data);
}

/* Many cancels race with many receives: each message is either cancelled or
 * received, never both, never neither. */
static void race(void)
{
    enum { MANY = 200 };
    static int out[MANY], seen[MANY], cancelled[MANY];
    MPI_Request requests[MANY];
    int i, value, end = -1;
    if (rank == 0) {
        for (i = 0; i < MANY; i++) {
            out[i] = i;
            MPI_Isend(&out[i], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[i]);
        }
        for (i = 0; i < MANY; i++)
            MPI_Cancel(&requests[i]);
        for (i = 0; i < MANY; i++)
            cancelled[i] = was_cancelled(&requests[i]);
        MPI_Send(&end, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Send(cancelled, MANY, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        int last = -1;
        memset(seen, 0, sizeof seen);
        for (;;) {
            MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (value < 0)
                break;
            CHECK(value > last, "message %d came after %d", value, last);
            last = value;
            seen[value]++;
        }
        MPI_Recv(cancelled, MANY, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (i = 0; i < MANY; i++)
            SAME(seen[i] + cancelled[i], 1);
    }
}

/* The request of MPI_Cancel is IN: a copy of the handle does as well. */
static void give_up(MPI_Request copy)
{
    MPI_Cancel(&copy);
}

/* Each way to learn the outcome through the handle that was not given to MPI_Cancel. */
static void cancelled_through_a_copy(int bytes, int way)
{
    unsigned char *data = allocate(bytes);
    MPI_Request request, before;
    MPI_Status status;
    int cancelled = -1, index, done = 0;
    if (rank == 0) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        before = request;
        give_up(request);
        MPI_Cancel(&request);
        CHECK(request == before, "Cancel changes the request");
        if (way == 0)
            MPI_Wait(&request, &status);
        else if (way == 1)
            while (!done)
                MPI_Test(&request, &done, &status);
        else if (way == 2)
            MPI_Waitany(1, &request, &index, &status);
        else
            MPI_Waitall(1, &request, &status);
        CHECK(request == MPI_REQUEST_NULL, "a cancelled request is not null");
        MPI_Test_cancelled(&status, &cancelled);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&cancelled, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        int there;
        MPI_Iprobe(0, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        SAME(there, !cancelled);
        if (there)
            MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 sends the next message */
    free(data);
}

int main(int argc, char **argv)
{
    int mode, round;
    start(&argc, &argv);
    CHECK(argc == 2, "usage: cancel receives|late|sends");
    if (!strcmp(argv[1], "receives"))
        receives();
    for (round = 0; round < 20 && !strcmp(argv[1], "late"); round++) {
        send_that_was_received(SMALL);
        send_that_was_received(LARGE);
        race();
    }
    for (round = 0; round < 20 && !strcmp(argv[1], "sends"); round++) {
        send_that_was_probed(SMALL);
        send_that_was_probed(LARGE);
    }
    for (mode = 0; mode < 4 && !strcmp(argv[1], "sends"); mode++) {
        cancelled_through_a_copy(SMALL, mode);
        cancelled_through_a_copy(LARGE, mode);
    }
    for (mode = 0; mode < 3 && !strcmp(argv[1], "sends"); mode++) {
        unmatched_send(0, mode);
        unmatched_send(SMALL, mode);
        unmatched_send(LARGE, mode);
    }
    return finish();
}
