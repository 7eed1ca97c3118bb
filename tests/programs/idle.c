/* A rank that waits for no message uses no processor, and pairs that do not communicate take no
   memory: idle [memory]. */
#include "check.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void waits_for_a_second(void)
{
    struct timespec time = {1, 100000000};
    double before = cpu_seconds(), used;
    int word = 0, other;
    if (rank == 0) {
        nanosleep(&time, NULL);
        for (other = 1; other < ranks; other++)
            MPI_Send(&word, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used = cpu_seconds() - before;
        /* A rank that polls uses all of it; what a sleeping one does is slow on an emulated processor. */
        CHECK(used < 0.2, "waiting for a second took %.3f s of a processor", used);
    }
}

/* Bytes that the job's memory files take. */
static long taken(void)
{
    char path[300], target[300];
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    struct stat file;
    long most = 0;
    CHECK(folder != NULL, "no /proc");
    while ((entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        if (strstr(target, "memfd:") && stat(path, &file) == 0 && file.st_blocks * 512L > most)
            most = file.st_blocks * 512L;
    }
    closedir(folder);
    return most;
}

/* Each rank exchanges messages with the next rank alone. */
static void quiet_pairs(void)
{
    enum {
        TALKING = 2 * 4096,      /* the ring of a pair that has talked */
        SHARED = 3 * (544 << 10) /* the collective segment: at most three slot sets */
    };
    int word = 0, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, round;
    for (round = 0; round < 2; round++) {
        if (rank > 0)
            MPI_Recv(&word, 1, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, next, 2, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) {
        long pairs = (long)ranks * (ranks - 2), bytes = taken() - (long)ranks * TALKING - SHARED;
        CHECK(taken() > 0, "the job has no memory file");
        CHECK(bytes <= 64 * pairs, "%ld pairs that never talked take %ld bytes", pairs, bytes);
        printf("%ld pairs that never talked take %ld bytes\n", pairs, bytes > 0 ? bytes : 0);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 1)
        quiet_pairs();
    else
        waits_for_a_second();
    return finish();
}
