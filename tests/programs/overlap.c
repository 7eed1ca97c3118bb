/* Seed case 2: computing between the start of a transfer and its Wait. Seed
 * case 4: Wait on a buffered send needs no receive, and frees the buffer. */
#include "check.h"

static double work(int rounds)
{
    volatile double x = 1;
    int i;
    for (i = 0; i < rounds * 1000; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

static void overlap(int bytes)
{
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request requests[2];
    int partner = rank ^ 1, round;
    if (partner >= ranks)
        partner = MPI_PROC_NULL;
    for (round = 0; round < 5; round++) {
        fill(out, bytes, rank + round);
        MPI_Irecv(in, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[1]);
        CHECK(work(100) > 0, "no work");
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (partner != MPI_PROC_NULL)
            CHECK_FILLED(in, bytes, partner + round);
    }
    free(out);
    free(in);
}

static void buffered_completes_alone(int bytes)
{
    int size, go = 0;
    void *buffer = allocate(bytes + MPI_BSEND_OVERHEAD), *detached;
    unsigned char *data = allocate(bytes);
    MPI_Request request;
    if (rank == 0) {
        MPI_Buffer_attach(buffer, bytes + MPI_BSEND_OVERHEAD);
        fill(data, bytes, 8);
        MPI_Ibsend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(data, 0, bytes);
        MPI_Send(&go, 1, MPI_INT, 1, 2, MPI_COMM_WORLD); /* only now may it be received */
        MPI_Buffer_detach(&detached, &size);             /* waits until it has left */
        memset(buffer, 0, bytes);
    } else if (rank == 1) {
        MPI_Recv(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, bytes, 8);
    }
    free(data);
    free(buffer);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    overlap(100);
    overlap(100000);
    overlap(4000000);
    if (ranks > 1) {
        buffered_completes_alone(10);
        buffered_completes_alone(200000);
        buffered_completes_alone(3000000);
    }
    return finish();
}
