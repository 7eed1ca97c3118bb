/* Reading a file, of which nothing is implemented yet: the call says so, and the
 * status says that nothing was read, to programs that go by the status alone. */
#include "check.h"

#define NOTHING_READ(call) \
    do { \
        MPI_Status status; \
        MPI_Count large = 77; \
        int count = 77, cancelled = 77; \
        memset(&status, 0x77, sizeof status); \
        RAISES(MPI_ERR_UNSUPPORTED_OPERATION, call); \
        MPI_Get_count(&status, MPI_INT, &count); \
        SAME(count, 0); \
        MPI_Get_elements_c(&status, MPI_INT, &large); \
        SAME(large, 0); \
        MPI_Test_cancelled(&status, &cancelled); \
        SAME(cancelled, 0); \
    } while (0)

int main(int argc, char **argv)
{
    MPI_File file = MPI_FILE_NULL;
    int data[4] = {1, 2, 3, 4};
    start(&argc, &argv);
    let_errors_return();
    NOTHING_READ(MPI_File_read(file, data, 4, MPI_INT, &status));
    NOTHING_READ(MPI_File_read_at(file, 0, data, 4, MPI_INT, &status));
    NOTHING_READ(MPI_File_read_all_c(file, data, 4, MPI_INT, &status));
    NOTHING_READ(MPI_File_read_ordered_end(file, data, &status));
    NOTHING_READ(MPI_File_write_shared(file, data, 4, MPI_INT, &status));
    RAISES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read(file, data, 4, MPI_INT, MPI_STATUS_IGNORE));
    SAME(data[0] + data[3], 5);
    return finish();
}
