/* The Wait and Test families on active, inactive and null requests, and the
 * empty status. MPI-5.0 3.7.3 - 3.7.5. */
#include "check.h"

enum { MANY = 12 };

static void null_requests(void)
{
    MPI_Request none[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int flag = 0, index, count, i;
    MPI_Wait(&none[0], &status);
    CHECK_EMPTY(&status);
    MPI_Test(&none[0], &flag, &status);
    SAME(flag, 1);
    CHECK_EMPTY(&status);
    flag = 0;
    MPI_Request_get_status(none[0], &flag, &status);
    SAME(flag, 1);
    CHECK_EMPTY(&status);
    MPI_Waitall(3, none, statuses);
    for (i = 0; i < 3; i++)
        CHECK_EMPTY(&statuses[i]);
    flag = 0;
    MPI_Testall(3, none, &flag, statuses);
    SAME(flag, 1);
    MPI_Waitany(3, none, &index, &status);
    SAME(index, MPI_UNDEFINED);
    CHECK_EMPTY(&status);
    flag = 0;
    MPI_Testany(3, none, &index, &flag, &status);
    SAME(flag, 1);
    SAME(index, MPI_UNDEFINED);
    CHECK_EMPTY(&status);
    MPI_Waitsome(3, none, &count, &i, statuses);
    SAME(count, MPI_UNDEFINED);
    MPI_Testsome(3, none, &count, &i, statuses);
    SAME(count, MPI_UNDEFINED);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitany(0, NULL, &index, &status);
    SAME(index, MPI_UNDEFINED);
}

static void inactive_requests(void)
{
    MPI_Request request;
    MPI_Status status;
    int value = 0, flag = 0, elements, index, count, indices[1];
    MPI_Recv_init(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    MPI_Get_elements(&status, MPI_INT, &elements);
    SAME(elements, 0);
    CHECK_EMPTY(&status);
    MPI_Test(&request, &flag, &status);
    SAME(flag, 1);
    CHECK_EMPTY(&status);
    CHECK(request != MPI_REQUEST_NULL, "Test of an inactive request nulls it");
    MPI_Waitany(1, &request, &index, &status);
    SAME(index, MPI_UNDEFINED);
    MPI_Waitsome(1, &request, &count, indices, &status);
    SAME(count, MPI_UNDEFINED);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL, "a freed request is not null");
}

/* Rank 0 sends MANY messages one by one, each on request. */
static void serve(void)
{
    int i, which;
    for (i = 0; i < MANY; i++) {
        MPI_Recv(&which, 1, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&which, 1, MPI_INT, 1, which, MPI_COMM_WORLD);
    }
}

static void request_message(int which)
{
    MPI_Send(&which, 1, MPI_INT, 0, 99, MPI_COMM_WORLD);
}

static void post(int *values, MPI_Request *requests)
{
    int i;
    for (i = 0; i < MANY; i++) {
        values[i] = -1;
        MPI_Irecv(&values[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]);
    }
}

static void any(int by_test)
{
    MPI_Request requests[MANY];
    MPI_Status status;
    int values[MANY], i, index, flag, order;
    if (rank == 0)
        serve();
    if (rank != 1)
        return;
    post(values, requests);
    for (i = 0; i < MANY; i++) {
        order = (i * 5) % MANY;
        if (by_test) {
            MPI_Testany(MANY, requests, &index, &flag, &status);
            CHECK(!flag && index == MPI_UNDEFINED, "a receive completed that nobody sent to");
            request_message(order);
            do
                MPI_Testany(MANY, requests, &index, &flag, &status);
            while (!flag);
        } else {
            request_message(order);
            MPI_Waitany(MANY, requests, &index, &status);
        }
        SAME(index, order);
        SAME(values[index], order);
        CHECK_STATUS(&status, 0, order, MPI_INT, 1);
        CHECK(requests[index] == MPI_REQUEST_NULL, "Waitany leaves a completed request");
    }
    MPI_Waitany(MANY, requests, &index, &status);
    SAME(index, MPI_UNDEFINED);
}

static void some(int by_test)
{
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    int values[MANY], indices[MANY], i, count, done = 0;
    if (rank == 0)
        serve();
    if (rank != 1)
        return;
    post(values, requests);
    if (by_test) {
        MPI_Testsome(MANY, requests, &count, indices, statuses);
        SAME(count, 0);
    }
    for (i = 0; i < MANY; i++)
        request_message(MANY - 1 - i);
    while (done < MANY) {
        if (by_test)
            MPI_Testsome(MANY, requests, &count, indices, statuses);
        else
            MPI_Waitsome(MANY, requests, &count, indices, statuses);
        CHECK(by_test || count > 0, "Waitsome came back with %d", count);
        for (i = 0; i < count; i++) {
            CHECK_STATUS(&statuses[i], 0, indices[i], MPI_INT, 1);
            SAME(values[indices[i]], indices[i]);
        }
        done += count;
    }
    MPI_Waitsome(MANY, requests, &count, indices, statuses);
    SAME(count, MPI_UNDEFINED);
}

static void all(int by_test)
{
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    int values[MANY], i, flag = 0;
    if (rank == 0)
        serve();
    if (rank != 1)
        return;
    post(values, requests);
    for (i = 0; i < MANY; i++) {
        if (by_test) {
            MPI_Testall(MANY, requests, &flag, statuses);
            CHECK(!flag, "Testall is true with %d messages missing", MANY - i);
            CHECK(requests[0] != MPI_REQUEST_NULL, "a false Testall changed a request");
        }
        request_message((i * 7) % MANY);
    }
    if (by_test)
        while (!flag)
            MPI_Testall(MANY, requests, &flag, statuses);
    else
        MPI_Waitall(MANY, requests, statuses);
    for (i = 0; i < MANY; i++) {
        CHECK_STATUS(&statuses[i], 0, i, MPI_INT, 1);
        SAME(values[i], i);
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is not null", i);
    }
}

/* Request_get_status looks without freeing; Test takes it. */
static void look_then_take(void)
{
    MPI_Request request;
    MPI_Status status;
    int value = -1, flag = 0, looks;
    if (rank == 0)
        MPI_Ssend(&rank, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    if (rank != 1)
        return;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Request_get_status(request, &flag, &status);
    for (looks = 0; looks < 3; looks++) {
        MPI_Request_get_status(request, &flag, &status);
        SAME(flag, 1);
        CHECK_STATUS(&status, 0, 5, MPI_INT, 1);
    }
    MPI_Test(&request, &flag, &status);
    SAME(flag, 1);
    CHECK_STATUS(&status, 0, 5, MPI_INT, 1);
    CHECK(request == MPI_REQUEST_NULL, "Test leaves a completed request");
    SAME(value, 0);
}

/* Mixed arrays: null, active send, active receive; errors only in statuses. */
static void mixed_array(void)
{
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[4];
    int out = rank, in = -1, partner = rank ^ 1, cancelled;
    if (partner >= ranks)
        return;
    MPI_Isend(&out, 1, MPI_INT, partner, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&in, 1, MPI_INT, partner, 6, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    CHECK_EMPTY(&statuses[0]);
    CHECK_EMPTY(&statuses[2]);
    CHECK_STATUS(&statuses[3], partner, 6, MPI_INT, 1);
    MPI_Test_cancelled(&statuses[1], &cancelled);
    SAME(cancelled, 0);
    SAME(in, partner);
}

int main(int argc, char **argv)
{
    int by_test;
    start(&argc, &argv);
    null_requests();
    inactive_requests();
    if (ranks > 1)
        for (by_test = 0; by_test < 2; by_test++) {
            any(by_test);
            some(by_test);
            all(by_test);
            look_then_take();
        }
    mixed_array();
    return finish();
}
