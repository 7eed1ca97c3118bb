/* Every rank writes lines of one letter in small pieces, all at once. mpiexec passes on whole
   lines. Therefore a line with two letters is an error; the table looks for one. The last line has
   no newline. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { LINES = 300 };

int main(int argc, char **argv)
{
    int rank, i, piece;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < LINES; i++) {
        char pieces[8] = {0};
        for (piece = 0; piece < 7; piece++)
            pieces[piece] = (char)('a' + rank);
        for (piece = 0; piece < 5; piece++)
            if (write(1, pieces, 7) != 7)
                return 1;
        if (write(1, "\n", 1) != 1)
            return 1;
    }
    if (rank == 0 && write(1, "the end", 7) != 7)
        return 1;
    MPI_Finalize();
    return 0;
}
