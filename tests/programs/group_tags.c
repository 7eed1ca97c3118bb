/* Two threads make communicators of the same group at once, in the opposite order on the two ranks.
 * Their tags differ in a byte that is no UTF-8. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static const char *const tags[] = {"\xe8", "\xe9"};
static MPI_Comm comms[2];
static MPI_Group group;

static void make(int which)
{
    MPI_Comm_create_from_group(group, tags[which], MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comms[which]);
}

static void *make_first(void *argument)
{
    (void)argument;
    make(0);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, found[2], sent[] = {0, 1}, members[] = {0, 1};
    MPI_Request requests[4];
    pthread_t thread;
    MPI_Group world;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, members, &group);
    if (rank == 0) {
        pthread_create(&thread, NULL, make_first, NULL);
        usleep(200 * 1000);
        make(1);
        pthread_join(thread, NULL);
    } else {
        make(1);
        make(0);
    }
    for (int which = 0; which < 2; which++) {
        MPI_Irecv(&found[which], 1, MPI_INT, 1 - rank, 0, comms[which], &requests[which]);
        MPI_Isend(&sent[which], 1, MPI_INT, 1 - rank, 0, comms[which], &requests[2 + which]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int which = 0; which < 2; which++) {
        SAME(found[which], which);
        MPI_Comm_free(&comms[which]);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return finish();
}
