/* A broadcast of more than the others have room for ends the job: the sentence
 * names the collective and the communicator once, and no tag, of which the
 * program knows nothing. The argument is the root's count of bytes. */
#include "check.h"

int main(int argc, char **argv)
{
    int bytes;
    char *data;
    start(&argc, &argv);
    CHECK(argc == 2, "short_bcast BYTES");
    bytes = atoi(argv[1]);
    data = allocate(bytes);
    MPI_Bcast(data, rank == 0 ? bytes : bytes - 1, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    FAIL("the job goes on");
}
