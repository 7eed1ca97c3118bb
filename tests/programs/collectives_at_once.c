/* Many nonblocking collectives under way at once on several communicators, completed in another
   order. They are mixed with point-to-point messages that carry the same tags; ranks start late;
   collectives run two ahead of the slowest. With `long` calls of any length, two at a time. */
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

enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, OPERATIONS };
enum { LONGEST = 1 << 19 };

/* A nonblocking call on vectors of `ranks` blocks. */
struct call {
    int operation, root, block, tag;
    int *in, *out;
    MPI_Request request;
};

static int item(int of, int at, int tag)
{
    return of * 7 + at + tag * 100;
}

static void begin(struct call *call, int operation, int block, int tag)
{
    int length = block * ranks, n = block, root = tag % ranks, i;
    int *in = call->in, *out = call->out;
    MPI_Request *request = &call->request;
    MPI_Comm comm = MPI_COMM_WORLD;
    call->operation = operation, call->root = root, call->block = block, call->tag = tag;
    for (i = 0; i < length; i++)
        in[i] = item(rank, i, tag), out[i] = -1;
    switch (operation) {
    case ALLREDUCE:
        memcpy(out, in, length * sizeof *in);
        MPI_Iallreduce(tag % 2 ? in : MPI_IN_PLACE, out, length, MPI_INT, MPI_SUM, comm, request);
        break;
    case REDUCE:
        MPI_Ireduce(in, out, length, MPI_INT, MPI_SUM, root, comm, request);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, comm, request);
        break;
    case BCAST:
        MPI_Ibcast(rank == root ? in : out, length, MPI_INT, root, comm, request);
        break;
    case GATHER:
        MPI_Igather(in, n, MPI_INT, out, n, MPI_INT, root, comm, request);
        break;
    case SCATTER:
        MPI_Iscatter(in, n, MPI_INT, out, n, MPI_INT, root, comm, request);
        break;
    case ALLGATHER:
        MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, comm, request);
        break;
    default:
        MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, comm, request);
    }
}

/* The item that a call has put at a place; -1 where it puts none. */
static int expected(const struct call *call, int at)
{
    int block = call->block, from = at / block, is_root = rank == call->root, tag = call->tag;
    int place = call->operation == REDUCE_SCATTER ? at + rank * block : at;
    int sum = 7 * ranks * (ranks - 1) / 2 + ranks * item(0, place, tag);
    switch (call->operation) {
    case ALLREDUCE:
        return sum;
    case REDUCE:
        return is_root ? sum : -1;
    case REDUCE_SCATTER:
        return at < block ? sum : -1;
    case BCAST:
        return is_root ? -1 : item(call->root, at, tag);
    case GATHER:
        return is_root ? item(from, at % block, tag) : -1;
    case SCATTER:
        return at < block ? item(call->root, at + rank * block, tag) : -1;
    case ALLGATHER:
        return item(from, at % block, tag);
    default:
        return item(from, at % block + rank * block, tag);
    }
}

static void end(struct call *call)
{
    MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    for (int i = 0; i < call->block * ranks; i++)
        CHECK(call->out[i] == expected(call, i), "operation %d of blocks of %d: item %d is %d, not %d", call->operation,
              call->block, i, call->out[i], expected(call, i));
}

/* Calls of any length under way at once: of the same operation, of others, and blocking ones. */
static void of_any_length(void)
{
    struct call calls[2];
    int i, length, operation, value, block;
    int *sums = allocate(LONGEST * sizeof *sums), *mine = allocate(LONGEST * sizeof *mine);
    for (i = 0; i < 2; i++)
        calls[i].in = allocate(LONGEST * sizeof(int)), calls[i].out = allocate(LONGEST * sizeof(int));
    for (length = 16; length <= LONGEST; length *= 8)
        for (operation = 0; operation < OPERATIONS; operation++)
            for (i = 0; i < 4; i++) {
                block = length / ranks;
                begin(&calls[0], operation, block, i);
                if (i == 1)
                    MPI_Barrier(MPI_COMM_WORLD);
                if (i == 2) {
                    value = rank == 0 ? length : -1;
                    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
                    SAME(value, length);
                    mine[length - 1] = rank;
                    MPI_Allreduce(mine, sums, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                    SAME(sums[length - 1], ranks * (ranks - 1) / 2);
                }
                begin(&calls[1], (operation + i / 3) % OPERATIONS, block, i + 1);
                end(&calls[i % 2]);
                end(&calls[1 - i % 2]);
            }
    for (i = 0; i < 2; i++)
        free(calls[i].in), free(calls[i].out);
    free(sums), free(mine);
}

int main(int argc, char **argv)
{
    int round;
    start(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "long")) {
        of_any_length();
        return finish();
    }
    for (round = 0; round < 5; round++) {
        many_at_once();
        beside_messages();
        ahead_of_the_slowest();
        test_until_done();
    }
    return finish();
}
