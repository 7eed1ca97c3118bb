/* A put that a flush or an unlock has completed is at its target before the next access that reads:
 * of two ranks that put their own flag and then read the other's, one at least finds it. A library with debug
 * assertions enters its lock by an atomic, which hides a fence that is missing. */
#include "check.h"
#include <sched.h>

enum { TURNS = 100000, LINE = 16 };

/* How a flag is read. */
enum { GET, RGET, STRIDED_GET, FETCH, LONG_FETCH, SWAP, WAYS };

static MPI_Win win;
static MPI_Datatype strided;

/* Both ranks go on together, as far as they have a processor each: rank 0 by more and more later
 * than it sees rank 1. */
static void meet(volatile int *mine, volatile int *other, int turn)
{
    *mine = turn;
    for (int looks = 0; *other < turn; looks++)
        if (looks > 1000)
            sched_yield();
    for (volatile int delay = rank == 0 ? turn % 200 : 100; delay > 0; delay--)
        continue;
}

static int read_flag(int way, int at)
{
    int none = 0, found[LINE] = {0};
    MPI_Request request;
    if (way == GET)
        MPI_Get(found, 1, MPI_INT, 0, at, 1, MPI_INT, win);
    else if (way == RGET) {
        MPI_Rget(found, 1, MPI_INT, 0, at, 1, MPI_INT, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (way == STRIDED_GET)
        MPI_Get(found, 2, MPI_INT, 0, at, 1, strided, win);
    else if (way == FETCH)
        MPI_Fetch_and_op(NULL, found, MPI_INT, 0, at, MPI_NO_OP, win);
    else if (way == LONG_FETCH)
        MPI_Get_accumulate(NULL, 0, MPI_INT, found, LINE, MPI_INT, 0, at, LINE, MPI_INT, MPI_NO_OP, win);
    else
        MPI_Compare_and_swap(&none, &none, found, MPI_INT, 0, at, win);
    return way == RGET ? found[0] : (MPI_Win_flush(0, win), found[0]);
}

/* Puts the own flag of a turn and reads the other's, each completed by a flush or an unlock. Both are
 * in the memory of rank 0. */
static int flags(int way, int turn, int locks, int type)
{
    int one = 1, found, mine = LINE * (2 * turn + rank), other = LINE * (2 * turn + 1 - rank);
    if (locks)
        MPI_Win_lock(type, 0, 0, win);
    MPI_Put(&one, 1, MPI_INT, 0, mine, 1, MPI_INT, win);
    if (locks) {
        MPI_Win_unlock(0, win);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    } else
        MPI_Win_flush(0, win);
    found = read_flag(way, other);
    if (locks)
        MPI_Win_unlock(0, win);
    return found;
}

static void test(int way, int locks, int type)
{
    static int found[TURNS + 1], theirs[TURNS + 1];
    int *memory, *steps, *other;
    MPI_Aint size;
    int unit, missed = 0;
    MPI_Comm both, host;
    MPI_Win turns;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &both);
    if (both == MPI_COMM_NULL)
        return;
    MPI_Comm_split_type(both, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Win_allocate(2 * LINE * sizeof found, sizeof *memory, MPI_INFO_NULL, both, &memory, &win);
    MPI_Win_allocate_shared(sizeof *steps, sizeof *steps, MPI_INFO_NULL, host, &steps, &turns);
    MPI_Win_shared_query(turns, 1 - rank, &size, &unit, &other);
    memset(memory, 0, 2 * LINE * sizeof found);
    *steps = 0;
    MPI_Win_sync(win);
    MPI_Barrier(both);
    if (!locks)
        MPI_Win_lock_all(0, win);
    for (int turn = 1; turn <= TURNS; turn++) {
        meet(steps, other, turn);
        found[turn] = flags(way, turn, locks, type);
    }
    if (!locks)
        MPI_Win_unlock_all(win);
    MPI_Sendrecv(found, TURNS + 1, MPI_INT, 1 - rank, 0, theirs, TURNS + 1, MPI_INT, 1 - rank, 0, both,
                 MPI_STATUS_IGNORE);
    for (int turn = 1; turn <= TURNS; turn++)
        missed += !found[turn] && !theirs[turn];
    CHECK(missed == 0, "way %d, locks %d: %d turns in which no rank has found the other's flag", way, locks, missed);
    MPI_Win_free(&turns);
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
    MPI_Comm_free(&both);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Type_vector(2, 1, LINE - 1, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int way = GET; way < WAYS; way++)
        test(way, 0, 0);
    test(GET, 1, MPI_LOCK_SHARED);
    test(GET, 1, MPI_LOCK_EXCLUSIVE);
    MPI_Type_free(&strided);
    return finish();
}
