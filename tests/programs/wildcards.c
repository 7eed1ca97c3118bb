/* Receives from any source, with any tag, and both; in the order sent, also when specific and
   wildcard receives are mixed. */
#include "check.h"

enum { EACH = 200 };

/* Rank 0 takes everything from any source: each source's messages in order. */
static void any_source_keeps_each_order(void)
{
    int next[1024] = {0}, value[2], i;
    MPI_Status status;
    if (rank != 0) {
        for (i = 0; i < EACH; i++) {
            value[0] = rank;
            value[1] = i;
            MPI_Send(value, 2, MPI_INT, 0, i % 7, MPI_COMM_WORLD);
        }
        return;
    }
    for (i = 0; i < EACH * (ranks - 1); i++) {
        MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, value[0], value[1] % 7, MPI_INT, 2);
        SAME(value[1], next[value[0]]);
        next[value[0]]++;
    }
}

/* Messages with tags 0, 1, 2, 0, 1, 2 ...; receives by tag, by any tag, by any
 * source, in turn. The sizes alternate between eager and rendezvous. */
static void mixed_receives_match_in_order(void)
{
    enum { ROUNDS = 60, SMALL = 10, LARGE = 40000 };
    static int data[LARGE];
    int seen[3] = {0}, *sent[3 * ROUNDS], i, tag, want, from;
    MPI_Request requests[3 * ROUNDS];
    MPI_Status status;
    if (rank == 1) {
        for (i = 0; i < 3 * ROUNDS; i++) {
            int count = i % 5 == 0 ? LARGE : SMALL;
            sent[i] = allocate(count * sizeof(int));
            memset(sent[i], 0, count * sizeof(int));
            sent[i][0] = i;
            MPI_Isend(sent[i], count, MPI_INT, 0, i % 3, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(3 * ROUNDS, requests, MPI_STATUSES_IGNORE);
        for (i = 0; i < 3 * ROUNDS; i++)
            free(sent[i]);
        return;
    }
    if (rank != 0)
        return;
    for (i = 0; i < 3 * ROUNDS; i++) {
        /* Of the messages not received yet, the first that the receive fits. */
        int lowest = 3 * ROUNDS;
        want = i % 4 == 0 && seen[2] < ROUNDS ? 2 : MPI_ANY_TAG;
        from = i % 2 ? 1 : MPI_ANY_SOURCE;
        for (tag = 0; tag < 3; tag++)
            if ((want == MPI_ANY_TAG || want == tag) && seen[tag] < ROUNDS && 3 * seen[tag] + tag < lowest)
                lowest = 3 * seen[tag] + tag;
        MPI_Recv(data, LARGE, MPI_INT, from, want, MPI_COMM_WORLD, &status);
        SAME(data[0], lowest);
        CHECK_STATUS(&status, 1, lowest % 3, MPI_INT, lowest % 5 == 0 ? LARGE : SMALL);
        seen[lowest % 3]++;
    }
}

/* Receives that were posted first are matched first, with any pattern. */
static void posted_receives_match_in_order(void)
{
    enum { POSTED = 40 };
    int data[POSTED], i, go = 0;
    MPI_Request requests[POSTED];
    MPI_Status status;
    if (rank == 0) {
        for (i = 0; i < POSTED; i++) {
            data[i] = -1;
            MPI_Irecv(&data[i], 1, MPI_INT, i % 2 ? 1 : MPI_ANY_SOURCE, i % 3 ? 5 : MPI_ANY_TAG, MPI_COMM_WORLD,
                      &requests[i]);
        }
        MPI_Send(&go, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
        for (i = 0; i < POSTED; i++) {
            MPI_Wait(&requests[i], &status);
            SAME(data[i], i);
            CHECK_STATUS(&status, 1, 5, MPI_INT, 1);
        }
    } else if (rank == 1) {
        MPI_Recv(&go, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (i = 0; i < POSTED; i++)
            MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    }
}

/* Thousands of unexpected messages, taken by tag from the last to the first. */
static void reverse_order_by_tag(void)
{
    enum { MANY = 3000 };
    static int values[MANY];
    static MPI_Request requests[MANY];
    int i, value;
    if (rank == 1) {
        for (i = 0; i < MANY; i++) {
            values[i] = i;
            MPI_Isend(&values[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 0) {
        for (i = MANY - 1; i >= 0; i--) {
            MPI_Recv(&value, 1, MPI_INT, i % 2 ? 1 : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            SAME(value, i);
        }
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    any_source_keeps_each_order();
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks > 1) {
        mixed_receives_match_in_order();
        MPI_Barrier(MPI_COMM_WORLD);
        posted_receives_match_in_order();
        MPI_Barrier(MPI_COMM_WORLD);
        reverse_order_by_tag();
    }
    return finish();
}
