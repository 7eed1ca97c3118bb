/* Every mode of sending, blocking and nonblocking, from empty to rendezvous
 * sizes, between neighbours of a ring of any size. */
#include "check.h"

typedef int (*Send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*Isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static const Send sends[] = {MPI_Send, MPI_Ssend, MPI_Rsend, MPI_Bsend};
static const Isend isends[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};

/* Rsend needs its receive posted: all ranks post, then all ranks start. */
static void once(int mode, int blocking, int bytes)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, tag = 10 + mode;
    unsigned char *out = allocate(bytes), *in = allocate(bytes + 1);
    MPI_Request receive, send;
    MPI_Status status;
    fill(out, bytes, rank + bytes);
    memset(in, 0xee, bytes + 1);
    MPI_Irecv(in, bytes, MPI_BYTE, before, tag, MPI_COMM_WORLD, &receive);
    MPI_Barrier(MPI_COMM_WORLD);
    if (blocking) {
        SAME(sends[mode](out, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD), MPI_SUCCESS);
        memset(out, 0, bytes); /* it is ours again */
    } else {
        SAME(isends[mode](out, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD, &send), MPI_SUCCESS);
        SAME(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK(send == MPI_REQUEST_NULL, "a completed request is not null");
    }
    SAME(MPI_Wait(&receive, &status), MPI_SUCCESS);
    CHECK_STATUS(&status, before, tag, MPI_BYTE, bytes);
    CHECK_FILLED(in, bytes, before + bytes);
    SAME(in[bytes], 0xee);
    free(out);
    free(in);
}

/* A synchronous send completes on the match, not before; a buffered one at once. */
static void completion_follows_the_mode(int bytes)
{
    int go = 0, done, tries;
    unsigned char *data = allocate(bytes);
    MPI_Request request;
    if (rank == 0) {
        fill(data, bytes, 5);
        MPI_Ibsend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(data, 0, bytes);
        fill(data, bytes, 6);
        MPI_Issend(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
        for (tries = 0; tries < 1000; tries++) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            CHECK(!done, "a synchronous send of %d bytes completed before its receive was posted", bytes);
        }
        MPI_Send(&go, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&go, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, bytes, 6);
        MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, bytes, 5);
    }
    free(data);
}

/* The attached buffer is used to the byte: messages that fit are taken, others are MPI_ERR_BUFFER,
   and delivered ones give their space back. */
static void buffer_is_accounted(void)
{
    enum { BYTES = 3000, ATTACHED_BYTES = 2 * (BYTES + MPI_BSEND_OVERHEAD) };
    char data[BYTES] = {0}, *detached;
    int size, packed, i;
    void *buffer = allocate(ATTACHED_BYTES);
    MPI_Pack_size(BYTES, MPI_CHAR, MPI_COMM_WORLD, &packed);
    CHECK(packed >= BYTES && packed <= BYTES + 64, "Pack_size is %d", packed);
    MPI_Buffer_attach(buffer, ATTACHED_BYTES);
    CHECK(MPI_Buffer_attach(buffer, ATTACHED_BYTES) != MPI_SUCCESS, "a second buffer was attached");
    if (rank == 0) {
        for (i = 0; i < 50; i++) {
            SAME(MPI_Bsend(data, BYTES, MPI_CHAR, 1, i, MPI_COMM_WORLD), MPI_SUCCESS);
            SAME(MPI_Bsend(data, BYTES, MPI_CHAR, 1, i, MPI_COMM_WORLD), MPI_SUCCESS);
            MPI_Recv(&size, 1, MPI_INT, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        RAISES(MPI_ERR_BUFFER, MPI_Bsend(buffer, ATTACHED_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
    } else if (rank == 1) {
        for (i = 0; i < 50; i++) {
            MPI_Recv(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
        }
    }
    MPI_Buffer_detach(&detached, &size);
    CHECK((void *)detached == buffer, "another buffer was detached");
    SAME(size, ATTACHED_BYTES);
    free(buffer);
}

/* Messages whose bytes no number counts, and messages for which there is no memory. */
static void sizes_without_memory(void)
{
    enum { ATTACHED_BYTES = 100 + MPI_BSEND_OVERHEAD };
    char buffer[ATTACHED_BYTES], *detached;
    int size;
    MPI_Buffer_attach(buffer, ATTACHED_BYTES);
    RAISES(MPI_ERR_BUFFER, MPI_Bsend_c(buffer, (MPI_Count)1 << 61, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD));
    MPI_Buffer_detach(&detached, &size);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    RAISES(MPI_ERR_NO_MEM, MPI_Bsend_c(buffer, (MPI_Count)1 << 61, MPI_BYTE, rank, 0, MPI_COMM_WORLD));
    MPI_Buffer_detach(&detached, &size);
    RAISES(MPI_ERR_NO_MEM, MPI_Sendrecv_replace_c(buffer, (MPI_Count)1 << 61, MPI_BYTE, rank, 0, rank, 0, MPI_COMM_WORLD,
                                                  MPI_STATUS_IGNORE));
}

/* The space of a message is free again as soon as its sender can know that it was received, by
   every protocol. */
static void space_returns(int bytes)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, size, i;
    unsigned char *buffer = allocate(bytes + MPI_BSEND_OVERHEAD), *out = allocate(bytes), *in = allocate(bytes);
    void *detached;
    MPI_Request receive;
    MPI_Buffer_attach(buffer, bytes + MPI_BSEND_OVERHEAD);
    for (i = 0; i < 100; i++) {
        fill(out, bytes, rank + i);
        MPI_Irecv(in, bytes, MPI_BYTE, before, i, MPI_COMM_WORLD, &receive);
        SAME(MPI_Bsend(out, bytes, MPI_BYTE, next, i, MPI_COMM_WORLD), MPI_SUCCESS);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        CHECK_FILLED(in, bytes, before + i);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Buffer_detach(&detached, &size);
    free(buffer);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 7, 64, 1024, 8192, 32768, 65536, 65537, 262144, 3000000};
    const int count = sizeof sizes / sizeof *sizes;
    int mode, i, size;
    void *buffer = allocate(4000000), *detached;
    start(&argc, &argv);
    let_errors_return();
    MPI_Buffer_attach(buffer, 4000000);
    for (i = 0; i < count; i++)
        for (mode = 0; mode < 4; mode++) {
            once(mode, 1, sizes[i]);
            once(mode, 0, sizes[i]);
        }
    if (ranks > 1) {
        completion_follows_the_mode(16);
        completion_follows_the_mode(100000);
        completion_follows_the_mode(2000000);
    }
    MPI_Buffer_detach(&detached, &size);
    SAME(size, 4000000);
    free(buffer);
    sizes_without_memory();
    if (ranks > 1)
        buffer_is_accounted();
    space_returns(300000);
    return finish();
}
