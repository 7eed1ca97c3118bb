/* Faults of one rank in a collective call are errors of all, with the right class, and a status
 * counts no byte that was not written. */
#include "scratch_file.h"
#include <signal.h>
#include <sys/resource.h>

enum { BYTES = 1 << 16 };

static char data[BYTES];

static void expect_text(int code, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, words) != NULL, "\"%s\" does not say \"%s\"", text, words);
}

/* A device that is always full. */
static void disk_full(const char *buffering)
{
    MPI_File file;
    MPI_Info info;
    MPI_Request request;
    MPI_Status status;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", buffering);
    DO(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, info, &file));
    MPI_Info_free(&info);
    for (int i = 0; i < 20; i++) {
        int code = MPI_File_write_at_all(file, rank * 8, data, 8, MPI_BYTE, &status);
        SAME(class_of(code), MPI_ERR_NO_SPACE);
        COUNT_IS(&status, MPI_BYTE, 0);
        expect_text(code, "/dev/full");
        expect_text(code, "No space left on device");
        RAISES(MPI_ERR_NO_SPACE, MPI_File_write_ordered(file, data, rank == 0 ? 8 : 0, MPI_BYTE, &status));
    }
    DO(MPI_File_iwrite_at(file, 0, data, 8, MPI_BYTE, &request));
    RAISES(MPI_ERR_NO_SPACE, MPI_Wait(&request, &status));
    COUNT_IS(&status, MPI_BYTE, 0);
    CHECK(request == MPI_REQUEST_NULL, "a request that failed has a handle");
    DO(MPI_File_close(&file));
}

/* The last rank may write less than it tries to. */
static void one_hits_a_limit(void)
{
    MPI_File file;
    MPI_Status status;
    struct rlimit limit, before;
    int last = rank == ranks - 1, count;
    MPI_Offset start = (MPI_Offset)rank * BYTES;
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("faults"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)(ranks - 1) * BYTES + 1000;
    if (last)
        setrlimit(RLIMIT_FSIZE, &limit);
    RAISES(MPI_ERR_IO, MPI_File_write_at_all(file, start, data, BYTES, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    SAME(count, last ? 1000 : BYTES);
    setrlimit(RLIMIT_FSIZE, &before);
    DO(MPI_File_write_at_all(file, start, data, BYTES, MPI_BYTE, &status));
    COUNT_IS(&status, MPI_BYTE, BYTES);
    DO(MPI_File_close(&file));
}

/* The file vanishes while it is open: data still moves, and closing says so. */
static void removed_meanwhile(void)
{
    MPI_File file;
    char back[8];
    DO(MPI_File_open(MPI_COMM_WORLD, scratch, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    if (rank == 0)
        DO(MPI_File_delete(scratch, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    DO(MPI_File_write_at_all(file, 8 * rank, "abcdefg", 8, MPI_BYTE, MPI_STATUS_IGNORE));
    DO(MPI_File_read_at_all(file, 8 * ((rank + 1) % ranks), back, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(strcmp(back, "abcdefg") == 0, "the data is %s", back);
    RAISES(MPI_ERR_NO_SUCH_FILE, MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "a file that was closed has a handle");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    disk_full("disable");
    disk_full("enable");
    one_hits_a_limit();
    removed_meanwhile();
    return finish();
}
