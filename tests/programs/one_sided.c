/* One-sided operations on each kind of window with each kind of synchronisation, checked against
 * what messages or arithmetic would give. */
#include "check.h"

enum { CREATE, ALLOCATE, SHARED, DYNAMIC, KINDS };

/* A window of `bytes` on each rank; of a dynamic one the addresses are displacements. */
struct window {
    MPI_Win win;
    char *memory;
    MPI_Aint *base; /* by rank: what to add to displacements */
    int kind;
};

static struct window make(int kind, MPI_Aint bytes)
{
    struct window w = {.kind = kind};
    MPI_Aint mine = 0;
    w.base = malloc(ranks * sizeof *w.base);
    switch (kind) {
    case CREATE:
        w.memory = malloc(bytes);
        MPI_Win_create(w.memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        break;
    case ALLOCATE:
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.memory, &w.win);
        break;
    case SHARED:
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.memory, &w.win);
        break;
    default:
        w.memory = malloc(bytes);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.memory, bytes);
        MPI_Get_address(w.memory, &mine);
    }
    MPI_Allgather(&mine, 1, MPI_AINT, w.base, 1, MPI_AINT, MPI_COMM_WORLD);
    memset(w.memory, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    return w;
}

static void drop(struct window *w)
{
    if (w->kind == DYNAMIC) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(w->win, w->memory);
    }
    MPI_Win_free(&w->win);
    if (w->kind == CREATE || w->kind == DYNAMIC)
        free(w->memory);
    free(w->base);
}

static MPI_Aint at(struct window *w, int target, MPI_Aint disp)
{
    return MPI_Aint_add(w->base[target], disp);
}

/* Epochs: each gives all ranks access to all others and ends with all operations visible. */
enum { FENCE, PSCW, LOCKS, LOCK_ALL, EPOCHS };

static MPI_Group world;

static void open_epoch(struct window *w, int how)
{
    switch (how) {
    case FENCE:
        MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
        break;
    case PSCW:
        MPI_Win_post(world, 0, w->win);
        MPI_Win_start(world, 0, w->win);
        break;
    case LOCKS:
        for (int target = 0; target < ranks; target++)
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
        break;
    default:
        MPI_Win_lock_all(0, w->win);
    }
}

