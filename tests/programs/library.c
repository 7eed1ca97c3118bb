/* Seed case 25: a parallel library with a communicator of its own, and two handles of it in
   interleaved use. A library on overlapping communicators; a master next to a group without it;
   messages with ANY_SOURCE during reductions. */
#include "check.h"

/* The library: a ring shift that is started and ended in two calls. */
typedef struct {
    MPI_Comm comm;
    MPI_Request requests[2];
    int in, out;
} Shift;

static Shift *shift_new(MPI_Comm comm)
{
    Shift *shift = allocate(sizeof *shift);
    MPI_Comm_dup(comm, &shift->comm);
    return shift;
}

static void shift_start(Shift *shift, int value)
{
    int me, size;
    MPI_Comm_rank(shift->comm, &me);
    MPI_Comm_size(shift->comm, &size);
    shift->out = value;
    MPI_Irecv(&shift->in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, shift->comm, &shift->requests[0]);
    MPI_Isend(&shift->out, 1, MPI_INT, (me + 1) % size, 0, shift->comm, &shift->requests[1]);
}

static int shift_end(Shift *shift)
{
    MPI_Waitall(2, shift->requests, MPI_STATUSES_IGNORE);
    return shift->in;
}

static void shift_free(Shift *shift)
{
    MPI_Comm_free(&shift->comm);
    free(shift);
}

static void two_handles(void)
{
    Shift *a = shift_new(MPI_COMM_WORLD), *b = shift_new(MPI_COMM_WORLD);
    int before = (rank + ranks - 1) % ranks, i, got = -1;
    for (i = 0; i < 50; i++) {
        shift_start(a, rank + 1000);
        shift_start(b, rank + 2000);
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(got, before);
        SAME(shift_end(a), before + 1000);
        SAME(shift_end(b), before + 2000);
    }
    shift_free(b);
    shift_free(a);
}

/* Neighbouring communicators share a rank each; the library runs on one after
 * the other, with a barrier between or without. */
static void overlapping(int with_barrier)
{
    MPI_Comm low, high;
    Shift *shift;
    int i;
    MPI_Comm_split(MPI_COMM_WORLD, rank <= ranks / 2 ? 0 : MPI_UNDEFINED, rank, &low);
    MPI_Comm_split(MPI_COMM_WORLD, rank >= ranks / 2 ? 0 : MPI_UNDEFINED, rank, &high);
    for (i = 0; i < 20; i++) {
        if (low != MPI_COMM_NULL) {
            shift = shift_new(low);
            shift_start(shift, i);
            SAME(shift_end(shift), i);
            shift_free(shift);
        }
        if (with_barrier)
            MPI_Barrier(MPI_COMM_WORLD);
        if (high != MPI_COMM_NULL) {
            shift = shift_new(high);
            shift_start(shift, i + 100);
            SAME(shift_end(shift), i + 100);
            shift_free(shift);
        }
    }
    if (low != MPI_COMM_NULL)
        MPI_Comm_free(&low);
    if (high != MPI_COMM_NULL)
        MPI_Comm_free(&high);
}

static void even_and_odd(void)
{
    int partner = rank ^ 1, got = -1;
    if (partner >= ranks)
        return;
    if (rank % 2 == 0) {
        MPI_Send(&rank, 1, MPI_INT, partner, 1, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&got, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, partner, 2, MPI_COMM_WORLD);
    }
    SAME(got, partner);
}

/* The workers reduce among themselves, then all do. */
static void master_and_workers(void)
{
    MPI_Group world, workers;
    MPI_Comm comm;
    int zero = 0, sum = -1, all = -1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &zero, &workers);
    MPI_Comm_create(MPI_COMM_WORLD, workers, &comm);
    if (rank > 0) {
        MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, comm);
        if (rank == 1)
            SAME(sum, ranks * (ranks - 1) / 2);
        MPI_Comm_free(&comm);
    } else
        CHECK(comm == MPI_COMM_NULL, "the master got the workers' communicator");
    MPI_Reduce(&rank, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        SAME(all, ranks - 1);
    MPI_Group_free(&workers);
    MPI_Group_free(&world);
}

/* 4 of 9 ranks: messages from any source during reductions on one communicator. */
static void beside_reductions(void)
{
    const int members[] = {2, 4, 6, 8};
    MPI_Group world, four;
    MPI_Comm comm;
    MPI_Request request;
    int me, got = -1, sum = -1, i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 4, members, &four);
    MPI_Comm_create(MPI_COMM_WORLD, four, &comm);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_rank(comm, &me);
        for (i = 0; i < 100; i++) {
            MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
            SAME(sum, 20);
            MPI_Send(&i, 1, MPI_INT, (me + 1) % 4, 3, comm);
            MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_PROD, i % 4, comm);
            if (me == i % 4)
                SAME(sum, 384);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            SAME(got, i);
        }
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&four);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    even_and_odd();
    two_handles();
    overlapping(1);
    overlapping(0);
    if (ranks > 1)
        master_and_workers();
    if (ranks >= 9)
        beside_reductions();
    return finish();
}
