/* The time of a collective operation, which the first argument names.
 *
 * Sizes are bytes of one block: the whole operand of allreduce, bcast, reduce and reduce_scatter;
 * otherwise the contribution of each rank, or its share from each other rank. Reductions add
 * MPI_FLOATs. A barrier stands between two iterations, and each rank adds up its own time in the
 * operation. */
#include "common.h"

typedef struct {
    unsigned char *out, *in;   /* space for a block for each rank */
    unsigned char *root;       /* rank 0: out, others: in        */
    int count;                 /* items of a block               */
    int *parts;                /* items of each rank's share     */
} operands;

typedef struct {
    const char *name;
    void (*call)(const operands *data);
    enum { NOTHING, BLOCKS, FLOATS } kind;
    int unit;                  /* bytes of an item               */
    char out, in;              /* how many blocks a rank gives and gets: '0', '1', 'n';       */
                               /* capital letters: only rank 0 ('R', 'N'), or its block ('B') */
} operation;

static void barrier(const operands *d) { (void)d, MPI_Barrier(MPI_COMM_WORLD); }
static void bcast(const operands *d) { MPI_Bcast(d->root, d->count, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void gather(const operands *d) {
    MPI_Gather(d->out, d->count, MPI_CHAR, d->in, d->count, MPI_CHAR, 0, MPI_COMM_WORLD);
}
static void scatter(const operands *d) {
    MPI_Scatter(d->out, d->count, MPI_CHAR, d->in, d->count, MPI_CHAR, 0, MPI_COMM_WORLD);
}
static void allgather(const operands *d) {
    MPI_Allgather(d->out, d->count, MPI_CHAR, d->in, d->count, MPI_CHAR, MPI_COMM_WORLD);
}
static void alltoall(const operands *d) {
    MPI_Alltoall(d->out, d->count, MPI_CHAR, d->in, d->count, MPI_CHAR, MPI_COMM_WORLD);
}
static void reduce(const operands *d) {
    MPI_Reduce(d->out, d->in, d->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void allreduce(const operands *d) {
    MPI_Allreduce(d->out, d->in, d->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce_scatter(const operands *d) {
    MPI_Reduce_scatter(d->out, d->in, d->parts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static const operation operations[] = {
    {"allgather", allgather, BLOCKS, 1, '1', 'n'},
    {"allreduce", allreduce, FLOATS, 4, '1', '1'},
    {"alltoall", alltoall, BLOCKS, 1, 'n', 'n'},
    {"barrier", barrier, NOTHING, 1, '0', '0'},
    {"bcast", bcast, BLOCKS, 1, 'R', 'B'},
    {"gather", gather, BLOCKS, 1, '1', 'N'},
    {"reduce", reduce, FLOATS, 4, '1', 'R'},
    {"reduce_scatter", reduce_scatter, FLOATS, 4, '1', '1'},
    {"scatter", scatter, BLOCKS, 1, 'N', '1'},
};

/* Number of blocks that a letter stands for, for this rank. */
static int blocks(char letter) {
    int rank = bench_rank();
    if (letter == 'n') return bench_size();
    if (letter == '1') return 1;
    if (letter == 'R' || letter == 'N') return rank == 0 ? (letter == 'N' ? bench_size() : 1) : 0;
    return letter == 'B' && rank != 0;
}

/* A small whole number, so that sums of floats are exact in any order. */
static float addend(int rank, size_t at, int round) { return (float)((rank * 3 + at + round + FEWEST) % 17); }

/* A block's key: the giver, and the receiver if each rank gets another block. */
static unsigned key(int from, int to, int round) { return round * 101 + from * 17 + to * 5; }

static void fill(const operation *op, const operands *d, int round) {
    size_t block = (size_t)d->count * op->unit;
    int each = op->out == 'n' || op->out == 'N';
    memset(d->in, 0xee, block * blocks(op->in));
    for (int to = 0; op->kind == BLOCKS && to < blocks(op->out); to++)
        bench_fill(d->out + to * block, block, key(bench_rank(), each ? to : 0, round));
    for (int at = 0; op->kind == FLOATS && at < d->count; at++) ((float *)d->out)[at] = addend(bench_rank(), at, round);
}

static void verify_sums(const operands *d, const float *sums, int first, int count, int round) {
    for (int at = first; at < first + count; at++) {
        float wanted = 0;
        for (int rank = 0; rank < bench_size(); rank++) wanted += addend(rank, at, round);
        if (sums[at - first] != wanted) {
            fprintf(stderr, "wrong sum: item %d of %d in round %d is %g, not %g\n", at, d->count, round,
                    sums[at - first], wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void verify(const operation *op, const operands *d, int round) {
    size_t block = (size_t)d->count * op->unit;
    int rank = bench_rank(), each = op->out == 'n' || op->out == 'N', first = 0, count = d->count;
    for (int from = 0; op->kind == BLOCKS && from < blocks(op->in); from++)
        bench_verify(d->in + from * block, block, key(from, each ? rank : 0, round));
    if (op->kind != FLOATS || !blocks(op->in)) return;
    if (op->call == reduce_scatter) {
        for (int before = 0; before < rank; before++) first += d->parts[before];
        count = d->parts[rank];
    }
    verify_sums(d, (float *)d->in, first, count, round);
}

/* The time of one call on this rank; with -b, of the call and the barrier after it. The time in the call alone depends
 * on which rank leaves the barrier before it first: a library whose root does so measures less. */
static double in_the_call(const operation *op, const bench_options *o, operands *d, size_t size) {
    int iterations = bench_iterations(o, size), ranks = bench_size();
    double total = 0;
    d->count = (int)(size / op->unit);
    for (int rank = 0; rank < ranks; rank++) d->parts[rank] = d->count / ranks + (rank < d->count % ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, iterations); round < iterations; round++) {
        if (o->check) fill(op, d, round);
        double start = bench_now();
        op->call(d);
        if (o->barrier) MPI_Barrier(MPI_COMM_WORLD);
        if (round >= 0) total += bench_now() - start;
        if (o->check) verify(op, d, round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return total / iterations;
}

static const operation *named(const char *name) {
    for (size_t i = 0; name && i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(name, operations[i].name)) return &operations[i];
    return NULL;
}

int main(int argc, char **argv) {
    static const char usage[] = "collective OPERATION [options]\n\nOPERATION is one of allgather, allreduce, alltoall, "
                                "barrier, bcast, gather, reduce, reduce_scatter, scatter";
    static const char letters[] = "m:i:n:x:bcfh";
    bench_options o = {.min = 1, .max = 1 << 20, .iterations = 10000, .warmup = -1};
    MPI_Init(&argc, &argv);
    const operation *op = named(argv[1]);
    if (!op) bench_usage(usage, letters, argc > 1 && !strcmp(argv[1], "-h") ? 0 : 2);
    bench_parse(argc - 1, argv + 1, usage, letters, &o);
    if (o.min < (size_t)op->unit) o.min = op->unit;
    size_t most = op->kind == NOTHING ? 0 : o.max;
    operands d = {bench_buffer(most * bench_size()), bench_buffer(most * bench_size()), NULL, 0,
                  malloc(sizeof(int) * bench_size())};
    if (!d.parts) MPI_Abort(MPI_COMM_WORLD, 1);
    d.root = bench_rank() == 0 ? d.out : d.in;
    bench_head_times(&o, op->name, op->kind == NOTHING ? "" : "Size");
    if (op->kind == NOTHING) bench_times(&o, -1, in_the_call(op, &o, &d, 0), o.iterations);
    else for (size_t size = o.min; size <= o.max; size = bench_next(&o, size))
        bench_times(&o, size, in_the_call(op, &o, &d, size), bench_iterations(&o, size));
    free(d.out), free(d.in), free(d.parts);
    MPI_Finalize();
    return 0;
}
