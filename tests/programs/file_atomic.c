/* In atomic mode an access is one step: whoever reads what others write at the same time finds the
 * bytes of one write and none of another (MPI-5.0 section 14.6.1).
 *
 *     file_atomic [ROUNDS]
 *
 * All ranks use the same pieces of the file, with holes between them. */
#include "scratch_file.h"

enum { PIECE = 1000, PIECES = 40, BYTES = PIECE * PIECES };

static unsigned char data[BYTES], back[BYTES], empty[2 * BYTES];
static unsigned char number;

static void draw(void)
{
    number = (unsigned char)(number % 30 + 1);
    memset(data, number * 8 + rank % 8, BYTES);
}

/* What was read is of one write. */
static void is_of_one(const MPI_Status *status, const char *what)
{
    COUNT_IS(status, MPI_BYTE, BYTES);
    for (int i = 1; i < BYTES; i++)
        CHECK(back[i] == back[0], "%s: byte 0 is %d, byte %d is %d", what, back[0], i, back[i]);
}

/* Each rank reads and writes by itself. */
static void alone(MPI_File file, int round)
{
    MPI_Status status;
    MPI_Request request;
    switch ((round + rank) % 4) {
    case 0:
        draw();
        DO(MPI_File_write_at(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        break;
    case 1:
        DO(MPI_File_read_at(file, 0, back, BYTES, MPI_BYTE, &status));
        is_of_one(&status, "a read");
        break;
    case 2:
        draw();
        DO(MPI_File_iwrite_at(file, 0, data, BYTES, MPI_BYTE, &request));
        DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    default:
        DO(MPI_File_iread_at(file, 0, back, BYTES, MPI_BYTE, &request));
        DO(MPI_Wait(&request, &status));
        is_of_one(&status, "a nonblocking read");
    }
}

/* All write the same pieces in one call, and find those of one rank. */
static void together(MPI_File file)
{
    MPI_Status status;
    draw();
    DO(MPI_File_write_at_all(file, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    DO(MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, &status));
    is_of_one(&status, "a collective read");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Nothing but the pieces was written. */
static void holes_are_empty(MPI_File file)
{
    DO(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    DO(MPI_File_read_at(file, 0, empty, sizeof empty, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES * 2; i++)
        CHECK(i / PIECE % 2 == 0 || empty[i] == 0, "byte %d of a hole is %d", i, empty[i]);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Datatype every_second;
    start(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("atomic"),
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    MPI_Type_vector(PIECES, PIECE, 2 * PIECE, MPI_BYTE, &every_second);
    MPI_Type_commit(&every_second);
    DO(MPI_File_set_view(file, 0, MPI_BYTE, every_second, "native", MPI_INFO_NULL));
    MPI_Type_free(&every_second);
    DO(MPI_File_set_atomicity(file, 1));
    together(file);
    for (int round = 0; round < rounds; round++)
        alone(file, round);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds / 10; round++)
        together(file);
    holes_are_empty(file);
    DO(MPI_File_close(&file));
    return finish();
}
