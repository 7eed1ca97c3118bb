/* Loops over calls on windows that never wait. `change`: rank 0 reads its own memory in a loop until
 * another rank has changed it, which may need rank 0 to answer. `flood`: accumulates that start
 * faster than they travel fill no memory. */
#include "check.h"
#include <sys/resource.h>
#include <time.h>

enum { WAYS = 5, FLOOD = 500000, MAX_KILOBYTES = 64 << 10 };

static MPI_Win win;

/* Reads the own memory once. */
static int look(int way)
{
    int value = 0, done = 0;
    MPI_Request request;
    if (way < 2) {
        MPI_Get(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win);
        if (way == 0)
            MPI_Win_flush_local(rank, win);
        else
            MPI_Win_flush_local_all(win);
        return value;
    }
    MPI_Rget(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win, &request);
    if (way == 2)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    else if (way == 3)
        while (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    else
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    return value;
}

static void change(int *memory)
{
    for (int way = 0; way < WAYS; way++) {
        *memory = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        if (rank == 0) {
            while (look(way) == 0)
                continue;
        } else if (rank == 1) {
            struct timespec pause = {0, 20000000};
            int value = 1 + way;
            nanosleep(&pause, NULL);
            MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
            MPI_Win_flush(0, win);
        }
        MPI_Win_unlock_all(win);
        if (rank == 0)
            SAME(*memory, 1 + way);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static long peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void flood(int *memory)
{
    int one = 1;
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) {
        long before = peak();
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < FLOOD; i++)
            MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        CHECK(peak() - before < MAX_KILOBYTES, "%d accumulates took %ld KiB", FLOOD, peak() - before);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        SAME(*memory, FLOOD * (ranks - 1));
}

int main(int argc, char **argv)
{
    int *memory;
    start(&argc, &argv);
    CHECK(argc == 2 && ranks > 1, "usage: window_polls change|flood");
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (strcmp(argv[1], "change") == 0)
        change(memory);
    else
        flood(memory);
    MPI_Win_free(&win);
    return finish();
}
