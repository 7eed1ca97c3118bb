/* Wrong arguments give the right class, in any order, and do no harm: all of it
 * is done twice, and messages still pass afterwards. With `garbage`, handles are
 * also freed ones, of another kind, and no handles at all. With `mismatched`,
 * the ranks' counts of one Bcast differ. */
#include "check.h"

static int data[64], more[64], counts[64], starts[64];

static int with_garbage;

/* No handle at all, or the null one where that would crash. */
#define GARBAGE(kind, null) (with_garbage ? (kind)(intptr_t)0x123456789abcd8 : (null))

static void communicators(void)
{
    MPI_Comm freed, wrong[4];
    int i, size;
    MPI_Comm_dup(MPI_COMM_SELF, &freed);
    wrong[0] = MPI_COMM_NULL;
    wrong[1] = with_garbage ? freed : MPI_COMM_NULL;
    wrong[2] = with_garbage ? (MPI_Comm)MPI_INT : MPI_COMM_NULL;
    wrong[3] = GARBAGE(MPI_Comm, MPI_COMM_NULL);
    MPI_Comm_free(&freed);
    CHECK(freed == MPI_COMM_NULL, "Comm_free leaves the handle");
    for (i = 0; i < 4; i++) {
        RAISES(MPI_ERR_COMM, MPI_Send(data, 1, MPI_INT, 0, 0, wrong[i]));
        RAISES(MPI_ERR_COMM, MPI_Recv(data, 1, MPI_INT, 0, 0, wrong[i], MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_COMM, MPI_Comm_size(wrong[i], &size));
        RAISES(MPI_ERR_COMM, MPI_Barrier(wrong[i]));
        RAISES(MPI_ERR_COMM, MPI_Bcast(data, 1, MPI_INT, 0, wrong[i]));
        RAISES(MPI_ERR_COMM, MPI_Comm_dup(wrong[i], &freed));
        RAISES(MPI_ERR_COMM, MPI_Comm_free(&wrong[i]));
    }
}

static void ranks_and_tags(void)
{
    const int wrong[] = {-5, -100, ranks, ranks + 1, 1 << 30};
    const int tags[] = {-3, -100, -2147483647};
    MPI_Request request = MPI_REQUEST_NULL;
    int i, there, *tag_ub, flag;
    for (i = 0; i < 5; i++) {
        RAISES(MPI_ERR_RANK, MPI_Send(data, 1, MPI_INT, wrong[i], 0, MPI_COMM_WORLD));
        RAISES(MPI_ERR_RANK, MPI_Isend(data, 1, MPI_INT, wrong[i], 0, MPI_COMM_WORLD, &request));
        RAISES(MPI_ERR_RANK, MPI_Recv(data, 1, MPI_INT, wrong[i], 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_RANK, MPI_Irecv(data, 1, MPI_INT, wrong[i], 0, MPI_COMM_WORLD, &request));
        RAISES(MPI_ERR_RANK, MPI_Iprobe(wrong[i], 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_RANK, MPI_Send_init(data, 1, MPI_INT, wrong[i], 0, MPI_COMM_WORLD, &request));
        CHECK(request == MPI_REQUEST_NULL, "a failed call made a request");
    }
    RAISES(MPI_ERR_RANK, MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD));
    for (i = 0; i < 3; i++) {
        RAISES(MPI_ERR_TAG, MPI_Send(data, 1, MPI_INT, 0, tags[i], MPI_COMM_WORLD));
        RAISES(MPI_ERR_TAG, MPI_Recv(data, 1, MPI_INT, 0, tags[i], MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_TAG, MPI_Probe(0, tags[i], MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    RAISES(MPI_ERR_TAG, MPI_Send(data, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag);
    if (*tag_ub < 2147483647)
        RAISES(MPI_ERR_TAG, MPI_Send(data, 1, MPI_INT, 0, *tag_ub + 1, MPI_COMM_WORLD));
}

static void buffers_counts_and_types(void)
{
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, GARBAGE(MPI_Datatype, MPI_DATATYPE_NULL)};
    int i;
    RAISES(MPI_ERR_COUNT, MPI_Send(data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    RAISES(MPI_ERR_COUNT, MPI_Recv(data, -2, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_COUNT, MPI_Bcast(data, -1, MPI_INT, 0, MPI_COMM_SELF));
    RAISES(MPI_ERR_COUNT, MPI_Allreduce(data, more, -1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    RAISES(MPI_ERR_BUFFER, MPI_Recv(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (i = 0; i < 2; i++) {
        RAISES(MPI_ERR_TYPE, MPI_Send(data, 1, types[i], 0, 0, MPI_COMM_WORLD));
        RAISES(MPI_ERR_TYPE, MPI_Recv(data, 1, types[i], 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_TYPE, MPI_Bcast(data, 1, types[i], 0, MPI_COMM_SELF));
    }
}

static void requests_and_messages(void)
{
    MPI_Request none = MPI_REQUEST_NULL, garbage = GARBAGE(MPI_Request, MPI_REQUEST_NULL), active;
    MPI_Message message = GARBAGE(MPI_Message, MPI_MESSAGE_NULL);
    int flag;
    RAISES(MPI_ERR_REQUEST, MPI_Cancel(&none));
    RAISES(MPI_ERR_REQUEST, MPI_Request_free(&none));
    RAISES(MPI_ERR_REQUEST, MPI_Start(&none));
    if (with_garbage) {
        RAISES(MPI_ERR_REQUEST, MPI_Wait(&garbage, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_REQUEST, MPI_Test(&garbage, &flag, MPI_STATUS_IGNORE));
    }
    /* A call that fails for its last argument has begun nothing. */
    more[0] = data[0] = 5;
    RAISES(MPI_ERR_ARG, MPI_Isendrecv(data, 1, MPI_INT, MPI_PROC_NULL, 0, more, 1, MPI_INT, 0, 62, MPI_COMM_SELF, NULL));
    RAISES(MPI_ERR_ARG, MPI_Isendrecv_replace(more, 1, MPI_INT, MPI_PROC_NULL, 0, 0, 62, MPI_COMM_SELF, NULL));
    MPI_Isend(data + 1, 1, MPI_INT, 0, 62, MPI_COMM_SELF, &active);
    MPI_Wait(&active, MPI_STATUS_IGNORE);
    MPI_Mprobe(0, 62, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
    RAISES(MPI_ERR_ARG, MPI_Imrecv(more, 1, MPI_INT, &message, NULL));
    CHECK(message != MPI_MESSAGE_NULL, "Imrecv fails and takes the message");
    MPI_Mrecv(data + 2, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    SAME(more[0], 5);
    message = GARBAGE(MPI_Message, MPI_MESSAGE_NULL);
    MPI_Irecv(data, 1, MPI_INT, 0, 63, MPI_COMM_SELF, &active);
    RAISES(MPI_ERR_REQUEST, MPI_Start(&active)); /* not a persistent one */
    MPI_Cancel(&active);
    MPI_Wait(&active, MPI_STATUS_IGNORE);
    CHECK(MPI_Mrecv(data, 1, MPI_INT, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS, "a garbage message was received");
}

static void collectives(void)
{
    int i;
    for (i = 0; i < 64; i++)
        counts[i] = 1, starts[i] = i;
    RAISES(MPI_ERR_ROOT, MPI_Bcast(data, 1, MPI_INT, -3, MPI_COMM_SELF));
    RAISES(MPI_ERR_ROOT, MPI_Bcast(data, 1, MPI_INT, 1, MPI_COMM_SELF));
    RAISES(MPI_ERR_ROOT, MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_SELF));
    RAISES(MPI_ERR_ROOT, MPI_Gather(data, 1, MPI_INT, more, 1, MPI_INT, 5, MPI_COMM_SELF));
    RAISES(MPI_ERR_ROOT, MPI_Scatterv(data, counts, starts, MPI_INT, more, 1, MPI_INT, -1, MPI_COMM_SELF));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, GARBAGE(MPI_Op, MPI_OP_NULL), MPI_COMM_SELF));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_SELF));
    RAISES(MPI_ERR_OP, MPI_Reduce(data, more, 1, MPI_INT, MPI_MAXLOC, 0, MPI_COMM_SELF));
    RAISES(MPI_ERR_TYPE, MPI_Allgather(data, 1, MPI_DATATYPE_NULL, more, 1, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Allgather(data, 1, MPI_INT, data, 1, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Alltoall(data, 1, MPI_INT, data, 1, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Gather(data, 1, MPI_INT, data, 1, MPI_INT, 0, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Scatter(data, 1, MPI_INT, data, 1, MPI_INT, 0, MPI_COMM_SELF));
    /* As the second of two equal calls, whose plan is known. */
    RAISES(MPI_SUCCESS, MPI_Allgather(data, 1, MPI_INT, more, 1, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_ERR_BUFFER, MPI_Allgather(data, 1, MPI_INT, data, 1, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_SUCCESS, MPI_Allgather(data, 0, MPI_INT, data, 0, MPI_INT, MPI_COMM_SELF));
    RAISES(MPI_ERR_COUNT, MPI_Alltoall(data, -1, MPI_INT, more, 1, MPI_INT, MPI_COMM_SELF));
    counts[0] = -1;
    if (with_garbage) /* other MPIs copy a negative number of bytes */
        RAISES(MPI_ERR_COUNT, MPI_Allgatherv(data, 1, MPI_INT, more, counts, starts, MPI_INT, MPI_COMM_SELF));
    counts[0] = 1;
}

static void groups_and_the_rest(void)
{
    MPI_Group world, result;
    MPI_Comm comm;
    char text[MPI_MAX_ERROR_STRING];
    int length, twice[2] = {0, 0}, outside = ranks;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    RAISES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &length));
    RAISES(MPI_ERR_GROUP, MPI_Group_size(GARBAGE(MPI_Group, MPI_GROUP_NULL), &length));
    RAISES(MPI_ERR_RANK, MPI_Group_incl(world, 1, &outside, &result));
    RAISES(MPI_ERR_RANK, MPI_Group_incl(world, 2, twice, &result));
    MPI_Group_free(&world);
    comm = MPI_COMM_WORLD;
    CHECK(MPI_Comm_free(&comm) != MPI_SUCCESS, "WORLD was freed");
    CHECK(MPI_Comm_split(MPI_COMM_SELF, -7, 0, &comm) != MPI_SUCCESS, "a negative colour was taken");
    CHECK(MPI_Error_string(1 << 30, text, &length) != MPI_SUCCESS, "there is a text for 2^30: %s", text);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL) != MPI_SUCCESS, "a null handler was set");
    RAISES(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));
    RAISES(MPI_ERR_ARG, MPI_Comm_rank(MPI_COMM_WORLD, NULL));
}

/* The pieces of one collective do not fit each other. */
static void mismatched_sizes(void)
{
    const int bytes = rank == 0 ? 40 : 36;
    int code = MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (ranks > 1 && rank == 1)
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "a shorter Bcast gives class %d", class_of(code));
    MPI_Barrier(MPI_COMM_WORLD);
}

static int collective(int which, int count)
{
    switch (which) {
    case 0: return MPI_Bcast(data, count, MPI_INT, 0, MPI_COMM_WORLD);
    case 1: return MPI_Bcast(data, count, MPI_INT, 1, MPI_COMM_WORLD);
    case 2: return MPI_Gather(data, count, MPI_INT, more, count, MPI_INT, 1, MPI_COMM_WORLD);
    case 3: return MPI_Scatter(data, count, MPI_INT, more, count, MPI_INT, 0, MPI_COMM_WORLD);
    case 4: return MPI_Allgather(data, count, MPI_INT, more, count, MPI_INT, MPI_COMM_WORLD);
    case 5: return MPI_Alltoall(data, count, MPI_INT, more, count, MPI_INT, MPI_COMM_WORLD);
    case 6: return MPI_Reduce(data, more, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    case 7: return MPI_Allreduce(data, more, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case 8: return MPI_Reduce_scatter_block(data, more, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case 9: return MPI_Scan(data, more, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    default: return MPI_Exscan(data, more, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* Rank 0 calls a collective without data, rank 1 with some: no rank waits for ever, and the
   receiver reports the error. Without data on both it is no error. */
static void without_data(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int which, code, length, failed, failures;
    for (which = 0; which <= 10; which++) {
        SAME(collective(which, 0), MPI_SUCCESS);
        code = collective(which, 4 * rank);
        failed = code != MPI_SUCCESS;
        MPI_Error_string(code, text, &length);
        if (failed && rank == 1)
            CHECK(strstr(text, "rank 0") && strstr(text, "without data"), "%d: %s", which, text);
        if (failed && rank == 0)
            CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%d: %s", which, text);
        MPI_Allreduce(&failed, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(failures > 0, "nobody has noticed that collective %d has data on one rank only", which);
    }
}

static void all_still_works(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(got, before);
    MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(got, ranks * (ranks - 1) / 2);
}

int main(int argc, char **argv)
{
    int round;
    start(&argc, &argv);
    let_errors_return();
    with_garbage = argc > 1 && !strcmp(argv[1], "garbage");
    for (round = 0; round < 2; round++) {
        communicators();
        ranks_and_tags();
        buffers_counts_and_types();
        requests_and_messages();
        collectives();
        groups_and_the_rest();
        all_still_works();
    }
    if (argc > 1 && !strcmp(argv[1], "mismatched"))
        mismatched_sizes(), without_data();
    all_still_works();
    return finish();
}
