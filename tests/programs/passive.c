/* Passive targets outside of MPI: rank 0 computes until its window shows what the others did, so
 * that the program hangs if their operations need it. "create" adds windows over memory of the
 * program, created and attached, which need single copy. */
#include "check.h"

static void test_at(MPI_Win win, volatile long *memory, MPI_Aint at, int unit)
{
    long one = 1, before, value;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        while (*memory != ranks - 1)
            continue;
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int other = 1; other < ranks; other++)
            SAME(memory[other], 1000 + other);
        MPI_Win_unlock(0, win);
    } else {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        value = 1000 + rank;
        MPI_Put(&value, 1, MPI_LONG, 0, at + unit * rank, 1, MPI_LONG, win);
        MPI_Get(&before, 1, MPI_LONG, 0, at, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        before += one;
        MPI_Put(&before, 1, MPI_LONG, 0, at, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test(MPI_Win win, volatile long *memory)
{
    test_at(win, memory, 0, 1);
}

/* Memory that is attached, detached, and attached again elsewhere and at the same address. */
static void attached(MPI_Aint size)
{
    MPI_Win win;
    MPI_Aint at;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < 10; round++) {
        long *memory = calloc(1, size);
        MPI_Win_attach(win, memory, size);
        MPI_Get_address(memory, &at);
        MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
        test_at(win, memory, at, sizeof(long));
        MPI_Win_detach(win, memory);
        free(memory);
    }
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    long *base;
    MPI_Win win;
    start(&argc, &argv);
    MPI_Aint size = (ranks + 1) * sizeof(long);
    MPI_Win_allocate(size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    test(win, base);
    MPI_Win_free(&win);
    MPI_Win_allocate_shared(size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    test(win, base);
    MPI_Win_free(&win);
    if (argc > 1 && strcmp(argv[1], "create") == 0) {
        base = calloc(ranks + 1, sizeof(long));
        MPI_Win_create(base, size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        test(win, base);
        MPI_Win_free(&win);
        free(base);
        attached(size);
    }
    return finish();
}
