/* How much of a communication overlaps with computing. The first argument names it: `exchange`, a
 * nonblocking send and receive with the neighbour, or `alltoall`.
 *
 * It is timed alone first. Then it is started, the rank computes for as long as that took
 * and waits. Time beyond the computing is exposed; the rest of the communication has overlapped.
 * Computing touches no memory and calls no MPI. */
#include "common.h"

typedef struct {
    unsigned char *out, *in;   /* a block for each rank          */
    size_t size;               /* bytes of a block               */
    int first, last;           /* the ranks that it goes to      */
} operands;

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

/* One of them, with so many rounds of work in between. */
static void once(void (*start)(const operands *, MPI_Request *), const operands *d, double rounds, int check, int round,
                 times *sum) {
    MPI_Request requests[2];
    int rank = bench_rank();
    for (int to = d->first; check && to <= d->last; to++) {
        bench_fill(d->out + to * d->size, d->size, key(rank, to, round));
        memset(d->in + to * d->size, 0xee, d->size);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = bench_now();
    start(d, requests);
    double started = bench_now();
    if (rounds > 0) work(rounds);
    double computed = bench_now();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    double ended = bench_now();
    if (round >= 0 && rounds > 0) sum->overall += ended - begun, sum->compute += computed - started;
    if (round >= 0 && rounds <= 0) sum->comm += ended - begun;
    for (int from = d->first; check && from <= d->last; from++)
        bench_verify(d->in + from * d->size, d->size, key(from, rank, round));
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
    const char *usage = "overlap exchange|alltoall [options]";
    MPI_Init(&argc, &argv);
    int rank = bench_rank(), ranks = bench_size(), all = argc > 1 && !strcmp(argv[1], "alltoall");
    if (argc < 2 || (!all && strcmp(argv[1], "exchange")))
        bench_usage(usage, "mixch", argc < 2 || strcmp(argv[1], "-h") ? 2 : 0);
    if (!all && ranks % 2) bench_end(2, "an exchange needs an even number of ranks");
    bench_parse(argc - 1, argv + 1, usage, "m:i:x:ch", &o);
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
            once(all ? alltoall : exchange, &data, 0, o.check, round, &sum);
        double longest = sum.comm / iterations;
        MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        for (int round = -warmup; round < iterations; round++)
            once(all ? alltoall : exchange, &data, longest * rounds_a_second + 1, o.check, round, &sum);
        row(&o, size, sum, iterations);
    }
    free(data.out), free(data.in);
    MPI_Finalize();
    return 0;
}
