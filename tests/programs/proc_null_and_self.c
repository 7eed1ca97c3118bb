/* MPI_PROC_NULL takes everything and gives nothing. A rank can send to itself, on WORLD and on
   SELF, in every mode, eager and rendezvous. */
#include "check.h"

static void proc_null(void)
{
    unsigned char data[10] = {1, 2, 3};
    MPI_Request requests[6];
    MPI_Status status, statuses[6];
    int i;
    MPI_Send(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Rsend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Bsend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    SAME(data[0], 1);
    MPI_Isend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irsend(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(data, 10, MPI_BYTE, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
    MPI_Recv_init(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[4]);
    MPI_Send_init(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[5]);
    MPI_Startall(2, &requests[4]);
    MPI_Waitall(6, requests, statuses);
    CHECK_STATUS(&statuses[3], MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    CHECK_STATUS(&statuses[4], MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    for (i = 4; i < 6; i++)
        MPI_Request_free(&requests[i]);
    MPI_Sendrecv(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, data, 0, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    MPI_Sendrecv_replace(data, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    SAME(data[2], 3);
}

static void self(MPI_Comm comm, int bytes)
{
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request send, receive;
    MPI_Status status;
    int me, there;
    MPI_Comm_rank(comm, &me);
    fill(out, bytes, bytes);
    /* receive first */
    MPI_Irecv(in, bytes, MPI_BYTE, me, 1, comm, &receive);
    MPI_Ssend(out, bytes, MPI_BYTE, me, 1, comm);
    MPI_Wait(&receive, &status);
    CHECK_STATUS(&status, me, 1, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, bytes);
    /* send first, found by a probe */
    memset(in, 0, bytes);
    MPI_Isend(out, bytes, MPI_BYTE, me, 2, comm, &send);
    for (there = 0; !there;)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
    CHECK_STATUS(&status, me, 2, MPI_BYTE, bytes);
    MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 2, comm, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    CHECK_FILLED(in, bytes, bytes);
    /* synchronous: not complete until received */
    MPI_Issend(out, bytes, MPI_BYTE, me, 3, comm, &send);
    MPI_Test(&send, &there, MPI_STATUS_IGNORE);
    CHECK(!there, "a synchronous send to oneself completed without a receive");
    memset(in, 0, bytes);
    MPI_Recv(in, bytes, MPI_BYTE, me, MPI_ANY_TAG, comm, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    CHECK_STATUS(&status, me, 3, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, bytes);
    memset(in, 0, bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, me, 4, in, bytes, MPI_BYTE, me, 4, comm, &status);
    CHECK_FILLED(in, bytes, bytes);
    MPI_Sendrecv_replace(in, bytes, MPI_BYTE, me, 5, me, 5, comm, &status);
    CHECK_STATUS(&status, me, 5, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, bytes);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 4000, 70000, 5000000};
    unsigned i;
    start(&argc, &argv);
    proc_null();
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        self(MPI_COMM_WORLD, sizes[i]);
        self(MPI_COMM_SELF, sizes[i]);
    }
    return finish();
}
