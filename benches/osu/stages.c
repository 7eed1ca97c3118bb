/* Times the stages of a small message. Also times half of a round trip of a cache line from core to
 * core. Both are measured in turn: the machine's own speed changes, the ratio does not. Times are
 * those of rank 0, medians of many samples.
 *
 * `send` is the call alone, in a burst that no rank reads meanwhile. `receive` is the call for
 * messages that have arrived, whose lines are still at the sender. `latency` is half a round trip.
 * Latency beyond both is the wait for the line. */
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { BURST = 16, TRIPS = 200, MOST = 1000, PAGE = 4096 };
enum { LINE, SEND, RECEIVE, LATENCY, STAGES };

/* A page that both ranks see: rank 0 makes it, rank 1 opens it by rank 0's number. */
static atomic_int *shared_page(int rank) {
    char path[64] = "";
    if (rank == 0) {
        int fd = memfd_create("stages", 0);
        if (fd < 0 || ftruncate(fd, PAGE)) MPI_Abort(MPI_COMM_WORLD, 1);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    int fd = open(path, O_RDWR);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    return page == MAP_FAILED ? NULL : page;
}

static double line(atomic_int *word, int rank) {
    double begun = bench_now();
    for (int i = 0; i < TRIPS; i++) {
        if (rank == 0) atomic_store_explicit(word, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(word, memory_order_acquire) != 2 * i + 2 - rank) {}
        if (rank == 1) atomic_store_explicit(word, 2 * i + 2, memory_order_release);
    }
    return (bench_now() - begun) / (2 * TRIPS);
}

static double latency(char *data, int size, int rank) {
    double begun = bench_now();
    for (int i = 0; i < TRIPS; i++) {
        if (rank == 0) MPI_Send(data, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(data, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(data, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    return (bench_now() - begun) / (2 * TRIPS);
}

/* Rank `from` sends a burst; a flag outside MPI shows that all of it has arrived. */
static double burst(char *data, int size, int rank, int from, atomic_int *there, int round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != from)
        while (atomic_load_explicit(there, memory_order_acquire) != round) {}
    double begun = bench_now();
    for (int i = 0; i < BURST; i++) {
        if (rank == from) MPI_Send(data, size, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD);
        else MPI_Recv(data, size, MPI_CHAR, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    double took = (bench_now() - begun) / BURST;
    if (rank == from) atomic_store_explicit(there, round, memory_order_release);
    return took;
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    static double samples[STAGES][MOST];
    static const char *names[STAGES] = {"line", "send", "receive", "latency"};
    bench_options o = {.min = 8, .max = 64, .iterations = 400};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "stages [options]", "m:i:h", &o);
    if (o.iterations > MOST) bench_end(2, "stages takes at most 1000 samples");
    if (bench_size() != 2) bench_end(2, "stages runs on 2 ranks");
    int rank = bench_rank();
    atomic_int *word = shared_page(rank);
    if (!word) MPI_Abort(MPI_COMM_WORLD, 1);
    char *data = (char *)bench_buffer(o.max);
    bench_head(&o, "stages of a small message", "Size      Stage            Time(us)   Lines");
    for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) {
        atomic_int *there = word + PAGE / 2 / sizeof *word;
        for (int i = 0; i < o.iterations; i++) {
            int round = (int)size * MOST * 2 + 2 * i + 1;
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) atomic_store(word, 0);
            MPI_Barrier(MPI_COMM_WORLD);
            samples[LINE][i] = line(word, rank);
            samples[SEND][i] = burst(data, (int)size, rank, 0, there, round);
            samples[RECEIVE][i] = burst(data, (int)size, rank, 1, there, round + 1);
            samples[LATENCY][i] = latency(data, (int)size, rank);
        }
        for (int stage = 0; stage < STAGES; stage++) {
            qsort(samples[stage], o.iterations, sizeof(double), ascending);
            double median = samples[stage][o.iterations / 2];
            if (rank == 0)
                printf("%-10zu%-12s%13.3f%8.2f\n", size, names[stage], median * 1e6,
                       median / samples[LINE][o.iterations / 2]);
        }
    }
    free(data);
    MPI_Finalize();
    return 0;
}
