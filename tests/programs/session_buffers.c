/* Buffers for buffered sends that belong to a session: they serve the
 * communicators that come from it. A communicator's own buffer goes first, the
 * process's last (MPI-5.0 3.6). */
#include "check.h"

enum { WORDS = 100, BYTES = WORDS * (int)sizeof(int) };

/* MPI_Bsend from each rank to the next one; whether there was room. */
static int sends(MPI_Comm comm, int count)
{
    int out[WORDS], in[WORDS], me, size, code;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < WORDS; i++)
        out[i] = 100 * me + i, in[i] = -1;
    code = MPI_Bsend(out, count, MPI_INT, (me + 1) % size, 3, comm);
    memset(out, 0, sizeof out);
    if (code != MPI_SUCCESS) {
        SAME(class_of(code), MPI_ERR_BUFFER);
        return 0;
    }
    MPI_Recv(in, count, MPI_INT, (me + size - 1) % size, 3, comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        SAME(in[i], 100 * ((me + size - 1) % size) + i);
    return 1;
}

static MPI_Comm comm_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

/* Communicators made of one that comes from a session come from it, too; and
 * those of groups made of its groups. */
static void derived(MPI_Comm comm)
{
    MPI_Comm other, inter;
    MPI_Group group, backwards;
    const int yes = 1;
    int me, size, value, got = -1, reversed[1][3];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    MPI_Comm_dup(comm, &other);
    SAME(sends(other, WORDS), 1);
    MPI_Comm_free(&other);
    MPI_Cart_create(comm, 1, &size, &yes, 1, &other);
    SAME(sends(other, WORDS), 1);
    MPI_Comm_free(&other);

    MPI_Comm_group(comm, &group);
    reversed[0][0] = size - 1, reversed[0][1] = 0, reversed[0][2] = -1;
    MPI_Group_range_incl(group, 1, reversed, &backwards);
    MPI_Comm_create_from_group(backwards, "backwards", MPI_INFO_NULL, MPI_ERRORS_RETURN, &other);
    SAME(sends(other, WORDS), 1);
    MPI_Comm_free(&other);
    MPI_Group_free(&backwards);
    MPI_Group_free(&group);

    MPI_Comm_split(comm, me % 2, -me, &other);
    SAME(sends(other, WORDS), 1);
    if (size > 1) {
        /* The last ranks of both halves lead them. */
        int last = size - 1, leader = me % 2 == last % 2 ? last - 1 : last, there, size_there;
        MPI_Intercomm_create(other, 0, comm, leader, 9, &inter);
        MPI_Comm_rank(other, &there);
        MPI_Comm_remote_size(inter, &size_there);
        value = 50 + there;
        if (there < size_there)
            SAME(MPI_Bsend(&value, 1, MPI_INT, there, 1, inter), MPI_SUCCESS);
        if (there < size_there) {
            MPI_Recv(&got, 1, MPI_INT, there, 1, inter, MPI_STATUS_IGNORE);
            SAME(got, 50 + there);
        }
        MPI_Comm_free(&inter);
    }
    MPI_Comm_free(&other);
}

/* What is attached where decides. */
static void order(MPI_Session session, MPI_Session other_session, MPI_Comm comm, MPI_Comm stranger)
{
    void *large = allocate(20000), *small = allocate(BYTES / 2 + MPI_BSEND_OVERHEAD), *detached;
    MPI_Request request;
    int size, value = 9, got = -1, me, many;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &many);
    SAME(sends(comm, 1), 0);

    SAME(MPI_Session_attach_buffer(session, large, 20000), MPI_SUCCESS);
    SAME(sends(comm, WORDS), 1);
    SAME(sends(stranger, 1), 0); /* from another session */
    derived(comm);
    MPI_Bsend_init(&value, 1, MPI_INT, (me + 1) % many, 4, comm, &request);
    for (int i = 0; i < 5; i++) {
        SAME(MPI_Start(&request), MPI_SUCCESS);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Recv(&got, 1, MPI_INT, (me + many - 1) % many, 4, comm, MPI_STATUS_IGNORE);
        SAME(got, 9);
    }
    MPI_Request_free(&request);
    MPI_Ibsend(&value, 1, MPI_INT, (me + 1) % many, 4, comm, &request);
    MPI_Recv(&got, 1, MPI_INT, (me + many - 1) % many, 4, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_flush_buffer(session);

    /* The communicator's own goes first, though it has no room. */
    SAME(MPI_Comm_attach_buffer(comm, small, BYTES / 2 + MPI_BSEND_OVERHEAD), MPI_SUCCESS);
    SAME(sends(comm, WORDS), 0);
    SAME(sends(comm, WORDS / 2), 1);
    MPI_Comm_detach_buffer(comm, &detached, &size);
    CHECK(detached == small, "another buffer was detached");
    SAME(sends(comm, WORDS), 1);

    /* The session's goes before the process's. */
    SAME(MPI_Session_detach_buffer(session, &detached, &size), MPI_SUCCESS);
    CHECK(detached == large, "another buffer was detached");
    SAME(size, 20000);
    SAME(sends(comm, 1), 0);
    SAME(MPI_Session_attach_buffer(session, small, BYTES / 2 + MPI_BSEND_OVERHEAD), MPI_SUCCESS);
    SAME(MPI_Buffer_attach(large, 20000), MPI_SUCCESS);
    SAME(sends(comm, WORDS), 0);
    SAME(sends(stranger, WORDS), 1);
    MPI_Session_detach_buffer(session, &detached, &size);
    SAME(sends(comm, WORDS), 1);
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == large, "another buffer was detached");

    /* The library's memory, given to a session. */
    SAME(MPI_Session_attach_buffer(other_session, MPI_BUFFER_AUTOMATIC, 0), MPI_SUCCESS);
    SAME(sends(comm, 1), 0);
    SAME(sends(stranger, WORDS), 1);
    MPI_Session_detach_buffer(other_session, &detached, &size);
    CHECK(detached == MPI_BUFFER_AUTOMATIC, "it was not automatic");
    SAME(sends(stranger, 1), 0);
    free(small);
    free(large);
}

int main(int argc, char **argv)
{
    MPI_Session one, two;
    MPI_Comm first, second;
    void *buffer = allocate(20000);
    start(&argc, &argv);
    let_errors_return();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &one);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &two);
    first = comm_of(one, "first");
    second = comm_of(two, "second");
    order(one, two, first, second);
    /* That of the world model does not come from a session. */
    MPI_Session_attach_buffer(one, buffer, 20000);
    SAME(sends(MPI_COMM_WORLD, 1), 0);
    SAME(sends(first, WORDS), 1);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
    MPI_Session_finalize(&one); /* detaches it */
    MPI_Session_finalize(&two);
    free(buffer);
    return finish();
}
