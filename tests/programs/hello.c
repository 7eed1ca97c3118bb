/* The usual first program; C and C++ alike. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, length, major, minor;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    MPI_Get_version(&major, &minor);
    printf("hello from %d of %d on %s, MPI %d.%d\n", rank, size, name, major, minor);
    MPI_Finalize();
    return length == (int)strlen(name) && size > 0 && rank < size ? 0 : 1;
}
