/* Seed case 21: three ranks, broadcasts and point-to-point with ANY_SOURCE in
 * between. There are two legal matchings; both are correct, and with a delay on
 * one side or the other both are seen. */
#include "check.h"
#include <unistd.h>

enum { ROUNDS = 40 };

/* Which of rank 0's two receives got the message that rank 2 sent. */
static int once(int delayed)
{
    int data = rank == 0 ? 5 : -1, first = -1, second = -1, sent;
    MPI_Status one, two;
    if (rank == 0) {
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (delayed == 1)
            usleep(2000);
        MPI_Recv(&first, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &one);
        data = 6;
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Recv(&second, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &two);
        SAME(first, one.MPI_SOURCE * 10);
        SAME(second, two.MPI_SOURCE * 10);
        SAME(one.MPI_SOURCE + two.MPI_SOURCE, 3);
        return one.MPI_SOURCE == 2;
    }
    sent = rank * 10;
    MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
    SAME(data, 5);
    if (rank == delayed)
        usleep(10000); /* longer than rank 0 looks away */
    MPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
    SAME(data, 6);
    return 0;
}

/* As in the book: one rank broadcasts before it sends, one after. */
static int crossed(int delayed)
{
    int data = rank == 0 ? 5 : -1, got = -1, sent = rank * 10, again = -1;
    MPI_Status status;
    switch (rank) {
    case 0:
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Send(&sent, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        break;
    case 1:
        if (delayed)
            usleep(2000);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        SAME(got, status.MPI_SOURCE * 10);
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Recv(&again, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        SAME(again, status.MPI_SOURCE * 10);
        SAME(got + again, 20);
        break;
    default:
        if (rank == 2)
            MPI_Send(&sent, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    SAME(data, 5);
    return rank == 1 && got == 0;
}

int main(int argc, char **argv)
{
    int i, seen[2] = {0, 0};
    start(&argc, &argv);
    SAME(ranks, 3);
    for (i = 0; i < ROUNDS; i++) {
        seen[once(i % 2 + 1)]++;
        MPI_Barrier(MPI_COMM_WORLD);
        crossed(i % 2);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        CHECK(seen[0] > 0 && seen[1] > 0, "of the two matchings only one was seen (%d, %d)", seen[0], seen[1]);
    return finish();
}
