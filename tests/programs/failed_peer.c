/* A peer that overwrites the memory it shares can no longer be reached: receives and probes that
   wait for it end with an error that names it. A receive from any source does too, when there is no
   other rank. */
#include "check.h"
#include <unistd.h>

/* Garbage into all that this process shares with others, but for the board. */
static void overwrite_shared_memory(void)
{
    char line[512];
    unsigned long from, to, offset;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "/proc/self/maps can't be read");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:verbena") && sscanf(line, "%lx-%lx rw-s %lx", &from, &to, &offset) == 3 && offset > 0)
            memset((void *)from, 0xa5, to - from);
    fclose(maps);
}

static void names_rank_1(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_PROC_ABORTED && strstr(text, "rank 1"), "class %d: %s", class_of(code), text);
}

int main(int argc, char **argv)
{
    int value = 0, flag;
    MPI_Request request;
    start(&argc, &argv);
    let_errors_return();
    MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 1, &value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* rank 0 has connected to us */
        overwrite_shared_memory();
        for (;;)
            sleep(100);
    }
    MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Irecv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
    names_rank_1(MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    names_rank_1(MPI_Wait(&request, MPI_STATUS_IGNORE));
    names_rank_1(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    names_rank_1(MPI_Probe(1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    names_rank_1(MPI_Iprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    names_rank_1(MPI_Send(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD));
    MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_SELF);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    printf("ok\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}
