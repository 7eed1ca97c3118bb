/* Seed case 3: Request_free on active sends; that they have completed is learnt
 * from the partner's reply. Over 100,000 round trips nothing may leak. */
#include "check.h"

enum { ROUNDS = 100000 };

/* Private memory of this process in KiB. */
static long memory_in_use(void)
{
    long pages = 0, resident = 0, shared = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    CHECK(in && fscanf(in, "%ld %ld %ld", &pages, &resident, &shared) == 3, "cannot read /proc/self/statm");
    fclose(in);
    return (resident - shared) * 4;
}

int main(int argc, char **argv)
{
    long before = 0, grown;
    int i, value, partner;
    MPI_Request request;
    start(&argc, &argv);
    partner = rank ^ 1;
    if (partner < ranks)
        for (i = 0; i < ROUNDS; i++) {
            if (i == ROUNDS / 10)
                before = memory_in_use();
            value = i;
            if (rank % 2 == 0) {
                MPI_Isend(&value, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
                MPI_Recv(&value, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                SAME(value, i + 1);
            } else {
                int reply;
                MPI_Recv(&value, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                SAME(value, i);
                reply = value + 1;
                MPI_Isend(&reply, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
    grown = memory_in_use() - before;
    CHECK(partner >= ranks || grown < 1024, "memory grew by %ld KiB in %d round trips", grown, ROUNDS);
    return finish();
}
