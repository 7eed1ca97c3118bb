/* Probe, Iprobe, and the matched probes, which take the message away from
 * every other receive. */
#include "check.h"

static void probe_then_receive(int bytes)
{
    unsigned char *data = allocate(bytes);
    MPI_Request requests[2];
    MPI_Status status, again;
    int there = 0, count;
    if (rank == 0) {
        fill(data, bytes, bytes);
        MPI_Isend(data, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(data, bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        /* Probing for the second does not disturb the first. */
        MPI_Probe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, 0, 4, MPI_BYTE, bytes);
        MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, 0, 3, MPI_BYTE, bytes);
        while (!there)
            MPI_Iprobe(0, 3, MPI_COMM_WORLD, &there, &again);
        CHECK_STATUS(&again, 0, 3, MPI_BYTE, bytes);
        MPI_Iprobe(0, 5, MPI_COMM_WORLD, &there, &again);
        CHECK(!there, "Iprobe found a message that nobody sent");
        MPI_Get_count(&status, MPI_BYTE, &count);
        MPI_Recv(data, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &again);
        CHECK_STATUS(&again, 0, 3, MPI_BYTE, bytes);
        CHECK_FILLED(data, bytes, bytes);
        memset(data, 0, bytes);
        MPI_Recv(data, bytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(data, bytes, bytes);
    }
    free(data);
}

static void matched_probe_takes_the_message(int bytes)
{
    unsigned char *data = allocate(bytes), *more = allocate(bytes), *third = allocate(bytes);
    MPI_Message first, second;
    MPI_Request request, requests[3];
    MPI_Status status;
    int there = 0;
    if (rank == 0) {
        fill(data, bytes, 1);
        fill(more, bytes, 2);
        fill(third, bytes, 3);
        MPI_Isend(data, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Issend(more, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(third, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Mprobe(0, 3, MPI_COMM_WORLD, &first, &status);
        CHECK_STATUS(&status, 0, 3, MPI_BYTE, bytes);
        while (!there)
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &second, &status);
        CHECK_STATUS(&status, 0, 3, MPI_BYTE, bytes);
        /* Both are taken; therefore the second can be received before the first. */
        MPI_Imrecv(more, bytes, MPI_BYTE, &second, &request);
        CHECK(second == MPI_MESSAGE_NULL, "Imrecv leaves the message handle");
        MPI_Wait(&request, &status);
        CHECK_STATUS(&status, 0, 3, MPI_BYTE, bytes);
        CHECK_FILLED(more, bytes, 2);
        MPI_Recv(more, bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_FILLED(more, bytes, 3);
        MPI_Mrecv(data, bytes, MPI_BYTE, &first, &status);
        CHECK(first == MPI_MESSAGE_NULL, "Mrecv leaves the message handle");
        CHECK_STATUS(&status, 0, 3, MPI_BYTE, bytes);
        CHECK_FILLED(data, bytes, 1);
    }
    free(data);
    free(more);
    free(third);
}

static void proc_null_is_probed_at_once(void)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;
    int there = 0;
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &there, &status);
    SAME(there, 1);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "Mprobe of nobody gives another message");
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    CHECK(message == MPI_MESSAGE_NULL, "Mrecv from nobody leaves the handle");
    there = 0;
    MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &there, &message, &status);
    SAME(there, 1);
    MPI_Imrecv(NULL, 0, MPI_BYTE, &message, &request);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 100, 10000, 100000, 2000000};
    unsigned i;
    start(&argc, &argv);
    proc_null_is_probed_at_once();
    if (ranks > 1)
        for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            probe_then_receive(sizes[i]);
            MPI_Barrier(MPI_COMM_WORLD);
            matched_probe_takes_the_message(sizes[i]);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    return finish();
}
