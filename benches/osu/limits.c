/* Limits of the machine itself, for comparison: a cache line that two cores hand to each other, and
 * memcpy on one core. No MPI. With -l only the line, in some 10 ms: a look at which of its states
 * the machine is in. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUND_TRIPS = 200000, QUICK_ROUND_TRIPS = 4000, TRIES = 7 };

static struct { _Alignas(128) atomic_int there; _Alignas(128) atomic_int back; } line;
static int cores[2], round_trips = ROUND_TRIPS;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void bind_to(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void wait_for(atomic_int *word, int value) {
    while (atomic_load_explicit(word, memory_order_acquire) != value) {
    }
}

static void *answer(void *unused) {
    bind_to(cores[1]);
    for (int round_trip = 1; round_trip <= round_trips; round_trip++) {
        wait_for(&line.there, round_trip);
        atomic_store_explicit(&line.back, round_trip, memory_order_release);
    }
    return unused;
}

/* Seconds from one core's store to the other's load. */
static double exchange(void) {
    pthread_t other;
    atomic_store(&line.there, 0), atomic_store(&line.back, 0);
    if (pthread_create(&other, NULL, answer, NULL)) exit(1);
    double start = 0;
    for (int round_trip = 1; round_trip <= round_trips; round_trip++) {
        if (round_trip == round_trips / 10) start = now();
        atomic_store_explicit(&line.there, round_trip, memory_order_release);
        wait_for(&line.back, round_trip);
    }
    double took = now() - start;
    pthread_join(other, NULL);
    return took / (2.0 * (round_trips - round_trips / 10));
}

/* Bytes a second of memcpy between two fixed places. */
static double copy(size_t size) {
    unsigned char *from = aligned_alloc(4096, size), *to = aligned_alloc(4096, size);
    size_t times = ((size_t)256 << 20) / size;
    if (!from || !to) exit(1);
    memset(from, 1, size), memset(to, 2, size);
    double start = now();
    for (size_t i = 0; i < times; i++) {
        memcpy(to, from, size);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    double took = now() - start;
    free(from), free(to);
    return size * times / took;
}

static int by_value(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

static double median(double *values) {
    qsort(values, TRIES, sizeof *values, by_value);
    return values[TRIES / 2];
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {4096, 65536, 1 << 20, 4 << 20};
    double tries[TRIES];
    cpu_set_t allowed;
    int found = 0, only_line = argc == 2 && !strcmp(argv[1], "-l");
    if (argc > 1 && !only_line) return fprintf(stderr, "usage: limits [-l]\n\n  -l            only the cache line, in some 10 ms\n"), 2;
    if (only_line) round_trips = QUICK_ROUND_TRIPS;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET(core, &allowed)) cores[found++] = core;
    bind_to(cores[0]);
    printf("# Verbena benchmarks: limits of the machine\n");
    if (found == 2) {
        for (int i = 0; i < TRIES; i++) tries[i] = exchange();
        printf("cores %d and %d, cache line(us): %.4f\n", cores[0], cores[1], median(tries) * 1e6);
    }
    if (only_line) return 0;
    printf("# Size        memcpy (MB/s)\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int attempt = 0; attempt < TRIES; attempt++) tries[attempt] = copy(sizes[i]);
        printf("%-10zu%18.2f\n", sizes[i], median(tries) / 1e6);
    }
    return 0;
}
