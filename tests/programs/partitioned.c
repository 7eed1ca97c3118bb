/* Partitioned communication (MPI-5.0 chapter 4): sides that divide the data differently, partitions
 * in any order, restarts, derived types, several transfers with one tag, MPI_PROC_NULL, and wrong
 * calls. Each rank sends to the next one. */
#include "check.h"

static int next, before;

/* Element `at` of start `start`, from that rank. */
static int value(int from, int start, int at)
{
    return from * 1000003 + start * 10007 + at;
}

/* Partitions in an order that differs from start to start. */
static int shuffled(int at, int partitions, int start)
{
    int step = start % 2 ? partitions - 1 : 1;
    return (int)(((long long)at * step + start) % partitions);
}

/* `mine` partitions to `theirs`, both of `all` ints in all. */
static void divide(int mine, int theirs, int all, int starts)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int *out = allocate(all * sizeof(int)), *in = allocate(all * sizeof(int)), start, at, flag, left;
    MPI_Psend_init(out, mine, all / mine, MPI_INT, next, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, theirs, all / theirs, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Parrived(requests[1], 0, &flag);
    SAME(flag, 1);
    for (start = 0; start < starts; start++) {
        for (at = 0; at < all; at++)
            in[at] = -1;
        MPI_Startall(2, requests);
        for (at = 0; at < mine; at++) {
            int partition = shuffled(at, mine, start), each = all / mine, i;
            for (i = 0; i < each; i++)
                out[partition * each + i] = value(rank, start, partition * each + i);
            if (at == mine - 1 && ranks == 1) {
                /* The one that is not ready has not arrived. */
                MPI_Parrived(requests[1], (int)((long long)partition * each / (all / theirs)), &flag);
                SAME(flag, 0);
            }
            MPI_Pready(partition, requests[0]);
        }
        for (left = theirs; left > 0; left--) {
            int partition = shuffled(left - 1, theirs, start), each = all / theirs, i;
            for (flag = 0; !flag;)
                MPI_Parrived(requests[1], partition, &flag);
            for (i = partition * each; i < (partition + 1) * each; i++)
                SAME(in[i], value(before, start, i));
        }
        MPI_Waitall(2, requests, statuses);
        CHECK_STATUS(&statuses[1], before, 7, MPI_INT, all);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL, "a request is gone");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}

