/* Accumulates of vectors and of single elements meet in one memory, and no operand is lost. All ranks
 * add to all. The sums are checked against what each rank has added; what fetches return must not
 * decrease for one element. Windows are allocated or made over memory of the program ("create"). */
#include "check.h"

enum { CELLS = 900, ROUNDS = 400 };

static unsigned long state;

static int below(int limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

#define TEST(type, handle)                                                                                             \
    static void sums_of_##type(int creates)                                                                            \
    {                                                                                                                  \
        type *memory, operands[CELLS], before[CELLS], own[CELLS];                                                      \
        type *added = calloc((size_t)ranks * CELLS, sizeof(type)), *last = calloc((size_t)ranks * CELLS, sizeof(type)); \
        MPI_Win win;                                                                                                   \
        MPI_Aint bytes = CELLS * sizeof(type);                                                                         \
        if (creates) {                                                                                                 \
            memory = calloc(CELLS, sizeof(type));                                                                      \
            MPI_Win_create(memory, bytes, sizeof(type), MPI_INFO_NULL, MPI_COMM_WORLD, &win);                          \
        } else {                                                                                                       \
            MPI_Win_allocate(bytes, sizeof(type), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);                       \
            for (int i = 0; i < CELLS; i++) memory[i] = 0;                                                             \
        }                                                                                                              \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                   \
        MPI_Win_lock_all(0, win);                                                                                      \
        for (int round = 0; round < ROUNDS; round++) {                                                                 \
            int target = below(ranks), count = 1 + below(below(2) ? 3 : CELLS), first = below(CELLS - count + 1);      \
            size_t at = (size_t)target * CELLS + first;                                                                \
            for (int i = 0; i < count; i++) {                                                                          \
                operands[i] = 1 + below(4);                                                                            \
                added[at + i] += operands[i];                                                                          \
            }                                                                                                          \
            if (below(2)) {                                                                                            \
                MPI_Accumulate(operands, count, handle, target, first, count, handle, MPI_SUM, win);                   \
                MPI_Win_flush(target, win);                                                                            \
                continue;                                                                                              \
            }                                                                                                          \
            if (count == 1)                                                                                            \
                MPI_Fetch_and_op(operands, before, handle, target, first, MPI_SUM, win);                               \
            else                                                                                                       \
                MPI_Get_accumulate(operands, count, handle, before, count, handle, target, first, count, handle,       \
                                   MPI_SUM, win);                                                                      \
            MPI_Win_flush(target, win);                                                                                \
            for (int i = 0; i < count; i++) {                                                                          \
                CHECK(before[i] >= last[at + i], "an element shrank from %g to %g", (double)last[at + i],              \
                      (double)before[i]);                                                                              \
                last[at + i] = before[i] + operands[i];                                                                \
            }                                                                                                          \
        }                                                                                                              \
        MPI_Win_unlock_all(win);                                                                                       \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                   \
        MPI_Reduce_scatter_block(added, own, CELLS, handle, MPI_SUM, MPI_COMM_WORLD);                                  \
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);                                                                   \
        MPI_Get_accumulate(NULL, 0, handle, before, CELLS, handle, rank, 0, CELLS, handle, MPI_NO_OP, win);            \
        MPI_Win_unlock(rank, win);                                                                                     \
        for (int i = 0; i < CELLS; i++)                                                                                \
            CHECK(memory[i] == own[i] && before[i] == own[i], "element %d is %g, fetched %g, not %g", i,               \
                  (double)memory[i], (double)before[i], (double)own[i]);                                               \
        MPI_Win_free(&win);                                                                                            \
        if (creates) free(memory);                                                                                     \
        free(added), free(last);                                                                                       \
    }

typedef long long wide;
TEST(double, MPI_DOUBLE)
TEST(wide, MPI_LONG_LONG)
TEST(short, MPI_SHORT)

int main(int argc, char **argv)
{
    start(&argc, &argv);
    state = 88172645463325252ul + 7919ul * rank;
    for (int creates = 0; creates < 2; creates++) {
        sums_of_double(creates);
        sums_of_wide(creates);
        sums_of_short(creates);
    }
    return finish();
}
