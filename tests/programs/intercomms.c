/* Intercommunicators: create, point-to-point, collectives, dup, split, create,
 * merge, compare, free; groups that overlap. */
#include "check.h"

static int low, here, there, me; /* which side, sizes of the groups, local rank */
static MPI_Comm local;

/* The lower `first` ranks and the others. */
static MPI_Comm make(int first, int tag)
{
    MPI_Comm inter;
    low = rank < first;
    here = low ? first : ranks - first;
    there = ranks - here;
    me = low ? rank : rank - first;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &local);
    MPI_Intercomm_create(local, here - 1, MPI_COMM_WORLD, low ? ranks - 1 : first - 1, tag, &inter);
    return inter;
}

/* World rank of a rank of the other side. */
static int theirs(int other)
{
    return low ? here + other : other;
}

static int sum_of_theirs(void)
{
    int sum = 0, i;
    for (i = 0; i < there; i++)
        sum += theirs(i);
    return sum;
}

static int compare(MPI_Comm a, MPI_Comm b)
{
    int result;
    MPI_Comm_compare(a, b, &result);
    return result;
}

static void sizes(MPI_Comm inter)
{
    int flag, size, remote, mine;
    MPI_Group group, other;
    MPI_Comm_test_inter(inter, &flag);
    SAME(flag, 1);
    MPI_Comm_test_inter(local, &flag);
    SAME(flag, 0);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &mine);
    SAME(size, here);
    SAME(remote, there);
    SAME(mine, me);
    MPI_Comm_group(inter, &group);
    MPI_Comm_remote_group(inter, &other);
    MPI_Group_size(group, &size);
    MPI_Group_size(other, &remote);
    SAME(size, here);
    SAME(remote, there);
    MPI_Group_free(&group);
    MPI_Group_free(&other);
    SAME(compare(inter, inter), MPI_IDENT);
    SAME(compare(inter, local), MPI_UNEQUAL);
}

/* Messages of the same rank and tag within and between the groups do not meet. */
static void messages(MPI_Comm inter)
{
    int out = rank, in = -1, i, count;
    MPI_Status status;
    MPI_Request *requests = allocate(there * sizeof *requests);
    for (i = 0; i < there; i++)
        MPI_Isend(&out, 1, MPI_INT, i, 3, inter, &requests[i]);
    for (i = there; i-- > 0;) {
        MPI_Recv(&in, 1, MPI_INT, i, 3, inter, &status);
        SAME(in, theirs(i));
        CHECK_STATUS(&status, i, 3, MPI_INT, 1);
    }
    MPI_Waitall(there, requests, MPI_STATUSES_IGNORE);
    MPI_Isend(&out, 1, MPI_INT, me % there, 4, inter, &requests[0]);
    for (count = 0, i = 0; i < there; i++)
        count += i % here == me;
    for (i = 0; i < count; i++) {
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status);
        SAME(status.MPI_SOURCE % here, me);
        SAME(in, theirs(status.MPI_SOURCE));
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    free(requests);
}

