/* Many large messages between all at once, while no rank is in MPI: much has happened meanwhile
   that one call must find. Arguments: how many, how large, and how often. */
#include "check.h"
#include <time.h>

static int many, bytes;
static MPI_Request *requests;
static unsigned char *in, *out;

static void exchange(void)
{
    struct timespec pause = {0, 200000000};
    int other, i, count = 0;
    memset(in, 0, (size_t)many * ranks * bytes);
    for (other = 0; other < ranks; other++)
        for (i = 0; i < many; i++)
            MPI_Irecv(in + ((size_t)other * many + i) * bytes, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD,
                      &requests[count++]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < many; i++)
        for (other = 0; other < ranks; other++)
            MPI_Isend(out + (size_t)other * bytes, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[count++]);
    MPI_Testall(count, requests, &i, MPI_STATUSES_IGNORE);
    nanosleep(&pause, NULL);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (other = 0; other < ranks; other++)
        for (i = 0; i < many; i++)
            CHECK_FILLED(in + ((size_t)other * many + i) * bytes, bytes, 100 * other + rank);
}

int main(int argc, char **argv)
{
    int other, times;
    many = argc > 1 ? atoi(argv[1]) : 100;
    bytes = argc > 2 ? atoi(argv[2]) : 65536;
    start(&argc, &argv);
    requests = allocate(2 * many * ranks * sizeof *requests);
    in = allocate((size_t)many * ranks * bytes);
    out = allocate((size_t)ranks * bytes);
    for (other = 0; other < ranks; other++)
        fill(out + (size_t)other * bytes, bytes, 100 * rank + other);
    for (times = argc > 3 ? atoi(argv[3]) : 1; times > 0; times--)
        exchange();
    free(requests);
    free(in);
    free(out);
    return finish();
}
