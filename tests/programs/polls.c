/* More ranks than processors: ranks 0 and 1 send a message to and fro and find it by calls that poll
 * and return, while the others poll for the end. Each kind of call gives way to the rank that it
 * waits for: a round takes far less than a time slice of the kernel. */
#include "check.h"

enum { ROUNDS = 200 };

static const char *const kinds[] = {"MPI_Iprobe",
                                    "MPI_Improbe",
                                    "MPI_Test",
                                    "MPI_Testany",
                                    "MPI_Testall",
                                    "MPI_Testsome",
                                    "MPI_Request_get_status",
                                    "MPI_Request_get_status_any",
                                    "MPI_Request_get_status_all",
                                    "MPI_Request_get_status_some"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* One poll of that kind for the message that `request` receives. */
static int is_there(int kind, MPI_Request *request)
{
    int flag = 0, index, count;
    switch (kind) {
    case 2: MPI_Test(request, &flag, MPI_STATUS_IGNORE); break;
    case 3: MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE); break;
    case 4: MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE); break;
    case 5:
        MPI_Testsome(1, request, &count, &index, MPI_STATUSES_IGNORE);
        flag = count == 1;
        break;
    case 6: MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE); break;
    case 7: MPI_Request_get_status_any(1, request, &index, &flag, MPI_STATUS_IGNORE); break;
    case 8: MPI_Request_get_status_all(1, request, &flag, MPI_STATUSES_IGNORE); break;
    default:
        MPI_Request_get_status_some(1, request, &count, &index, MPI_STATUSES_IGNORE);
        flag = count == 1;
    }
    return flag;
}

static void receive(int kind, int from)
{
    MPI_Message message;
    MPI_Request request;
    int flag = 0, got = -1;
    if (kind == 0) {
        while (!flag)
            MPI_Iprobe(from, kind, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Recv(&got, 1, MPI_INT, from, kind, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (kind == 1) {
        while (!flag)
            MPI_Improbe(from, kind, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(&got, 1, MPI_INT, from, kind, MPI_COMM_WORLD, &request);
        while (!is_there(kind, &request))
            ;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    SAME(got, kind);
}

int main(int argc, char **argv)
{
    int kind, round, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (kind = 0; kind < KINDS; kind++) {
        double begun = MPI_Wtime();
        for (round = 0; rank < 2 && round < 2 * ROUNDS; round++) {
            if (round % 2 == rank)
                MPI_Send(&kind, 1, MPI_INT, 1 - rank, kind, MPI_COMM_WORLD);
            else
                receive(kind, 1 - rank);
        }
        if (rank == 0) {
            double each = (MPI_Wtime() - begun) * 1e3 / ROUNDS;
            CHECK(each < 2, "a round by %s took %.3f ms", kinds[kind], each);
            for (other = 2; other < ranks; other++)
                MPI_Send(&kind, 1, MPI_INT, other, kind, MPI_COMM_WORLD);
        } else if (rank > 1)
            receive(kind, 0);
    }
    return finish();
}
