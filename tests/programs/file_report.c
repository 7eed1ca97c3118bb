/* Writes pieces of two ranks in turn, for what `report.io` prints about it. */
#include "scratch_file.h"

enum { PIECE = 512, PIECES = 128 };

int main(int argc, char **argv)
{
    static char data[PIECE * PIECES];
    MPI_File file;
    MPI_Datatype every_other;
    start(&argc, &argv);
    MPI_Type_vector(PIECES, PIECE, PIECE * ranks, MPI_BYTE, &every_other);
    MPI_Type_commit(&every_other);
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("report"), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    DO(MPI_File_set_view(file, rank * PIECE, MPI_BYTE, every_other, "native", MPI_INFO_NULL));
    DO(MPI_File_write_all(file, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Type_free(&every_other);
    DO(MPI_File_close(&file));
    return finish();
}
