/* Code that the benchmark programs share: their options, the table they print, and data that can be
 * checked.
 *
 * Options, sizes and columns are those that users know from the OSU
 * micro-benchmarks, so that a script that reads those reads these. Only
 * functions of MPI 3.1 are called: one binary serves every library with the
 * standard ABI, and other libraries compile the same source. Time is taken
 * from the system's clock, not from MPI_Wtime, so that all libraries are
 * measured with one ruler. */
#ifndef VERBENA_BENCH_COMMON_H
#define VERBENA_BENCH_COMMON_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Up to this many bytes a message is small. Larger ones are sent less often, in
 * proportion to their size, but at least a FEWEST-th as often. */
enum { SMALL = 8192, FEWEST = 50 };

typedef struct {
    size_t min, max;          /* message sizes in bytes, powers of two between   */
    size_t list[16];          /* or these, `listed` of them                      */
    int listed;
    int iterations;           /* of a small message, or of all if `chosen`       */
    int chosen;               /* -i was given                                    */
    int warmup;               /* iterations before the clock starts; -1: a tenth */
    int window;               /* messages in flight                              */
    int tests;                /* MPI_Test calls while a rank computes            */
    int passes;               /* over each size, of which the best is shown      */
    int pairs;                /* pairs of ranks; 0: as many as there are         */
    int threads;              /* of each rank                                    */
    int barrier;              /* time a call and a barrier together              */
    int check;                /* compare every byte that arrives                 */
    int full;                 /* smallest and largest of all ranks too           */
    const char *hint;         /* KEY=VALUE for what is created; NULL: none       */
} bench_options;

static const struct { char letter; const char *text; } bench_help[] = {
    {'m', "-m [MIN:]MAX  message sizes in bytes, MIN: for no other maximum; or a list, as 8,4096"},
    {'i', "-i N          iterations of every size (default: fewer for large messages)"},
    {'n', "-n N          iterations of a small message, fewer for large ones"},
    {'x', "-x N          iterations before the clock starts (default: a tenth)"},
    {'W', "-W N          messages in flight (default 64)"},
    {'T', "-T N          calls of MPI_Testall while a rank computes (default 0)"},
    {'r', "-r N          passes over each size, of which the best is shown (default 1)"},
    {'p', "-p N          pairs of ranks (default: half the ranks)"},
    {'t', "-t N          threads in each rank (default 2)"},
    {'k', "-k KEY=VALUE  a hint (MPI_Info) for the window"},
    {'b', "-b            the time of a call and a barrier after it, not of the call alone"},
    {'c', "-c            check all data, and say so in a column (which counts in the times of messages)"},
    {'f', "-f            all columns: smallest and largest time of all ranks, iterations"},
    {'h', "-h            this help"},
};

static inline double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static inline double bench_least(double one, double other) {
    return one < other ? one : other;
}

