/* Names and texts that are no UTF-8 come back byte for byte, at their full length. */
#include "scratch_file.h"

/* Latin-1: a byte that would begin a character of UTF-8, bytes that would continue one, and one at
 * the end. */
static const char latin1[] = "\xe9t\xe9 \x80\xbf \xff\xfe na\xefve \xe0";

/* The longest name, all of Latin-1's letters. */
static const char *longest(void)
{
    static char text[MPI_MAX_OBJECT_NAME + 10];
    memset(text, 0xe9, sizeof text - 1);
    return text;
}

static void is_back(const char *what, const char *given, const char *found, int len, int capacity)
{
    int wanted = (int)strlen(given) < capacity ? (int)strlen(given) : capacity - 1;
    CHECK(len == wanted, "%s: %d bytes, not %d", what, len, wanted);
    CHECK((int)strlen(found) == wanted, "%s: %zu bytes before the end mark, not %d", what, strlen(found), wanted);
    CHECK(memcmp(found, given, (size_t)wanted) == 0, "%s: other bytes", what);
}

static void objects(const char *given)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &win);
    MPI_Comm_set_name(comm, given);
    MPI_Type_set_name(type, given);
    MPI_Win_set_name(win, given);
    MPI_Comm_get_name(comm, name, &len);
    is_back("communicator", given, name, len, MPI_MAX_OBJECT_NAME);
    MPI_Type_get_name(type, name, &len);
    is_back("datatype", given, name, len, MPI_MAX_OBJECT_NAME);
    MPI_Win_get_name(win, name, &len);
    is_back("window", given, name, len, MPI_MAX_OBJECT_NAME);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
}

/* A character of UTF-8 is cut off whole. */
static void characters(void)
{
    char given[2 * 100 + 1] = "", name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Comm comm;
    for (int i = 0; i < 100; i++)
        strcat(given, "\xc3\xa9");
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_name(comm, given);
    MPI_Comm_get_name(comm, name, &len);
    SAME(len, MPI_MAX_OBJECT_NAME - 2);
    MPI_Comm_free(&comm);
}

static void errors(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, code, len;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, latin1);
    MPI_Error_string(code, text, &len);
    is_back("error string", latin1, text, len, MPI_MAX_ERROR_STRING);
}

static void info(void)
{
    char text[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
    int len = sizeof text, flag;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, latin1, latin1);
    MPI_Info_get_string(info, latin1, &len, text, &flag);
    CHECK(flag, "no value for a key");
    is_back("info value", latin1, text, len - 1, MPI_MAX_INFO_VAL);
    MPI_Info_get_nthkey(info, 0, key);
    is_back("info key", latin1, key, (int)strlen(key), MPI_MAX_INFO_KEY);
    MPI_Info_free(&info);
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *state)
{
    (void)type, (void)state;
    *bytes = 4;
    return MPI_SUCCESS;
}

static void representation(void)
{
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    MPI_File file;
    DO(MPI_Register_datarep(latin1, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, NULL));
    /* Another one, of as many bytes that are no UTF-8. */
    DO(MPI_Register_datarep("\xe8t\xe9 \x80\xbf \xff\xfe na\xefve \xe0", MPI_CONVERSION_FN_NULL,
                            MPI_CONVERSION_FN_NULL, extent, NULL));
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("names"),
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    DO(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, latin1, MPI_INFO_NULL));
    DO(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    is_back("data representation", latin1, name, (int)strlen(name), MPI_MAX_DATAREP_STRING);
    DO(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    objects(latin1);
    objects(longest());
    characters();
    errors();
    info();
    representation();
    return finish();
}
