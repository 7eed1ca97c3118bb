/* One-sided communication between two ranks. The first argument names the figure, the second the
 * kind of window, the third the synchronisation:
 *
 *   put get accumulate fetch_and_op compare_and_swap   time of one operation that is complete at the
 *                                                      target
 *   put_bw get_bw    bytes and operations a second, `-W` of them between two synchronisations
 *   none             time of the synchronisation alone
 *   passive          time of a put and of a fetch-and-op at a target that computes meanwhile
 *   copy             bytes a second by stores into the other rank's part of a shared window
 *
 *   windows: create allocate shared dynamic
 *   synchronisation: flush (in one epoch of MPI_Win_lock_all), lock (exclusive, with its unlock),
 *   shared_lock, lock_all, fence, pscw
 *
 * Rank 0 is the origin. With flush and locks rank 1 waits in a barrier, as most programs that
 * measure this have it. */
#include "common.h"

/* What the arguments name, in the order of their names: a call takes nanoseconds, and comparing strings
 * beside it would count as much. */
enum { PUT, GET, ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, PUT_BW, GET_BW, NONE, PASSIVE, COPY };
enum { CREATE, ALLOCATE, SHARED, DYNAMIC };
enum { FLUSH, LOCK, SHARED_LOCK, LOCK_ALL, FENCE, PSCW };

static const char *const OPERATIONS[] = {"put", "get", "accumulate", "fetch_and_op", "compare_and_swap",
                                         "put_bw", "get_bw", "none", "passive", "copy", NULL};
static const char *const KINDS[] = {"create", "allocate", "shared", "dynamic", NULL};
static const char *const SYNCS[] = {"flush", "lock", "shared_lock", "lock_all", "fence", "pscw", NULL};
static const char USAGE[] = "rma put|get|accumulate|fetch_and_op|compare_and_swap|put_bw|get_bw|none|passive|copy "
                            "create|allocate|shared|dynamic flush|lock|shared_lock|lock_all|fence|pscw [options]";

typedef struct {
    int operation, kind, sync;
    MPI_Win win;
    unsigned char *memory, *local; /* of the window; of the origin */
    MPI_Aint base;                 /* what displacements begin with */
    MPI_Group peer;
} state;

/* The place of a word among others; -1: it is none of them. */
static int chosen(const char *word, const char *const *words) {
    for (int at = 0; word && words[at]; at++)
        if (!strcmp(word, words[at])) return at;
    return -1;
}

static int is_rate(const state *s) { return s->operation == PUT_BW || s->operation == GET_BW; }

/* The hint that was given, or none. */
static MPI_Info hints(const bench_options *o) {
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY];
    if (!o->hint) return MPI_INFO_NULL;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(o->hint, "="), o->hint);
    MPI_Info_create(&info);
    MPI_Info_set(info, key, strchr(o->hint, '=') + 1);
    return info;
}

static void make(const bench_options *o, state *s, size_t bytes) {
    MPI_Aint mine = 0, bases[2];
    MPI_Info info = hints(o);
    s->local = bench_buffer(bytes);
    if (s->kind == ALLOCATE)
        MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &s->memory, &s->win);
    else if (s->kind == SHARED)
        MPI_Win_allocate_shared(bytes, 1, info, MPI_COMM_WORLD, &s->memory, &s->win);
    else
        s->memory = bench_buffer(bytes);
    if (s->kind == CREATE) MPI_Win_create(s->memory, bytes, 1, info, MPI_COMM_WORLD, &s->win);
    if (s->kind == DYNAMIC) {
        MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &s->win);
        MPI_Win_attach(s->win, s->memory, bytes);
        MPI_Get_address(s->memory, &mine);
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    MPI_Allgather(&mine, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    s->base = bases[1 - bench_rank()];
    memset(s->memory, 0, bytes);
    MPI_Group world;
    int peer = 1 - bench_rank();
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &s->peer);
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void drop(state *s) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (s->kind == DYNAMIC) MPI_Win_detach(s->win, s->memory);
    MPI_Win_free(&s->win);
    if (s->kind == CREATE || s->kind == DYNAMIC) free(s->memory);
    free(s->local);
    MPI_Group_free(&s->peer);
}

