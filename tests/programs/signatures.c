/* Type signatures (knob check.signatures). Equal ones that are built in different ways, longer
 * receives, and MPI_PACKED are not named (`same`). Those that differ are, and the data arrives all
 * the same (`differ`). In all modes of sending, below and above the eager limit, between two ranks
 * and to oneself. */
#include "check.h"

enum { MANY = 1 << 16 };
static int from[3 * MANY], to[3 * MANY];

/* Sends with one type, from rank 0 to the last rank, and receives with another one. */
static void transfer(int way, int sends, MPI_Datatype sent, int receives, MPI_Datatype received)
{
    int last, is_sender;
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message;
    MPI_Status status;
    MPI_Comm_size(MPI_COMM_WORLD, &last);
    last--;
    is_sender = rank == 0;
    if (rank == last) {
        memset(to, 0, sizeof to);
        if (way != 6)
            MPI_Irecv(to, receives, received, way % 2 ? MPI_ANY_SOURCE : 0, 7, MPI_COMM_WORLD,
                      request);
    }
    if (is_sender) {
        if (way == 0 || way == 6)
            MPI_Isend(from, sends, sent, last, 7, MPI_COMM_WORLD, request + 1);
        else if (way == 1)
            MPI_Issend(from, sends, sent, last, 7, MPI_COMM_WORLD, request + 1);
        else if (way == 2)
            MPI_Bsend(from, sends, sent, last, 7, MPI_COMM_WORLD);
        else if (way == 3 || way == 4) {
            MPI_Send_init(from, sends, sent, last, 7, MPI_COMM_WORLD, request + 1);
            MPI_Start(request + 1);
        } else
            MPI_Send(from, sends, sent, last, 7, MPI_COMM_WORLD);
    }
    if (rank == last && way == 6) {
        MPI_Mprobe(0, 7, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(to, receives, received, &message, &status);
    }
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    if (request[1] != MPI_REQUEST_NULL)
        MPI_Request_free(request + 1);
    /* The first element of every type here has no gap before it. */
    if (rank == last)
        CHECK(to[0] == from[0], "way %d: %d arrived, not %d", way, to[0], from[0]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The same in a partitioned transfer of types with gaps. */
static void partitioned(MPI_Datatype sent, MPI_Datatype received)
{
    int last;
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Comm_size(MPI_COMM_WORLD, &last);
    last--;
    if (rank == last) {
        memset(to, 0, sizeof to);
        MPI_Precv_init(to, 2, 3, received, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, request);
        MPI_Start(request);
    }
    if (rank == 0) {
        MPI_Psend_init(from, 2, 3, sent, last, 7, MPI_COMM_WORLD, MPI_INFO_NULL, request + 1);
        MPI_Start(request + 1);
        MPI_Pready_range(0, 1, request[1]);
    }
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    if (rank == last)
        CHECK(to[0] == from[0], "partitioned: %d arrived, not %d", to[0], from[0]);
    for (int side = 0; side < 2; side++)
        if (request[side] != MPI_REQUEST_NULL)
            MPI_Request_free(request + side);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Datatype structure(MPI_Datatype first, MPI_Datatype second)
{
    int lengths[2] = {1, 1};
    MPI_Aint at[2] = {0, 8};
    MPI_Datatype types[2] = {first, second}, made;
    MPI_Type_create_struct(2, lengths, at, types, &made);
    MPI_Type_commit(&made);
    return made;
}

int main(int argc, char **argv)
{
    static char attached[8 * sizeof from];
    int differ = argc > 1 && !strcmp(argv[1], "differ");
    MPI_Datatype rows, mixed, turned;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Buffer_attach(attached, sizeof attached);
    for (int at = 0; at < 3 * MANY; at++)
        from[at] = at + 1;
    MPI_Type_vector(3, 2, 5, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    mixed = structure(MPI_INT, MPI_DOUBLE);
    turned = structure(MPI_DOUBLE, MPI_INT);
    for (int way = 0; way < 7; way++)
        for (int is_large = 0; is_large < 2; is_large++) {
            int many = is_large ? MANY : 1;
            if (!differ) {
                transfer(way, 6 * (many / 15 + 1), MPI_INT, many / 15 + 1, rows);
                transfer(way, many, MPI_INT, 3 * many, MPI_INT);
                transfer(way, many, MPI_2INT, 2 * many, MPI_INT);
                transfer(way, many / 4 + 1, mixed, many / 4 + 3, mixed);
                transfer(way, 4 * many, MPI_PACKED, many, MPI_FLOAT);
                transfer(way, many, MPI_FLOAT, 4 * many, MPI_PACKED);
                transfer(way, 4 * many, MPI_BYTE, 4 * many, MPI_BYTE);
            } else {
                transfer(way, many, MPI_INT, many, MPI_FLOAT);
                transfer(way, 4 * many, MPI_BYTE, many, MPI_INT);
                transfer(way, many / 4 + 1, mixed, many / 4 + 1, turned);
            }
        }
    partitioned(mixed, differ ? turned : mixed);
    MPI_Buffer_detach(attached, &differ);
    MPI_Type_free(&rows);
    MPI_Type_free(&mixed);
    MPI_Type_free(&turned);
    return finish();
}
