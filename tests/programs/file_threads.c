/* Threads that wait for nonblocking accesses and for messages at once: each wait ends when its own
 * operation does. */
#include "scratch_file.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 200, BYTES = 5000 };

static MPI_File file;
static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int thread = *(int *)argument, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got;
    unsigned char out[BYTES], in[BYTES];
    MPI_Offset at = (MPI_Offset)(rank * THREADS + thread) * BYTES;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request requests[2];
        MPI_Status status;
        fill(out, BYTES, (uint64_t)(i * 100 + thread * 10 + rank));
        DO(MPI_File_iwrite_at(file, at, out, BYTES, MPI_BYTE, &requests[0]));
        MPI_Irecv(&got, 1, MPI_INT, before, i, comms[thread], &requests[1]);
        MPI_Send(&i, 1, MPI_INT, next, i, comms[thread]);
        DO(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        SAME(got, i);
        DO(MPI_File_iread_at(file, at, in, BYTES, MPI_BYTE, &requests[0]));
        DO(MPI_Wait(&requests[0], &status));
        COUNT_IS(&status, MPI_BYTE, BYTES);
        CHECK_FILLED(in, BYTES, (uint64_t)(i * 100 + thread * 10 + rank));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    SAME(provided, MPI_THREAD_MULTIPLE);
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("threads"),
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&comms[i]);
    }
    DO(MPI_File_close(&file));
    return finish();
}
