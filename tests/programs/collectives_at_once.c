/* Many nonblocking collectives under way at once on several communicators, completed in another
   order. They are mixed with point-to-point messages that carry the same tags; ranks start late;
   collectives run two ahead of the slowest. */
#include "check.h"
#include <unistd.h>

enum { MANY = 30, LENGTH = 2000 };

static void many_at_once(void)
{
    static int sums[MANY][LENGTH], casts[MANY][LENGTH], mine[LENGTH];
    MPI_Request requests[3 * MANY];
    MPI_Comm comms[3];
    int i, k;
    for (i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (k = 0; k < LENGTH; k++)
        mine[k] = rank + k;
    for (i = 0; i < MANY; i++) {
        int root = i % ranks;
        for (k = 0; k < LENGTH; k++)
            casts[i][k] = rank == root ? i * 1000 + k : -1;
        MPI_Iallreduce(mine, sums[i], LENGTH, MPI_INT, MPI_SUM, comms[i % 3], &requests[3 * i]);
        MPI_Ibcast(casts[i], LENGTH, MPI_INT, root, comms[(i + 1) % 3], &requests[3 * i + 1]);
        MPI_Ibarrier(comms[(i + 2) % 3], &requests[3 * i + 2]);
    }
    for (i = 3 * MANY - 1; i >= 0; i -= 2)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Waitall(3 * MANY, requests, MPI_STATUSES_IGNORE);
    for (i = 0; i < MANY; i++)
        for (k = 0; k < LENGTH; k++) {
            SAME(sums[i][k], ranks * (ranks - 1) / 2 + ranks * k);
            SAME(casts[i][k], i * 1000 + k);
        }
    for (i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

/* Seed case 22: collectives and messages on one communicator never match each
 * other, not even with wildcards. */
static void beside_messages(void)
{
    int next = (rank + 1) % ranks, in = -1, out = rank + 500, sum = 0, i, value, before = (rank + ranks - 1) % ranks;
    MPI_Request receive, collective;
    MPI_Status status;
    for (i = 0; i < 200; i++) {
        value = i;
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
        MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &collective);
        MPI_Bcast(&value, 1, MPI_INT, i % ranks, MPI_COMM_WORLD);
        MPI_Wait(&collective, MPI_STATUS_IGNORE);
        SAME(sum, i * ranks);
        MPI_Send(&out, 1, MPI_INT, next, i, MPI_COMM_WORLD);
        MPI_Wait(&receive, &status);
        CHECK_STATUS(&status, before, i, MPI_INT, 1);
        SAME(in, before + 500);
    }
}

/* A root that never waits for the others gets ahead of them. */
static void ahead_of_the_slowest(void)
{
    int i, value, large[3000];
    for (i = 0; i < 300; i++) {
        value = rank == 0 ? i : -1;
        if (rank == ranks - 1 && i % 100 == 0)
            usleep(3000);
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        SAME(value, i);
        large[2999] = rank == 0 ? i : -1;
        MPI_Bcast(large, 3000, MPI_INT, 0, MPI_COMM_WORLD);
        SAME(large[2999], i);
    }
}

static void test_until_done(void)
{
    int value = rank, most = -1, done = 0, index;
    MPI_Request requests[2];
    MPI_Iallreduce(&value, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    while (!done)
        MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    SAME(most, ranks - 1);
}

int main(int argc, char **argv)
{
    int round;
    start(&argc, &argv);
    for (round = 0; round < 5; round++) {
        many_at_once();
        beside_messages();
        ahead_of_the_slowest();
        test_until_done();
    }
    return finish();
}
