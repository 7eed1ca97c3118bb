/* Rules of collectives as a hint of a communicator: each algorithm that they name gives the right
 * result, the hint can be read back, other communicators do not have it, and a rule that cannot be
 * parsed is an error. */
#include "check.h"

static const char KEY[] = "verbena_coll_rules";

static MPI_Info hints_of(const char *rules)
{
    MPI_Info hints;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, KEY, rules);
    return hints;
}

static void try_rules(const char *rules)
{
    enum { COUNT = 5000 };
    MPI_Info hints = hints_of(rules), used;
    MPI_Comm comm;
    char text[256];
    int found, length = sizeof text, *data = allocate(COUNT * sizeof *data),
               *all = allocate(3 * ranks * sizeof *all), *to = allocate(3 * ranks * sizeof *to);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, hints, &comm);
    MPI_Info_free(&hints);
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get_string(used, KEY, &length, text, &found);
    CHECK(found && strcmp(text, rules) == 0, "the hint is `%s`, not `%s`", text, rules);
    MPI_Info_free(&used);
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = rank == root ? 7 * i + root : -1;
        MPI_Bcast(data, COUNT, MPI_INT, root, comm);
        for (int i = 0; i < COUNT; i++)
            SAME(data[i], 7 * i + root);
    }
    for (int i = 0; i < 3; i++)
        data[i] = 10 * rank + i;
    MPI_Allgather(data, 3, MPI_INT, all, 3, MPI_INT, comm);
    for (int i = 0; i < 3 * ranks; i++)
        SAME(all[i], 10 * (i / 3) + i % 3);
    for (int i = 0; i < 3 * ranks; i++)
        all[i] = 1000 * rank + i;
    MPI_Alltoall(all, 3, MPI_INT, to, 3, MPI_INT, comm);
    for (int i = 0; i < 3 * ranks; i++)
        SAME(to[i], 1000 * (i / 3) + 3 * rank + i % 3);
    MPI_Comm_free(&comm);
    free(data);
    free(all);
    free(to);
}

int main(int argc, char **argv)
{
    MPI_Info hints, used;
    MPI_Comm comm;
    int found, length = 0;
    start(&argc, &argv);
    try_rules("bcast=chain; allgather=neighbor-exchange; alltoall=pairwise");
    try_rules("bcast=binary-tree; allgather=ring; alltoall=scattered");
    try_rules("bcast=linear; allgather=bruck; alltoall=bruck");
    MPI_Comm_get_info(MPI_COMM_WORLD, &used);
    MPI_Info_get_string(used, KEY, &length, NULL, &found);
    CHECK(!found, "the hint of another communicator");
    MPI_Info_free(&used);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    hints = hints_of("bcast=tree");
    RAISES(MPI_ERR_INFO_VALUE, MPI_Comm_dup_with_info(MPI_COMM_WORLD, hints, &comm));
    MPI_Info_free(&hints);
    return finish();
}
