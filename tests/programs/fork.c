/* Processes fork after and during traffic. Their children use the buffers that were sent and
 * received, and the heap around them, and end in both ways; the parents continue. Memory that a
 * device has pinned must not be missing in a child, and must stay the parent's. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { SIZES = 4, BLOCKS = 2000, ROUNDS = 3 };

static const int sizes[SIZES] = {8, 6000, 70000, 3 << 20};
static unsigned char *sent[SIZES], *received[SIZES], *blocks[BLOCKS];

static uint64_t seed_of(int round, int from, int n)
{
    return 1000 * round + 10 * from + n;
}

/* Returns the first wrong byte, or -1. */
static int wrong(const unsigned char *bytes, int size, uint64_t seed)
{
    for (int at = 0; at < size; at++)
        if (bytes[at] != pattern(seed, at))
            return at;
    return -1;
}

/* Returns 0 if all memory is there, as the parent had it; changes all of it. */
static int use_memory(int round, int left)
{
    for (int n = 0; n < SIZES; n++) {
        if (wrong(sent[n], sizes[n], seed_of(round, rank, n)) >= 0)
            return 10 + n;
        /* The device may still write it. */
        if (left >= 0 && wrong(received[n], sizes[n], seed_of(round, left, n)) >= 0)
            return 20 + n;
        memset(sent[n], 0xee, sizes[n]);
        memset(received[n], 0xee, sizes[n]);
    }
    for (int n = 0; n < BLOCKS; n++) {
        if (blocks[n][0] != (unsigned char)n)
            return 30;
        memset(blocks[n], 0xee, 100);
        free(blocks[n]);
        if ((blocks[n] = malloc(50 + n)) == NULL)
            return 31;
        memset(blocks[n], 0xee, 50 + n);
    }
    return 0;
}

/* Forks a child that uses all memory. `left`: from whom everything has arrived, or -1. */
static pid_t begin_child(int round, int left)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork failed");
    if (child == 0) {
        alarm(30);
        int code = use_memory(round, left);
        if (round % 2 == 0)
            _exit(code);
        exit(code);
    }
    return child;
}

static void end_child(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child, "there is no child");
    CHECK(!WIFSIGNALED(status), "the child was killed by signal %d", WTERMSIG(status));
    SAME(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    for (int n = 0; n < SIZES; n++) {
        sent[n] = malloc(sizes[n]);
        received[n] = malloc(sizes[n]);
    }
    for (int n = 0; n < BLOCKS; n++) {
        blocks[n] = malloc(100);
        memset(blocks[n], n, 100);
    }
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2 * SIZES];
        for (int n = 0; n < SIZES; n++) {
            fill(sent[n], sizes[n], seed_of(round, rank, n));
            MPI_Irecv(received[n], sizes[n], MPI_BYTE, left, n, MPI_COMM_WORLD, &requests[n]);
            MPI_Isend(sent[n], sizes[n], MPI_BYTE, right, n, MPI_COMM_WORLD, &requests[SIZES + n]);
        }
        pid_t during = begin_child(round, -1);
        MPI_Waitall(2 * SIZES, requests, MPI_STATUSES_IGNORE);
        pid_t after = begin_child(round, left);
        end_child(during);
        end_child(after);
        for (int n = 0; n < SIZES; n++) {
            SAME(wrong(sent[n], sizes[n], seed_of(round, rank, n)), -1);
            SAME(wrong(received[n], sizes[n], seed_of(round, left, n)), -1);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish();
}
