/* A number goes round the ring, blocking and nonblocking, small and large. */
#include "check.h"

static void once(int bytes)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2], status;
    fill(out, bytes, rank);
    MPI_Irecv(in, bytes, MPI_BYTE, before, bytes, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, next, bytes, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK_STATUS(&statuses[0], before, bytes, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, before);
    memset(in, 0, bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, before, 7, in, bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, next, 7, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, next);
    MPI_Sendrecv_replace(in, bytes, MPI_BYTE, next, 8, before, 8, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, before, 8, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, rank);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 8, 1000, 4096, 65536, 1 << 20, 5000001};
    int token = 0, i;
    start(&argc, &argv);
    if (ranks > 1) {
        if (rank > 0)
            MPI_Recv(&token, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % ranks, 1, MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Recv(&token, 1, MPI_INT, ranks - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            SAME(token, ranks * (ranks - 1) / 2);
        }
    }
    for (i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
        once(sizes[i]);
    return finish();
}
