/* Collectives that ranks call differently. Each such case ends in an error that names both calls, on
 * every rank, and no rank waits for ever. Afterwards the communicator still works. With an argument,
 * one case whose errors are fatal. */
#include "check.h"

static char text[MPI_MAX_ERROR_STRING];
static double numbers[200000], results[200000];

/* The text of an error; empty without one. */
static const char *text_of(int code)
{
    int length;
    text[0] = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    return text;
}

/* Runs barriers until all ranks are in step; returns the errors of the first one, which reports what
   this rank could not know before. */
static int settle(MPI_Comm comm)
{
    int i, first = MPI_Barrier(comm), sum, one = 1, size;
    for (i = 0; i < 8; i++)
        MPI_Barrier(comm);
    MPI_Comm_size(comm, &size);
    i = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(i == MPI_SUCCESS, "the communicator does not work again: %s", text_of(i));
    SAME(sum, size);
    return first;
}

/* How many ranks have seen an error, in the call or the next one; and how many that name `words`. */
static void expect(const char *what, int code, const char *words, int at_least)
{
    int mine[2], all[2];
    char found[2 * MPI_MAX_ERROR_STRING];
    snprintf(found, sizeof found, "%s", text_of(code));
    code = settle(MPI_COMM_WORLD);
    strncat(found, text_of(code), MPI_MAX_ERROR_STRING - 1);
    mine[0] = found[0] != 0;
    mine[1] = strstr(found, words) != NULL;
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] >= at_least, "%s: %d ranks have learned of it: %s", what, all[0], found);
    CHECK(all[1] >= 1, "%s: no rank names %s: %s", what, words, found);
}

static void roots(int count)
{
    expect("roots", MPI_Bcast(numbers, count, MPI_DOUBLE, rank == 1, MPI_COMM_WORLD), "with root 1", 2);
    expect("no root", MPI_Bcast(numbers, count, MPI_DOUBLE, rank == 0, MPI_COMM_WORLD), "with root", 2);
    expect("reduce roots",
           MPI_Reduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, rank == 1, MPI_COMM_WORLD), "with root", 2);
}

static void sizes(int little, int much)
{
    int count = rank == 0 ? little : much;
    expect("sizes of a broadcast", MPI_Bcast(numbers, count, MPI_DOUBLE, 0, MPI_COMM_WORLD), "bytes", 1);
    count = rank == 0 ? much : little;
    expect("sizes of a broadcast", MPI_Bcast(numbers, count, MPI_DOUBLE, 0, MPI_COMM_WORLD), "bytes", 1);
    expect("sizes of an allreduce",
           MPI_Allreduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "bytes", 2);
}

static void operations(int count)
{
    expect("operations",
           MPI_Allreduce(numbers, results, count, MPI_DOUBLE, rank ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD),
           "MPI_MAX", 2);
    expect("calls", rank ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Bcast(numbers, count, MPI_DOUBLE, 0, MPI_COMM_WORLD),
           "MPI_Barrier", 1);
}

/* The arguments of rank 1 are refused: the others, whose call is a good one, learn of it. */
static void refused(int count)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int bad = rank == 1, code;
    expect("refused root", MPI_Bcast(numbers, count, MPI_DOUBLE, bad ? -7 : 0, MPI_COMM_WORLD), "rank 1", 2);
    expect("refused root", MPI_Reduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, bad ? ranks : 0, MPI_COMM_WORLD),
           "rank 1", 2);
    expect("refused count",
           MPI_Allreduce(numbers, results, bad ? -1 : count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "rank 1", 2);
    code = MPI_Iallreduce(numbers, results, bad ? -1 : count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect("refused count of a nonblocking call", code, "rank 1", 2);
    code = MPI_Allreduce_init(numbers, results, bad ? -1 : count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &request);
    if (code == MPI_SUCCESS) {
        MPI_Start(&request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
    expect("refused count of a persistent call", code, "rank 1", 2);
}

/* One rank calls the blocking and the nonblocking collective in another order. */
static void order(void)
{
    MPI_Request request;
    int code, other;
    if (rank == 0) {
        MPI_Iallreduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        code = MPI_Barrier(MPI_COMM_WORLD);
    } else {
        code = MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iallreduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    }
    other = MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect("order", code == MPI_SUCCESS ? other : code, "MPI_Allreduce", 2);
}

/* Seed case 18: two broadcasts in opposite order, on one communicator. */
static void opposite_roots(void)
{
    int i, first = rank == 0 ? 0 : 1;
    for (i = 0; i < 2; i++)
        MPI_Bcast(numbers, 4, MPI_DOUBLE, i ? 1 - first : first, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Opposite order on two communicators. */
static void opposite_comms(void)
{
    MPI_Comm comms[2];
    int i;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (i = 0; i < 2; i++)
        MPI_Allreduce(numbers, results, 4, MPI_DOUBLE, MPI_SUM, comms[rank ? 1 - i : i]);
}

/* Seed case 19: broadcasts over {0,1}, {1,2}, {2,0}, each rank as the root of the second. */
static void circle(void)
{
    MPI_Comm pair[3];
    int i;
    if (rank > 2)
        return;
    for (i = 0; i < 3; i++) {
        MPI_Group world, group;
        int members[2] = {i, (i + 1) % 3};
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 2, members, &group);
        if (rank == members[0] || rank == members[1])
            MPI_Comm_create_group(MPI_COMM_WORLD, group, i, &pair[i]);
    }
    MPI_Allreduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, pair[rank]);
    MPI_Allreduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, pair[(rank + 2) % 3]);
}

/* Seed case 20: Bcast then Send, against Recv then Bcast. */
static void bcast_and_send(void)
{
    if (rank == 0) {
        MPI_Reduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Send(numbers, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Reduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    } else
        MPI_Reduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

/* The groups of an intercommunicator give different amounts. */
static void groups_of_other_sizes(void)
{
    int low = rank < ranks / 2;
    MPI_Comm own, both;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, low ? ranks / 2 : 0, 0, &both);
    MPI_Reduce_scatter_block(numbers, results, low ? 1 : 5, MPI_DOUBLE, MPI_SUM, both);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    start(&argc, &argv);
    if (!strcmp(only, "roots"))
        opposite_roots();
    else if (!strcmp(only, "comms"))
        opposite_comms();
    else if (!strcmp(only, "circle"))
        circle();
    else if (!strcmp(only, "send"))
        bcast_and_send();
    else if (!strcmp(only, "groups"))
        groups_of_other_sizes();
    else {
        let_errors_return();
        roots(3), roots(2000), roots(5000), roots(100000);
        sizes(10, 100000), sizes(3, 5), sizes(60000, 100000);
        operations(3), operations(50000);
        refused(3), refused(100000);
        order();
    }
    return finish();
}
