/* Jobs that were started apart, by `mpiexec --group`. The first argument says what this job does:
 *   server N        accepts N clients one after the other, found by a published name
 *   client [spawn]  connects, talks and disconnects; what it spawns does the same
 *   (both) keep     the same, and stays connected until MPI_Finalize
 *   client linger   the same as client, and ends long after the server
 *   join PATH       two jobs of one rank meet over a socket at this path
 *   lone            meets no other job: a port and a socket of one are refused with the remedy
 *   victim HOW      connects and dies: early (the server does not accept yet), now, or late (it
 *                   has sent)
 *   unwilling HOW   publishes a port and ends, or dies, without accepting; a refused client gets
 *   refused         an error
 *   closer          closes the port at which a client waits, and accepts it at another one
 *   late            gets the error of the first port
 *   forgotten HOW   waits for ever: at a port (accept), at a socket (join), or for a message on a
 *                   communicator that it disconnects (disconnect)
 *   survivor N      waits for an early victim to die, accepts N others, whose deaths end operations
 *                   with an error, and a client */
#include "check.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const SERVICE = "apart-ocean";

/* Looks the name up until it is published. */
static void look_up(const char *service, char *port)
{
    while (class_of(MPI_Lookup_name(service, MPI_INFO_NULL, port)) == MPI_ERR_NAME)
        usleep(10000);
}

/* All of both groups: collectives on the intercommunicator, messages in each direction, then a
 * merged communicator with collectives and a window. */
static void talk(MPI_Comm inter, int low)
{
    int there, mine, sum = 0, all, me;
    MPI_Comm merged;
    MPI_Comm_remote_size(inter, &there);
    MPI_Comm_rank(inter, &mine);
    int *theirs = allocate(there * sizeof(int));
    MPI_Allgather(&rank, 1, MPI_INT, theirs, 1, MPI_INT, inter);
    for (int i = 0; i < there; i++) {
        int word = -1;
        SAME(theirs[i], i);
        MPI_Sendrecv(&rank, 1, MPI_INT, i, 5, &word, 1, MPI_INT, i, 5, inter, MPI_STATUS_IGNORE);
        SAME(word, i);
    }
    /* More than any eager limit. */
    size_t large = 3 << 20;
    char *bytes = allocate(large);
    if (mine == 0) {
        MPI_Request request;
        char *back = allocate(large);
        fill(bytes, large, low);
        MPI_Isend(bytes, (int)large, MPI_BYTE, 0, 6, inter, &request);
        MPI_Recv(back, (int)large, MPI_BYTE, 0, 6, inter, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_FILLED(back, large, !low);
        free(back);
    }
    MPI_Intercomm_merge(inter, !low, &merged);
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &me);
    SAME(all, ranks + there);
    SAME(me, low ? rank : there + rank);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, merged);
    SAME(sum, all * (all - 1) / 2);
    MPI_Bcast(bytes, (int)large, MPI_BYTE, 0, merged);
    CHECK_FILLED(bytes, large, 1);
    /* Each puts its rank into the memory of all, and counts in that of the first one. */
    MPI_Win win;
    int *memory;
    MPI_Win_allocate((all + 1) * sizeof(int), sizeof(int), MPI_INFO_NULL, merged, &memory, &win);
    memset(memory, 0, (all + 1) * sizeof(int));
    MPI_Win_fence(0, win);
    for (int i = 0; i < all; i++)
        MPI_Put(&me, 1, MPI_INT, i, me, 1, MPI_INT, win);
    int one = 1;
    MPI_Accumulate(&one, 1, MPI_INT, 0, all, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < all; i++)
        SAME(memory[i], i);
    SAME(memory[all], me == 0 ? all : 0);
    MPI_Win_free(&win);
    MPI_Comm_disconnect(&merged);
    free(bytes);
    free(theirs);
}

static void server(int clients, int keeps)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(SERVICE, MPI_INFO_NULL, port);
    }
    for (int i = 0; i < clients; i++) {
        MPI_Comm inter;
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 1);
        if (!keeps)
            MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) {
        MPI_Unpublish_name(SERVICE, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
}

static void client(int keeps)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm inter;
    if (rank == 0)
        look_up(SERVICE, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    if (!keeps)
        MPI_Comm_disconnect(&inter);
}

static void spawn(char *program)
{
    MPI_Comm children;
    char *arguments[] = {"client", NULL};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, ranks - 1, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    int sum = 0;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_disconnect(&children);
}

/* Returns a socket to the process that has called this with the same path. */
static int meet(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (bind(end, (struct sockaddr *)&address, sizeof address) == 0) {
        CHECK(listen(end, 1) == 0, "not listening");
        int connected = accept(end, NULL, NULL);
        close(end);
        return connected;
    }
    while (connect(end, (struct sockaddr *)&address, sizeof address) != 0)
        usleep(10000);
    return end;
}

static void join(const char *path, int may)
{
    int end = meet(path), word = 7, other = 0;
    MPI_Comm inter;
    MPI_Comm_join(end, &inter);
    if (may) {
        MPI_Sendrecv(&word, 1, MPI_INT, 0, 1, &other, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
        SAME(other, 7);
        MPI_Comm_disconnect(&inter);
    } else
        SAME(inter == MPI_COMM_NULL, 1);
    close(end);
}

/* Another job's port, which nobody of this job can reach. */
static void lone(const char *path)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    int length, code = MPI_Comm_connect("verbena-port:1:1:1", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    SAME(class_of(code), MPI_ERR_PORT);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "--group"), "no remedy: %s", text);
    RAISES(MPI_ERR_NAME, MPI_Lookup_name(SERVICE, MPI_INFO_NULL, port));
    join(path, 0);
}

