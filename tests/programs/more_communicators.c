/* Two less usual constructors of communicators, chosen by the argument. */
#include "check.h"

/* All ranks share one host here; a rank with UNDEFINED is outside. */
static void split_type(void)
{
    MPI_Comm host;
    int size, me, sum;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    MPI_Comm_rank(host, &me);
    SAME(size, ranks);
    SAME(me, ranks - 1 - rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, host);
    SAME(sum, ranks * (ranks - 1) / 2);
    MPI_Comm_free(&host);
    MPI_Comm_split_type(MPI_COMM_WORLD, rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &host);
    CHECK((host == MPI_COMM_NULL) == (rank == 0), "rank %d is on the wrong side", rank);
    if (host != MPI_COMM_NULL)
        MPI_Comm_free(&host);
}

/* Only the members of the group call this one. */
static void create_group(void)
{
    MPI_Group world, odd;
    MPI_Comm comm;
    int range[1][3] = {{1, ranks - 1, 2}}, sum, expected = 0, i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, ranks > 1, range, &odd);
    for (i = 1; i < ranks; i += 2)
        expected += i;
    if (rank % 2 == 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, odd, 5, &comm);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        SAME(sum, expected);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc == 2, "usage: more_communicators split-type|create-group");
    if (!strcmp(argv[1], "split-type"))
        split_type();
    else
        create_group();
    return finish();
}
