/* Accumulates on words of 8 bytes by every method at once: fetch-and-add, compare-and-swap,
 * MPI_REPLACE, MPI_MAX, MPI_NO_OP and accumulates of several words, from all ranks, to all ranks
 * and to the own memory. A device and a processor that are not atomic towards each other lose
 * some. The argument is the value of the hint that leaves these accumulates to RDMA devices. */
#include "check.h"

enum { ROUNDS = 150, TICKET = 0, SWAPPED, LARGEST, TOKEN, SUMS, WORDS = SUMS + 8 };

static long *window(const char *hint, MPI_Win *win)
{
    long *base;
    MPI_Info info;
    MPI_Info_create(&info);
    if (hint)
        MPI_Info_set(info, "verbena_device_atomics", hint);
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &base, win);
    MPI_Info_free(&info);
    memset(base, 0, WORDS * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    return base;
}

/* Adds one by compare-and-swap. */
static void swap_up(int target, MPI_Win win)
{
    long expected = 0, found, next;
    for (;;) {
        next = expected + 1;
        MPI_Compare_and_swap(&next, &expected, &found, MPI_LONG, target, SWAPPED, win);
        MPI_Win_flush(target, win);
        if (found == expected)
            return;
        expected = found;
    }
}

int main(int argc, char **argv)
{
    MPI_Win win;
    start(&argc, &argv);
    long *base = window(argc > 1 ? argv[1] : NULL, &win);
    char *taken = calloc(ranks, (size_t)ROUNDS * ranks);
    long tokens = 0, one = 1, largest = 0;
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        int target = (rank + round) % ranks;
        long ticket, mine = 1 + round * ranks + rank, old, add[8], seen;
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, target, TICKET, MPI_SUM, win);
        MPI_Win_flush(target, win);
        CHECK(ticket >= 0 && ticket < (long)ROUNDS * ranks, "ticket %ld", ticket);
        taken[(size_t)target * ROUNDS * ranks + ticket]++;
        swap_up(target, win);
        MPI_Accumulate(&mine, 1, MPI_LONG, target, LARGEST, 1, MPI_LONG, MPI_MAX, win);
        /* In order after it: what this rank has written is in the maximum. */
        MPI_Fetch_and_op(NULL, &seen, MPI_LONG, target, LARGEST, MPI_NO_OP, win);
        /* Each value that is put into the token comes out again, once. */
        MPI_Fetch_and_op(&mine, &old, MPI_LONG, target, TOKEN, MPI_REPLACE, win);
        for (int at = 0; at < 8; at++)
            add[at] = at + 1;
        MPI_Accumulate(add, 8, MPI_LONG, target, SUMS, 8, MPI_LONG, MPI_SUM, win);
        MPI_Accumulate(&one, 1, MPI_LONG, target, SUMS, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(target, win);
        CHECK(seen >= mine, "the maximum is %ld after %ld", seen, mine);
        tokens += mine - old;
        largest = mine > largest ? mine : largest;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    long left = base[TOKEN], sums[3] = {base[TICKET], base[SWAPPED], left}, all[3];
    for (int at = 0; at < 8; at++)
        SAME(base[SUMS + at], (long)ROUNDS * (at + 1 + (at == 0)));
    MPI_Win_unlock(rank, win);
    SAME(sums[0], ROUNDS);
    SAME(sums[1], ROUNDS);
    MPI_Allreduce(sums, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &tokens, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    SAME(tokens, all[2]);
    MPI_Allreduce(MPI_IN_PLACE, taken, ROUNDS * ranks * ranks, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    for (int target = 0; target < ranks; target++)
        for (int ticket = 0; ticket < ROUNDS; ticket++)
            SAME(taken[(size_t)target * ROUNDS * ranks + ticket], 1);
    free(taken);
    MPI_Win_free(&win);
    return finish();
}
