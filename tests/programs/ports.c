/* Ports: two halves of a job connect, several clients take turns at one server, names of services
 * are published, found and taken back, a socket makes an intercommunicator, and misuse is named. */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

/* Each rank of one side sends its rank to all of the other, and both agree on a sum. */
static void talk(MPI_Comm inter, int low)
{
    int here, there, mine, sum = 0, expected = 0;
    MPI_Comm merged;
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    MPI_Comm_rank(inter, &mine);
    int *theirs = allocate(there * sizeof(int));
    MPI_Allgather(&rank, 1, MPI_INT, theirs, 1, MPI_INT, inter);
    for (int i = 0; i < there; i++) {
        int word = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, i, 5, &word, 1, MPI_INT, i, 5, inter, MPI_STATUS_IGNORE);
        SAME(word, theirs[i]);
        expected += word;
    }
    MPI_Intercomm_merge(inter, !low, &merged);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    int ours = 0;
    MPI_Comm local;
    MPI_Comm_split(merged, low, mine, &local);
    MPI_Allreduce(&rank, &ours, 1, MPI_INT, MPI_SUM, local);
    SAME(sum, ours + expected);
    MPI_Comm_free(&local);
    MPI_Comm_free(&merged);
    free(theirs);
}

/* The even ranks serve, the odd ones connect; the root is the last rank of each side. */
static void halves(int times)
{
    int low = rank % 2 == 0, size, mine;
    char port[MPI_MAX_PORT_NAME] = "not read";
    MPI_Comm side, inter;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &side);
    MPI_Comm_size(side, &size);
    MPI_Comm_rank(side, &mine);
    int server = (ranks - 1) / 2 * 2, client = ranks / 2 * 2 - 1, is_root = mine == size - 1;
    if (low && is_root)
        MPI_Open_port(MPI_INFO_NULL, port);
    for (int i = 0; i < times; i++) {
        if (low && is_root)
            MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, client, 1, MPI_COMM_WORLD);
        if (!low && is_root)
            MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, server, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (low)
            MPI_Comm_accept(port, MPI_INFO_NULL, size - 1, side, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, size - 1, side, &inter);
        talk(inter, low);
        if (i % 2)
            MPI_Comm_disconnect(&inter);
        else
            MPI_Comm_free(&inter);
        SAME(inter == MPI_COMM_NULL, 1);
    }
    if (low && is_root) {
        MPI_Close_port(port);
        RAISES(MPI_ERR_PORT, MPI_Close_port(port));
        RAISES(MPI_ERR_PORT, MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, client, 1, MPI_COMM_WORLD);
    }
    if (!low && is_root) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, server, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        RAISES(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    }
    MPI_Comm_free(&side);
}

/* All other ranks are clients of rank 0, which finds the port by a name; each comes twice. */
static void clients(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name("clients", MPI_INFO_NULL, port);
        RAISES(MPI_ERR_SERVICE, MPI_Publish_name("clients", MPI_INFO_NULL, port));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < (rank == 0 ? 2 * (ranks - 1) : 2); i++) {
        int word = rank, other = -1;
        if (rank == 0)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        else {
            MPI_Lookup_name("clients", MPI_INFO_NULL, port);
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        }
        MPI_Sendrecv(&word, 1, MPI_INT, 0, 3, &other, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
        SAME(rank == 0 ? other > 0 && other < ranks : other == 0, 1);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Unpublish_name("clients", MPI_INFO_NULL, port);
        RAISES(MPI_ERR_SERVICE, MPI_Unpublish_name("clients", MPI_INFO_NULL, port));
        MPI_Close_port(port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    RAISES(MPI_ERR_NAME, MPI_Lookup_name("clients", MPI_INFO_NULL, port));
}

static void misuse(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    RAISES(MPI_ERR_PORT, MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    RAISES(MPI_ERR_PORT, MPI_Comm_connect("verbena-port:1:0:1", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    RAISES(MPI_ERR_ROOT, MPI_Comm_accept("nonsense", MPI_INFO_NULL, 1, MPI_COMM_SELF, &inter));
    MPI_Open_port(MPI_INFO_NULL, port);
    RAISES(MPI_ERR_COMM, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    MPI_Close_port(port);
}

/* Ranks 0 and 1 share a TCP socket, over which they join twice. */
static void join(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = -1, end = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
        listener = end;
        CHECK(bind(listener, (struct sockaddr *)&address, length) == 0, "not bound");
        CHECK(listen(listener, 1) == 0, "not listening");
        getsockname(listener, (struct sockaddr *)&address, &length);
        MPI_Send(&address, sizeof address, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        end = accept(listener, NULL, NULL);
    } else {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(connect(end, (struct sockaddr *)&address, length) == 0, "not connected");
    }
    for (int i = 0; i < 2; i++) {
        MPI_Comm inter;
        char letter = "xy"[rank], other = 0;
        MPI_Comm_join(end, &inter);
        talk(inter, rank == 0);
        MPI_Comm_disconnect(&inter);
        CHECK(write(end, &letter, 1) == 1 && read(end, &other, 1) == 1, "the socket has ended");
        SAME(other, "xy"[!rank]);
    }
    close(end);
    if (listener >= 0)
        close(listener);
}

/* The other end of the socket has never heard of MPI. */
static void join_alone(void)
{
    int ends[2];
    MPI_Comm inter = MPI_COMM_WORLD;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no socket");
    char other[100] = {0};
    CHECK(write(ends[1], other, 28) == 28, "not written");
    RAISES(MPI_ERR_OTHER, MPI_Comm_join(ends[0], &inter));
    RAISES(MPI_ERR_ARG, MPI_Comm_join(-1, &inter));
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    if (ranks > 1) {
        halves(3);
        clients();
    }
    if (ranks > 1 && rank < 2)
        join();
    misuse();
    join_alone();
    return finish();
}
