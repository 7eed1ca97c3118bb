/* A message longer than its receive: an error of the receive alone. The part after the buffer is as
   before, the sender is not notified, and later messages are in order. The sentence is printed for
   the table to look at. */
#include "check.h"

/* How the receive is completed. */
enum How { RECV, WAIT, TEST, WAITALL, WAITANY, MRECV, SENDRECV, FORMS };

static int receive(enum How how, void *data, int bytes, int tag, MPI_Status *status)
{
    MPI_Request request;
    MPI_Message message;
    int code = MPI_SUCCESS, flag = 0, index;
    switch (how) {
    case RECV:
        return MPI_Recv(data, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, status);
    case SENDRECV:
        return MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, data, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, status);
    case MRECV:
        MPI_Mprobe(0, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        return MPI_Mrecv(data, bytes, MPI_BYTE, &message, status);
    default:
        break;
    }
    MPI_Irecv(data, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
    if (how == WAIT)
        code = MPI_Wait(&request, status);
    else if (how == TEST)
        while (!flag && code == MPI_SUCCESS)
            code = MPI_Test(&request, &flag, status);
    else if (how == WAITANY)
        code = MPI_Waitany(1, &request, &index, status);
    else if (how == WAITALL) {
        code = MPI_Waitall(1, &request, status);
        SAME(class_of(code), MPI_ERR_IN_STATUS);
        code = status->MPI_ERROR;
    }
    CHECK(request == MPI_REQUEST_NULL, "a failed receive leaves its request (way %d)", how);
    return code;
}

static void once(enum How how, int sent, int capacity, int show)
{
    unsigned char *data = allocate(sent + 1);
    MPI_Status status;
    char text[MPI_MAX_ERROR_STRING];
    int code, length, tag = 21;
    if (rank == 0) {
        fill(data, sent, 3);
        SAME(MPI_Send(data, sent, MPI_BYTE, 1, tag, MPI_COMM_WORLD), MPI_SUCCESS);
        SAME(MPI_Ssend(&how, 1, MPI_INT, 1, tag, MPI_COMM_WORLD), MPI_SUCCESS);
    } else if (rank == 1) {
        int after = -1;
        memset(data, 0xaa, sent + 1);
        code = receive(how, data, capacity, tag, &status);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%d bytes into %d (way %d): class %d", sent, capacity, how,
              class_of(code));
        SAME(data[capacity], 0xaa);
        SAME(data[sent], 0xaa);
        SAME(status.MPI_SOURCE, 0);
        SAME(status.MPI_TAG, tag);
        MPI_Error_string(code, text, &length);
        SAME(length, strlen(text));
        if (show)
            printf("%s\n", text);
        MPI_Recv(&after, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(after, how);
    }
    free(data);
}

int main(int argc, char **argv)
{
    int how;
    start(&argc, &argv);
    let_errors_return();
    for (how = 0; how < FORMS; how++) {
        once(how, 10, 9, how == RECV);
        once(how, 1, 0, 0);
        once(how, 5000, 100, 0);
        once(how, 3000000, 2999999, how == WAIT);
        once(how, 3000000, 1, 0);
    }
    return finish();
}
