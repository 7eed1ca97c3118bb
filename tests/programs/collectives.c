/* Every collective, blocking and nonblocking, in place and not, from every
 * root, with counts that divide by nothing; checked value by value. Each is
 * written once, as a nonblocking call; `done` waits for it at once, or keeps
 * several under way. The blocking forms are called with the same arguments. */
#include "check.h"

enum { MOST = 5000 };

static MPI_Comm comm;
static int me, size;

/* The value of rank r at place i. */
static int value(int r, int i)
{
    return r * 100003 + i * 7 + 1;
}

static int *values(int r, int count)
{
    int *data = allocate(count * sizeof(int)), i;
    for (i = 0; i < count; i++)
        data[i] = value(r, i);
    return data;
}

static int *blank(int count)
{
    int *data = allocate(count * sizeof(int)), i;
    for (i = 0; i < count; i++)
        data[i] = -1;
    return data;
}

/* Runs the blocking or the nonblocking form of a call. */
#define EITHER(blocking, Name, ...) \
    do { \
        if (blocking) { \
            MPI_##Name(__VA_ARGS__, comm); \
        } else { \
            MPI_Request request_; \
            MPI_I##Name(__VA_ARGS__, comm, &request_); \
            MPI_Wait(&request_, MPI_STATUS_IGNORE); \
            CHECK(request_ == MPI_REQUEST_NULL, "a completed collective leaves its request"); \
        } \
    } while (0)

/* Lower-case initials after the I of the nonblocking names. */
#define MPI_IBcast MPI_Ibcast
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IGather MPI_Igather
#define MPI_IGatherv MPI_Igatherv
#define MPI_IScatter MPI_Iscatter
#define MPI_IScatterv MPI_Iscatterv
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAllgatherv MPI_Iallgatherv
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IAlltoallv MPI_Ialltoallv
#define MPI_IAlltoallw MPI_Ialltoallw
#define MPI_IReduce_scatter MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan

static void bcast(int blocking, int root, int count)
{
    int *data = me == root ? values(root, count) : blank(count), i;
    EITHER(blocking, Bcast, data, count, MPI_INT, root);
    for (i = 0; i < count; i++)
        SAME(data[i], value(root, i));
    free(data);
}

/* The sum over ranks first .. last - 1 at place i. */
static int sum(int first, int last, int i)
{
    int total = 0, r;
    for (r = first; r < last; r++)
        total += value(r, i);
    return total;
}

static void reduce(int blocking, int root, int count, int in_place)
{
    int *data = values(me, count), *out = in_place ? values(me, count) : blank(count), i;
    if (in_place && me == root)
        EITHER(blocking, Reduce, MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, root);
    else
        EITHER(blocking, Reduce, data, me == root ? out : NULL, count, MPI_INT, MPI_SUM, root);
    for (i = 0; i < count; i++) {
        SAME(data[i], value(me, i));
        if (me == root)
            SAME(out[i], sum(0, size, i));
    }
    free(data);
    free(out);
}

static void allreduce(int blocking, int count, int in_place)
{
    int *data = values(me, count), *out = in_place ? values(me, count) : blank(count), i;
    EITHER(blocking, Allreduce, in_place ? MPI_IN_PLACE : data, out, count, MPI_INT, MPI_SUM);
    for (i = 0; i < count; i++)
        SAME(out[i], sum(0, size, i));
    free(data);
    free(out);
}

static void scans(int blocking, int count, int in_place)
{
    int *data = values(me, count), *out = in_place ? values(me, count) : blank(count), i;
    EITHER(blocking, Scan, in_place ? MPI_IN_PLACE : data, out, count, MPI_INT, MPI_SUM);
    for (i = 0; i < count; i++)
        SAME(out[i], sum(0, me + 1, i));
    for (i = 0; i < count; i++)
        out[i] = in_place ? value(me, i) : -1;
    EITHER(blocking, Exscan, in_place ? MPI_IN_PLACE : data, out, count, MPI_INT, MPI_SUM);
    for (i = 0; i < count && me > 0; i++)
        SAME(out[i], sum(0, me, i));
    free(data);
    free(out);
}

