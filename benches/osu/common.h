/* What the benchmark programs share: their options, the table they print, and
 * data that can be checked. The options and columns are those that users know
 * from the OSU micro-benchmarks, so that results can be laid side by side. */
#ifndef VERBENA_BENCH_COMMON_H
#define VERBENA_BENCH_COMMON_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Messages of more than this many bytes are "large": fewer iterations. */
enum { LARGE = 8192 };

typedef struct {
    size_t min, max;          /* message sizes in bytes, powers of two between */
    int iterations, warmup;   /* for small messages; a tenth for large ones    */
    int chosen;               /* iterations were given on the command line     */
    int window;               /* messages in flight, for bandwidth             */
    int check;                /* compare every byte that arrives               */
} bench_options;

static void bench_usage(const char *program, const char *what) {
    printf("%s: %s\n\n"
           "  -m [MIN:]MAX  message sizes in bytes (default 1:4194304)\n"
           "  -i N          iterations (default 10000, large messages 1000)\n"
           "  -x N          warm-up iterations (default a tenth)\n"
           "  -W N          messages in flight (default 64; bandwidth only)\n"
           "  -c            check the data\n"
           "  -h            this help\n", program, what);
}

static int bench_number(const char *text, long *value) {
    char *end;
    *value = strtol(text, &end, 10);
    return *text != 0 && (*end == 0 || *end == ':') && *value >= 0;
}

/* Reads the options; on bad ones rank 0 says so and all end. */
static bench_options bench_parse(int argc, char **argv, const char *what) {
    bench_options o = {1, 4 << 20, 10000, -1, 0, 64, 0};
    int rank, letter, bad = 0, help = 0;
    long value = 0, second = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opterr = rank == 0;
    while ((letter = getopt(argc, argv, "m:i:x:W:ch")) != -1) {
        const char *colon = optarg ? strchr(optarg, ':') : NULL;
        if (optarg && !bench_number(optarg, &value)) { bad = 1; break; }
        switch (letter) {
        case 'm':
            if (!colon) { o.max = value; break; }
            if (!bench_number(colon + 1, &second)) { bad = 1; break; }
            o.min = value; o.max = second;
            break;
        case 'i': o.iterations = value; o.chosen = 1; break;
        case 'x': o.warmup = value; break;
        case 'W': o.window = value; break;
        case 'c': o.check = 1; break;
        case 'h': help = 1; break;
        default: bad = 1;
        }
    }
    if (bad || help || optind < argc || o.min > o.max || o.iterations < 1 || o.window < 1) {
        if (rank == 0) bench_usage(argv[0], what);
        MPI_Finalize();
        exit(help ? 0 : 2);
    }
    return o;
}

static int bench_iterations(const bench_options *o, size_t size) {
    return o->chosen || size <= LARGE ? o->iterations : o->iterations / 10;
}

static int bench_warmup(const bench_options *o, int iterations) {
    return o->warmup >= 0 ? o->warmup : iterations / 10 + 1;
}

static size_t bench_next(size_t size) { return size == 0 ? 1 : size * 2; }

/* Page-aligned memory that has been touched. */
static unsigned char *bench_buffer(size_t size) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, size ? size : 1)) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(memory, 0, size);
    return memory;
}

static unsigned char bench_byte(size_t at, int round) {
    return (unsigned char)(at * 131 + at / 251 + round * 7 + 1);
}

static void bench_fill(unsigned char *data, size_t size, int round) {
    for (size_t at = 0; at < size; at++) data[at] = bench_byte(at, round);
}

static void bench_verify(const unsigned char *data, size_t size, int round) {
    for (size_t at = 0; at < size; at++)
        if (data[at] != bench_byte(at, round)) {
            fprintf(stderr, "wrong data: byte %zu of %zu in round %d is %d, not %d\n", at, size, round,
                    data[at], bench_byte(at, round));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* The number of ranks the program wants, or an end with a sentence. */
static void bench_ranks(int wanted) {
    int size, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != wanted) {
        if (rank == 0) fprintf(stderr, "this benchmark runs on %d ranks, not %d\n", wanted, size);
        MPI_Finalize();
        exit(2);
    }
}

#endif
