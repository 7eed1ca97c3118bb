/* Many large messages between all at once, while no rank is in MPI: much has happened meanwhile
   that one call must find. */
#include "check.h"
#include <time.h>

enum { MANY = 100, BYTES = 65536 };

int main(int argc, char **argv)
{
    struct timespec pause = {0, 200000000};
    int other, i, count = 0;
    MPI_Request *requests;
    unsigned char *in, *out;
    start(&argc, &argv);
    requests = allocate(2 * MANY * ranks * sizeof *requests);
    in = allocate((size_t)MANY * ranks * BYTES);
    out = allocate((size_t)ranks * BYTES);
    for (other = 0; other < ranks; other++) {
        fill(out + (size_t)other * BYTES, BYTES, 100 * rank + other);
        for (i = 0; i < MANY; i++)
            MPI_Irecv(in + ((size_t)other * MANY + i) * BYTES, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD,
                      &requests[count++]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < MANY; i++)
        for (other = 0; other < ranks; other++)
            MPI_Isend(out + (size_t)other * BYTES, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[count++]);
    MPI_Testall(count, requests, &i, MPI_STATUSES_IGNORE);
    nanosleep(&pause, NULL);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (other = 0; other < ranks; other++)
        for (i = 0; i < MANY; i++)
            CHECK_FILLED(in + ((size_t)other * MANY + i) * BYTES, BYTES, 100 * other + rank);
    free(requests);
    free(in);
    free(out);
    return finish();
}