static void gather(int blocking, int root, int count, int in_place)
{
    int *data = values(me, count), *all = me == root ? blank(size * count) : NULL, r, i;
    if (me == root && in_place) {
        memcpy(all + me * count, data, count * sizeof(int));
        EITHER(blocking, Gather, MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, root);
    } else
        EITHER(blocking, Gather, data, count, MPI_INT, all, count, MPI_INT, root);
    for (r = 0; r < size && me == root; r++)
        for (i = 0; i < count; i++)
            SAME(all[r * count + i], value(r, i));
    free(data);
    free(all);
}

static void scatter(int blocking, int root, int count, int in_place)
{
    int *all = me == root ? values(root, size * count) : NULL, *data = blank(count), i;
    if (me == root && in_place) {
        EITHER(blocking, Scatter, all, count, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root);
        memcpy(data, all + me * count, count * sizeof(int));
    } else
        EITHER(blocking, Scatter, all, count, MPI_INT, data, count, MPI_INT, root);
    for (i = 0; i < count; i++)
        SAME(data[i], value(root, me * count + i));
    free(data);
    free(all);
}

static void allgather(int blocking, int count, int in_place)
{
    int *data = values(me, count), *all = blank(size * count), r, i;
    memcpy(all + me * count, data, count * sizeof(int));
    EITHER(blocking, Allgather, in_place ? MPI_IN_PLACE : (void *)data, count, MPI_INT, all, count, MPI_INT);
    for (r = 0; r < size; r++)
        for (i = 0; i < count; i++)
            SAME(all[r * count + i], value(r, i));
    free(data);
    free(all);
}

static void alltoall(int blocking, int count, int in_place)
{
    int *out = values(me, size * count), *in = in_place ? values(me, size * count) : blank(size * count), r, i;
    EITHER(blocking, Alltoall, in_place ? MPI_IN_PLACE : (void *)out, count, MPI_INT, in, count, MPI_INT);
    for (r = 0; r < size; r++)
        for (i = 0; i < count; i++)
            SAME(in[r * count + i], value(r, me * count + i));
    free(in);
    free(out);
}

static void reduce_scatter_block(int blocking, int count, int in_place)
{
    int *data = values(me, size * count), *out = in_place ? values(me, size * count) : blank(count), i;
    EITHER(blocking, Reduce_scatter_block, in_place ? MPI_IN_PLACE : (void *)data, out, count, MPI_INT, MPI_SUM);
    for (i = 0; i < count; i++)
        SAME(out[i], sum(0, size, me * count + i));
    free(data);
    free(out);
}

/* Rank r's share of the v-forms: some have nothing. */
static int share(int r, int count)
{
    return r % 3 == 1 ? 0 : count + r;
}

/* Counts, and starts with gaps of 3 between the shares, in reverse order. */
static int shares(int count, int *counts, int *starts)
{
    int r, at = 0;
    for (r = size - 1; r >= 0; r--) {
        counts[r] = share(r, count);
        starts[r] = at;
        at += counts[r] + 3;
    }
    return at;
}