/* Without data, partitions arrive all the same. */
static void no_bytes(void)
{
    MPI_Request send, receive;
    int flag, i, start;
    MPI_Psend_init(NULL, 3, 0, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &send);
    MPI_Precv_init(NULL, 3, 0, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &receive);
    for (start = 0; start < 2; start++) {
        MPI_Start(&receive);
        MPI_Start(&send);
        for (i = 0; i < 3; i++) {
            MPI_Parrived(receive, i, &flag);
            SAME(flag, 0);
            MPI_Pready(i, send);
            while (!flag)
                MPI_Parrived(receive, i, &flag);
        }
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

/* Every second int of the receiver's buffer, whose partitions end inside of the sender's elements. */
static void derived(void)
{
    enum { ALL = 60 };
    MPI_Request requests[2];
    MPI_Datatype pair, spread;
    int out[ALL], in[2 * ALL], start, at;
    MPI_Type_vector(2, 1, 2, MPI_INT, &spread);
    MPI_Type_create_resized(spread, 0, 4 * sizeof(int), &pair);
    MPI_Type_commit(&pair);
    MPI_Psend_init_c(out, 20, 3, MPI_INT, next, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init_c(in, 6, 5, pair, before, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (start = 0; start < 3; start++) {
        memset(in, 0x55, sizeof in);
        for (at = 0; at < ALL; at++)
            out[at] = value(rank, start, at);
        MPI_Startall(2, requests);
        MPI_Pready_range(10, 19, requests[0]);
        MPI_Pready_list(10, (int[]){9, 0, 8, 1, 7, 2, 6, 3, 5, 4}, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (at = 0; at < 2 * ALL; at++)
            SAME(in[at], at % 2 ? 0x55555555 : value(before, start, at / 2));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&pair);
    MPI_Type_free(&spread);
}

/* Transfers with the same tag are matched in the order of their initialisations, and plain messages
 * of the same tag are others. */
static void order(void)
{
    enum { MANY = 5 };
    MPI_Request sends[MANY], receives[MANY], plain;
    int out[MANY], in[MANY], one = rank, other, i, start;
    for (i = 0; i < MANY; i++)
        MPI_Psend_init(&out[i], 1, 1, MPI_INT, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
    MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &plain);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < MANY; i++)
        MPI_Precv_init(&in[i], 1, 1, MPI_INT, before, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
    for (start = 0; start < 4; start++) {
        for (i = MANY - 1; i >= 0; i--) {
            out[i] = value(rank, start, i);
            MPI_Start(&sends[i]);
            MPI_Pready(0, sends[i]);
        }
        MPI_Startall(MANY, receives);
        MPI_Waitall(MANY, receives, MPI_STATUSES_IGNORE);
        MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
        for (i = 0; i < MANY; i++)
            SAME(in[i], value(before, start, i));
    }
    MPI_Send(&one, 1, MPI_INT, next, 9, MPI_COMM_WORLD);
    MPI_Wait(&plain, MPI_STATUS_IGNORE);
    SAME(other, before);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < MANY; i++) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
    }
}

/* The sender's wait ends although the receiver, whose receive is started before the sender exists,
 * is in another call. */
static void progress(int bytes)
{
    MPI_Request request;
    char *data = allocate(bytes);
    int token = 0;
    if (ranks < 2 || rank > 1)
        return;
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Psend_init(data, 2, bytes / 2, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        memset(data, 42, bytes);
        MPI_Start(&request);
        MPI_Pready_range(0, 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Precv_init(data, 3, bytes / 3, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(data[0] == 42 && data[bytes - 1] == 42, "the data is wrong");
    }
    MPI_Request_free(&request);
    free(data);
}

static void nowhere(void)
{
    MPI_Request requests[2];
    int one = 1, flag;
    MPI_Psend_init(&one, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(&one, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready(0, requests[0]);
    MPI_Parrived(requests[1], 0, &flag);
    SAME(flag, 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void failed(int code, int class, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int found, length;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    CHECK(found == class && strstr(text, words), "class %d, not %d; \"%s\" lacks \"%s\"", found, class, text,
          words);
}

static void wrong(void)
{
    MPI_Request send, receive, none = MPI_REQUEST_NULL;
    int data[6], flag;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    failed(MPI_Precv_init(data, 2, 3, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &receive), MPI_ERR_RANK,
           "MPI_ANY_SOURCE");
    failed(MPI_Precv_init(data, 2, 3, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_INFO_NULL, &receive), MPI_ERR_TAG,
           "MPI_ANY_TAG");
    failed(MPI_Psend_init(data, -1, 3, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_ARG, "-1");
    failed(MPI_Psend_init(data, 2, -3, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_COUNT, "-3");
    MPI_Psend_init(data, 3, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(data, 1, 5, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &receive);
    failed(MPI_Pready(0, send), MPI_ERR_REQUEST, "inactive");
    MPI_Start(&send);
    MPI_Start(&receive);
    failed(MPI_Pready(3, send), MPI_ERR_ARG, "must be 0 to 2");
    failed(MPI_Pready(0, receive), MPI_ERR_REQUEST, "not a partitioned send");
    failed(MPI_Pready_range(2, 1, send), MPI_ERR_ARG, "2 to 1");
    failed(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST, "not a partitioned receive");
    failed(MPI_Parrived(receive, 1, &flag), MPI_ERR_ARG, "must be 0 to 0");
    MPI_Pready(1, send);
    failed(MPI_Request_free(&send), MPI_ERR_REQUEST, "complete it first");
    failed(MPI_Request_free(&receive), MPI_ERR_REQUEST, "complete it first");
    failed(MPI_Pready_range(0, 2, send), MPI_ERR_ARG, "partition 1 is ready already");
    MPI_Pready(0, send);
    MPI_Pready(2, send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    failed(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "3 partitions of 8 bytes");
    MPI_Parrived(none, 0, &flag);
    SAME(flag, 1);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    divide(1, 1, 1, 3);
    divide(3, 3, 3, 5);
    divide(7, 5, 35, 20);
    divide(5, 7, 35, 20);
    divide(1, 11, 11, 5);
    divide(13, 1, 13, 5);
    divide(64, 48, 192 * 256, 5);
    divide(3, 2, 6 << 16, 3);
    no_bytes();
    derived();
    order();
    progress(600);
    progress(6 << 20);
    nowhere();
    wrong();
    return finish();
}