static void close_epoch(struct window *w, int how)
{
    int flag = 0;
    switch (how) {
    case FENCE:
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
        break;
    case PSCW:
        MPI_Win_complete(w->win);
        if (rank % 2)
            MPI_Win_wait(w->win);
        else
            while (!flag)
                MPI_Win_test(w->win, &flag);
        break;
    case LOCKS:
        for (int target = 0; target < ranks; target++)
            MPI_Win_unlock(target, w->win);
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    default:
        MPI_Win_unlock_all(w->win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_sync(w->win);
}

/* Each rank writes a pattern to its place at each target, and reads it back from there. */
static void contiguous(int kind, int how, int bytes)
{
    struct window w = make(kind, (MPI_Aint)bytes * ranks);
    char *out = malloc((size_t)bytes * ranks), *in = malloc((size_t)bytes * ranks);
    for (int target = 0; target < ranks; target++)
        fill(out + (size_t)bytes * target, bytes, 1000 * rank + target);
    open_epoch(&w, how);
    for (int target = 0; target < ranks; target++)
        MPI_Put(out + (size_t)bytes * target, bytes, MPI_BYTE, target,
                at(&w, target, (MPI_Aint)bytes * rank), bytes, MPI_BYTE, w.win);
    close_epoch(&w, how);
    for (int origin = 0; origin < ranks; origin++)
        CHECK_FILLED(w.memory + (size_t)bytes * origin, bytes, 1000 * origin + rank);
    MPI_Barrier(MPI_COMM_WORLD);
    open_epoch(&w, how);
    for (int target = 0; target < ranks; target++)
        MPI_Get(in + (size_t)bytes * target, bytes, MPI_BYTE, target,
                at(&w, target, (MPI_Aint)bytes * rank), bytes, MPI_BYTE, w.win);
    close_epoch(&w, how);
    SAME(memcmp(in, out, (size_t)bytes * ranks), 0);
    drop(&w);
    free(out);
    free(in);
}

/* A matrix of doubles: columns are put, transposed, got and accumulated. */
static void strided(int kind, int how)
{
    enum { N = 64 };
    struct window w = make(kind, N * N * sizeof(double));
    double row[N], back[N];
    MPI_Datatype column;
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int target = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    open_epoch(&w, how);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++)
            row[i] = 1000 * rank + N * i + j;
        MPI_Put(row, N, MPI_DOUBLE, target, at(&w, target, j * sizeof(double)), 1, column, w.win);
        if (how == FENCE)
            MPI_Win_fence(0, w.win);
        else if (how != PSCW)
            MPI_Win_flush_local(target, w.win);
        else { /* the buffer must not change before the epoch ends */
            MPI_Win_complete(w.win);
            MPI_Win_wait(w.win);
            open_epoch(&w, how);
        }
    }
    close_epoch(&w, how);
    double *found = (double *)w.memory;
    for (int i = 0; i < N * N; i++)
        CHECK(found[i] == 1000 * before + i, "element %d is %f", i, found[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    open_epoch(&w, how);
    MPI_Get(back, N, MPI_DOUBLE, target, at(&w, target, 5 * sizeof(double)), 1, column, w.win);
    close_epoch(&w, how);
    for (int i = 0; i < N; i++)
        CHECK(back[i] == 1000 * rank + N * i + 5, "element %d of the column is %f", i, back[i]);
    open_epoch(&w, how);
    MPI_Accumulate(back, N, MPI_DOUBLE, target, at(&w, target, 5 * sizeof(double)), 1, column, MPI_SUM, w.win);
    close_epoch(&w, how);
    for (int i = 0; i < N; i++)
        CHECK(found[N * i + 5] == 2.0 * (1000 * before + N * i + 5), "the sum is %f", found[N * i + 5]);
    MPI_Type_free(&column);
    drop(&w);
}

/* All ranks accumulate onto the same elements of all ranks, with types of all widths. */
#define ACCUMULATE(type, mpi, op, value, expected) \
    do { \
        struct window w = make(kind, 7 * sizeof(type)); \
        type mine[7], first = (type)0; \
        for (int i = 0; i < 7; i++) { \
            mine[i] = (type)(value); \
            if (op == MPI_PROD || op == MPI_BAND) \
                ((type *)w.memory)[i] = (type)~0ull; \
        } \
        MPI_Barrier(MPI_COMM_WORLD); \
        open_epoch(&w, how); \
        for (int target = 0; target < ranks; target++) \
            MPI_Accumulate(mine, 7, mpi, target, at(&w, target, 0), 7, mpi, op, w.win); \
        close_epoch(&w, how); \
        for (int i = 0; i < 7; i++) { \
            type found = ((type *)w.memory)[i]; \
            CHECK(found == (type)(expected), #mpi " " #op ": element %d is %g, not %g", i, (double)found, \
                  (double)(type)(expected)); \
        } \
        (void)first; \
        drop(&w); \
    } while (0)

static void accumulate(int kind, int how)
{
    int sum = ranks * (ranks + 1) / 2;
    ACCUMULATE(int8_t, MPI_INT8_T, MPI_SUM, rank + 1, sum);
    ACCUMULATE(uint16_t, MPI_UINT16_T, MPI_MAX, rank + 1, ranks);
    ACCUMULATE(int, MPI_INT, MPI_SUM, (rank + 1) * (i + 1), sum *(i + 1));
    ACCUMULATE(int, MPI_INT, MPI_BAND, ~(1 << rank), ~((1 << ranks) - 1));
    ACCUMULATE(int64_t, MPI_INT64_T, MPI_BXOR, 1ll << rank, (1ll << ranks) - 1);
    ACCUMULATE(float, MPI_FLOAT, MPI_SUM, rank + 1, sum);
    ACCUMULATE(double, MPI_DOUBLE, MPI_SUM, rank + 1, sum);
    ACCUMULATE(long double, MPI_LONG_DOUBLE, MPI_SUM, rank + 1, sum);
}

struct located {
    double value;
    int index;
};

static void pairs(int kind, int how)
{
    struct window w = make(kind, 3 * sizeof(struct located));
    struct located mine[3];
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < 3; i++)
        mine[i] = (struct located){(rank + i) % ranks + 1, rank};
    open_epoch(&w, how);
    for (int target = 0; target < ranks; target++)
        MPI_Accumulate(mine, 3, MPI_DOUBLE_INT, target, at(&w, target, 0), 3, MPI_DOUBLE_INT, MPI_MAXLOC, w.win);
    close_epoch(&w, how);
    struct located *found = (struct located *)w.memory;
    for (int i = 0; i < 3; i++)
        CHECK(found[i].value == ranks && (found[i].index + i) % ranks == ranks - 1, "element %d is (%f, %d)", i,
              found[i].value, found[i].index);
    drop(&w);
}

/* Counters by fetch-and-op and compare-and-swap: each value is drawn once. */
static void counters(int kind)
{
    enum { EACH = 50 };
    struct window w = make(kind, 4 * sizeof(long));
    long one = 1, drawn[EACH], all = 0;
    MPI_Win_lock_all(0, w.win);
    for (int i = 0; i < EACH; i++) {
        MPI_Fetch_and_op(&one, &drawn[i], MPI_LONG, 0, at(&w, 0, 0), MPI_SUM, w.win);
        MPI_Win_flush(0, w.win);
        CHECK(i == 0 || drawn[i] > drawn[i - 1], "the counter goes back from %ld to %ld", drawn[i - 1], drawn[i]);
        all += drawn[i];
    }
    for (int i = 0; i < EACH; i++) { /* an increment by compare-and-swap */
        long seen = 0, next, before;
        MPI_Fetch_and_op(NULL, &seen, MPI_LONG, ranks - 1, at(&w, ranks - 1, sizeof(long)), MPI_NO_OP, w.win);
        MPI_Win_flush(ranks - 1, w.win);
        for (;;) {
            next = seen + 1;
            MPI_Compare_and_swap(&next, &seen, &before, MPI_LONG, ranks - 1, at(&w, ranks - 1, sizeof(long)), w.win);
            MPI_Win_flush(ranks - 1, w.win);
            if (before == seen)
                break;
            seen = before;
        }
    }
    MPI_Win_unlock_all(w.win);
    long sum, total = (long)EACH * ranks;
    MPI_Allreduce(&all, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    SAME(sum, total * (total - 1) / 2);
    if (rank == 0)
        SAME(((long *)w.memory)[0], total);
    if (rank == ranks - 1)
        SAME(((long *)w.memory)[1], total);
    drop(&w);
}

/* Each rank changes an element of its own between those of the others, by fetch-and-op and by compare-and-swap that
 * succeeds and fails. */
#define WORDS(type, mpi) \
    do { \
        enum { EACH = 20 }; \
        struct window w = make(kind, ranks * sizeof(type)); \
        MPI_Aint own = at(&w, 0, rank * sizeof(type)); \
        MPI_Win_lock_all(0, w.win); \
        for (int i = 0; i < EACH; i++) { \
            type two = 2, even = 2 * (i + 1), odd = even + 1, old[4] = {99, 99, 99, 99}; \
            MPI_Fetch_and_op(&two, &old[0], mpi, 0, own, MPI_SUM, w.win); \
            MPI_Compare_and_swap(&odd, &even, &old[1], mpi, 0, own, w.win); \
            MPI_Compare_and_swap(&two, &even, &old[2], mpi, 0, own, w.win); \
            MPI_Fetch_and_op(&even, &old[3], mpi, 0, own, MPI_REPLACE, w.win); \
            MPI_Win_flush(0, w.win); \
            CHECK(old[0] == 2 * i && old[1] == even && old[2] == odd && old[3] == odd, \
                  #mpi " %d: %d, %d, %d, %d", i, (int)old[0], (int)old[1], (int)old[2], (int)old[3]); \
        } \
        MPI_Win_unlock_all(w.win); \
        MPI_Barrier(MPI_COMM_WORLD); \
        for (int i = 0; rank == 0 && i < ranks; i++) \
            SAME(((type *)w.memory)[i], 2 * EACH); \
        drop(&w); \
    } while (0)

static void words(int kind)
{
    WORDS(char, MPI_CHAR);
    WORDS(uint8_t, MPI_UINT8_T);
    WORDS(short, MPI_SHORT);
    WORDS(int, MPI_INT);
    WORDS(int64_t, MPI_INT64_T);
}

/* A counter that only the lock protects. */
static void protected(int kind)
{
    enum { EACH = 30 };
    struct window w = make(kind, sizeof(int));
    for (int i = 0; i < EACH; i++)
        for (int target = 0; target < ranks; target += 3) {
            int value = -1;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win);
            MPI_Get(&value, 1, MPI_INT, target, at(&w, target, 0), 1, MPI_INT, w.win);
            MPI_Win_flush(target, w.win);
            value++;
            MPI_Put(&value, 1, MPI_INT, target, at(&w, target, 0), 1, MPI_INT, w.win);
            MPI_Win_unlock(target, w.win);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win);
    SAME(*(int *)w.memory, rank % 3 ? 0 : EACH * ranks);
    MPI_Win_unlock(rank, w.win);
    drop(&w);
}

/* Get_accumulate returns what was there, in order of the calls; requests complete. */
static void requests(int kind)
{
    enum { MANY = 5000 };
    struct window w = make(kind, MANY * sizeof(int));
    int *mine = malloc(MANY * sizeof(int)), *old = malloc(MANY * sizeof(int)), target = (rank + 1) % ranks;
    MPI_Request request[4];
    for (int i = 0; i < MANY; i++)
        mine[i] = rank + i;
    MPI_Win_lock_all(0, w.win);
    MPI_Rput(mine, MANY, MPI_INT, target, at(&w, target, 0), MANY, MPI_INT, w.win, &request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(target, w.win);
    MPI_Rget_accumulate(mine, MANY, MPI_INT, old, MANY, MPI_INT, target, at(&w, target, 0), MANY, MPI_INT, MPI_SUM,
                        w.win, &request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++)
        SAME(old[i], rank + i);
    MPI_Raccumulate(mine, MANY, MPI_INT, target, at(&w, target, 0), MANY, MPI_INT, MPI_REPLACE, w.win, &request[0]);
    MPI_Get_accumulate(NULL, 0, MPI_INT, old, MANY, MPI_INT, target, at(&w, target, 0), MANY, MPI_INT, MPI_NO_OP,
                       w.win);
    MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
    MPI_Win_flush(target, w.win);
    for (int i = 0; i < MANY; i++)
        SAME(old[i], rank + i);
    /* The neighbour may still replace what this rank reads of its own. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Status status;
    MPI_Rget(old, 1, MPI_INT, target, at(&w, target, 0), 1, MPI_INT, w.win, &request[0]);
    MPI_Rget(old + 1, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win, &request[1]);
    MPI_Rput(mine, 0, MPI_INT, target, at(&w, target, 0), 0, MPI_INT, w.win, &request[2]);
    MPI_Rget(old + 2, 1, MPI_INT, rank, at(&w, rank, 0), 1, MPI_INT, w.win, &request[3]);
    MPI_Request_free(&request[3]);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(w.win);
    SAME(old[0], rank);
    (void)status;
    MPI_Win_unlock_all(w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    drop(&w);
    free(mine);
    free(old);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "threads") == 0) {
        int level;
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    } else
        start(&argc, &argv);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int on_one_host = 1;
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int there;
    MPI_Comm_size(host, &there);
    on_one_host = there == ranks;
    MPI_Comm_free(&host);
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == SHARED && !on_one_host)
            continue;
        for (int how = 0; how < EPOCHS; how++) {
            contiguous(kind, how, 8);
            contiguous(kind, how, 100001);
            strided(kind, how);
            accumulate(kind, how);
            pairs(kind, how);
        }
        counters(kind);
        words(kind);
        protected(kind);
        requests(kind);
    }
    MPI_Group_free(&world);
    return finish();
}
