/* Small collectives on communicators of all kinds, made and freed again and again, by ranks that
 * leave them early. Also on more communicators at once than there are collective segments. With an
 * argument: each rank waits for ever in a barrier on another communicator that others have entered
 * (`waiting`). The launcher reports which ranks each one waits for. */
#include "check.h"
#include <unistd.h>

enum { KINDS = 6 };

static int me, size;

/* A communicator of all ranks, of some kind. */
static MPI_Comm made(int kind, int tag)
{
    MPI_Comm comm, half;
    MPI_Group group;
    MPI_Request request;
    switch (kind) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
    case 1:
        MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Comm_split(MPI_COMM_WORLD, 7, rank, &comm);
        break;
    case 3:
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
        if (ranks == 1)
            return half;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 3, &comm);
        MPI_Comm_free(&half);
        half = comm;
        MPI_Intercomm_merge(half, rank != 0, &comm);
        MPI_Comm_free(&half);
        break;
    default:
        MPI_Comm_group(MPI_COMM_WORLD, &group);
        if (kind == 4)
            MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        else
            MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm);
        MPI_Group_free(&group);
    }
    return comm;
}

static void set_position(MPI_Comm comm)
{
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
}

/* All collectives; their order and their root change. */
static void works(MPI_Comm comm, int round)
{
    int root, value, sum;
    set_position(comm);
    root = round % size;
    value = me == root ? round : -1;
    MPI_Bcast(&value, 1, MPI_INT, root, comm);
    SAME(value, round);
    value = me + round, sum = -1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    SAME(sum, size * (size - 1) / 2 + size * round);
    if (round % 2)
        MPI_Barrier(comm);
    sum = -1;
    MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_MAX, (root + 1) % size, comm);
    SAME(sum, me == (root + 1) % size ? size - 1 + round : -1);
}

/* Freed by ranks that gave something away before the others have it, and made anew at once. */
static void one_by_one(int times)
{
    int i, k, value;
    for (i = 0; i < times; i++) {
        MPI_Comm comm = made(i % KINDS, i);
        int rounds = i % 4;
        for (k = 0; k < rounds; k++)
            works(comm, i + k);
        set_position(comm);
        value = me == i % size ? i : -1;
        MPI_Bcast(&value, 1, MPI_INT, i % size, comm);
        MPI_Comm_free(&comm);
        SAME(value, i);
    }
}

/* Of all sizes at once: by threes and by remainders, in reverse, and what is left of it without the first. */
static void parts(int times)
{
    int i;
    for (i = 0; i < times; i++) {
        MPI_Comm part, rest;
        int by = 2 + i % 4;
        MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? rank / by : rank % by, i % 3 ? -rank : rank, &part);
        works(part, i);
        set_position(part);
        MPI_Comm_split(part, me ? 1 : MPI_UNDEFINED, 0, &rest);
        if (rest != MPI_COMM_NULL) {
            works(rest, i);
            works(rest, i + 1);
            MPI_Comm_free(&rest);
        }
        works(part, i + 1);
        MPI_Comm_free(&part);
    }
}

/* Each remainder its own, all by one call: they share what was agreed on, and one of them has the
   segment. */
static void disjoint(int times)
{
    MPI_Group world, own;
    int i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (i = 0; i < times; i++) {
        MPI_Comm comm;
        int by = 2 + i % 4, range[1][3] = {{rank % by, ranks - 1, by}};
        MPI_Group_range_incl(world, 1, range, &own);
        MPI_Comm_create(MPI_COMM_WORLD, own, &comm);
        works(comm, i);
        works(comm, i + 1);
        MPI_Comm_free(&comm);
        MPI_Group_free(&own);
    }
    MPI_Group_free(&world);
}

/* More than can meet; they go in the order in which they came, or the other way round. */
static void many_alive(int times)
{
    enum { MOST = 4 * 16 + 3 };
    MPI_Comm comms[MOST];
    int i, k, many = 4 * ranks + 3;
    for (i = 0; i < times; i++) {
        for (k = 0; k < many; k++)
            comms[k] = made(k % KINDS, k);
        for (k = 0; k < many; k++)
            works(comms[(k * 5) % many], k + i);
        for (k = 0; k < many; k++)
            MPI_Comm_free(&comms[i % 2 ? k : many - 1 - k]);
    }
}

/* Each rank starts them on its communicators in an order of its own, and frees those that are still busy. */
static void in_flight(int times)
{
    enum { COMMS = 5, EACH = 4 };
    int i, k, j;
    for (i = 0; i < times; i++) {
        MPI_Comm comms[COMMS];
        MPI_Request requests[COMMS * EACH], making[2];
        int sums[COMMS][EACH], values[COMMS][EACH];
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[0], &making[0]);
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[1], &making[1]);
        for (k = 2; k < COMMS; k++)
            comms[k] = made(k, i);
        MPI_Waitall(2, making, MPI_STATUSES_IGNORE);
        for (j = 0; j < COMMS * EACH; j++) {
            int c = (j + rank * (1 + i % 3)) % COMMS, nth = j / COMMS;
            values[c][nth] = nth % 2 == 0 || rank == c % ranks ? rank + i + c : -1;
            sums[c][nth] = -1;
            if (nth % 2 == 0)
                MPI_Iallreduce(&values[c][nth], &sums[c][nth], 1, MPI_INT, MPI_SUM, comms[c],
                               &requests[c * EACH + nth]);
            else
                MPI_Ibcast(&values[c][nth], 1, MPI_INT, c % ranks, comms[c], &requests[c * EACH + nth]);
        }
        for (k = 0; k < COMMS; k += 2)
            MPI_Comm_free(&comms[k]);
        for (j = 0; j < COMMS * EACH; j++)
            MPI_Wait(&requests[(j * 7 + rank) % (COMMS * EACH)], MPI_STATUS_IGNORE);
        for (k = 1; k < COMMS; k += 2)
            MPI_Comm_free(&comms[k]);
        for (k = 0; k < COMMS; k++)
            for (j = 0; j < EACH; j++)
                if (j % 2 == 0)
                    SAME(sums[k][j], ranks * (ranks - 1) / 2 + ranks * (i + k));
                else
                    SAME(values[k][j], k % ranks + i + k);
    }
}

/* Rank 0 has entered all barriers, rank k one of them: in a segment it waits for rank 1, by
   messages for rank 0. */
static void waiting(void)
{
    enum { MOST = 8 };
    MPI_Comm comms[MOST], dups[100];
    MPI_Request requests[MOST];
    int k, most = 4 * ranks;
    CHECK(ranks == 10, "it needs 10 ranks");
    for (k = 0; k < most; k++)
        MPI_Comm_dup(MPI_COMM_WORLD, &dups[k]);
    comms[0] = dups[most - 1];
    for (k = 0; k < most - 1; k++)
        MPI_Comm_free(&dups[k]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (k = 0; k < KINDS; k++)
        comms[1 + k] = made(k, k);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comms[MOST - 1]);
    for (k = 0; k < MOST; k++)
        if (rank == 0 || (rank == 1 && k == MOST - 1))
            MPI_Ibarrier(comms[k], &requests[k]);
    if (rank == 9)
        MPI_Barrier(comms[MOST - 1]);
    else if (rank >= 2)
        MPI_Barrier(comms[rank - 2]);
    MPI_Recv(&k, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "waiting"))
        waiting();
    one_by_one(argc > 1 ? atoi(argv[1]) : 600);
    parts(100);
    disjoint(100);
    many_alive(3);
    in_flight(100);
    return finish();
}
