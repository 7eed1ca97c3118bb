/* Messages and collectives without an end, until a test ends a rank, a host or the network:
 * victim [steps]. Each rank prints its process, then a line now and then. SIGUSR1 makes a rank exit
 * without MPI_Finalize, with code 7. Without a fault the program ends after the steps, or after a
 * minute. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 3000 };

static void leave(int signal)
{
    (void)signal;
    _exit(7);
}

static void compute(unsigned *luck)
{
    struct timespec time = {0, 0};
    *luck = *luck * 1664525u + 1013904223u;
    time.tv_nsec = (*luck >> 8) % 400000;
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    static int out[WORDS], in[WORDS];
    long steps = argc > 1 ? atol(argv[1]) : 0;
    time_t began = time(NULL);
    unsigned luck;
    start(&argc, &argv);
    luck = (unsigned)getpid();
    signal(SIGUSR1, leave);
    printf("rank %d is process %d\n", rank, (int)getpid());
    fflush(stdout);
    for (long step = 0; steps == 0 || step < steps; step++) {
        int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
        int words = step % 3 ? 1 : WORDS, sum = 0;
        out[0] = rank;
        MPI_Sendrecv(out, words, MPI_INT, next, 1, in, words, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(in[0], last);
        compute(&luck);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        SAME(sum, ranks * (ranks - 1) / 2);
        if (step % 4 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        if (step % 20 == 0)
            fprintf(stderr, "rank %d has done %ld steps\n", rank, step);
        CHECK(time(NULL) < began + 60, "no fault for a minute");
    }
    return finish();
}
