/* Sessions: several in a row, before, during and after the world model; libraries that each have
   their own, process sets, communicators from groups. */
#include "check.h"

static int handled;

static void handler(MPI_Session *session, int *code, ...)
{
    (void)session;
    (void)code;
    handled++;
}

static MPI_Session opened(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    if (code != MPI_SUCCESS || session == MPI_SESSION_NULL) {
        fprintf(stderr, "MPI_Session_init gave %d\n", code);
        exit(99);
    }
    return session;
}

static MPI_Comm comm_of(MPI_Session session, const char *pset, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group_from_session_pset(session, pset, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void works(MPI_Comm comm)
{
    int me, size, sum = -1, in = -1;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    SAME(sum, size * (size - 1) / 2);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % size, 1, &in, 1, MPI_INT, (me + size - 1) % size, 1, comm,
                 MPI_STATUS_IGNORE);
    SAME(in, (me + size - 1) % size);
}

static void psets(MPI_Session session)
{
    int count = 0, i, len, world = 0, self = 0, flag;
    char name[MPI_MAX_PSET_NAME_LEN], size[20];
    MPI_Info info;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (i = 0; i < count; i++) {
        len = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL);
        CHECK(len > 1 && len <= (int)sizeof name, "a name of %d characters", len);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        SAME(strlen(name) + 1, len);
        world |= !strcmp(name, "mpi://WORLD");
        self |= !strcmp(name, "mpi://SELF");
        len = 5;
        memset(name, '#', sizeof name);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        CHECK(!strcmp(name, "mpi:") && name[5] == '#', "a name cut to 5 characters is %.8s", name);
    }
    CHECK(world && self, "the two process sets of every session are missing");
    MPI_Session_get_pset_info(session, "mpi://SELF", &info);
    len = sizeof size;
    MPI_Info_get_string(info, "mpi_size", &len, size, &flag);
    CHECK(flag && !strcmp(size, "1"), "mpi://SELF has size %s", size);
    MPI_Info_free(&info);
}

static void errors(MPI_Session session)
{
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler mine, got;
    MPI_Comm comm;
    int len = 0, before = handled;
    RAISES(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "mpi://NOBODY", &group));
    RAISES(MPI_ERR_ARG, MPI_Session_get_pset_info(session, "", &info));
    RAISES(MPI_ERR_ARG, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &len, NULL));
    RAISES(MPI_ERR_ARG, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL));
    RAISES(MPI_ERR_GROUP, MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MPI_Session_create_errhandler(handler, &mine);
    MPI_Session_set_errhandler(session, mine);
    MPI_Group_from_session_pset(session, "mpi://NOBODY", &group);
    SAME(handled, before + 1);
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    SAME(handled, before + 2);
    MPI_Session_get_errhandler(session, &got);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&mine);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
}

/* The arguments of a session. */
static void hints(void)
{
    MPI_Session session;
    MPI_Info info;
    char level[40];
    int len = sizeof level, flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &len, level, &flag);
    CHECK(flag && !strcmp(level, "MPI_THREAD_SERIALIZED"), "the thread level is %s", level);
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);
}

/* Two libraries that know nothing of each other. */
static void libraries(void)
{
    MPI_Session one = opened(), two = opened();
    MPI_Comm first = comm_of(one, "mpi://WORLD", "org.one"), second = comm_of(two, "mpi://WORLD", "org.two");
    MPI_Request request;
    int me, size, out, in = -1, result;
    MPI_Comm_rank(first, &me);
    MPI_Comm_size(first, &size);
    MPI_Comm_compare(first, second, &result);
    SAME(result, MPI_CONGRUENT);
    out = me;
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, first, &request);
    works(second);
    MPI_Comm_free(&second);
    MPI_Session_finalize(&two);
    CHECK(two == MPI_SESSION_NULL, "MPI_Session_finalize leaves the handle");
    MPI_Send(&out, 1, MPI_INT, (me + 1) % size, 5, first);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(in, (me + size - 1) % size);
    MPI_Comm_free(&first);
    MPI_Session_finalize(&one);
}

/* A part of the processes, and two parts with an intercommunicator. */
static void parts(MPI_Session session)
{
    MPI_Group world, low, high;
    MPI_Comm comm;
    int size, me, half[1][3], remote;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_size(world, &size);
    MPI_Group_rank(world, &me);
    if (size > 1) {
        half[0][0] = 0, half[0][1] = size / 2 - 1, half[0][2] = 1;
        MPI_Group_range_incl(world, 1, half, &low);
        MPI_Group_range_excl(world, 1, half, &high);
        if (me < size / 2) {
            MPI_Comm_create_from_group(low, "low", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
            works(comm);
            MPI_Comm_free(&comm);
            MPI_Intercomm_create_from_groups(low, 0, high, 0, "across", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        } else {
            MPI_Intercomm_create_from_groups(high, 0, low, 0, "across", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        }
        MPI_Comm_remote_size(comm, &remote);
        SAME(remote, me < size / 2 ? size - size / 2 : size / 2);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        MPI_Group_free(&low);
        MPI_Group_free(&high);
    }
    MPI_Group_free(&world);
}

static void session_only(int times)
{
    int i;
    for (i = 0; i < times; i++) {
        MPI_Session session = opened();
        MPI_Comm comm = comm_of(session, "mpi://WORLD", "all"), self = comm_of(session, "mpi://SELF", "me");
        works(comm);
        works(self);
        psets(session);
        parts(session);
        errors(session);
        /* Messages that no rank waits for still arrive. */
        if (i % 2) {
            int me, size, j, out[1000] = {0};
            MPI_Comm_rank(comm, &me);
            MPI_Comm_size(comm, &size);
            for (j = 0; j < 20 && me == 0 && size > 1; j++)
                MPI_Send(out, 1000, MPI_INT, size - 1, 9, comm);
            for (j = 0; j < 20 && me == size - 1 && size > 1; j++)
                MPI_Recv(out, 1000, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
        }
        MPI_Comm_free(&self);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    hints();
    libraries();
}

int main(int argc, char **argv)
{
    int initialized, world_too = argc > 1 && !strcmp(argv[1], "around");
    session_only(4);
    MPI_Initialized(&initialized);
    CHECK(!initialized, "a session initialises the world model");
    if (world_too) {
        MPI_Session session = opened();
        MPI_Comm comm = comm_of(session, "mpi://WORLD", "across the world");
        start(&argc, &argv);
        works(MPI_COMM_WORLD);
        works(comm);
        session_only(2);
        MPI_Finalize();
        works(comm); /* the session goes on */
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
        session_only(2);
    }
    {
        MPI_Session session = opened();
        MPI_Comm comm = comm_of(session, "mpi://WORLD", "the last one");
        MPI_Comm_rank(comm, &rank);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    if (rank == 0)
        printf("ok\n");
    return 0;
}
