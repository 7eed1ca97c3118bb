/* More than 2^31 bytes in one message by the _c functions, and more than 2^31
 * in a status' count. 2 ranks, about 9 GiB of memory. */
#include "check.h"

static const MPI_Count BYTES = 2362232012; /* 2.2 GiB and a bit, no multiple of 8 */

/* Checking every byte of this much would take a minute: a byte in each 1009. */
static void stamp(unsigned char *data, int seed, int check)
{
    MPI_Count i;
    for (i = 0; i < BYTES; i += i + 1009 < BYTES ? 1009 : 1) {
        if (!check)
            data[i] = pattern(seed, i);
        else if (data[i] != pattern(seed, i))
            FAIL("byte %lld is %d, not %d", (long long)i, data[i], pattern(seed, i));
        if (i + 1009 >= BYTES && i < BYTES - 64)
            i = BYTES - 65; /* and all of the last 64 */
    }
}

static void point_to_point(unsigned char *data)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Count count;
    int small;
    if (rank == 0) {
        stamp(data, 1, 0);
        MPI_Send_c(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&small, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        stamp(data, 2, 0);
        MPI_Isend_c(data, BYTES, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Probe(0, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    SAME(count, BYTES);
    MPI_Get_count(&status, MPI_BYTE, &small);
    SAME(small, MPI_UNDEFINED);
    MPI_Recv_c(data, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    SAME(count, BYTES);
    MPI_Get_elements_c(&status, MPI_BYTE, &count);
    SAME(count, BYTES);
    stamp(data, 1, 1);
    MPI_Send(&small, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Irecv_c(data, BYTES, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    MPI_Get_count_c(&status, MPI_SHORT, &count);
    SAME(count, BYTES / 2);
    stamp(data, 2, 1);
}

static void broadcast(unsigned char *data)
{
    if (rank == 0)
        stamp(data, 3, 0);
    MPI_Bcast_c(data, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
    stamp(data, 3, 1);
}

int main(int argc, char **argv)
{
    unsigned char *data;
    start(&argc, &argv);
    SAME(ranks, 2);
    data = allocate(BYTES);
    point_to_point(data);
    broadcast(data);
    free(data);
    return finish();
}