static void victim(const char *how)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm inter, world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (rank == 0)
        look_up(SERVICE, port);
    if (strcmp(how, "early") == 0)
        alarm(1); /* kills */
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, world, &inter);
    int word = 1;
    if (strcmp(how, "late") == 0 && rank == ranks - 1)
        MPI_Send(&word, 1, MPI_INT, 0, 1, inter);
    if (rank == ranks - 1) {
        usleep(300000);
        raise(SIGKILL);
    }
    MPI_Barrier(world);
}

/* The error names the process and says that its job has failed, or that it cannot be reached. */
static void is_failure(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    SAME(class_of(code), MPI_ERR_PROC_ABORTED);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "which is of another job, cannot be reached"), "no name: %s", text);
}

static void unwilling(const char *how)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(SERVICE, MPI_INFO_NULL, port);
    sleep(1);
    if (strcmp(how, "dies") == 0)
        raise(SIGKILL);
}

static void refused(void)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm inter;
    if (rank == 0)
        look_up(SERVICE, port);
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    if (rank == 0)
        is_failure(code);
    SAME(class_of(code), MPI_ERR_PROC_ABORTED);
    RAISES(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
}

static const char *const OTHER_SERVICE = "apart-other";

static void closer(void)
{
    char first[MPI_MAX_PORT_NAME], second[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    MPI_Open_port(MPI_INFO_NULL, first);
    MPI_Publish_name(SERVICE, MPI_INFO_NULL, first);
    sleep(1);
    MPI_Close_port(first);
    MPI_Open_port(MPI_INFO_NULL, second);
    MPI_Publish_name(OTHER_SERVICE, MPI_INFO_NULL, second);
    MPI_Comm_accept(second, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, 1);
    MPI_Comm_disconnect(&inter);
}

static void late(void)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm inter;
    if (rank == 0)
        look_up(SERVICE, port);
    RAISES(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    if (rank == 0)
        look_up(OTHER_SERVICE, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    MPI_Comm_disconnect(&inter);
}

static void forgotten(const char *how)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    int ends[2];
    if (strcmp(how, "accept") == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    } else if (strcmp(how, "disconnect") == 0) {
        static int value;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &inter);
        MPI_Irecv(&value, 1, MPI_INT, 0, 7, inter, &request);
        MPI_Comm_disconnect(&inter);
    } else if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0)
        MPI_Comm_join(ends[0], &inter);
}

static void survivor(int victims)
{
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm inter, last;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(SERVICE, MPI_INFO_NULL, port);
    }
    sleep(3);
    for (int i = 0; i < victims; i++) {
        int there, word = 0;
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        MPI_Comm_remote_size(inter, &there);
        if (i % 2 == 0 && rank == 0)
            SAME(MPI_Recv(&word, 1, MPI_INT, there - 1, 1, inter, MPI_STATUS_IGNORE), MPI_SUCCESS);
        /* No message comes; rank 0 of the victims is ended by its mpiexec. */
        if (i % 3 == 0)
            is_failure(MPI_Recv(&word, 1, MPI_INT, rank % there, 2, inter, MPI_STATUS_IGNORE));
        else if (i % 3 == 1)
            is_failure(MPI_Barrier(inter));
        else {
            MPI_Request request;
            MPI_Ibcast(&word, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter, &request);
            is_failure(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 2, inter, MPI_STATUS_IGNORE));
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* The deaths have left nothing that other jobs meet. Communicators with the dead stay connected
     * until MPI_Finalize, which does not wait for them. */
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &last);
    talk(last, 1);
    MPI_Comm_disconnect(&last);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    CHECK(argc > 1, "no argument says what to do");
    const char *what = argv[1], *value = argc > 2 ? argv[2] : "";
    int keeps = strcmp(argv[argc - 1], "keep") == 0;
    if (strcmp(what, "server") == 0)
        server(atoi(value), keeps);
    else if (strcmp(what, "client") == 0)
        client(keeps);
    else if (strcmp(what, "join") == 0)
        join(value, 1);
    else if (strcmp(what, "lone") == 0)
        lone(value);
    else if (strcmp(what, "victim") == 0)
        victim(value);
    else if (strcmp(what, "unwilling") == 0)
        unwilling(value);
    else if (strcmp(what, "refused") == 0)
        refused();
    else if (strcmp(what, "closer") == 0)
        closer();
    else if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "forgotten") == 0)
        forgotten(value);
    else if (strcmp(what, "survivor") == 0)
        survivor(atoi(value));
    else
        FAIL("what is %s?", what);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (strcmp(value, "spawn") == 0)
        spawn(argv[0]);
    if (strcmp(value, "linger") == 0) {
        sleep(4);
        printf("lingered\n");
    }
    if (parent != MPI_COMM_NULL)
        MPI_Comm_disconnect(&parent);
    return finish();
}
