/* Instructions of one call each, for `cargo xtask counts`: rank 0 runs under
 * callgrind, rank 1 without. Nothing here takes a time.
 *
 * A count repeats only if the call finds the same state each time. Therefore the ranks synchronise
 * outside MPI between steps, in a word of a shared file: a receiver that is measured has its
 * message already, and the receiver of a measured sender never sleeps. Each counted step stands
 * between two toggles; callgrind writes a file for each step.
 *
 * With the name of one case, that alone runs, without toggles: callgrind itself selects the
 * function to collect in, and keeps apart where the costs arise. */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

enum { WARM = 8, ROUNDS = 32, BATCH = 8, LARGEST = 1024 };

typedef void body(int step, int size);

static int rank, round_number, counted;
static atomic_int *steps;          /* of each rank, in the shared file */
static char data[BATCH][LARGEST];
static MPI_Request requests[BATCH];
static MPI_Win window;

/* Both ranks are here. */
static void synchronise(void) {
    int step = atomic_load(&steps[rank]) + 1;
    atomic_store(&steps[rank], step);
    while (atomic_load(&steps[1 - rank]) < step) usleep(50);
}

/* Counts `call` if it is the selected step. */
#define COUNT(number, call)                                         \
    do {                                                            \
        int now = (number) == step && counted && round_number >= 0; \
        if (now) CALLGRIND_TOGGLE_COLLECT;                          \
        call;                                                       \
        if (now) CALLGRIND_TOGGLE_COLLECT;                          \
    } while (0)
#define EACH for (int i = 0; i < BATCH; i++)

static void blocking_sends(int step, int size) {
    if (rank == 0) EACH COUNT(1, MPI_Send(data[i], size, MPI_CHAR, 1, i, MPI_COMM_WORLD));
    synchronise();
    if (rank == 1) EACH MPI_Recv(data[i], size, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    synchronise();
}

static void nonblocking_sends(int step, int size) {
    if (rank == 0) {
        EACH COUNT(1, MPI_Isend(data[i], size, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]));
        EACH COUNT(2, MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    synchronise();
    if (rank == 1) EACH MPI_Recv(data[i], size, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    synchronise();
}

/* The messages have arrived, and no call has looked at them. */
static void arrived(int step, int size) {
    if (rank == 1) EACH MPI_Send(data[i], size, MPI_CHAR, 0, i, MPI_COMM_WORLD);
    synchronise();
    if (rank == 0) EACH COUNT(1, MPI_Recv(data[i], size, MPI_CHAR, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    synchronise();
}

/* A probe for another message has found them. */
static void unexpected(int step, int size) {
    int flag;
    if (rank == 1) EACH MPI_Send(data[i], size, MPI_CHAR, 0, i, MPI_COMM_WORLD);
    synchronise();
    if (rank == 0) {
        EACH MPI_Iprobe(1, BATCH, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        EACH COUNT(1, MPI_Recv(data[i], size, MPI_CHAR, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    synchronise();
}

static void posted(int step, int size) {
    if (rank == 0) EACH COUNT(1, MPI_Irecv(data[i], size, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]));
    synchronise();
    if (rank == 1) EACH MPI_Send(data[i], size, MPI_CHAR, 0, i, MPI_COMM_WORLD);
    synchronise();
    if (rank == 0) COUNT(2, MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE));
}

static void to_oneself(int step, int size) {
    if (rank == 0) EACH {
        COUNT(1, MPI_Isend(data[0], size, MPI_CHAR, 0, i, MPI_COMM_SELF, requests));
        COUNT(2, MPI_Recv(data[1], size, MPI_CHAR, 0, i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        COUNT(3, MPI_Wait(requests, MPI_STATUS_IGNORE));
    }
}

static void nothing_there(int step, int size) {
    int flag = size;
    if (rank == 0) EACH {
        COUNT(0, );
        COUNT(1, MPI_Comm_rank(MPI_COMM_WORLD, &flag));
        COUNT(2, MPI_Iprobe(1, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        COUNT(3, MPI_Allreduce(data[0], data[1], size / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));
    }
}

/* In memory of rank 1, which does not help. */
static void one_sided(int step, int size) {
    long long one = 1, old;
    if (rank == 0) {
        MPI_Win_lock_all(0, window);
        EACH {
            COUNT(1, MPI_Put(data[0], size, MPI_CHAR, 1, 0, size, MPI_CHAR, window));
            COUNT(2, MPI_Get(data[0], size, MPI_CHAR, 1, 0, size, MPI_CHAR, window));
            COUNT(3, MPI_Fetch_and_op(&one, &old, MPI_LONG_LONG, 1, 0, MPI_SUM, window));
            COUNT(4, MPI_Win_flush(1, window));
        }
        MPI_Win_unlock_all(window);
    }
    synchronise();
}

static void locks(int step, int size) {
    if (rank == 0) EACH {
        COUNT(1, MPI_Win_lock(size ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 1, 0, window));
        COUNT(2, MPI_Win_unlock(1, window));
    }
    synchronise();
}

static const struct { const char *name; body *run; int step, size; } cases[] = {
    {"the toggles", nothing_there, 0, 8}, /* taken off all others */
    {"MPI_Send, 8 bytes", blocking_sends, 1, 8},
    {"MPI_Send, 1 KiB", blocking_sends, 1, LARGEST},
    {"MPI_Isend, 8 bytes", nonblocking_sends, 1, 8},
    {"MPI_Wait of a send that left", nonblocking_sends, 2, 8},
    {"MPI_Recv, 8 bytes, arrived", arrived, 1, 8},
    {"MPI_Recv, 1 KiB, arrived", arrived, 1, LARGEST},
    {"MPI_Recv, 8 bytes, unexpected", unexpected, 1, 8},
    {"MPI_Irecv, 8 bytes, posted", posted, 1, 8},
    {"MPI_Waitall, a posted receive of 8 bytes, arrived", posted, 2, 8},
    {"MPI_Isend to oneself, 8 bytes", to_oneself, 1, 8},
    {"MPI_Recv from oneself, 8 bytes", to_oneself, 2, 8},
    {"MPI_Comm_rank", nothing_there, 1, 8},
    {"MPI_Iprobe, nothing there", nothing_there, 2, 8},
    {"MPI_Allreduce, 8 bytes, one rank", nothing_there, 3, 8},
    {"MPI_Put, 8 bytes, same host", one_sided, 1, 8},
    {"MPI_Get, 8 bytes, same host", one_sided, 2, 8},
    {"MPI_Fetch_and_op, same host", one_sided, 3, 8},
    {"MPI_Win_flush, same host", one_sided, 4, 8},
    {"MPI_Win_lock, free", locks, 1, 8},
    {"MPI_Win_unlock, nobody waits", locks, 2, 8},
};

int main(int argc, char **argv) {
    const char *only = argc == 3 ? argv[2] : NULL;
    int file = argc == 2 || only ? open(argv[1], O_RDWR) : -1;
    steps = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || steps == MAP_FAILED) {
        fprintf(stderr, "usage: counts FILE [CASE]   (a file of 4096 zero bytes)\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    counted = rank == 0 && !only && RUNNING_ON_VALGRIND;
    void *memory;
    MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (only && strcmp(only, cases[i].name)) continue;
        for (round_number = -WARM; round_number < ROUNDS; round_number++) cases[i].run(cases[i].step, cases[i].size);
        if (counted) CALLGRIND_DUMP_STATS_AT(cases[i].name);
    }
    if (rank == 0) printf("%d\n", (only ? WARM + ROUNDS : ROUNDS) * BATCH);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
