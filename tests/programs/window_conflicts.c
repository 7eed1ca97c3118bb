/* Accesses to windows that conflict, and others that do not (knob rma.check). With `conflicts` each
 * window has one conflict, by which it is named; with `none` there is no conflict, however close the
 * accesses are. */
#include "check.h"

enum { COUNT = 1000 };

static long memory[COUNT], local[COUNT];

static MPI_Win create(const char *name)
{
    MPI_Win win;
    MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_name(win, name);
    MPI_Barrier(MPI_COMM_WORLD);
    return win;
}

static void put(int target, int at, int count, MPI_Win win)
{
    MPI_Put(local, count, MPI_LONG, target, at, count, MPI_LONG, win);
}

static void get(int target, int at, int count, MPI_Win win)
{
    MPI_Get(local, count, MPI_LONG, target, at, count, MPI_LONG, win);
}

static void add(int target, int at, int count, MPI_Win win)
{
    MPI_Accumulate(local, count, MPI_LONG, target, at, count, MPI_LONG, MPI_SUM, win);
}

static void of_two_origins(void)
{
    int last = ranks - 1;
    MPI_Win win = create("fenced puts");
    MPI_Win_fence(0, win);
    if (rank == 0 || rank == last)
        put(last, rank == 0 ? 10 : 13, 5, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);

    /* Elements of a column, and a block that has one of them. */
    MPI_Datatype column;
    MPI_Type_vector(10, 1, 50, MPI_LONG, &column);
    MPI_Type_commit(&column);
    win = create("a column");
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(local, 10, MPI_LONG, last, 7, 1, column, win);
    if (rank == last)
        get(last, 150, 20, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
    MPI_Type_free(&column);

    /* The exposure epoch of the last rank has both. */
    MPI_Group world, origins, target;
    int of_origins[2] = {0, last};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, of_origins, &origins);
    MPI_Group_incl(world, 1, &last, &target);
    win = create("started");
    if (rank == last)
        MPI_Win_post(origins, 0, win);
    if (rank == 0 || rank == last) {
        MPI_Win_start(target, 0, win);
        rank == 0 ? add(last, 3, 4, win) : put(last, 6, 1, win);
        MPI_Win_complete(win);
    }
    if (rank == last)
        MPI_Win_wait(win);
    MPI_Win_free(&win);
    MPI_Group_free(&world);
    MPI_Group_free(&origins);
    MPI_Group_free(&target);

    /* A message is no synchronisation of the window. */
    win = create("locked");
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        put(last, 0, 1, win);
        MPI_Send(NULL, 0, MPI_INT, last, 0, MPI_COMM_WORLD);
    } else if (rank == last) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        get(last, 0, 1, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void of_one_origin(void)
{
    int last = ranks - 1;
    long one = 1, old;
    double other = 1;
    MPI_Win win = create("put after put");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
    if (rank == 0)
        put(last, 0, 2, win), put(last, 1, 2, win);
    MPI_Win_unlock(last, win);
    MPI_Win_free(&win);

    win = create("two types");
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, last, 5, MPI_SUM, win);
        MPI_Accumulate(&other, 1, MPI_DOUBLE, last, 5, 1, MPI_DOUBLE, MPI_SUM, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);

    win = create("put after look");
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Fetch_and_op(NULL, &old, MPI_LONG, last, 4, MPI_NO_OP, win);
        put(last, 4, 1, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);

    /* A local flush of a put does not complete it. */
    win = create("locally flushed");
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Request request;
        MPI_Rput(local, 1, MPI_LONG, last, 9, 1, MPI_LONG, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Win_flush_local(last, win);
        get(last, 9, 1, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);

    win = create("a late get");
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Request request;
        put(last, 9, 1, win);
        MPI_Rget(local, 1, MPI_LONG, last, 9, 1, MPI_LONG, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void fenced(void)
{
    MPI_Win win = create("fences");
    int next = (rank + 1) % ranks;
    MPI_Win_fence(0, win);
    for (int round = 0; round < 50; round++) {
        /* Ranks leave a fence at different times; those of the next epoch write elsewhere. */
        put((rank + round) % ranks, rank * 10, 10, win);
        MPI_Win_fence(0, win);
        get(next, 0, 10 * ranks, win);
        get(next, 5, 10, win);
        MPI_Win_fence(0, win);
        add(next, 0, 10 * ranks, win);
        add(0, 3, 10 * ranks, win);
        MPI_Win_fence(round % 2 ? MPI_MODE_NOSUCCEED : 0, win);
        if (round % 2) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
            put(next, 0, 10 * ranks, win);
            MPI_Win_unlock(next, win);
            MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        }
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
}

static void started(void)
{
    MPI_Win win = create("groups");
    MPI_Group world, next, before;
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, flag = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &right, &next);
    MPI_Group_incl(world, 1, &left, &before);
    for (int round = 0; round < 50; round++) {
        MPI_Win_post(before, 0, win);
        MPI_Win_start(next, 0, win);
        round % 2 ? put(right, 0, 100, win) : get(right, 50, 100, win);
        MPI_Win_complete(win);
        if (round % 3)
            MPI_Win_wait(win);
        else
            for (flag = 0; !flag;)
                MPI_Win_test(win, &flag);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&next);
    MPI_Group_free(&before);
    MPI_Win_free(&win);
}

static void locked(void)
{
    MPI_Win win = create("locks");
    for (int round = 0; round < 50; round++) {
        int target = round % ranks;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        get(target, 0, 10, win);
        MPI_Win_flush_local(target, win);
        put(target, 0, 10, win);
        MPI_Win_flush(target, win);
        add(target, 5, 10, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < 50; round++) {
        int target = round % ranks, turn = (round / ranks) % ranks;
        long one = 1, old;
        MPI_Request request;
        if (rank == turn) {
            put(target, 0, 100, win);
            MPI_Win_flush(target, win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Rget(local, 100, MPI_LONG, target, 0, 100, MPI_LONG, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, target, 2, MPI_SUM, win);
        MPI_Win_flush_local(target, win);
        MPI_Fetch_and_op(NULL, &old, MPI_LONG, target, 2, MPI_NO_OP, win);
        MPI_Win_flush_local_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        put(target, 10 * rank, 10, win);
        MPI_Win_flush_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void attached(void)
{
    MPI_Win win;
    MPI_Aint address;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, sizeof memory);
    MPI_Get_address(memory, &address);
    MPI_Bcast(&address, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Put(local, 5, MPI_LONG, 0, address + 40 * rank, 5, MPI_LONG, win);
    MPI_Win_fence(0, win);
    MPI_Get(local, 50, MPI_LONG, 0, address, 50, MPI_LONG, win);
    MPI_Win_fence(0, win);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
}

/* Accumulates of one origin are done in order, also those with a request beside others. */
static void ordered(void)
{
    MPI_Win win;
    long one = 1, old[2], *base;
    MPI_Win_allocate(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    for (int round = 0; rank == 0 && round < 50; round++) {
        MPI_Request request;
        MPI_Rget_accumulate(&one, 1, MPI_LONG, old, 1, MPI_LONG, ranks - 1, 3, 1, MPI_LONG, MPI_SUM, win, &request);
        MPI_Accumulate(&one, 1, MPI_LONG, ranks - 1, 3, 1, MPI_LONG, MPI_SUM, win);
        MPI_Fetch_and_op(&one, old + 1, MPI_LONG, ranks - 1, 3, MPI_SUM, win);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Win_flush(ranks - 1, win);
        SAME(old[0], 3 * round);
        SAME(old[1], 3 * round + 2);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Operations that only read, atomically or not, and sums of the same type. */
static void read_in_many_ways(void)
{
    long old[4];
    MPI_Win win = create("reads");
    MPI_Win_fence(0, win);
    get(0, 0, 4, win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, old, 2, MPI_LONG, 0, 1, 2, MPI_LONG, MPI_NO_OP, win);
    MPI_Fetch_and_op(NULL, old + 2, MPI_DOUBLE, 0, 2, MPI_NO_OP, win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, old + 3, 1, MPI_LONG, 0, 9, 1, MPI_LONG, MPI_NO_OP, win);
    add(0, 9, 1, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc == 2, "usage: window_conflicts conflicts | none");
    if (strcmp(argv[1], "conflicts") == 0) {
        CHECK(ranks > 1, "one rank has nothing in common with another");
        of_two_origins();
        of_one_origin();
    } else {
        fenced();
        started();
        locked();
        attached();
        ordered();
        read_in_many_ways();
    }
    return finish();
}
