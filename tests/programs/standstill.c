/* Ranks that wait for each other for ever, each in another call: standstill
 * (circle | threads | finalize | unreceived). mpiexec reports what each waits for. */
#include "check.h"

static int word;

static void in_a_circle(void)
{
    MPI_Request request;
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_set_name(reversed, "reversed");
    switch (rank) {
    case 0:
        MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Ssend(&word, 1, MPI_INT, 2, 6, MPI_COMM_WORLD);
        break;
    case 2:
        MPI_Irecv(&word, 1, MPI_INT, ranks - 1 - 3, MPI_ANY_TAG, reversed, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        break;
    default:
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void after_finalize(void)
{
    MPI_Request requests[2];
    MPI_Message message;
    int index;
    switch (rank) {
    case 0:
        break;
    case 1:
        MPI_Probe(0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Recv_init(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &requests[0]);
        MPI_Start(&requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    }
}

/* Nobody receives the message of rank 0, which has let go of it. */
static void unreceived(void)
{
    static char large[1 << 20];
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(large, sizeof large, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 1 && !strcmp(argv[1], "threads");
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && !strcmp(argv[1], "finalize"))
        after_finalize();
    else if (argc > 1 && !strcmp(argv[1], "unreceived"))
        unreceived();
    else
        in_a_circle();
    MPI_Finalize();
    return 0;
}
