/* Seed cases 6, 7 and 10: messages sent before Finalize arrive, in every send mode; and code after
   Finalize runs on rank 0. */
#include "check.h"

enum { BYTES = 3000000 };

int main(int argc, char **argv)
{
    unsigned char *data = allocate(BYTES), *more = allocate(BYTES), *buffer = allocate(BYTES + 4 * MPI_BSEND_OVERHEAD + 100);
    MPI_Request request;
    int next, before, bytes;
    start(&argc, &argv);
    CHECK(argc == 3, "usage: finalize send|isend|bsend BYTES");
    bytes = atoi(argv[2]);
    CHECK(bytes <= BYTES, "too many bytes");
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    fill(data, bytes, rank);
    if (!strcmp(argv[1], "isend")) {
        MPI_Isend(data, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (!strcmp(argv[1], "bsend")) {
        MPI_Buffer_attach(buffer, BYTES + 4 * MPI_BSEND_OVERHEAD + 100);
        MPI_Bsend(data, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
        memset(data, 0, bytes);
    } else if (rank % 2 == 0 && rank + 1 < ranks) {
        MPI_Send(data, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
    }
    /* The odd ranks receive as their last act, the even ones are in Finalize. */
    if (strcmp(argv[1], "send") || rank % 2 == 1) {
        MPI_Recv(more, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(more, bytes, before);
    }
    MPI_Finalize();
    free(buffer);
    free(data);
    free(more);
    if (rank == 0) {
        FILE *out = tmpfile();
        if (!out || fprintf(out, "alive\n") < 0 || fclose(out))
            return 1;
        printf("ok\n");
    }
    return 0;
}
