/* One spawned job after the other, a process of which dies at once, and another one ends in order
 * (mpiexec --on-failure continue); every fourth time their mpiexec dies, and takes them along.
 * Spawning succeeds, whoever notices the death first. All waits for such a job end with an error,
 * and when it is over, no file of it is left open. */
#include "check.h"
#include "open_files.h"
#include <signal.h>
#include <unistd.h>

enum { JOBS = 40, SETTLED = 10, LIVING = 10 };

static void child(MPI_Comm parent, const char *victim)
{
    if (rank == 0)
        kill(strcmp(victim, "mpiexec") ? getpid() : getppid(), SIGKILL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    RAISES(MPI_ERR_PROC_ABORTED, MPI_Barrier(MPI_COMM_WORLD));
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    int value, files = 0;
    start(&argc, &argv);
    MPI_Comm_get_parent(&inter);
    if (inter != MPI_COMM_NULL) {
        child(inter, argv[1]);
        return 0;
    }
    let_errors_return();
    for (int job = 0; job < JOBS; job++) {
        char *arguments[] = {job % 4 ? "process" : "mpiexec", NULL};
        RAISES(MPI_SUCCESS, MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                                           MPI_ERRCODES_IGNORE));
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        RAISES(MPI_ERR_PROC_ABORTED, MPI_Recv(&value, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
        RAISES(MPI_ERR_PROC_ABORTED, MPI_Recv(&value, 1, MPI_INT, 1, 0, inter, MPI_STATUS_IGNORE));
        MPI_Comm_free(&inter);
        if (job == SETTLED)
            files = open_files();
    }
    CHECK(open_files() <= files + LIVING, "%d open files after %d jobs, %d after all", files, SETTLED, open_files());
    return finish();
}
