/* Seed case 5 and the like: what may be called before Init and after Finalize,
 * names, versions, limits, clocks, memory, thread levels. */
#include "check.h"

static void versions(void)
{
    int version, subversion, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_version(&version, &subversion);
    SAME(version, MPI_VERSION);
    SAME(subversion, MPI_SUBVERSION);
    MPI_Get_library_version(text, &length);
    SAME(length, strlen(text));
    CHECK(length > 0, "the library has no name");
    MPI_Abi_get_version(&version, &subversion);
    SAME(version, MPI_ABI_VERSION);
}

static void state(int initialized, int finalized)
{
    int flag = -1;
    MPI_Initialized(&flag);
    SAME(!!flag, initialized);
    MPI_Finalized(&flag);
    SAME(!!flag, finalized);
    versions();
}

/* What the launcher has passed is known at any time. */
static int ranks_by_info(void)
{
    MPI_Info info;
    char text[32] = "0";
    int size = sizeof text, flag;
    MPI_Info_create_env(0, NULL, &info);
    MPI_Info_get_string(info, "maxprocs", &size, text, &flag);
    MPI_Info_free(&info);
    return atoi(text);
}

static void clock_ticks(void)
{
    double first = MPI_Wtime(), now;
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3, "a tick of %g s", MPI_Wtick());
    do
        now = MPI_Wtime();
    while (now == first);
    CHECK(now > first && now - first < 10, "the clock went from %f to %f", first, now);
}

/* What the library says of Fortran may be set again, and nothing else. */
static void fortran(void)
{
    MPI_Info info;
    int yes = 7, no = 7, is_set = 0, other = -2;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Abi_get_fortran_info(&info);
    SAME(MPI_Abi_set_fortran_info(info), MPI_SUCCESS);
    MPI_Info_set(info, "mpi_integer_size", "8");
    RAISES(MPI_ERR_ABI, MPI_Abi_set_fortran_info(info));
    MPI_Info_free(&info);
    MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set);
    CHECK(is_set && yes != no, "the values of LOGICALs are not set");
    SAME(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no), MPI_SUCCESS);
    RAISES(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(sizeof yes, &other, &no));
    RAISES(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(3, &yes, &no));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static void attributes(void)
{
    int flag = 0, *value, name_length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    CHECK(flag && *value >= 32767, "TAG_UB is missing or below 32767");
    MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, *value, MPI_COMM_WORLD);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    CHECK(!flag || *value == 0 || *value == 1, "WTIME_IS_GLOBAL is %d", *value);
    MPI_Get_processor_name(name, &name_length);
    CHECK(name_length > 0 && (int)strlen(name) == name_length, "the processor's name is '%s'", name);
}

/* An attribute has this value, or is not set. */
static void attribute_is(const char *name, int keyval, const char *wanted)
{
    int flag = -1, *value = NULL;
    char found[20] = "none";
    MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &value, &flag);
    if (flag)
        snprintf(found, sizeof found, "%d", *value);
    CHECK(!strcmp(found, wanted), "%s is %s, not %s", name, found, wanted);
}

static void communicator_names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD"), "WORLD is called %s", name);
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_SELF"), "SELF is called %s", name);
    MPI_Comm_set_name(MPI_COMM_SELF, "mine alone");
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    CHECK(!strcmp(name, "mine alone") && length == 10, "SELF is called %s now", name);
}

/* A disconnect waits for what was started, here a barrier in which rank 0 is late. */
static void disconnected_in_barrier(void)
{
    MPI_Comm twin;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    double begun = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    double together = MPI_Wtime();
    while (rank == 0 && MPI_Wtime() - together < 0.05)
        continue;
    MPI_Ibarrier(twin, &request);
    MPI_Request_free(&request);
    MPI_Comm_disconnect(&twin);
    double took = MPI_Wtime() - begun;
    CHECK(ranks == 1 || took > 0.03, "a disconnect took %g s, and rank 0 is 0.05 s late", took);
}

/* A disconnect waits for what was started, here a send that is matched late. */
static void disconnected(void)
{
    static int sent[1 << 18], got[1 << 18];
    MPI_Comm twin;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_SELF, &twin);
    sent[7] = 49;
    MPI_Isend(sent, 1 << 18, MPI_INT, 0, 0, twin, &request);
    MPI_Request_free(&request);
    MPI_Recv(got, 1 << 18, MPI_INT, 0, 0, twin, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&twin);
    CHECK(twin == MPI_COMM_NULL && got[7] == 49, "the communicator is there, or %d is not 49", got[7]);
}

static void error_classes(void)
{
    static const int classes[] = {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
                                  MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP,
                                  MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN, MPI_ERR_IN_STATUS};
    char text[MPI_MAX_ERROR_STRING];
    int length;
    unsigned i;
    for (i = 0; i < sizeof classes / sizeof *classes; i++) {
        MPI_Error_string(classes[i], text, &length);
        SAME(class_of(classes[i]), classes[i]);
        CHECK(length > 0 && (int)strlen(text) == length, "class %d has the text '%s'", classes[i], text);
    }
    MPI_Error_string(MPI_SUCCESS, text, &length);
    CHECK(length > 0, "MPI_SUCCESS has no text");
}

static void memory(void)
{
    char *block;
    MPI_Alloc_mem(100000, MPI_INFO_NULL, &block);
    memset(block, 1, 100000);
    MPI_Free_mem(block);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
    MPI_Alloc_mem(10, info, &block);
    SAME((uintptr_t)block % 65536, 0);
    MPI_Free_mem(block);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    int level, provided, main_thread = 0;
    MPI_Comm parent = MPI_COMM_WORLD;
    state(0, 0);
    int has_info = argc > 1 && !strcmp(argv[1], "info"), ranks_before = ranks_by_info();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE, "thread level %d", provided);
    state(1, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Query_thread(&level);
    SAME(level, provided);
    MPI_Is_thread_main(&main_thread);
    SAME(!!main_thread, 1);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL, "a parent of a process that nobody spawned");
    clock_ticks();
    attributes();
    if (argc > 1 && !strcmp(argv[1], "fortran"))
        fortran();
    if (argc > 2 && !strcmp(argv[1], "appnum"))
        attribute_is("APPNUM", MPI_APPNUM, argv[2]);
    if (argc > 2 && !strcmp(argv[1], "global"))
        attribute_is("WTIME_IS_GLOBAL", MPI_WTIME_IS_GLOBAL, argv[2]);
    if (has_info) {
        SAME(ranks_before, ranks);
        SAME(ranks_by_info(), ranks);
    }
    communicator_names();
    disconnected();
    disconnected_in_barrier();
    error_classes();
    memory();
    MPI_Finalize();
    state(1, 1);
    if (has_info)
        SAME(ranks_by_info(), ranks);
    if (rank == 0)
        printf("ok\n");
    return 0;
}
