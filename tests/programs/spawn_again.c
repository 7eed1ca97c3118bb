/* One spawned job after the other: those that have ended leave no file and no mapping open. */
#include "check.h"
#include "open_files.h"

enum { JOBS = 80, SETTLED = 30, LIVING = 10 };

static int mappings(void)
{
    int count = 0;
    FILE *all = fopen("/proc/self/maps", "r");
    for (int c; (c = fgetc(all)) != EOF;)
        count += c == '\n';
    fclose(all);
    return count;
}

/* Messages in the ring and outside of it, each way. */
static void talk(MPI_Comm inter, int to, int base)
{
    enum { LONG = 100000 };
    static char out[LONG], in[LONG];
    for (int bytes = 1; bytes <= LONG; bytes *= 10) {
        fill(out, bytes, base);
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, 0, in, bytes, MPI_BYTE, to, 0, inter, MPI_STATUS_IGNORE);
        CHECK_FILLED(in, bytes, 1 - base);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    start(&argc, &argv);
    MPI_Comm_get_parent(&inter);
    if (inter != MPI_COMM_NULL) {
        int parents;
        MPI_Comm_remote_size(inter, &parents);
        for (int i = 0; i < parents; i++)
            talk(inter, i, 1);
        MPI_Comm_disconnect(&inter);
        MPI_Finalize();
        return 0;
    }
    int files = 0, mapped = 0;
    for (int job = 0; job < JOBS; job++) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE);
        talk(inter, 0, 0);
        MPI_Comm_disconnect(&inter);
        if (job == SETTLED) {
            files = open_files();
            mapped = mappings();
        }
    }
    CHECK(open_files() <= files + LIVING, "%d open files after %d jobs, %d after all", files, SETTLED,
          open_files());
    CHECK(mappings() <= mapped + 4 * LIVING, "%d mappings after %d jobs, %d after all", mapped, SETTLED,
          mappings());
    return finish();
}
