/* Short collectives on communicators of all kinds whose ranks share hosts with others: within a
 * host they use collective segments. The table looks at the frames that ranks report. */
#include "check.h"

enum { KINDS = 8, EACH = 300 };

static MPI_Comm made(int kind)
{
    MPI_Comm comm, half;
    MPI_Group group;
    MPI_Request request;
    switch (kind) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        return comm;
    case 1:
        MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return comm;
    case 2:
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
        return comm;
    case 3:
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
        return comm;
    case 4:
        MPI_Comm_split(MPI_COMM_WORLD, rank < 2, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 3, &comm);
        MPI_Comm_free(&half);
        half = comm;
        MPI_Intercomm_merge(half, rank < 2, &comm);
        MPI_Comm_free(&half);
        return comm;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    if (kind == 5)
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    else if (kind == 6)
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 1, &comm);
    else
        MPI_Comm_create_from_group(group, "traffic", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

int main(int argc, char **argv)
{
    int kind, i, size, sum;
    start(&argc, &argv);
    for (kind = 0; kind < KINDS; kind++) {
        MPI_Comm comm = made(kind);
        MPI_Comm_size(comm, &size);
        for (i = 0; i < EACH; i++) {
            MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm);
            SAME(sum, size * i);
            sum = i;
            MPI_Bcast(&sum, 1, MPI_INT, i % size, comm);
            MPI_Barrier(comm);
        }
        MPI_Comm_free(&comm);
    }
    return finish();
}
