/* Messages between two ranks arrive in the order sent, for every size, mode and protocol; also with
   all of them under way at once. */
#include "check.h"

enum { MANY = 400 };

static int length(int i)
{
    static const int lengths[] = {4, 100, 300000, 8, 5000, 70000, 4, 1000000, 16, 2000};
    return lengths[i % 10];
}

static void blocking(void)
{
    int *data = allocate(1000000), i;
    for (i = 0; i < MANY; i++) {
        if (rank == 0) {
            data[0] = i;
            if (i % 4 == 3)
                MPI_Ssend(data, length(i), MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            else
                MPI_Send(data, length(i), MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Status status;
            MPI_Recv(data, 1000000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            SAME(data[0], i);
            CHECK_STATUS(&status, 0, 1, MPI_BYTE, length(i));
        }
    }
    free(data);
}

/* All sends first; the receiver starts when the last has been posted, and
 * posts its receives all at once (`posted`) or one by one. */
static void all_at_once(int posted)
{
    enum { FEW = 60 };
    unsigned char *data[FEW];
    MPI_Request requests[FEW];
    MPI_Status status;
    int i, go = 0;
    if (rank > 1)
        return;
    for (i = 0; i < FEW; i++)
        data[i] = allocate(1000000);
    if (rank == 1 && posted)
        for (i = 0; i < FEW; i++)
            MPI_Irecv(data[i], 1000000, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    if (rank == 0) {
        for (i = 0; i < FEW; i++) {
            fill(data[i], length(i), i);
            if (i % 3 == 2)
                MPI_Issend(data[i], length(i), MPI_BYTE, 1, i % 2, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Isend(data[i], length(i), MPI_BYTE, 1, i % 2, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Send(&go, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        MPI_Waitall(FEW, requests, MPI_STATUSES_IGNORE);
    } else {
        if (!posted)
            MPI_Probe(0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (i = 0; i < FEW; i++) {
            if (posted)
                MPI_Wait(&requests[i], &status);
            else
                MPI_Recv(data[i], 1000000, MPI_BYTE, 0, i % 2, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, 0, i % 2, MPI_BYTE, length(i));
            CHECK_FILLED(data[i], length(i), i);
        }
        MPI_Recv(&go, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (i = 0; i < FEW; i++)
        free(data[i]);
}

/* Large messages in both directions at once, between all pairs. */
static void both_directions(int bytes)
{
    unsigned char **out = allocate(ranks * sizeof *out), **in = allocate(ranks * sizeof *in);
    MPI_Request *requests = allocate(2 * ranks * sizeof *requests);
    int other;
    for (other = 0; other < ranks; other++) {
        out[other] = allocate(bytes);
        in[other] = allocate(bytes);
        fill(out[other], bytes, rank * 1000 + other);
        MPI_Isend(out[other], bytes, MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[2 * other]);
        MPI_Irecv(in[other], bytes, MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[2 * other + 1]);
    }
    MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    for (other = 0; other < ranks; other++) {
        CHECK_FILLED(in[other], bytes, other * 1000 + rank);
        free(out[other]);
        free(in[other]);
    }
    free(out);
    free(in);
    free(requests);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (ranks > 1) {
        blocking();
        MPI_Barrier(MPI_COMM_WORLD);
        all_at_once(0);
        MPI_Barrier(MPI_COMM_WORLD);
        all_at_once(1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    both_directions(1000);
    both_directions(1000003);
    return finish();
}