/* One operation of the origin. */
static void operate(const state *s, size_t size) {
    static long long old, expected, one = 1;
    int words = (int)(size / sizeof one);
    switch (s->operation) {
    case PUT:
    case PUT_BW: MPI_Put(s->local, (int)size, MPI_CHAR, 1, s->base, (int)size, MPI_CHAR, s->win); break;
    case GET:
    case GET_BW: MPI_Get(s->local, (int)size, MPI_CHAR, 1, s->base, (int)size, MPI_CHAR, s->win); break;
    case ACCUMULATE:
        MPI_Accumulate(s->local, words, MPI_LONG_LONG, 1, s->base, words, MPI_LONG_LONG, MPI_SUM, s->win);
        break;
    case FETCH_AND_OP: MPI_Fetch_and_op(&one, &old, MPI_LONG_LONG, 1, s->base, MPI_SUM, s->win); break;
    case COMPARE_AND_SWAP:
        MPI_Compare_and_swap(&one, &expected, &old, MPI_LONG_LONG, 1, s->base, s->win);
        break;
    }
}

/* Begins an epoch of the origin, where each round has its own. */
static void begin(const state *s) {
    switch (s->sync) {
    case LOCK: MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, s->win); break;
    case SHARED_LOCK: MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, s->win); break;
    case LOCK_ALL: MPI_Win_lock_all(0, s->win); break;
    case PSCW: MPI_Win_start(s->peer, 0, s->win); break;
    }
}

/* Completes all operations of the origin. */
static void complete(const state *s) {
    switch (s->sync) {
    case FLUSH: MPI_Win_flush(1, s->win); break;
    case LOCK:
    case SHARED_LOCK: MPI_Win_unlock(1, s->win); break;
    case LOCK_ALL: MPI_Win_unlock_all(s->win); break;
    case FENCE: MPI_Win_fence(0, s->win); break;
    case PSCW: MPI_Win_complete(s->win); break;
    }
}

/* `many` operations between two synchronisations of the origin. */
static void round_of(const state *s, size_t size, int many) {
    begin(s);
    for (int i = 0; i < many; i++) operate(s, size);
    complete(s);
}

/* The target's part of it, where it has one. */
static void answer(const state *s) {
    if (s->sync == FENCE) MPI_Win_fence(0, s->win);
    if (s->sync == PSCW) {
        MPI_Win_post(s->peer, 0, s->win);
        MPI_Win_wait(s->win);
    }
}

/* Seconds of a round. */
static double measure(const bench_options *o, const state *s, size_t size, int many) {
    int iterations = bench_iterations(o, size), is_origin = bench_rank() == 0, flushes = s->sync == FLUSH;
    double start = 0, took = 0;
    if (many > 1 && !o->chosen) iterations = iterations / many + 1;
    if (s->sync == FENCE) MPI_Win_fence(0, s->win);
    if (flushes && is_origin) MPI_Win_lock_all(0, s->win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (round == 0) start = bench_now();
        if (is_origin) round_of(s, size, many);
        else answer(s);
    }
    took = (bench_now() - start) / iterations;
    if (flushes && is_origin) MPI_Win_unlock_all(s->win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (s->sync == FENCE) MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win);
    return took;
}

static double least(const bench_options *o, const state *s, size_t size, int many) {
    double took = measure(o, s, size, many);
    for (int pass = 1; pass < o->passes; pass++) took = bench_least(took, measure(o, s, size, many));
    return took;
}

