/* One rank calls a collective with another kind, root, operation or size than the others, all drawn
 * at random around the sizes at which collectives change their way. At least two ranks learn of it,
 * in the call or in the next one; no rank waits for ever, and afterwards the communicator works.
 * Arguments: the number of cases, and the first seed. */
#include "check.h"

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN, KINDS };
static const char *const names[KINDS] = {"barrier",   "bcast",    "reduce",         "allreduce", "gather", "scatter",
                                         "allgather", "alltoall", "reduce_scatter", "scan"};
static const int counts[] = {1, 3, 8, 500, 511, 2000, 2046, 2047, 2049, 4100, 5000, 33000, 70000};
enum { COUNTS = sizeof counts / sizeof counts[0], MAX_COUNT = 70000, MAX_RANKS = 16 };

struct call {
    int kind, root, is_max, count, is_nonblocking;
};

static double given[MAX_COUNT * MAX_RANKS], got[MAX_COUNT * MAX_RANKS];
static unsigned long long state;

static int draw(int below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((state >> 33) % (unsigned)below);
}

static struct call any_call(void)
{
    struct call call = {draw(KINDS), draw(ranks), draw(2), counts[draw(COUNTS)], draw(2)};
    return call;
}

static int has_root(int kind)
{
    return kind == BCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
}

static int has_op(int kind)
{
    return kind == REDUCE || kind == ALLREDUCE || kind == REDUCE_SCATTER || kind == SCAN;
}

/* What differs between the calls of the odd rank and the others; NULL if nothing does. */
static const char *difference(const struct call *a, const struct call *b)
{
    if (a->kind != b->kind)
        return "kind";
    if (has_root(a->kind) && a->root != b->root)
        return "root";
    if (has_op(a->kind) && a->is_max != b->is_max)
        return "operation";
    return a->kind != BARRIER && a->count != b->count ? "size" : NULL;
}


static int run(const struct call *call)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Op op = call->is_max ? MPI_MAX : MPI_SUM;
    MPI_Datatype ty = MPI_DOUBLE;
    MPI_Request request = MPI_REQUEST_NULL;
    int n = call->count, root = call->root, code = MPI_SUCCESS, later = call->is_nonblocking;
    switch (call->kind) {
    case BARRIER: code = later ? MPI_Ibarrier(comm, &request) : MPI_Barrier(comm); break;
    case BCAST:
        code = later ? MPI_Ibcast(given, n, ty, root, comm, &request) : MPI_Bcast(given, n, ty, root, comm);
        break;
    case REDUCE:
        code = later ? MPI_Ireduce(given, got, n, ty, op, root, comm, &request)
                     : MPI_Reduce(given, got, n, ty, op, root, comm);
        break;
    case ALLREDUCE:
        code = later ? MPI_Iallreduce(given, got, n, ty, op, comm, &request) : MPI_Allreduce(given, got, n, ty, op, comm);
        break;
    case GATHER:
        code = later ? MPI_Igather(given, n, ty, got, n, ty, root, comm, &request)
                     : MPI_Gather(given, n, ty, got, n, ty, root, comm);
        break;
    case SCATTER:
        code = later ? MPI_Iscatter(given, n, ty, got, n, ty, root, comm, &request)
                     : MPI_Scatter(given, n, ty, got, n, ty, root, comm);
        break;
    case ALLGATHER:
        code = later ? MPI_Iallgather(given, n, ty, got, n, ty, comm, &request)
                     : MPI_Allgather(given, n, ty, got, n, ty, comm);
        break;
    case ALLTOALL:
        code = later ? MPI_Ialltoall(given, n, ty, got, n, ty, comm, &request)
                     : MPI_Alltoall(given, n, ty, got, n, ty, comm);
        break;
    case REDUCE_SCATTER:
        code = later ? MPI_Ireduce_scatter_block(given, got, n, ty, op, comm, &request)
                     : MPI_Reduce_scatter_block(given, got, n, ty, op, comm);
        break;
    default: code = later ? MPI_Iscan(given, got, n, ty, op, comm, &request) : MPI_Scan(given, got, n, ty, op, comm);
    }
    return code != MPI_SUCCESS || !later ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void text_of(int code, char *text)
{
    int length;
    text[0] = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
}

static void one_case(int seed)
{
    struct call right, odd;
    const char *differs;
    char first[MPI_MAX_ERROR_STRING], second[MPI_MAX_ERROR_STRING];
    int who, i, mine, all, one = 1;
    state = 1000003ULL * (unsigned)seed + 17;
    for (i = 0; i < 5; i++)
        draw(2);
    right = odd = any_call();
    who = draw(ranks);
    do {
        struct call other = any_call();
        switch (draw(4)) {
        case 0: odd.kind = other.kind; break;
        case 1: odd.root = other.root; break;
        case 2: odd.is_max = other.is_max; break;
        default: odd.count = other.count;
        }
        differs = difference(&right, &odd);
    } while (!differs);
    text_of(run(rank == who ? &odd : &right), first);
    text_of(MPI_Barrier(MPI_COMM_WORLD), second);
    for (i = 0; i < 8; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    mine = first[0] || second[0];
    i = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(i == MPI_SUCCESS, "seed %d: the communicator does not work again", seed);
    MPI_Allreduce(&one, &mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(mine, ranks);
    CHECK(all >= 2,
          "seed %d, another %s: %d ranks have learned that rank %d called %s(root %d, max %d, %d), and the others "
          "%s(root %d, max %d, %d): %s / %s",
          seed, differs, all, who, names[odd.kind], odd.root, odd.is_max, odd.count, names[right.kind], right.root,
          right.is_max, right.count, first, second);
}

int main(int argc, char **argv)
{
    int cases = argc > 1 ? atoi(argv[1]) : 100, seed = argc > 2 ? atoi(argv[2]) : 1, i;
    start(&argc, &argv);
    let_errors_return();
    for (i = 0; i < cases; i++)
        one_case(seed + i);
    return finish();
}
