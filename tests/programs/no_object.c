/* Errors that belong to no communicator, window or file: the handler is that of
 * MPI_COMM_SELF, and MPI_COMM_WORLD's while the program has set that one alone. */
#include "check.h"

static int handled;
static MPI_Comm handled_on;

static void handler(MPI_Comm *on, int *code, ...)
{
    (void)code;
    handled++;
    handled_on = *on;
}

/* A call without a communicator, and one on a communicator that does not exist. */
static void fail(void)
{
    MPI_Datatype type;
    RAISES(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &type));
    RAISES(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
}

/* A message that is too long, on a communicator that was freed meanwhile. */
static void fail_on_freed(void)
{
    MPI_Comm freed;
    MPI_Request request;
    int from[2] = {1, 2}, to = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Irecv(&to, 1, MPI_INT, rank, 0, freed, &request);
    MPI_Send(from, 2, MPI_INT, rank, 0, freed);
    MPI_Comm_free(&freed);
    RAISES(MPI_ERR_TRUNCATE, MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Errhandler mine;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fail(), fail_on_freed();
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    fail();
    CHECK(handled == 2 && handled_on == MPI_COMM_WORLD, "%d calls", handled);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    fail(), fail_on_freed();
    SAME(handled, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, mine);
    fail();
    CHECK(handled == 4 && handled_on == MPI_COMM_SELF, "%d calls", handled);
    MPI_Errhandler_free(&mine);
    if (argc > 1) { /* MPI_COMM_SELF's own handler counts, also when it is the initial one */
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        MPI_Type_contiguous(-1, MPI_INT, &(MPI_Datatype){0});
        FAIL("the job goes on after a fatal error");
    }
    return finish();
}
