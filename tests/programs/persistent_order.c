/* Persistent collectives belong together by the order in which they were made;
 * each process starts them in an order of its own (MPI-5.0 6.13), again and
 * again, among other collectives, while some are freed and with them their
 * communicators. */
#include "check.h"

enum { LAPS = 25, LARGE = 40000 };

static unsigned state;

static unsigned below(unsigned limit)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

/* An order of this rank's own. */
static void shuffle(int *order, int many)
{
    for (int i = 0; i < many; i++)
        order[i] = i;
    for (int i = many - 1; i > 0; i--) {
        int j = below(i + 1), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

static int sum_of(int lap, int factor, int size)
{
    return size * (size - 1) / 2 * factor + size * lap;
}

/* Two of a kind, started the other way round on odd ranks. */
static void two(void)
{
    int out[2], in[2];
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        MPI_Allreduce_init(&out[i], &in[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    for (int lap = 0; lap < LAPS; lap++) {
        for (int i = 0; i < 2; i++)
            out[i] = rank * (i + 1) + lap;
        MPI_Start(&requests[rank % 2]);
        MPI_Start(&requests[1 - rank % 2]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 2; i++)
            SAME(in[i], sum_of(lap, i + 1, ranks));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* A broadcast and a barrier; and one that is started before or after a
 * blocking or nonblocking collective. */
static void two_kinds(void)
{
    int value, other, root = ranks - 1, sum;
    MPI_Request requests[2], single;
    MPI_Bcast_init(&value, 1, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int lap = 0; lap < LAPS; lap++) {
        value = rank == root ? 100 + lap : -1;
        MPI_Start(&requests[rank % 2]);
        MPI_Start(&requests[1 - rank % 2]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        SAME(value, 100 + lap);

        value = rank == root ? 200 + lap : -1;
        other = rank == 0 ? 300 + lap : -1;
        if (rank % 2)
            MPI_Start(&requests[0]);
        MPI_Ibcast(&other, 1, MPI_INT, 0, MPI_COMM_WORLD, &single);
        if (rank % 2 == 0)
            MPI_Start(&requests[0]);
        MPI_Wait(&single, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        SAME(value, 200 + lap);
        SAME(other, 300 + lap);

        value = rank == root ? 400 + lap : -1;
        if (rank % 2)
            MPI_Start(&requests[0]);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank % 2 == 0)
            MPI_Start(&requests[0]);
        SAME(sum, sum_of(0, 1, ranks));
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        SAME(value, 400 + lap);
    }
    MPI_Request_free(&requests[1]);
    MPI_Request_free(&requests[0]);
}

/* One of each kind, small or large, as rank `me` of `size` on `comm`. */
enum { KINDS = 11 };

struct set {
    int me, size, count, kinds;
    MPI_Request requests[KINDS];
    int *out[KINDS], *in[KINDS];
};

static void add(int *in, int *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        inout[i] += in[i];
}

static MPI_Op own_sum;

static void make(struct set *set, MPI_Comm comm, int count)
{
    const int root = 0;
    int **out = set->out, **in = set->in;
    MPI_Request *request = set->requests;
    MPI_Comm_rank(comm, &set->me);
    MPI_Comm_size(comm, &set->size);
    set->count = count;
    for (int kind = 0; kind < KINDS; kind++) {
        out[kind] = allocate(sizeof(int) * count * set->size);
        in[kind] = allocate(sizeof(int) * count * set->size);
    }
    MPI_Allreduce_init(out[0], in[0], count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[0]);
    MPI_Bcast_init(in[1], count, MPI_INT, root, comm, MPI_INFO_NULL, &request[1]);
    MPI_Allgather_init(out[2], count, MPI_INT, in[2], count, MPI_INT, comm, MPI_INFO_NULL, &request[2]);
    MPI_Alltoall_init(out[3], count, MPI_INT, in[3], count, MPI_INT, comm, MPI_INFO_NULL, &request[3]);
    MPI_Reduce_init(out[4], in[4], count, MPI_INT, MPI_SUM, root, comm, MPI_INFO_NULL, &request[4]);
    MPI_Gather_init(out[5], count, MPI_INT, in[5], count, MPI_INT, root, comm, MPI_INFO_NULL, &request[5]);
    MPI_Scatter_init(out[6], count, MPI_INT, in[6], count, MPI_INT, root, comm, MPI_INFO_NULL, &request[6]);
    MPI_Scan_init(out[7], in[7], count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[7]);
    MPI_Reduce_scatter_block_init(out[8], in[8], count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[8]);
    MPI_Allreduce_init(out[9], in[9], count, MPI_INT, own_sum, comm, MPI_INFO_NULL, &request[9]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &request[10]);
}

/* What rank `from` has for rank `to` in a lap. */
static int word(int lap, int kind, int from, int to)
{
    return lap * 10000 + kind * 1000 + from * 30 + to;
}

static void prepare(struct set *set, int lap, int kind)
{
    for (int to = 0; to < set->size; to++)
        for (int i = 0; i < set->count; i++) {
            set->out[kind][to * set->count + i] = word(lap, kind, set->me, to);
            set->in[kind][to * set->count + i] = kind == 1 && set->me == 0 ? word(lap, 1, 0, 0) : -1;
        }
}

static void inspect(struct set *set, int lap, int kind)
{
    int wanted = 0, last = set->count - 1;
    const int *in = set->in[kind];
    for (int from = 0; from < set->size; from++) {
        const int here = from * set->count + last;
        switch (kind) {
        case 2: /* allgather */
            SAME(in[here], word(lap, 2, from, 0));
            break;
        case 3: /* alltoall */
            SAME(in[here], word(lap, 3, from, set->me));
            break;
        case 5: /* gather */
            if (set->me == 0)
                SAME(in[here], word(lap, 5, from, 0));
            break;
        case 7: /* scan */
            wanted += from <= set->me ? word(lap, kind, from, 0) : 0;
            break;
        case 8: /* reduce_scatter_block */
            wanted += word(lap, kind, from, set->me);
            break;
        default:
            wanted += word(lap, kind, from, 0);
        }
    }
    if (kind == 1)
        SAME(in[last], word(lap, 1, 0, 0));
    if (kind == 6)
        SAME(in[last], word(lap, 6, 0, set->me));
    if (kind == 0 || kind == 7 || kind == 8 || kind == 9 || (kind == 4 && set->me == 0))
        SAME(in[last], wanted);
}

static void drop(struct set *set, int kind)
{
    if (set->requests[kind] != MPI_REQUEST_NULL)
        MPI_Request_free(&set->requests[kind]);
    free(set->out[kind]);
    free(set->in[kind]);
}

/* Every kind, each lap in an order of each rank's own; ranks may be laps apart. */
static void every_kind(MPI_Comm comm, int count, int laps)
{
    struct set set;
    int order[KINDS], sum;
    make(&set, comm, count);
    for (int lap = 0; lap < laps; lap++) {
        shuffle(order, KINDS);
        int between = below(KINDS);
        for (int i = 0; i < KINDS; i++) {
            prepare(&set, lap, order[i]);
            MPI_Start(&set.requests[order[i]]);
            if (i == between && lap % 3 == 0) {
                MPI_Allreduce(&set.me, &sum, 1, MPI_INT, MPI_SUM, comm);
                SAME(sum, sum_of(0, 1, set.size));
            }
        }
        shuffle(order, KINDS);
        for (int i = 0; i < KINDS; i++) {
            MPI_Wait(&set.requests[order[i]], MPI_STATUS_IGNORE);
            inspect(&set, lap, order[i]);
        }
    }
    for (int kind = 0; kind < KINDS; kind++)
        drop(&set, kind);
}

/* Each is started as soon as its last lap is over, whatever the others do. */
static void apart(MPI_Comm comm)
{
    struct set set;
    int laps[KINDS] = {0}, left = KINDS, which;
    make(&set, comm, 5);
    for (int kind = 0; kind < KINDS; kind++) {
        prepare(&set, 0, kind);
        MPI_Start(&set.requests[kind]);
    }
    while (left > 0) {
        MPI_Waitany(KINDS, set.requests, &which, MPI_STATUS_IGNORE);
        CHECK(which >= 0 && which < KINDS, "Waitany gave %d", which);
        inspect(&set, laps[which], which);
        if (++laps[which] < LAPS) {
            prepare(&set, laps[which], which);
            MPI_Start(&set.requests[which]);
        } else {
            left--;
        }
    }
    for (int kind = 0; kind < KINDS; kind++)
        drop(&set, kind);
}

/* Some are freed while others run, others are made between the laps, and the
 * communicator is freed before them. */
static void freed(void)
{
    enum { MANY = 6 };
    MPI_Comm comm;
    MPI_Request requests[MANY];
    int out[MANY], in[MANY], order[MANY];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < MANY; i++)
        MPI_Allreduce_init(&out[i], &in[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
    for (int lap = 0; lap < LAPS; lap++) {
        int kept = lap % MANY;
        shuffle(order, MANY);
        for (int i = 0; i < MANY; i++) {
            out[order[i]] = rank * (order[i] + 1) + lap;
            if (order[i] != kept)
                MPI_Start(&requests[order[i]]);
        }
        if (lap == LAPS - 1) {
            MPI_Comm_free(&comm);
        } else {
            MPI_Request_free(&requests[kept]);
            MPI_Allreduce_init(&out[kept], &in[kept], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[kept]);
        }
        MPI_Start(&requests[kept]);
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++)
            SAME(in[i], sum_of(lap, i + 1, ranks));
    }
    for (int lap = 0; lap < 3; lap++) {
        shuffle(order, MANY);
        for (int i = 0; i < MANY; i++) {
            out[order[i]] = rank * (order[i] + 1) + lap;
            MPI_Start(&requests[order[i]]);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++)
            SAME(in[i], sum_of(lap, i + 1, ranks));
    }
    for (int i = 0; i < MANY; i++)
        MPI_Request_free(&requests[i]);
}

/* Along a ring, where two ranks are neighbours on both sides. */
static void neighbors(void)
{
    enum { MANY = 3 };
    const int yes = 1;
    int out[MANY][2], in[MANY][2], order[MANY], before, behind, me;
    MPI_Comm ring;
    MPI_Request requests[MANY];
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &yes, 1, &ring);
    MPI_Comm_rank(ring, &me);
    MPI_Cart_shift(ring, 0, 1, &before, &behind);
    MPI_Neighbor_allgather_init(out[0], 1, MPI_INT, in[0], 1, MPI_INT, ring, MPI_INFO_NULL, &requests[0]);
    MPI_Neighbor_alltoall_init(out[1], 1, MPI_INT, in[1], 1, MPI_INT, ring, MPI_INFO_NULL, &requests[1]);
    MPI_Neighbor_alltoall_init(out[2], 1, MPI_INT, in[2], 1, MPI_INT, ring, MPI_INFO_NULL, &requests[2]);
    for (int lap = 0; lap < LAPS; lap++) {
        shuffle(order, MANY);
        for (int i = 0; i < MANY; i++) {
            for (int side = 0; side < 2; side++)
                out[order[i]][side] = word(lap, order[i], me, side);
            MPI_Start(&requests[order[i]]);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++) {
            SAME(in[i][0], word(lap, i, before, i > 0));
            SAME(in[i][1], word(lap, i, behind, 0));
        }
    }
    for (int i = 0; i < MANY; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&ring);
}

/* Between even and odd ranks. */
static void between(void)
{
    enum { MANY = 4 };
    int out[MANY], in[MANY], order[MANY], others = rank % 2 ? (ranks + 1) / 2 : ranks / 2;
    MPI_Comm half, inter;
    MPI_Request requests[MANY];
    if (ranks < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
    for (int i = 0; i < MANY - 1; i++)
        MPI_Allreduce_init(&out[i], &in[i], 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[i]);
    MPI_Bcast_init(&in[3], 1, MPI_INT, rank % 2 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter, MPI_INFO_NULL,
                   &requests[3]);
    for (int lap = 0; lap < LAPS; lap++) {
        shuffle(order, MANY);
        for (int i = 0; i < MANY; i++) {
            int which = order[i];
            out[which] = lap * (which + 1);
            in[which] = which == 3 && rank == 0 ? 500 + lap : -1;
            MPI_Start(&requests[which]);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY - 1; i++)
            SAME(in[i], others * lap * (i + 1));
        if (rank % 2)
            SAME(in[3], 500 + lap);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* Two initialisations that do not belong together are named. */
static void mismatch(void)
{
    int value = 5;
    MPI_Request first, second;
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &first);
    if (rank == 0)
        MPI_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &second);
    else
        MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &second);
    MPI_Start(&second);
    MPI_Start(&first);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    state = 77 * rank + 5;
    if (argc > 1 && !strcmp(argv[1], "mismatch")) {
        mismatch();
        return finish();
    }
    MPI_Op_create((MPI_User_function *)add, 1, &own_sum);
    two();
    two_kinds();
    every_kind(MPI_COMM_WORLD, 1, LAPS);
    every_kind(MPI_COMM_WORLD, 600, LAPS);
    every_kind(MPI_COMM_WORLD, LARGE, 3);
    apart(MPI_COMM_WORLD);
    freed();
    neighbors();
    between();
    MPI_Op_free(&own_sum);
    return finish();
}
