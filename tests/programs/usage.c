/* What `check.usage` names: operations that are not complete and objects that were not freed at
 * MPI_Finalize (`leftovers`), a message that was not received (`unreceived`), and a call of another thread below MPI_THREAD_SERIALIZED
 * (`threads`). A program without these is not named (`clean`, and `raised`: the level of a session
 * is lower than that of MPI_Init_thread). */
#include "check.h"
#include <pthread.h>

static void *call(void *argument)
{
    MPI_Comm_size(MPI_COMM_WORLD, argument);
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Request request;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;
    MPI_File file;
    int data[2], size, wrong = argc > 1 && !strcmp(argv[1], "leftovers");
    pthread_t thread;
    if (argc > 1 && !strcmp(argv[1], "raised")) {
        MPI_Session session;
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "thread_level", "MPI_THREAD_SINGLE");
        MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Info_free(&info);
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &size);
        MPI_Session_finalize(&session);
    } else {
        MPI_Init(&argc, &argv);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "halo");
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_name(type, "pair");
    MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_name(win, "edges");
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Irecv(data, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
    if (!wrong) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
        MPI_Type_free(&type);
        MPI_Win_free(&win);
        MPI_File_close(&file);
    }
    if (argc > 1 && !strcmp(argv[1], "unreceived"))
        MPI_Send(data, 2, MPI_INT, (rank + 1) % ranks, 9, MPI_COMM_WORLD);
    if (argc > 1 && (!strcmp(argv[1], "threads") || !strcmp(argv[1], "raised"))) {
        pthread_create(&thread, NULL, call, &size);
        pthread_join(thread, NULL);
    }
    return finish();
}
