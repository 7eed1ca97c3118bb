/* A handle that was freed is known to be stale, also when its slot has been
 * given to something new since. */
#include "check.h"

static void communicators(void)
{
    MPI_Comm first, stale, second;
    int size;
    MPI_Comm_dup(MPI_COMM_SELF, &first);
    stale = first;
    MPI_Comm_free(&first);
    MPI_Comm_dup(MPI_COMM_SELF, &second);
    RAISES(MPI_ERR_COMM, MPI_Comm_size(stale, &size));
    SAME(MPI_Comm_size(second, &size), MPI_SUCCESS);
    MPI_Comm_free(&second);
    RAISES(MPI_ERR_COMM, MPI_Comm_free(&stale));
}

static void requests(void)
{
    MPI_Request first, stale, second;
    int value = 0;
    MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &first);
    stale = first;
    MPI_Cancel(&first);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &second);
    RAISES(MPI_ERR_REQUEST, MPI_Wait(&stale, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_REQUEST, MPI_Cancel(&stale));
    MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    SAME(value, rank);
}

static void groups_and_infos(void)
{
    MPI_Group first, stale, second;
    MPI_Info info, stale_info, other;
    int size;
    MPI_Comm_group(MPI_COMM_WORLD, &first);
    stale = first;
    MPI_Group_free(&first);
    MPI_Comm_group(MPI_COMM_WORLD, &second);
    RAISES(MPI_ERR_GROUP, MPI_Group_size(stale, &size));
    MPI_Group_free(&second);
    MPI_Info_create(&info);
    stale_info = info;
    MPI_Info_free(&info);
    MPI_Info_create(&other);
    RAISES(MPI_ERR_INFO, MPI_Info_get_nkeys(stale_info, &size));
    MPI_Info_free(&other);
}

int main(int argc, char **argv)
{
    int round;
    start(&argc, &argv);
    let_errors_return();
    for (round = 0; round < 100; round++) {
        communicators();
        requests();
        groups_and_infos();
    }
    return finish();
}
