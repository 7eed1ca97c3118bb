/* A bare TCP connection between two processes on two cores, by busy polling: what an MPI over TCP
 * has to be measured against. No MPI. "latency" prints half the time of a round trip, "bw" the rate
 * of a window of messages, for each size. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 64, SMALL = 8192 };

static int is_first, fd;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Binds to the `wanted`-th core that this process may use. */
static void bind_to(int wanted) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && wanted-- == 0) CPU_SET(core, &one);
    if (CPU_COUNT(&one)) sched_setaffinity(0, sizeof one, &one);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void move(char *data, size_t size, int is_send) {
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    while (size > 0) {
        ssize_t moved = is_send ? send(fd, data, size, flags) : recv(fd, data, size, flags);
        if (moved == 0) exit(1);
        if (moved < 0 && errno != EAGAIN && errno != EINTR) fail("socket");
        if (moved > 0) data += moved, size -= moved;
    }
}

static double half_round_trip(char *data, size_t size, int rounds) {
    double start = 0;
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0) start = now();
        move(data, size, is_first);
        move(data, size, !is_first);
    }
    return (now() - start) / (2.0 * rounds);
}

static double one_window(char *data, size_t size, int rounds) {
    double start = 0;
    for (int round = -1 - rounds / 10; round < rounds; round++) {
        if (round == 0) start = now();
        for (int i = 0; i < WINDOW; i++) move(data, size, is_first);
        move(data, 1, !is_first);
    }
    return (now() - start) / rounds;
}

static void connect_both(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 1)) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &len);
    is_first = fork() != 0;
    fd = is_first ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || (!is_first && connect(fd, (struct sockaddr *)&address, len))) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    bind_to(!is_first);
}

int main(int argc, char **argv) {
    size_t min = 1, max = 4 << 20;
    int is_bw = argc > 1 && !strcmp(argv[1], "bw"), is_known = is_bw || (argc > 1 && !strcmp(argv[1], "latency"));
    int all = is_bw ? 1000 : 10000;
    for (; argc > 3; argc -= 2) {
        const char *word = argv[argc - 2], *value = argv[argc - 1];
        is_known &= !strcmp(word, "-m") ? sscanf(value, "%zu:%zu", &min, &max) == 2 : !strcmp(word, "-n") && (all = atoi(value)) > 0;
    }
    if (!is_known || argc != 2 || min < 1)
        return fprintf(stderr, "usage: socket latency|bw [-m MIN:MAX] [-n ROUNDS]\n"), 2;
    connect_both();
    char *data = malloc(max);
    memset(data, 1, max);
    if (is_first) printf("# Verbena benchmarks: a bare socket\n# Size    %s\n", is_bw ? "Bandwidth (MB/s)" : "Latency(us)");
    for (size_t size = min; size <= max; size *= 2) {
        int fewer = (int)((size_t)all * SMALL / size);
        int rounds = size <= SMALL ? all : fewer > all / 50 ? fewer : all / 50;
        double took = is_bw ? one_window(data, size, rounds) : half_round_trip(data, size, rounds);
        if (is_first) printf("%-10zu%18.3f\n", size, is_bw ? size * WINDOW / took / 1e6 : took * 1e6), fflush(stdout);
    }
    if (is_first) wait(NULL);
    return 0;
}
