/* Calls on windows that wait for ever, for the launcher's report. The argument is the call. Rank 0
 * waits for a message that rank 1 never sends; rank 1 waits for rank 0. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    long *memory, value = 0;
    MPI_Win win;
    MPI_Group world, zero;
    int first = 0;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &first, &zero);
    const char *call = argc > 1 ? argv[1] : "lock";
    if (rank == 0 && strcmp(call, "lock") == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (strcmp(call, "lock") == 0)
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    else if (strcmp(call, "start") == 0)
        MPI_Win_start(zero, 0, win);
    else {
        MPI_Win_post(zero, 0, win);
        MPI_Win_wait(win);
    }
    MPI_Group_free(&zero);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    return finish();
}