/* One side's root deals with the other side. */
static void rooted(MPI_Comm inter, int root_is_low)
{
    int n = ranks, i, value = -1, mine[2] = {rank, -rank}, *all = allocate(2 * n * sizeof *all);
    int *counts = allocate(n * sizeof *counts), *displs = allocate(n * sizeof *displs);
    int root_rank = root_is_low ? (low ? here : there) - 1 : 0;
    int is_root = low == root_is_low && me == root_rank;
    int root = low != root_is_low ? root_rank : is_root ? MPI_ROOT : MPI_PROC_NULL;
    if (is_root)
        value = 100 + rank;
    MPI_Bcast(&value, 1, MPI_INT, root, inter);
    if (low != root_is_low)
        SAME(value, 100 + theirs(root_rank));
    /* Only what is significant is given. */
    if (root == MPI_PROC_NULL)
        MPI_Gather(NULL, -1, MPI_DATATYPE_NULL, NULL, -1, MPI_DATATYPE_NULL, root, inter);
    else if (is_root)
        MPI_Gather(NULL, -1, MPI_DATATYPE_NULL, all, 2, MPI_INT, root, inter);
    else
        MPI_Gather(mine, 2, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root, inter);
    for (i = 0; is_root && i < there; i++)
        CHECK(all[2 * i] == theirs(i) && all[2 * i + 1] == -theirs(i), "gather: block %d is %d", i, all[2 * i]);
    for (i = 0; i < n; i++) {
        counts[i] = 1 + i % 2;
        displs[i] = 2 * i;
        all[2 * i] = all[2 * i + 1] = is_root ? 1000 * rank + i : -1;
    }
    if (is_root)
        MPI_Scatterv(all, counts, displs, MPI_INT, NULL, 0, MPI_INT, root, inter);
    else
        MPI_Scatterv(NULL, NULL, NULL, MPI_INT, mine, counts[me], MPI_INT, root, inter);
    if (low != root_is_low)
        for (i = 0; i < counts[me]; i++)
            SAME(mine[i], 1000 * theirs(root_rank) + me);
    mine[0] = rank;
    mine[1] = 2 * rank;
    if (root == MPI_PROC_NULL)
        MPI_Reduce(NULL, NULL, 0, MPI_BYTE, MPI_SUM, root, inter);
    else
        MPI_Reduce(is_root ? NULL : mine, all, 2, MPI_INT, MPI_SUM, root, inter);
    if (is_root) {
        SAME(all[0], sum_of_theirs());
        SAME(all[1], 2 * sum_of_theirs());
    }
    free(all);
    free(counts);
    free(displs);
}

static void symmetric(MPI_Comm inter)
{
    int i, sum = -1, *in = allocate(ranks * ranks * sizeof *in), *out = allocate(ranks * ranks * sizeof *out);
    int *counts = allocate(ranks * sizeof *counts);
    MPI_Request request;
    MPI_Barrier(inter);
    MPI_Allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, inter);
    for (i = 0; i < there; i++)
        SAME(in[i], theirs(i));
    for (i = 0; i < there; i++)
        out[i] = 100 * rank + i;
    MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (i = 0; i < there; i++)
        SAME(in[i], 100 * theirs(i) + me);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    SAME(sum, sum_of_theirs());
    /* Data in one direction only. */
    sum = -1;
    MPI_Allgather(out, low, MPI_INT, &sum, 0, MPI_INT, inter);
    SAME(sum, -1);
    for (i = 0; i < here * there; i++)
        out[i] = rank + i;
    for (i = 0; i < here; i++)
        counts[i] = there;
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, inter);
    for (i = 0; i < there; i++)
        SAME(in[i], sum_of_theirs() + there * (me * there + i));
    MPI_Reduce_scatter_block(out, in, there, MPI_INT, MPI_SUM, inter);
    for (i = 0; i < there; i++)
        SAME(in[i], sum_of_theirs() + there * (me * there + i));
    free(in);
    free(out);
    free(counts);
}

