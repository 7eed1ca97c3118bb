/* The mpiexec of a spawned job dies, and its process with it: who waits for that process learns it,
 * in a job that goes on without failed ones. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm inter;
    int word = 0;
    start(&argc, &argv);
    MPI_Comm_get_parent(&inter);
    if (inter != MPI_COMM_NULL) {
        MPI_Recv(&word, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
        kill(getppid(), SIGKILL);
        pause();
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    let_errors_return();
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 0, 0, inter);
    RAISES(MPI_ERR_PROC_ABORTED, MPI_Recv(&word, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    return finish();
}
