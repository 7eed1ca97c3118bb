/* Data representations: external32 on disk is big-endian with the standard's lengths, and a user's
 * representation is converted by the user's functions. */
#include "scratch_file.h"

static int calls[2];

/* Numbers as text of 12 characters. */
static int text_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    CHECK(type == MPI_INT, "the extent of another type than MPI_INT is asked for");
    CHECK(state == &calls, "another state");
    *extent = 12;
    return MPI_SUCCESS;
}

static int read_text(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    char text[13] = {0};
    CHECK(type == MPI_INT && state == &calls, "wrong arguments");
    for (int i = 0; i < count; i++) {
        memcpy(text, (char *)file + 12 * i, 12);
        ((int *)user)[position + i] = atoi(text);
    }
    calls[0] += count;
    return MPI_SUCCESS;
}

static int write_text(void *user, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset position, void *state)
{
    char text[13];
    CHECK(type == MPI_INT && state == &calls, "wrong arguments");
    for (MPI_Count i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%11d ", ((int *)user)[position + i]);
        memcpy((char *)file + 12 * i, text, 12);
    }
    calls[1] += (int)count;
    return MPI_SUCCESS;
}

static int read_text_c(void *user, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset position, void *state)
{
    return read_text(user, type, (int)count, file, position, state);
}

static int refuse(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)user, (void)type, (void)count, (void)file, (void)position, (void)state;
    return MPI_ERR_CONVERSION;
}

static void external32(MPI_File file)
{
    long longs[6] = {1, -2, 3, -4, 5, -6}, back[6] = {0};
    unsigned char bytes[24];
    MPI_Datatype every_second;
    MPI_Aint extent;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset size;
    MPI_Type_vector(3, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&every_second);
    DO(MPI_File_set_view(file, rank * 100, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    DO(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    SAME(extent, 4);
    DO(MPI_File_write(file, longs, 6, MPI_LONG, &status));
    COUNT_IS(&status, MPI_LONG, 6);
    DO(MPI_File_read_at(file, 1, back, 3, MPI_LONG, &status));
    SAME(back[0], -2);
    SAME(back[2], -4);
    if (rank == ranks - 1) {
        DO(MPI_File_read_at(file, 4, back, 6, MPI_LONG, &status));
        COUNT_IS(&status, MPI_LONG, 2);
        SAME(back[1], -6);
        SAME(back[2], -4);
    }
    DO(MPI_File_set_view(file, rank * 100, MPI_LONG, every_second, "external32", MPI_INFO_NULL));
    DO(MPI_File_iread_at(file, 0, back, 3, MPI_LONG, &request));
    DO(MPI_Wait(&request, &status));
    COUNT_IS(&status, MPI_LONG, 3);
    SAME(back[0], 1);
    SAME(back[1], 3);
    SAME(back[2], 5);
    longs[0] = 1L << 40;
    RAISES(MPI_ERR_CONVERSION, MPI_File_write(file, longs, 1, MPI_LONG, &status));
    DO(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    DO(MPI_File_read_at(file, rank * 100, bytes, 24, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) {
        int value = (int)((unsigned)bytes[4 * i] << 24 | bytes[4 * i + 1] << 16 | bytes[4 * i + 2] << 8 | bytes[4 * i + 3]);
        SAME(value, i % 2 ? -i - 1 : i + 1);
    }
    DO(MPI_File_get_size(file, &size));
    SAME(size, (ranks - 1) * 100 + 24);
    MPI_Type_free(&every_second);
}

static void users(MPI_File file)
{
    int numbers[5] = {10, -20, 30, 40, 50}, back[5] = {0};
    char text[13] = {0};
    MPI_Aint extent;
    MPI_Status status;
    MPI_Request request;
    DO(MPI_Register_datarep_c("text", read_text_c, write_text, text_extent, &calls));
    RAISES(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("text", read_text, NULL, text_extent, &calls));
    RAISES(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", read_text, NULL, text_extent, &calls));
    DO(MPI_Register_datarep("refuses", refuse, refuse, text_extent, &calls));
    DO(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, text_extent, &calls));
    DO(MPI_File_set_view(file, rank * 1000, MPI_INT, MPI_INT, "text", MPI_INFO_NULL));
    DO(MPI_File_get_type_extent(file, MPI_INT, &extent));
    SAME(extent, 12);
    DO(MPI_File_write_all(file, numbers, 5, MPI_INT, &status));
    COUNT_IS(&status, MPI_INT, 5);
    DO(MPI_File_iread_at(file, 1, back, 3, MPI_INT, &request));
    DO(MPI_Wait(&request, &status));
    COUNT_IS(&status, MPI_INT, 3);
    SAME(back[0], -20);
    SAME(back[2], 40);
    SAME(calls[0], 3);
    SAME(calls[1], 5);
    DO(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    DO(MPI_File_read_at(file, rank * 1000 + 12, text, 12, MPI_BYTE, MPI_STATUS_IGNORE));
    SAME(atoi(text), -20);
    DO(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "refuses", MPI_INFO_NULL));
    RAISES(MPI_ERR_CONVERSION, MPI_File_write_at(file, 0, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
    RAISES(MPI_ERR_CONVERSION, MPI_File_read_at_all(file, 0, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_File file;
    start(&argc, &argv);
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("datareps"),
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    external32(file);
    users(file);
    DO(MPI_File_close(&file));
    return finish();
}
