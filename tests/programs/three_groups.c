/* The worked programs on intercommunicators: three groups as a pipeline, and three groups as a
   ring. A server of names is in a group of its own with the others in a world without it. Seed case
   26, and of 12 the handler of a merge. */
#include "check.h"

/* From the root of one group to all of the other. */
static void pass_on(MPI_Comm inter, int sends, int *value)
{
    int me;
    MPI_Comm_rank(inter, &me);
    MPI_Bcast(value, 1, MPI_INT, !sends ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
}

static int group_sum(MPI_Comm mine)
{
    int sum;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mine);
    return sum;
}

/* 0 - 1 - 2: data of group 0 reaches group 2 with a sum of each group added. */
static void pipeline(MPI_Comm mine, int which)
{
    MPI_Comm before = MPI_COMM_NULL, behind = MPI_COMM_NULL;
    int value = 1000, expected = 1000, i;
    if (which > 0)
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, which - 1, which, &before);
    if (which < 2)
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, which + 1, which + 1, &behind);
    if (which > 0)
        pass_on(before, 0, &value);
    value += group_sum(mine);
    if (which < 2)
        pass_on(behind, 1, &value);
    for (i = 0; i < ranks; i++)
        expected += i % 3 <= which ? i : 0;
    SAME(value, expected);
    if (before != MPI_COMM_NULL)
        MPI_Comm_free(&before);
    if (behind != MPI_COMM_NULL)
        MPI_Comm_free(&behind);
}

/* 0 - 1 - 2 - 0: a token goes round twice. */
static void ring(MPI_Comm mine, int which)
{
    MPI_Comm before, behind, twin;
    const int next = (which + 1) % 3, last = (which + 2) % 3;
    int lap, token = 0, result;
    /* Each pair with the tag of its lower group; group 0 first with 1, then with 2. */
    if (which == 0) {
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1, 10, &behind);
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 2, 20, &before);
    } else if (which == 1) {
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 0, 10, &before);
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 2, 30, &behind);
    } else {
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 0, 20, &behind);
        MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1, 30, &before);
    }
    for (lap = 0; lap < 2; lap++) {
        if (which > 0 || lap > 0)
            pass_on(before, 0, &token);
        token++;
        pass_on(behind, 1, &token);
    }
    if (which == 0)
        pass_on(before, 0, &token);
    SAME(token, which == 0 ? 6 : 3 + which + 1);
    MPI_Comm_compare(before, behind, &result);
    SAME(result, MPI_UNEQUAL);
    for (lap = 0; lap < 2; lap++) { /* in the order in which they were made */
        MPI_Comm one = (which == 1) == (lap == 0) ? before : behind;
        MPI_Comm_dup(one, &twin);
        MPI_Comm_compare(one, twin, &result);
        SAME(result, MPI_CONGRUENT);
        MPI_Comm_free(&twin);
    }
    MPI_Comm_remote_size(behind, &result);
    SAME(result, (ranks + 2 - next) / 3);
    MPI_Comm_remote_size(before, &result);
    SAME(result, (ranks + 2 - last) / 3);
    MPI_Comm_free(&before), MPI_Comm_free(&behind);
}

/* ---- the server of names ------------------------------------------------------- */

enum { PUBLISH, LOOK_UP, LEAVE, NAME = 32, NAMES = 64 };

typedef struct {
    char name[NAME];
    int value;
} Entry;

static void serve(MPI_Comm clients)
{
    Entry entries[NAMES], request;
    MPI_Status status;
    int known = 0, left, i;
    MPI_Comm_remote_size(clients, &left);
    while (left > 0) {
        MPI_Recv(&request, sizeof request, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, clients, &status);
        if (status.MPI_TAG == LEAVE)
            left--;
        if (status.MPI_TAG == PUBLISH)
            entries[known++] = request;
        for (i = 0; i < known && strcmp(entries[i].name, request.name); i++)
            ;
        request.value = i < known ? entries[i].value : -1;
        MPI_Send(&request.value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, clients);
    }
}

/* The answers of the server. */
static int query(MPI_Comm server, int what, const char *name, int value)
{
    Entry entry = {"", value};
    strncpy(entry.name, name, NAME - 1);
    MPI_Sendrecv(&entry, sizeof entry, MPI_BYTE, 0, what, &value, 1, MPI_INT, 0, what, server, MPI_STATUS_IGNORE);
    return value;
}

static void names(void)
{
    MPI_Comm world, server;
    MPI_Group there, all;
    char name[NAME];
    int size, zero = 0, found, i;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &world);
    MPI_Intercomm_create(world, 0, MPI_COMM_WORLD, rank == 0, 77, &server);
    if (rank == 0)
        serve(server);
    else {
        MPI_Comm_remote_size(server, &size);
        MPI_Comm_remote_group(server, &there);
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_translate_ranks(there, 1, &zero, all, &found);
        CHECK(size == 1 && found == 0, "%d servers, the first is rank %d", size, found);
        MPI_Group_free(&there), MPI_Group_free(&all);
        snprintf(name, sizeof name, "client %d", rank);
        SAME(query(server, PUBLISH, name, 100 * rank), 100 * rank);
        MPI_Barrier(world); /* the new world, without the server */
        for (i = 1; i < ranks; i++) {
            snprintf(name, sizeof name, "client %d", i);
            SAME(query(server, LOOK_UP, name, 0), 100 * i);
        }
        SAME(query(server, LOOK_UP, "nobody", 0), -1);
        query(server, LEAVE, "", 0);
    }
    MPI_Comm_free(&server), MPI_Comm_free(&world);
}

static void handler(MPI_Comm *on, int *code, ...) { (void)on, (void)code; }

/* The error handler of a merged communicator is in each process that of its intercommunicator. */
static void merged_handlers(void)
{
    MPI_Comm half, inter, merged;
    MPI_Errhandler mine, got;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(half, rank % 2 ? mine : MPI_ERRORS_RETURN);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(rank % 2), 5, &inter);
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    MPI_Comm_get_errhandler(merged, &got);
    CHECK((got == MPI_ERRORS_RETURN) == (rank % 2 == 0) && got != MPI_ERRORS_ARE_FATAL, "rank %d has another handler", rank);
    if (got != MPI_ERRORS_RETURN)
        MPI_Errhandler_free(&got);
    RAISES(MPI_ERR_RANK, MPI_Send(NULL, 0, MPI_INT, ranks, 0, merged));
    MPI_Errhandler_free(&mine);
    MPI_Comm_free(&merged), MPI_Comm_free(&inter), MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    MPI_Comm mine;
    start(&argc, &argv);
    if (ranks >= 3) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 3, rank, &mine);
        pipeline(mine, rank % 3);
        ring(mine, rank % 3);
        MPI_Comm_free(&mine);
    }
    names();
    merged_handlers();
    return finish();
}