static void wrong(MPI_Comm inter)
{
    int value = 0;
    MPI_Comm none;
    RAISES(MPI_ERR_ROOT, MPI_Bcast(&value, 1, MPI_INT, there, inter));
    RAISES(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, inter));
    RAISES(MPI_ERR_COMM, MPI_Scan(&rank, &value, 1, MPI_INT, MPI_SUM, inter));
    RAISES(MPI_ERR_COMM, MPI_Comm_remote_size(local, &value));
    RAISES(MPI_ERR_COMM, MPI_Intercomm_merge(local, 0, &none));
    RAISES(MPI_ERR_COMM, MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 1, &none));
    RAISES(MPI_ERR_RANK, MPI_Intercomm_create(local, here, MPI_COMM_WORLD, 0, 1, &none));
    /* The leaders are wrong: all of the group is notified. */
    RAISES(MPI_ERR_RANK, MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, ranks, 1, &none));
    RAISES(MPI_ERR_TAG, MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 0, -1, &none));
    /* A group cannot meet itself, nor one that shares a member. */
    RAISES(MPI_ERR_COMM, MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_WORLD, ranks - 1, 1, &none));
    if (ranks > 2) {
        MPI_Comm all_but_first, all_but_last;
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &all_but_first);
        MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1 ? MPI_UNDEFINED : 0, rank, &all_but_last);
        if (rank < ranks - 1)
            RAISES(MPI_ERR_COMM, MPI_Intercomm_create(all_but_last, 0, MPI_COMM_WORLD, ranks - 1, 8, &none));
        if (rank > 0)
            RAISES(MPI_ERR_COMM, MPI_Intercomm_create(all_but_first, ranks - 2, MPI_COMM_WORLD, 0, 8, &none));
        if (all_but_first != MPI_COMM_NULL)
            MPI_Comm_free(&all_but_first);
        if (all_but_last != MPI_COMM_NULL)
            MPI_Comm_free(&all_but_last);
    }
}

static void check_merged(MPI_Comm merged, int first_is_low)
{
    int size, mine, sum;
    MPI_Comm_size(merged, &size);
    MPI_Comm_rank(merged, &mine);
    SAME(size, ranks);
    SAME(mine, me + (low == first_is_low ? 0 : there));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    SAME(sum, ranks * (ranks - 1) / 2);
    MPI_Comm_free(&merged);
}

static void children(MPI_Comm inter)
{
    MPI_Comm child, merged;
    MPI_Request request;
    MPI_Group group, part;
    int flag, size, remote, first = 0;
    MPI_Comm_dup(inter, &child);
    SAME(compare(inter, child), MPI_CONGRUENT);
    symmetric(child);
    messages(child);
    MPI_Comm_free(&child);
    MPI_Comm_idup(inter, &child, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    rooted(child, 1);
    MPI_Comm_free(&child);
    MPI_Intercomm_merge(inter, !low, &merged);
    check_merged(merged, 1);
    MPI_Intercomm_merge(inter, low, &merged);
    check_merged(merged, 0);
    MPI_Intercomm_merge(inter, 0, &merged);
    check_merged(merged, 1);
    /* Pairs; a rank without a partner gets no communicator. */
    MPI_Comm_split(inter, me, 0, &child);
    CHECK((child == MPI_COMM_NULL) == (me >= there), "rank %d of %d facing %d is on the wrong side", me, here, there);
    if (child != MPI_COMM_NULL) {
        int got = -1;
        MPI_Comm_test_inter(child, &flag);
        MPI_Comm_size(child, &size);
        MPI_Comm_remote_size(child, &remote);
        CHECK(flag && size == 1 && remote == 1, "a pair of %d and %d", size, remote);
        MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, child);
        SAME(got, theirs(me));
        MPI_Comm_free(&child);
    }
    /* The first ones of each side. */
    MPI_Comm_group(inter, &group);
    MPI_Group_incl(group, 1, &first, &part);
    MPI_Comm_create(inter, part, &child);
    CHECK((child == MPI_COMM_NULL) == (me > 0), "rank %d is on the wrong side of Comm_create", me);
    if (child != MPI_COMM_NULL) {
        MPI_Barrier(child);
        MPI_Comm_free(&child);
    }
    MPI_Comm_create(inter, low ? MPI_GROUP_EMPTY : group, &child);
    CHECK(child == MPI_COMM_NULL, "an intercommunicator with nobody on one side");
    MPI_Group_free(&part);
    MPI_Group_free(&group);
}

int main(int argc, char **argv)
{
    int first;
    start(&argc, &argv);
    let_errors_return();
    CHECK(ranks > 1, "two groups need two ranks");
    for (first = 1; first < ranks; first++) {
        MPI_Comm inter = make(first, 7);
        sizes(inter);
        messages(inter);
        rooted(inter, 1);
        rooted(inter, 0);
        symmetric(inter);
        children(inter);
        wrong(inter);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&local);
    }
    return finish();
}