static void gatherv_scatterv(int blocking, int root, int count, int in_place)
{
    int *counts = blank(size), *starts = blank(size), total = shares(count, counts, starts), r, i, at;
    int *data = values(me, counts[me]), *all = blank(total);
    const int here = me == root && in_place;
    if (here)
        memcpy(all + starts[me], data, counts[me] * sizeof(int));
    EITHER(blocking, Gatherv, here ? MPI_IN_PLACE : (void *)data, counts[me], MPI_INT, all, counts, starts, MPI_INT,
           root);
    for (r = 0; r < size && me == root; r++) {
        for (i = 0; i < counts[r]; i++)
            SAME(all[starts[r] + i], value(r, i));
        for (at = starts[r] + counts[r]; at < starts[r] + counts[r] + 3; at++)
            SAME(all[at], -1);
    }
    for (i = 0; i < counts[me]; i++)
        data[i] = -2;
    EITHER(blocking, Scatterv, all, counts, starts, MPI_INT, here ? MPI_IN_PLACE : (void *)data, counts[me], MPI_INT,
           root);
    for (i = 0; i < counts[me] && !here; i++)
        SAME(data[i], value(me, i));
    free(counts);
    free(starts);
    free(data);
    free(all);
}

static void allgatherv(int blocking, int count, int in_place)
{
    int *counts = blank(size), *starts = blank(size), total = shares(count, counts, starts), r, i;
    int *data = values(me, counts[me]), *all = blank(total);
    memcpy(all + starts[me], data, counts[me] * sizeof(int));
    EITHER(blocking, Allgatherv, in_place ? MPI_IN_PLACE : (void *)data, counts[me], MPI_INT, all, counts, starts,
           MPI_INT);
    for (r = 0; r < size; r++)
        for (i = 0; i < counts[r]; i++)
            SAME(all[starts[r] + i], value(r, i));
    free(counts);
    free(starts);
    free(data);
    free(all);
}

static void reduce_scatter(int blocking, int count, int in_place)
{
    int *counts = blank(size), *starts = blank(size), total = 0, r, i, first = 0;
    int *data, *out;
    shares(count, counts, starts);
    for (r = 0; r < size; r++) {
        if (r < me)
            first += counts[r];
        total += counts[r];
    }
    data = values(me, total);
    out = in_place ? values(me, total) : blank(counts[me]);
    EITHER(blocking, Reduce_scatter, in_place ? MPI_IN_PLACE : (void *)data, out, counts, MPI_INT, MPI_SUM);
    for (i = 0; i < counts[me]; i++)
        SAME(out[i], sum(0, size, first + i));
    free(counts);
    free(starts);
    free(data);
    free(out);
}

/* Rank a sends (a + 2 b) % 5 * count values to rank b. */
static int between(int a, int b, int count)
{
    return (a + 2 * b) % 5 * count;
}

static void alltoallv_and_w(int blocking, int count)
{
    int *outs = blank(size), *ins = blank(size), *out_at = blank(size), *in_at = blank(size), r, i;
    int *out_bytes = blank(size), *in_bytes = blank(size), to = 0, from = 0, *out, *in;
    MPI_Datatype *types = allocate(size * sizeof *types);
    for (r = 0; r < size; r++) {
        types[r] = MPI_INT;
        outs[r] = between(me, r, count);
        ins[r] = between(r, me, count);
        out_at[r] = to;
        in_at[r] = from;
        out_bytes[r] = to * (int)sizeof(int);
        in_bytes[r] = from * (int)sizeof(int);
        to += outs[r] + 1;
        from += ins[r] + 2;
    }
    out = blank(to);
    for (r = 0; r < size; r++)
        for (i = 0; i < outs[r]; i++)
            out[out_at[r] + i] = value(me, r * 1000 + i);
    in = blank(from);
    EITHER(blocking, Alltoallv, out, outs, out_at, MPI_INT, in, ins, in_at, MPI_INT);
    for (r = 0; r < size; r++)
        for (i = 0; i < ins[r]; i++)
            SAME(in[in_at[r] + i], value(r, me * 1000 + i));
    free(in);
    in = blank(from);
    EITHER(blocking, Alltoallw, out, outs, out_bytes, types, in, ins, in_bytes, types);
    for (r = 0; r < size; r++)
        for (i = 0; i < ins[r] + 2; i++)
            SAME(in[in_at[r] + i], i < ins[r] ? value(r, me * 1000 + i) : -1);
    free(outs), free(ins), free(out_at), free(in_at), free(out_bytes), free(in_bytes), free(types), free(out), free(in);
}

