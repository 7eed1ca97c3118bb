/* Dup, split, create, compare and free, with traffic under way; many one by one and many at once.
   Seed case 24. */
#include "check.h"

static int compare(MPI_Comm a, MPI_Comm b)
{
    int result;
    MPI_Comm_compare(a, b, &result);
    return result;
}

/* The sum of the world ranks, and a message round the ring. */
static void works(MPI_Comm comm, int expected_sum)
{
    int me, size, sum = -1, got = -1;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    SAME(sum, expected_sum);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % size, 4, &got, 1, MPI_INT, (me + size - 1) % size, 4, comm,
                 MPI_STATUS_IGNORE);
    SAME(got, (me + size - 1) % size);
}

static int sum_of_all(void)
{
    return ranks * (ranks - 1) / 2;
}

/* A message that is under way on one is never received on the other. */
static void dup_with_traffic(void)
{
    MPI_Comm twin;
    MPI_Request request;
    int out = 11, in = -1, there = 0, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Isend(&out, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    SAME(compare(MPI_COMM_WORLD, twin), MPI_CONGRUENT);
    SAME(compare(twin, twin), MPI_IDENT);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &there, MPI_STATUS_IGNORE);
    SAME(there, 0);
    out = 11;
    MPI_Recv(&in, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(in, 11);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    works(twin, sum_of_all());
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL, "Comm_free leaves the handle");
}

/* Freed while a receive is pending on it: the receive still completes. */
static void free_with_traffic(void)
{
    MPI_Comm twin;
    MPI_Request requests[2];
    int out = rank + 40, in = -1, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Irecv(&in, 1, MPI_INT, before, 1, twin, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, next, 1, twin, &requests[1]);
    MPI_Comm_free(&twin);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    SAME(in, before + 40);
}

/* Freed before its persistent collective is started for the first time. */
static void free_before_start(void)
{
    MPI_Comm twin;
    MPI_Request request;
    int sum = -1, i;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, twin, MPI_INFO_NULL, &request);
    MPI_Comm_free(&twin);
    for (i = 0; i < 3; i++) {
        sum = -1;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        SAME(sum, ranks * (ranks - 1) / 2);
    }
    MPI_Request_free(&request);
}

static void splits(void)
{
    MPI_Comm part;
    int me, size, i, sum = 0;
    /* By parity; equal keys keep the order of the parent. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &part);
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &size);
    SAME(me, rank / 2);
    SAME(size, (ranks + 1 - rank % 2) / 2);
    for (i = rank % 2; i < ranks; i += 2)
        sum += i;
    works(part, sum);
    MPI_Comm_free(&part);
    /* All in reverse, with ties between neighbours. */
    MPI_Comm_split(MPI_COMM_WORLD, 7, -(rank / 2), &part);
    MPI_Comm_rank(part, &me);
    SAME(me, rank % 2 + (rank / 2 * 2 + 2 > ranks ? 0 : ranks - rank / 2 * 2 - 2));
    works(part, sum_of_all());
    SAME(compare(MPI_COMM_WORLD, part), ranks <= 2 ? MPI_CONGRUENT : MPI_SIMILAR);
    MPI_Comm_free(&part);
    /* Rank 0 is outside. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &part);
    CHECK((part == MPI_COMM_NULL) == (rank == 0), "rank %d is on the wrong side", rank);
    if (rank > 0) {
        works(part, sum_of_all());
        SAME(compare(MPI_COMM_WORLD, part), MPI_UNEQUAL);
        MPI_Comm_free(&part);
    }
}

static void creates(void)
{
    MPI_Group world, odd;
    MPI_Comm comm;
    int range[1][3] = {{1, ranks - 1, 2}}, i, sum = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, ranks > 1, range, &odd);
    MPI_Comm_create(MPI_COMM_WORLD, odd, &comm);
    for (i = 1; i < ranks; i += 2)
        sum += i;
    CHECK((comm == MPI_COMM_NULL) == (rank % 2 == 0), "rank %d is on the wrong side of Comm_create", rank);
    if (comm != MPI_COMM_NULL) {
        works(comm, sum);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
}

/* Each remainder its own, all by one call: what one sends to any tag of any rank never comes to another. */
static void creates_disjoint(int by)
{
    MPI_Group world, own;
    MPI_Comm comm;
    MPI_Status status;
    int range[1][3] = {{rank % by, ranks - 1, by}}, me, size, i, in, sum = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &own);
    MPI_Comm_create(MPI_COMM_WORLD, own, &comm);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    SAME(me, rank / by);
    for (i = rank % by; i < ranks; i += by)
        sum += i;
    for (i = 0; i < size; i++)
        if (i != me)
            MPI_Send(&rank, 1, MPI_INT, i, 100 + rank, comm);
    works(comm, sum);
    for (i = 1; i < size; i++) {
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        CHECK(100 + in == status.MPI_TAG && in == status.MPI_SOURCE * by + rank % by, "%d of rank %d", in,
              status.MPI_SOURCE);
    }
    works(comm, sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&own);
    MPI_Group_free(&world);
}

static void nonblocking_dup(void)
{
    MPI_Comm first, second;
    MPI_Request requests[2];
    MPI_Comm_idup(MPI_COMM_WORLD, &first, &requests[0]);
    MPI_Comm_idup(MPI_COMM_WORLD, &second, &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    works(first, sum_of_all());
    works(second, sum_of_all());
    SAME(compare(first, second), MPI_CONGRUENT);
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);
}

static void many_one_by_one(int count)
{
    MPI_Comm comm;
    int i;
    for (i = 0; i < count; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i % 1000 == 0)
            works(comm, sum_of_all());
        MPI_Comm_free(&comm);
    }
}

static void many_at_once(int count)
{
    MPI_Comm *comms = allocate(count * sizeof *comms);
    int i;
    for (i = 0; i < count; i++)
        MPI_Comm_dup(i % 10 ? MPI_COMM_WORLD : MPI_COMM_SELF, &comms[i]);
    for (i = 0; i < count; i += 97)
        works(comms[i], i % 10 ? sum_of_all() : rank);
    for (i = 0; i < count; i++)
        MPI_Comm_free(&comms[(i * 7) % count]);
    free(comms);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    SAME(compare(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT);
    SAME(compare(MPI_COMM_WORLD, MPI_COMM_SELF), ranks == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    works(MPI_COMM_WORLD, sum_of_all());
    works(MPI_COMM_SELF, rank);
    dup_with_traffic();
    free_with_traffic();
    free_before_start();
    splits();
    creates();
    for (int by = 2; by <= 4 && by <= ranks; by++)
        creates_disjoint(by);
    nonblocking_dup();
    many_one_by_one(argc > 1 ? atoi(argv[1]) : 500);
    many_at_once(argc > 2 ? atoi(argv[2]) : 201);
    return finish();
}
