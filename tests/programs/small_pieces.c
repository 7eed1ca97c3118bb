/* Small puts and gets to memory that only the target maps, against a model. Each origin owns a part of
 * each target's memory; therefore no accesses conflict. Targets compute for some rounds and wait in MPI
 * for others, and pieces are shorter and longer than what waits for a synchronisation. */
#include "check.h"

enum { PART = 50000, ROUNDS = 60, PIECES = 150, LONGEST = 18000 };

static unsigned long state;

static int below(int limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static void compute(double seconds)
{
    double until = MPI_Wtime() + seconds;
    while (MPI_Wtime() < until) continue;
}

/* Puts pieces that do not overlap to one target (-1: to any), without a synchronisation. */
static void put_pieces(MPI_Win win, unsigned char *model, int only)
{
    static unsigned char data[PIECES * LONGEST];
    unsigned char *next = data;
    int longest = below(3) ? 64 : LONGEST, *begins = malloc(ranks * sizeof *begins);
    for (int i = 0; i < ranks; i++) begins[i] = below(50);
    for (int i = 0; i < PIECES; i++) {
        int target = only < 0 ? below(ranks) : only, bytes = 1 + below(longest), at = begins[target] + below(30);
        if (at + bytes > PART) continue;
        for (int b = 0; b < bytes; b++) next[b] = below(256);
        MPI_Put(next, bytes, MPI_BYTE, target, (MPI_Aint)rank * PART + at, bytes, MPI_BYTE, win);
        memcpy(model + (size_t)target * PART + at, next, bytes);
        begins[target] = at + bytes;
        next += bytes;
    }
    free(begins);
}

static void read_back(MPI_Win win, const unsigned char *model, int only, int (*sync)(MPI_Win win))
{
    static unsigned char found[PIECES][LONGEST];
    int targets[PIECES], begins[PIECES], lengths[PIECES], longest = below(3) ? 64 : LONGEST;
    for (int i = 0; i < PIECES; i++) {
        targets[i] = only < 0 ? below(ranks) : only;
        lengths[i] = 1 + below(longest);
        begins[i] = below(PART - lengths[i] + 1);
        memset(found[i], 0xEE, lengths[i]);
        MPI_Get(found[i], lengths[i], MPI_BYTE, targets[i], (MPI_Aint)rank * PART + begins[i], lengths[i], MPI_BYTE, win);
    }
    sync(win);
    for (int i = 0; i < PIECES; i++)
        CHECK(!memcmp(found[i], model + (size_t)targets[i] * PART + begins[i], lengths[i]),
              "%d bytes at %d of rank %d differ", lengths[i], begins[i], targets[i]);
}

static int flush_all(MPI_Win win) { return MPI_Win_flush_all(win); }
static int fence(MPI_Win win) { return MPI_Win_fence(0, win); }

int main(int argc, char **argv)
{
    start(&argc, &argv);
    state = 88172645463325252ul + 104729ul * rank;
    size_t bytes = (size_t)ranks * PART;
    unsigned char *memory = calloc(1, bytes), *model = calloc(1, bytes), *theirs = malloc(bytes);
    MPI_Win win;
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < ROUNDS; round++) {
        int next = (rank + 1) % ranks;
        switch (round % 3) {
        case 0:
            MPI_Win_lock_all(0, win);
            if (below(2)) compute(1e-4);
            put_pieces(win, model, -1);
            MPI_Win_flush_all(win);
            read_back(win, model, -1, flush_all);
            MPI_Win_unlock_all(win);
            break;
        case 1:
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
            put_pieces(win, model, next);
            if (below(2)) compute(1e-4);
            MPI_Win_unlock(next, win);
            break;
        default:
            MPI_Win_fence(0, win);
            put_pieces(win, model, next);
            MPI_Win_fence(0, win);
            read_back(win, model, next, fence);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank r has put its part of each target: compare all of it with what the origins remember. */
    MPI_Alltoall(model, PART, MPI_BYTE, theirs, PART, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(!memcmp(memory, theirs, bytes), "the memory of the window differs from what the origins have put");
    MPI_Win_free(&win);
    free(memory), free(model), free(theirs);
    return finish();
}