static void barrier(int blocking)
{
    MPI_Request request;
    if (blocking) {
        MPI_Barrier(comm);
        return;
    }
    MPI_Ibarrier(comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void all(int blocking, int count)
{
    int root, in_place;
    barrier(blocking);
    for (root = 0; root < size; root++) {
        bcast(blocking, root, count);
        for (in_place = 0; in_place < 2; in_place++) {
            reduce(blocking, root, count, in_place);
            gather(blocking, root, count, in_place);
            scatter(blocking, root, count, in_place);
            gatherv_scatterv(blocking, root, count, in_place);
        }
    }
    for (in_place = 0; in_place < 2; in_place++) {
        allreduce(blocking, count, in_place);
        scans(blocking, count, in_place);
        allgather(blocking, count, in_place);
        alltoall(blocking, count, in_place);
        allgatherv(blocking, count, in_place);
        reduce_scatter_block(blocking, count, in_place);
        reduce_scatter(blocking, count, in_place);
    }
    alltoallv_and_w(blocking, count);
}

/* Rank 0 has no result of an exscan, and ranks without elements none of a reduce_scatter: their
   receive buffers are not looked at. */
static void without_result(void)
{
    int mine = value(me, 0), before = -1, r, *counts = allocate(size * sizeof *counts), *out = values(me, 2 * size);
    MPI_Exscan(&mine, me ? &before : NULL, 1, MPI_INT, MPI_SUM, comm);
    SAME(before, me ? sum(0, me, 0) : -1);
    MPI_Exscan(&mine, me ? &before : &mine, 1, MPI_INT, MPI_SUM, comm);
    SAME(before, me ? sum(0, me, 0) : -1);
    for (r = 0; r < size; r++)
        counts[r] = r == size - 1 ? 2 : 0;
    MPI_Reduce_scatter(out, counts[me] ? &before : NULL, counts, MPI_INT, MPI_SUM, comm);
    free(counts), free(out);
}

/* The elements that are sent lie between those that are received. */
static void interleaved(void)
{
    int i, r, *mixed = allocate(2 * size * sizeof *mixed);
    MPI_Datatype even, odd, types[2];
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &even);
    MPI_Type_commit(&even);
    MPI_Type_create_indexed_block(1, 1, (int[]){1}, MPI_INT, &types[0]);
    MPI_Type_create_resized(types[0], 0, 2 * sizeof(int), &odd);
    MPI_Type_commit(&odd);
    for (i = 0; i < 2; i++) {
        types[0] = i ? odd : even, types[1] = i ? even : odd;
        for (r = 0; r < size; r++)
            mixed[2 * r + i] = value(me, r), mixed[2 * r + 1 - i] = -1;
        MPI_Alltoall(mixed, 1, types[0], mixed, 1, types[1], comm);
        for (r = 0; r < size; r++) {
            SAME(mixed[2 * r + i], value(me, r));
            SAME(mixed[2 * r + 1 - i], value(r, me));
        }
        MPI_Allgather(mixed, 1, types[0], mixed, 1, types[1], comm);
        for (r = 0; r < size; r++)
            SAME(mixed[2 * r + 1 - i], value(r, 0));
    }
    MPI_Type_free(&even), MPI_Type_free(&odd);
    free(mixed);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 3, 17, 1000, MOST};
    unsigned i;
    int blocking;
    start(&argc, &argv);
    /* The root, on a communicator whose ranks run in reverse if requested. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, argc > 1 ? -rank : rank, &comm);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    for (blocking = 0; blocking < 2; blocking++)
        for (i = 0; i < sizeof counts / sizeof *counts; i++)
            all(blocking, counts[i]);
    without_result();
    interleaved();
    MPI_Comm_free(&comm);
    return finish();
}
