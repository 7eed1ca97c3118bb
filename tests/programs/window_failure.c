/* Rank 1 dies while others wait for it in a call on a window, and the job goes on (mpiexec
 * --on-failure continue): window_failure WHEN memory|messages, by which of both locks and accesses
 * go. Every call that waits for it fails with MPI_ERR_PROC_ABORTED and names it. A new window of
 * the survivors works. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { VICTIM = 1, COUNT = 20000 };

static int memory[COUNT], local[COUNT], by_memory;
static MPI_Win win;

static void is_lost(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(code != MPI_SUCCESS, "%s has succeeded", call);
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_PROC_ABORTED && strstr(text, "rank 1"), "%s: class %d: %s", call, class_of(code), text);
}

#define LOST(call) is_lost(call, #call)

/* Waits until the others wait, most likely, and dies: also in a call that never returns. */
static void die(int in_call)
{
    struct timespec pause = {0, 200000000};
    if (in_call) {
        signal(SIGALRM, SIG_DFL);
        alarm(1);
        return;
    }
    nanosleep(&pause, NULL);
    raise(SIGKILL);
}

static MPI_Group alone(int member)
{
    MPI_Group all, group;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &member, &group);
    MPI_Group_free(&all);
    return group;
}

/* The victim's part of each case; returns in none. */
static void fail(const char *when)
{
    if (strcmp(when, "held") == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(when, "queue") == 0) {
        die(1);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        FAIL("the lock of rank 0 was free");
    }
    die(0);
}

static void put(int target, int count)
{
    SAME(MPI_Put(local, count, MPI_INT, target, 0, count, MPI_INT, win), MPI_SUCCESS);
}

/* What the others do. */
static void wait_for_the_end(const char *when)
{
    MPI_Group victim = alone(VICTIM);
    if (strcmp(when, "queue") == 0 && rank == 0)
        SAME(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win), MPI_SUCCESS);
    if (strcmp(when, "unlock") == 0)
        SAME(MPI_Win_lock(MPI_LOCK_SHARED, VICTIM, 0, win), MPI_SUCCESS);
    if (strcmp(when, "unlock_all") == 0)
        SAME(MPI_Win_lock_all(0, win), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(when, "fence") == 0) {
        LOST(MPI_Win_fence(0, win));
    } else if (strcmp(when, "start") == 0) {
        LOST(MPI_Win_start(victim, 0, win));
    } else if (strcmp(when, "wait") == 0) {
        int code = MPI_Win_post(victim, 0, win);
        is_lost(code == MPI_SUCCESS ? MPI_Win_wait(win) : code, "MPI_Win_wait");
    } else if (strcmp(when, "flush") == 0) {
        /* It died before it could answer; its memory is not accessed in this process. */
        sleep(1);
        SAME(MPI_Win_lock_all(MPI_MODE_NOCHECK, win), MPI_SUCCESS);
        int code = MPI_Put(local, COUNT, MPI_INT, VICTIM, 0, COUNT, MPI_INT, win);
        is_lost(code == MPI_SUCCESS ? MPI_Win_flush(VICTIM, win) : code, "MPI_Win_flush");
        MPI_Win_unlock_all(win);
    } else if (strcmp(when, "unlock") == 0) {
        /* Calls on its lock fail and leave nothing open, the others go on. */
        SAME(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
        LOST(MPI_Recv(NULL, 0, MPI_INT, VICTIM, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        LOST(MPI_Win_unlock(VICTIM, win));
        SAME(MPI_Win_flush_all(win), MPI_SUCCESS);
        SAME(MPI_Win_unlock(0, win), MPI_SUCCESS);
        for (int round = 0; round < 3; round++) {
            LOST(MPI_Win_lock(MPI_LOCK_SHARED, VICTIM, 0, win));
            LOST(MPI_Win_lock_all(0, win));
            SAME(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win), MPI_SUCCESS);
            put(0, 1);
            SAME(MPI_Win_unlock(0, win), MPI_SUCCESS);
        }
    } else if (strcmp(when, "unlock_all") == 0) {
        LOST(MPI_Recv(NULL, 0, MPI_INT, VICTIM, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        LOST(MPI_Win_unlock_all(win));
        RAISES(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
        SAME(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win), MPI_SUCCESS);
        put(0, 1);
        SAME(MPI_Win_unlock(0, win), MPI_SUCCESS);
    } else if (strcmp(when, "held") == 0 || rank > 0) {
        int code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        if (by_memory) {
            is_lost(code, "MPI_Win_lock");
            /* It has left no epoch open. */
            LOST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            if (strcmp(when, "queue") == 0)
                SAME(MPI_Send(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD), MPI_SUCCESS);
        } else {
            /* The target takes the lock from a rank that has failed. */
            SAME(code, MPI_SUCCESS);
            put(0, 1);
            SAME(MPI_Win_unlock(0, win), MPI_SUCCESS);
        }
    } else {
        LOST(MPI_Recv(NULL, 0, MPI_INT, VICTIM, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int other = 2; by_memory && other < ranks; other++)
            SAME(MPI_Recv(NULL, 0, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        SAME(MPI_Win_unlock(0, win), MPI_SUCCESS);
    }
    MPI_Group_free(&victim);
}

/* A window of the others. */
static void go_on(void)
{
    MPI_Group all, group;
    MPI_Comm rest;
    MPI_Win next;
    int victim = VICTIM, others, me;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &victim, &group);
    SAME(MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &rest), MPI_SUCCESS);
    MPI_Comm_size(rest, &others);
    MPI_Comm_rank(rest, &me);
    SAME(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, rest, &next), MPI_SUCCESS);
    for (int round = 0; round < 20; round++) {
        int value = 100 * round + me, last = (me + others - 1) % others;
        SAME(MPI_Win_fence(0, next), MPI_SUCCESS);
        SAME(MPI_Put(&value, 1, MPI_INT, (me + 1) % others, 7, 1, MPI_INT, next), MPI_SUCCESS);
        SAME(MPI_Win_fence(0, next), MPI_SUCCESS);
        SAME(memory[7], 100 * round + last);
    }
    SAME(MPI_Win_free(&next), MPI_SUCCESS);
    MPI_Comm_free(&rest);
    MPI_Group_free(&all);
    MPI_Group_free(&group);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc == 3 && ranks > 1, "usage: window_failure WHEN memory|messages");
    by_memory = strcmp(argv[2], "memory") == 0;
    let_errors_return();
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (rank == VICTIM)
        fail(argv[1]);
    wait_for_the_end(argv[1]);
    go_on();
    if (rank == 0) {
        printf("ok\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
