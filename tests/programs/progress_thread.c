/* pt2pt.progress = "thread": a large message reaches a rank that computes, while its sender goes
   on. Collectives with the user's own reduction, which only the application's thread may call,
   complete. An idle second costs nothing. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { LARGE = 20000000, ROUNDS = 300 };

static pthread_t own;
static volatile double sink;

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        sink = sink * 0.5 + 1;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    CHECK(pthread_equal(own, pthread_self()), "a user's function runs on another thread");
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void a_large_message(void)
{
    unsigned char *data = allocate(LARGE);
    MPI_Request request;
    if (rank == 0)
        fill(data, LARGE, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double begin = MPI_Wtime();
        MPI_Ssend(data, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        double took = MPI_Wtime() - begin;
        CHECK(took < 0.7, "a send to a computing rank took %.2f s", took);
    } else if (rank == 1) {
        MPI_Irecv(data, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        compute(1.0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, LARGE, 5);
    }
    free(data);
}

static void reductions(void)
{
    MPI_Op op;
    MPI_Request request;
    int mine = rank, sum, i;
    MPI_Op_create(add, 1, &op);
    for (i = 0; i < ROUNDS; i++) {
        MPI_Iallreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
        if (i % 30 == 0)
            compute(0.003);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        SAME(sum, ranks * (ranks - 1) / 2);
    }
    MPI_Op_free(&op);
}

static void an_idle_second(void)
{
    struct rusage before, after;
    struct timespec second = {1, 0};
    MPI_Barrier(MPI_COMM_WORLD);
    getrusage(RUSAGE_SELF, &before);
    nanosleep(&second, NULL);
    getrusage(RUSAGE_SELF, &after);
    long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000
                + after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    CHECK(used < 50000, "an idle second took %ld us of a processor", used);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    own = pthread_self();
    a_large_message();
    reductions();
    an_idle_second();
    return finish();
}
