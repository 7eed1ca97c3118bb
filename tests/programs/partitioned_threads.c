/* Partitions that several threads fill and make ready at MPI_THREAD_MULTIPLE, while others wait for
 * partitions of the receiver's size and read them: each rank to the next one, again and again. */
#include "check.h"
#include <pthread.h>

enum { FILLERS = 3, READERS = 2, MINE = 15, THEIRS = 10, ALL = 30 * 64, STARTS = 60 };

static int out[ALL], in[ALL], round, before;
static MPI_Request requests[2];

static int value(int from, int at)
{
    return from * 1000003 + round * 10007 + at;
}

static void *make_ready(void *argument)
{
    int partition, i, each = ALL / MINE;
    for (partition = *(int *)argument; partition < MINE; partition += FILLERS) {
        for (i = partition * each; i < (partition + 1) * each; i++)
            out[i] = value(rank, i);
        MPI_Pready(partition, requests[0]);
    }
    return NULL;
}

static void *use(void *argument)
{
    int partition, i, flag, each = ALL / THEIRS;
    for (partition = THEIRS - 1 - *(int *)argument; partition >= 0; partition -= READERS) {
        for (flag = 0; !flag;)
            MPI_Parrived(requests[1], partition, &flag);
        for (i = partition * each; i < (partition + 1) * each; i++)
            SAME(in[i], value(before, i));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[FILLERS + READERS];
    int numbers[FILLERS + READERS], provided, i;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(provided, MPI_THREAD_MULTIPLE);
    before = (rank + ranks - 1) % ranks;
    MPI_Psend_init(out, MINE, ALL / MINE, MPI_INT, (rank + 1) % ranks, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(in, THEIRS, ALL / THEIRS, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (round = 0; round < STARTS; round++) {
        memset(in, 0, sizeof in);
        MPI_Startall(2, requests);
        for (i = 0; i < FILLERS + READERS; i++) {
            numbers[i] = i < FILLERS ? i : i - FILLERS;
            pthread_create(&threads[i], NULL, i < FILLERS ? make_ready : use, &numbers[i]);
        }
        /* One side waits while threads still make partitions ready. */
        MPI_Wait(&requests[round % 2], MPI_STATUS_IGNORE);
        for (i = 0; i < FILLERS + READERS; i++)
            pthread_join(threads[i], NULL);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    return finish();
}
