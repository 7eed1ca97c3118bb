/* A rank dies in the middle of an access to shared memory, and the job goes on (mpiexec
 * --on-failure continue): accumulate_failure long|short|offer. It reads or writes memory that it
 * must not touch, so that it surely dies there: while it keeps others from the target's memory,
 * while it announces a processor atomic, or while it does what another rank has offered. The others
 * go on, and accumulates of theirs are whole. */
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { VICTIM = 1, COUNT = 512 };

static void *pages(size_t bytes, int protection)
{
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "mmap");
    return memory;
}

static int is_long;

static void accumulate(MPI_Win win, long *operands, int count)
{
    SAME(MPI_Accumulate(operands, count, MPI_LONG, 0, 0, count, MPI_LONG, MPI_SUM, win), MPI_SUCCESS);
}

/* Every survivor adds to what rank 0 has, long and short, after the victim has died. */
static void go_on(MPI_Win win, long *memory)
{
    enum { ROUNDS = 200 };
    long ones[COUNT], found[COUNT];
    int added = 0;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    sleep(1);
    for (int round = 0; round < ROUNDS; round++) {
        accumulate(win, ones, COUNT);
        accumulate(win, ones, 1);
    }
    SAME(MPI_Win_flush(0, win), MPI_SUCCESS);
    for (int other = 2; other < ranks; other++) {
        if (rank == other)
            SAME(MPI_Send(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD), MPI_SUCCESS);
        if (rank == 0)
            SAME(MPI_Recv(NULL, 0, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    if (rank > 0)
        return;
    added = ROUNDS * (ranks - 1);
    SAME(MPI_Get_accumulate(NULL, 0, MPI_LONG, found, COUNT, MPI_LONG, 0, 0, COUNT, MPI_LONG, MPI_NO_OP, win),
         MPI_SUCCESS);
    for (int i = 0; i < COUNT; i++)
        CHECK(found[i] == added * (i == 0 ? 2 : 1), "element %d is %ld", i, found[i]);
    CHECK(memory[1] == added, "the memory has %ld", memory[1]);
}

static void accumulates(void)
{
    long *memory;
    MPI_Win win;
    MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(memory, 0, COUNT * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    if (rank == VICTIM) {
        accumulate(win, pages(COUNT * sizeof(long), PROT_NONE), is_long ? COUNT : 1);
        FAIL("the operands were read");
    }
    go_on(win, memory);
    MPI_Win_unlock_all(win);
}

/* The victim does what rank 0 offers: in its second page, that cannot be. */
static void offer(void)
{
    enum { PAGE = COUNT * sizeof(long) };
    char value = 1, *memory = pages(2 * PAGE, PROT_READ | PROT_WRITE);
    MPI_Win win;
    int code = MPI_SUCCESS, flag;
    MPI_Win_create(memory, 2 * PAGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (rank == VICTIM)
        SAME(mprotect(memory + PAGE, PAGE, PROT_NONE), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    while (rank == VICTIM)
        MPI_Iprobe(0, 4, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int round = 0; round < 1000 && code == MPI_SUCCESS; round++) {
        code = MPI_Put(&value, 1, MPI_CHAR, VICTIM, round < 999 ? 0 : PAGE, 1, MPI_CHAR, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(VICTIM, win);
    }
    CHECK(code != MPI_SUCCESS && class_of(code) == MPI_ERR_PROC_ABORTED, "class %d", class_of(code));
    MPI_Win_unlock_all(win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc == 2 && ranks > 1, "usage: accumulate_failure long|short|offer");
    let_errors_return();
    is_long = strcmp(argv[1], "long") == 0;
    if (strcmp(argv[1], "offer") == 0)
        offer();
    else
        accumulates();
    if (rank == 0) {
        printf("ok\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
