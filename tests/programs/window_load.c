/* Programs' uses of windows under load, each against arithmetic or messages. Arguments: the part
 * ("sums", "table", "halo", "attach", otherwise all) and the operations of a rank and thread. */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { CELLS = 61, THREADS = 3 };

static long operations = 4000;

static unsigned long next(unsigned long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct job {
    MPI_Win win;
    int number;
    double *added; /* to each cell of each rank, by this thread */
};

/* Random additions of whole numbers, half of them fetched, to cells of all ranks. Doubles and
 * integers of several widths have cells of their own. */
static void *add(void *argument)
{
    struct job *job = argument;
    unsigned long state = 88172645463325252ul + 1000003ul * (rank * THREADS + job->number);
    for (long i = 0; i < operations; i++) {
        unsigned long bits = next(&state);
        int target = bits % ranks, cell = bits / 64 % CELLS, amount = bits / 8192 % 9;
        MPI_Aint disp = 8 * cell;
        job->added[target * CELLS + cell] += amount;
        double real = amount, old_real;
        int64_t wide = amount, old_wide;
        int32_t half = amount, old_half;
        int fetches = bits >> 40 & 1;
        switch (cell % 3) {
        case 0:
            if (fetches)
                MPI_Fetch_and_op(&wide, &old_wide, MPI_INT64_T, target, disp, MPI_SUM, job->win);
            else
                MPI_Accumulate(&wide, 1, MPI_INT64_T, target, disp, 1, MPI_INT64_T, MPI_SUM, job->win);
            break;
        case 1:
            if (fetches)
                MPI_Get_accumulate(&real, 1, MPI_DOUBLE, &old_real, 1, MPI_DOUBLE, target, disp, 1, MPI_DOUBLE, MPI_SUM,
                                   job->win);
            else
                MPI_Accumulate(&real, 1, MPI_DOUBLE, target, disp, 1, MPI_DOUBLE, MPI_SUM, job->win);
            break;
        default:
            if (fetches)
                MPI_Fetch_and_op(&half, &old_half, MPI_INT32_T, target, disp, MPI_SUM, job->win);
            else
                MPI_Accumulate(&half, 1, MPI_INT32_T, target, disp, 1, MPI_INT32_T, MPI_SUM, job->win);
        }
        /* The operands are on this stack. */
        MPI_Win_flush(target, job->win);
    }
    return NULL;
}

static void sums(int threads)
{
    char *memory;
    MPI_Win win;
    struct job jobs[THREADS];
    pthread_t ids[THREADS];
    double *all = calloc(ranks * CELLS, sizeof *all), *total = calloc(ranks * CELLS, sizeof *total);
    MPI_Win_allocate(8 * CELLS, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 8 * CELLS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){win, i, calloc(ranks * CELLS, sizeof(double))};
        if (i > 0)
            pthread_create(&ids[i], NULL, add, &jobs[i]);
    }
    add(&jobs[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    MPI_Win_unlock_all(win);
    for (int i = 0; i < threads; i++) {
        for (int at = 0; at < ranks * CELLS; at++)
            all[at] += jobs[i].added[at];
        free(jobs[i].added);
    }
    MPI_Allreduce(all, total, ranks * CELLS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int cell = 0; cell < CELLS; cell++) {
        char *at = memory + 8 * cell;
        double found = cell % 3 == 0 ? (double)*(int64_t *)at : cell % 3 == 1 ? *(double *)at : *(int32_t *)at;
        double expected = total[rank * CELLS + cell];
        CHECK(found == expected, "cell %d has %.0f, not %.0f", cell, found, expected);
    }
    MPI_Win_free(&win);
    free(all);
    free(total);
}

/* A hash table over all ranks: slots are taken by compare-and-swap, values added by accumulate. */
static void table(void)
{
    enum { SLOTS = 512, KEYS = 150 };
    long *memory;
    MPI_Win win;
    MPI_Win_allocate(2 * SLOTS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 2 * SLOTS * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (long key = 1; key <= KEYS * ranks; key++) { /* every rank adds to every key */
        unsigned long hash = key * 0x9e3779b97f4a7c15ul;
        int home = hash >> 40 & 0xffff, target = home % ranks, slot = home / ranks % SLOTS;
        long empty = 0, found, amount = key + rank;
        for (;; slot = (slot + 1) % SLOTS) {
            MPI_Compare_and_swap(&key, &empty, &found, MPI_LONG, target, 2 * slot, win);
            MPI_Win_flush(target, win);
            if (found == 0 || found == key)
                break;
        }
        MPI_Accumulate(&amount, 1, MPI_LONG, target, 2 * slot + 1, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(target, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    long keys = 0, all;
    for (int slot = 0; slot < SLOTS; slot++)
        if (memory[2 * slot]) {
            keys++;
            SAME(memory[2 * slot + 1], ranks * memory[2 * slot] + ranks * (ranks - 1) / 2);
        }
    MPI_Allreduce(&keys, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    SAME(all, KEYS * ranks);
    MPI_Win_free(&win);
}

enum { MESSAGES, FENCE, PSCW, FLUSH, WAYS, WIDTH = 300 };

/* A step of a stencil on a ring; the edges of a rank go to both neighbours' halos. */
static void relax(double *field)
{
    double before = field[0];
    for (int i = 1; i <= WIDTH; i++) {
        double here = field[i];
        field[i] = 0.25 * before + 0.5 * here + 0.25 * field[i + 1];
        before = here;
    }
}

static double halo(int way)
{
    double *field, sum = 0, all;
    MPI_Win win;
    MPI_Group world, neighbours;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks, both[2] = {left, right};
    MPI_Win_allocate((WIDTH + 2) * sizeof *field, sizeof *field, MPI_INFO_NULL, MPI_COMM_WORLD, &field, &win);
    for (int i = 0; i < WIDTH + 2; i++)
        field[i] = 0;
    for (int i = 1; i <= WIDTH; i++)
        field[i] = (rank * WIDTH + i) % 17;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, left == right ? 1 : 2, both, &neighbours);
    MPI_Barrier(MPI_COMM_WORLD);
    if (way == FENCE)
        MPI_Win_fence(0, win);
    for (int step = 0; step < 40; step++) {
        if (way == MESSAGES) {
            MPI_Sendrecv(&field[1], 1, MPI_DOUBLE, left, 0, &field[WIDTH + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            MPI_Sendrecv(&field[WIDTH], 1, MPI_DOUBLE, right, 1, &field[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        } else {
            if (way == PSCW) {
                MPI_Win_post(neighbours, 0, win);
                MPI_Win_start(neighbours, 0, win);
            } else if (way == FLUSH)
                MPI_Win_lock_all(0, win);
            MPI_Put(&field[1], 1, MPI_DOUBLE, left, WIDTH + 1, 1, MPI_DOUBLE, win);
            MPI_Put(&field[WIDTH], 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win);
            if (way == FENCE)
                MPI_Win_fence(0, win);
            else if (way == PSCW) {
                MPI_Win_complete(win);
                MPI_Win_wait(win);
            } else {
                MPI_Win_flush_all(win);
                MPI_Win_unlock_all(win);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Win_sync(win);
            }
        }
        relax(field);
        if (way != MESSAGES) /* the halos are read before they are written again */
            MPI_Barrier(MPI_COMM_WORLD);
    }
    if (way == FENCE)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 1; i <= WIDTH; i++)
        sum += field[i] * (rank * WIDTH + i);
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Group_free(&neighbours);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    return all;
}

/* Memory that is attached, used, detached and replaced by other pages at its address, again and
 * again: a registration or a mapping that is kept must not lead to the memory before. The origin's buffer
 * changes its pages as well. */
static void attach(void)
{
    enum { BYTES = 1 << 18, ROUNDS = 25 };
    MPI_Win dynamic;
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    char *place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    for (int round = 0; round < ROUNDS; round++) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        place = mmap(place, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        buffer = mmap(buffer, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        fill(buffer, BYTES, 100 * round + rank);
        MPI_Win fixed, win = dynamic;
        MPI_Aint base = 0, theirs;
        if (round % 2 == 0) {
            MPI_Win_attach(dynamic, place, BYTES);
            MPI_Get_address(place, &base);
        } else {
            MPI_Win_create(place, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &fixed);
            win = fixed;
        }
        MPI_Sendrecv(&base, 1, MPI_AINT, from, 0, &theirs, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int again = 0; again < 2; again++) { /* the second time between hosts by a device */
            MPI_Win_fence(0, win);
            MPI_Put(buffer, BYTES, MPI_BYTE, to, theirs, BYTES, MPI_BYTE, win);
            MPI_Win_fence(0, win);
            CHECK_FILLED(place, BYTES, 100 * round + from);
            MPI_Barrier(MPI_COMM_WORLD);
            memset(place, 0, BYTES);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        fill(place, BYTES, 7 * round + rank);
        MPI_Win_fence(0, win);
        MPI_Get(buffer, BYTES, MPI_BYTE, to, theirs, BYTES, MPI_BYTE, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        CHECK_FILLED(buffer, BYTES, 7 * round + to);
        if (round % 2 == 0)
            MPI_Win_detach(dynamic, place);
        else
            MPI_Win_free(&fixed);
    }
    MPI_Win_free(&dynamic);
    munmap(buffer, BYTES);
    munmap(place, BYTES);
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *part = argc > 1 ? argv[1] : "all";
    int all = strcmp(part, "all") == 0;
    if (argc > 2)
        operations = atol(argv[2]);
    if (all || strcmp(part, "sums") == 0) {
        sums(1);
        sums(level == MPI_THREAD_MULTIPLE ? THREADS : 1);
    }
    if (all || strcmp(part, "table") == 0)
        table();
    if (all || strcmp(part, "halo") == 0) {
        double expected = halo(MESSAGES);
        for (int way = FENCE; way < WAYS; way++) {
            double found = halo(way);
            CHECK(found == expected, "way %d gives %.17g, messages give %.17g", way, found, expected);
        }
    }
    if (all || strcmp(part, "attach") == 0)
        attach();
    return finish();
}
