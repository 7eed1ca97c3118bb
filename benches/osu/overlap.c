/* How much of a communication overlaps with computing. The first argument names it: `exchange`, a
 * nonblocking send and receive with the neighbour, `alltoall` or `allreduce`.
 *
 * It is timed alone first. Then it is started, the rank computes for as long as that took
 * and waits. Time beyond the computing is exposed; the rest of the communication has overlapped.
 * Computing touches no memory, and calls MPI_Testall as often as `-T` says. */
#include "common.h"

typedef struct {
    unsigned char *out, *in;   /* a block for each rank          */
    size_t size;               /* bytes of a block               */
    int first, last;           /* the ranks that it goes to      */
} operands;

/* What is measured. */
typedef struct {
    const char *name;
    void (*start)(const operands *, MPI_Request *);
    int to_all, reduces;
} kind;

typedef struct { double comm, compute, overall; } times;

static void exchange(const operands *d, MPI_Request requests[2]) {
    size_t at = d->first * d->size;
    MPI_Irecv(d->in + at, (int)d->size, MPI_CHAR, d->first, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(d->out + at, (int)d->size, MPI_CHAR, d->first, 1, MPI_COMM_WORLD, &requests[1]);
}

static void alltoall(const operands *d, MPI_Request requests[2]) {
    MPI_Ialltoall(d->out, (int)d->size, MPI_CHAR, d->in, (int)d->size, MPI_CHAR, MPI_COMM_WORLD, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
}

static void allreduce(const operands *d, MPI_Request requests[2]) {
    MPI_Iallreduce(d->out, d->in, (int)d->size, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
}

static const kind kinds[] = {
    {"exchange", exchange, 0, 0}, {"alltoall", alltoall, 1, 0}, {"allreduce", allreduce, 1, 1}};

static unsigned key(int from, int to, int round) { return round * 101 + from * 17 + to * 5; }

/* Computes for so many rounds of a chain that no compiler can shorten. */
static double work(double rounds) {
    volatile double kept;
    double x = 1.5;
    for (double i = 0; i < rounds; i++) x = x * 0.999999 + 1e-7;
    kept = x;
    return kept;
}

/* Rounds of work in a second: the most of several tries, since time of other processes does not
   count. */
static double speed(void) {
    double best = 0;
    for (int i = 0; i < 20; i++) {
        double begun = bench_now(), rounds = 1e5;
        work(rounds);
        rounds /= bench_now() - begun;
        best = rounds > best ? rounds : best;
    }
    return best;
}

/* Fills what this rank sends, so that it names sender, receiver and round. */
static void fill(const kind *k, const operands *d, int round) {
    int rank = bench_rank(), last = k->reduces ? d->first : d->last;
    for (int to = d->first; to <= last; to++) {
        bench_fill(d->out + to * d->size, d->size, key(rank, to, round));
        memset(d->in + to * d->size, 0xee, d->size);
    }
}

/* Checks what this rank has received. A reduction with the operands of the others leaves the own
   one. */
static void verify(const kind *k, const operands *d, int round) {
    int rank = bench_rank();
    if (!k->reduces) {
        for (int from = d->first; from <= d->last; from++)
            bench_verify(d->in + from * d->size, d->size, key(from, rank, round));
        return;
    }
    for (int from = d->first; from <= d->last; from++)
        for (size_t at = 0; from != rank && at < d->size; at++) d->in[at] ^= bench_byte(at, key(from, d->first, round));
    bench_verify(d->in, d->size, key(rank, d->first, round));
}

/* One of them, with so many rounds of work in between, and MPI_Testall `tests` times. */
static void once(const kind *k, const operands *d, double rounds, const bench_options *o, int round, times *sum) {
    MPI_Request requests[2];
    if (o->check) fill(k, d, round);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = bench_now();
    k->start(d, requests);
    double started = bench_now(), computed = started, before = started;
    for (int part = 0; rounds > 0 && part <= o->tests; part++) {
        work(rounds / (o->tests + 1));
        double now = bench_now();
        computed += now - before;
        int flag;
        if (part < o->tests) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        before = part < o->tests ? bench_now() : now;
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    double ended = bench_now();
    if (round >= 0 && rounds > 0) sum->overall += ended - begun, sum->compute += computed - started;
    if (round >= 0 && rounds <= 0) sum->comm += ended - begun;
    if (o->check) verify(k, d, round);
}

static void row(const bench_options *o, size_t size, times mine, int iterations) {
    times sum;
    MPI_Reduce(&mine, &sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (bench_rank() != 0) return;
    double micro = 1e6 / iterations / bench_size(), comm = sum.comm * micro, all = sum.overall * micro;
    double compute = sum.compute * micro, exposed = all - compute, hidden = 100 * (1 - exposed / comm);
    printf("%-10zu%18.2f%18.2f%18.2f%18.3f%14.2f", size, all, compute, comm, exposed > 0.001 ? exposed : 0.001,
           hidden < 0 ? 0 : hidden > 100 ? 100 : hidden);
    bench_row_end(o);
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1, .max = 1 << 20, .iterations = 1000, .warmup = -1};
    const char *usage = "overlap exchange|alltoall|allreduce [options]";
    MPI_Init(&argc, &argv);
    int rank = bench_rank(), ranks = bench_size();
    const kind *k = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name)) k = &kinds[i];
    if (!k) bench_usage(usage, "mixTch", argc < 2 || strcmp(argv[1], "-h") ? 2 : 0);
    int all = k->to_all;
    if (!all && ranks % 2) bench_end(2, "an exchange needs an even number of ranks");
    bench_parse(argc - 1, argv + 1, usage, "m:i:x:T:ch", &o);
    size_t room = o.max * ranks;
    operands data = {bench_buffer(room), bench_buffer(room), 0, all ? 0 : rank ^ 1, all ? ranks - 1 : rank ^ 1};
    double rounds_a_second = speed();
    bench_head(&o, "overlap of communication and computing",
               "Size          Overall(us)       Compute(us)          Comm(us)       Exposed(us)    Overlap(%)");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        int iterations = bench_iterations(&o, size), warmup = bench_warmup(&o, iterations);
        times sum = {0, 0, 0};
        data.size = size;
        for (int round = -warmup; round < iterations; round++)
            once(k, &data, 0, &o, round, &sum);
        double longest = sum.comm / iterations;
        MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        for (int round = -warmup; round < iterations; round++)
            once(k, &data, longest * rounds_a_second + 1, &o, round, &sum);
        row(&o, size, sum, iterations);
    }
    free(data.out), free(data.in);
    MPI_Finalize();
    return 0;
}