/* Compares what a put has left at the target. */
static void check(const bench_options *o, const state *s, size_t size) {
    if (!o->check || (s->operation != PUT && s->operation != PUT_BW)) return;
    if (bench_rank() == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, s->win);
        bench_verify(s->memory, size, 7);
        MPI_Win_unlock(1, s->win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sizes(const bench_options *o, state *s) {
    int many = is_rate(s) ? o->window : s->operation == NONE ? 0 : 1;
    int is_fixed = s->operation == FETCH_AND_OP || s->operation == COMPARE_AND_SWAP || s->operation == NONE;
    for (size_t size = is_fixed ? 8 : o->min; size <= (is_fixed ? 8 : o->max); size = bench_next(o, size)) {
        if (o->check) bench_fill(s->local, size, 7);
        double took = least(o, s, size, many);
        check(o, s, size);
        if (bench_rank() != 0) continue;
        if (is_rate(s)) printf("%-10zu%18.2f%18.2f", size, size * many / took / 1e6, many / took);
        else if (many == 0) printf("%18.3f", took * 1e6);
        else printf("%-10zu%18.3f", size, took * 1e6);
        bench_row_end(o);
    }
}

/* A target that computes for `BUSY` seconds in each round, and enters MPI only then. */
static void passive(const bench_options *o, state *s) {
    const double BUSY = 1e-3;
    double sum = 0;
    int iterations = o->chosen ? o->iterations : 200;
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        if (bench_rank() == 1) {
            while (bench_now() - start < BUSY) continue;
        } else {
            static long long old, one = 1;
            MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, s->win);
            MPI_Put(&one, 8, MPI_CHAR, 1, s->base + 8, 8, MPI_CHAR, s->win);
            MPI_Fetch_and_op(&one, &old, MPI_LONG_LONG, 1, s->base, MPI_SUM, s->win);
            MPI_Win_unlock(1, s->win);
            if (round >= 0) sum += bench_now() - start;
        }
    }
    if (bench_rank() != 0) return;
    printf("%-10d%18.3f", 8, sum / iterations * 1e6);
    bench_row_end(o);
}

/* Stores into the other rank's part of a shared window. */
static void copy(const bench_options *o, state *s) {
    MPI_Aint bytes;
    int unit;
    unsigned char *theirs;
    MPI_Win_shared_query(s->win, 1, &bytes, &unit, &theirs);
    for (size_t size = o->min; size <= o->max && bench_rank() == 0; size = bench_next(o, size)) {
        int iterations = bench_iterations(o, size);
        double start = 0;
        for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
            if (round == 0) start = bench_now();
            memcpy(theirs, s->local, size);
            __asm__ volatile("" ::: "memory");
        }
        printf("%-10zu%18.2f", size, size * (double)iterations / (bench_now() - start) / 1e6);
        bench_row_end(o);
    }
}

int main(int argc, char **argv) {
    bench_options o = {.min = 8, .max = 4 << 20, .iterations = 20000, .warmup = -1, .window = 64, .passes = 1};
    MPI_Init(&argc, &argv);
    state s = {.operation = chosen(argc > 1 ? argv[1] : NULL, OPERATIONS),
               .kind = chosen(argc > 2 ? argv[2] : NULL, KINDS), .sync = chosen(argc > 3 ? argv[3] : NULL, SYNCS)};
    if (s.operation < 0 || s.kind < 0 || s.sync < 0) bench_usage(USAGE, "mixrWkch", argc > 1 && !strcmp(argv[1], "-h") ? 0 : 2);
    bench_parse(argc - 3, argv + 3, USAGE, "m:i:n:x:r:W:k:ch", &o);
    if (bench_size() != 2) bench_end(2, "rma runs on 2 ranks");
    if (s.operation == ACCUMULATE && o.min < 8) o.min = 8;
    if (s.operation == COPY && s.kind != SHARED) bench_end(2, "copy needs a shared window");
    make(&o, &s, o.max < 64 ? 64 : o.max);
    bench_head(&o, OPERATIONS[s.operation],
               is_rate(&s)           ? "Size    Bandwidth (MB/s)          Messages/s"
               : s.operation == COPY ? "Size    Bandwidth (MB/s)"
               : s.operation == NONE ? "  Avg Latency(us)" : "Size     Avg Latency(us)");
    if (s.operation == PASSIVE) passive(&o, &s);
    else if (s.operation == COPY) copy(&o, &s);
    else sizes(&o, &s);
    drop(&s);
    MPI_Finalize();
    return 0;
}