static inline int bench_rank(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static inline int bench_size(void) {
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/* Ends all ranks, with a sentence of rank 0 on the stream for it. */
static inline void bench_end(int code, const char *sentence) {
    if (bench_rank() == 0) fprintf(code ? stderr : stdout, "%s\n", sentence);
    MPI_Finalize();
    exit(code);
}

static inline void bench_usage(const char *usage, const char *letters, int code) {
    if (bench_rank() == 0) {
        FILE *to = code ? stderr : stdout;
        fprintf(to, "usage: %s\n\n", usage);
        for (size_t i = 0; i < sizeof bench_help / sizeof *bench_help; i++)
            if (strchr(letters, bench_help[i].letter)) fprintf(to, "  %s\n", bench_help[i].text);
    }
    MPI_Finalize();
    exit(code);
}

/* Reads a number that ends at `until`; -1 if it is none. */
static inline long bench_number(const char *text, const char *until) {
    char *end;
    long value = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && end == until ? value : -1;
}

/* Sizes with commas between them, each larger than the one before, into `o`; 0 if they are none. */
static inline int bench_list(const char *text, bench_options *o) {
    for (const char *end = text; *end; text = end + 1) {
        end = text + strcspn(text, ",");
        long size = bench_number(text, end);
        if (size < 0 || o->listed == 16 || (o->listed && (size_t)size <= o->max)) return 0;
        o->list[o->listed++] = o->max = size;
    }
    o->min = o->list[0];
    return 1;
}

/* MAX, MIN:MAX or MIN: into `o`; 0 if it is none of these. */
static inline int bench_range(const char *text, bench_options *o) {
    if (strchr(text, ',')) return bench_list(text, o);
    const char *colon = strchr(text, ':'), *end = text + strlen(text);
    long min = colon ? bench_number(text, colon) : (long)o->min;
    const char *rest = colon ? colon + 1 : text;
    long max = *rest || !colon ? bench_number(rest, end) : (long)o->max;
    if (min < 0 || max < min) return 0;
    o->min = min, o->max = max;
    return 1;
}

/* Reads the options named in `letters` over the defaults in `o`. Bad ones end all ranks. */
static inline void bench_parse(int argc, char **argv, const char *usage, const char *letters, bench_options *o) {
    int letter;
    opterr = bench_rank() == 0;
    while ((letter = getopt(argc, argv, letters)) != -1) {
        long value = optarg && !strchr("km", letter) ? bench_number(optarg, optarg + strlen(optarg)) : 0;
        int *place = letter == 'i' || letter == 'n' ? &o->iterations : letter == 'x' ? &o->warmup
                   : letter == 'W' ? &o->window : letter == 'p' ? &o->pairs : letter == 't' ? &o->threads : letter == 'r' ? &o->passes : letter == 'T' ? &o->tests : NULL;
        if (letter == 'h') bench_usage(usage, letters, 0);
        if (letter == '?' || (letter == 'm' && !bench_range(optarg, o))
            || (letter == 'k' && !strchr(optarg, '=')) || (place && value < (letter != 'x')))
            bench_usage(usage, letters, 2);
        if (place) *place = value;
        if (letter == 'i') o->chosen = 1;
        if (letter == 'k') o->hint = optarg;
        if (letter == 'b') o->barrier = 1;
        if (letter == 'c') o->check = 1;
        if (letter == 'f') o->full = 1;
    }
}

static inline int bench_iterations(const bench_options *o, size_t size) {
    if (o->chosen || size <= SMALL) return o->iterations;
    int fewer = (int)((double)o->iterations * SMALL / size), fewest = o->iterations / FEWEST;
    return fewer > fewest ? fewer : fewest + !fewest;
}

static inline int bench_warmup(const bench_options *o, int iterations) {
    return o->warmup >= 0 ? o->warmup : iterations / 10 + 1;
}

/* The size after this one; more than `max` after the last. */
static inline size_t bench_next(const bench_options *o, size_t size) {
    for (int i = 0; i < o->listed; i++)
        if (o->list[i] > size) return o->list[i];
    return size == 0 ? 1 : o->listed ? o->max + 1 : size * 2;
}

/* Page-aligned memory that has been touched. */
static inline unsigned char *bench_buffer(size_t size) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, size ? size : 1)) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(memory, 0, size);
    return memory;
}

/* Data that identifies its message: `key` is any number both sides know. */
static inline unsigned char bench_byte(size_t at, unsigned key) {
    return (unsigned char)(at * 131 + at / 251 + key * 7 + 1);
}

static inline void bench_fill(unsigned char *data, size_t size, unsigned key) {
    for (size_t at = 0; at < size; at++) data[at] = bench_byte(at, key);
}

static inline void bench_verify(const unsigned char *data, size_t size, unsigned key) {
    for (size_t at = 0; at < size; at++)
        if (data[at] != bench_byte(at, key)) {
            fprintf(stderr, "wrong data: byte %zu of %zu of message %u is %d, not %d\n", at, size, key, data[at],
                    bench_byte(at, key));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* The title and the head of the table, from rank 0. */
static inline void bench_head(const bench_options *o, const char *title, const char *columns) {
    if (bench_rank() == 0) {
        printf("# Verbena benchmarks: %s\n# %s", title, columns);
        printf("%s\n", o->check ? "        Validation" : "");
        fflush(stdout);
    }
}

/* The same output for rows of `bench_times`; `first` is empty where no size is printed. */
static inline void bench_head_times(const bench_options *o, const char *title, const char *first) {
    char columns[160];
    snprintf(columns, sizeof columns, "%-8s%18s%s", first, "Avg Latency(us)",
             o->full ? "   Min Latency(us)   Max Latency(us)  Iterations" : "");
    bench_head(o, title, columns + (*first ? 0 : 8));
}

/* The end of a row; a wrong byte would have ended the job before. */
static inline void bench_row_end(const bench_options *o) {
    printf("%s\n", o->check ? "              Pass" : "");
    fflush(stdout);
}

/* A row of times from one time of each rank, in seconds. `size` < 0: an operation without data. */
static inline void bench_times(const bench_options *o, long size, double mine, int iterations) {
    double sum, least, most;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (bench_rank() != 0) return;
    if (size >= 0) printf("%-10ld", size);
    printf("%18.3f", sum / bench_size() * 1e6);
    if (o->full) printf("%18.3f%18.3f%12d", least * 1e6, most * 1e6, iterations);
    bench_row_end(o);
}

#endif
