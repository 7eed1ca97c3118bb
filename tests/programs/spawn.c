/* Spawned processes: they and their parents talk, merge, spawn further ones, disconnect or finish
 * together; programs that cannot be started are an error. */
#include "check.h"
#include <unistd.h>

static char *program;

static MPI_Comm spawn(int count, const char *role, const char *more, int root, MPI_Comm comm)
{
    char *arguments[] = {(char *)role, (char *)more, NULL};
    int *codes = allocate(count * sizeof(int));
    MPI_Comm inter;
    memset(codes, 0x55, count * sizeof(int));
    MPI_Comm_spawn(program, arguments, count, MPI_INFO_NULL, root, comm, &inter, codes);
    for (int i = 0; i < count; i++)
        SAME(codes[i], MPI_SUCCESS);
    free(codes);
    return inter;
}

/* Each process puts its block into the windows of all, and gets that of the next one from each. */
static void access_windows(MPI_Comm all, int bytes)
{
    int size, place;
    MPI_Comm_size(all, &size);
    MPI_Comm_rank(all, &place);
    char *out = allocate(bytes), *in = allocate(bytes), *own = allocate((size_t)size * bytes), *memory;
    fill(out, bytes, 50 + place);
    for (int is_own = 0; is_own < 2; is_own++) {
        MPI_Aint whole = (MPI_Aint)size * bytes;
        MPI_Win win;
        if (is_own)
            MPI_Win_create(own, whole, 1, MPI_INFO_NULL, all, &win);
        else
            MPI_Win_allocate(whole, 1, MPI_INFO_NULL, all, &memory, &win);
        MPI_Win_lock_all(0, win);
        for (int target = 0; target < size; target++)
            MPI_Put(out, bytes, MPI_BYTE, target, (MPI_Aint)place * bytes, bytes, MPI_BYTE, win);
        MPI_Win_flush_all(win);
        MPI_Barrier(all);
        int next = (place + 1) % size;
        for (int target = 0; target < size; target++) {
            fill(in, bytes, 99);
            MPI_Get(in, bytes, MPI_BYTE, target, (MPI_Aint)next * bytes, bytes, MPI_BYTE, win);
            MPI_Win_flush(target, win);
            CHECK_FILLED(in, bytes, 50 + next);
        }
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    free(own);
    free(out);
    free(in);
}

/* What both sides do: each process sends `bytes` to each of the other side, collectives over both,
 * and over the merged communicator. */
static void talk(MPI_Comm inter, int high, int bytes)
{
    int here, there, mine;
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    MPI_Comm_rank(inter, &mine);
    char *out = allocate(bytes), *in = allocate(bytes);
    for (int i = 0; i < there; i++) {
        MPI_Status status;
        fill(out, bytes, (high << 16) + (mine << 8) + i);
        MPI_Sendrecv(out, bytes, MPI_BYTE, i, 7, in, bytes, MPI_BYTE, i, 7, inter, &status);
        CHECK_STATUS(&status, i, 7, MPI_BYTE, bytes);
        CHECK_FILLED(in, bytes, (!high << 16) + (i << 8) + mine);
    }
    int ones = 1, sum = 0;
    MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, inter);
    SAME(sum, there);
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, high, &merged);
    int size, place;
    MPI_Comm_size(merged, &size);
    MPI_Comm_rank(merged, &place);
    SAME(size, here + there);
    SAME(place, high ? there + mine : mine);
    long long each = place, all = 0;
    MPI_Allreduce(&each, &all, 1, MPI_LONG_LONG, MPI_SUM, merged);
    SAME(all, (long long)size * (size - 1) / 2);
    char *every = allocate((size_t)size * 1000);
    fill(out, 1000, place);
    MPI_Allgather(out, 1000, MPI_BYTE, every, 1000, MPI_BYTE, merged);
    for (int i = 0; i < size; i++)
        CHECK_FILLED(every + 1000 * i, 1000, i);
    for (int root = 0; root < size; root++) {
        fill(out, bytes, place == root ? root : 99);
        MPI_Bcast(out, bytes, MPI_BYTE, root, merged);
        CHECK_FILLED(out, bytes, root);
    }
    access_windows(merged, bytes);
    MPI_Comm_free(&merged);
    free(every);
    free(in);
    free(out);
}

static int child(MPI_Comm parent, const char *role, const char *more)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(parent, name, &length);
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the parent's name is \"%s\"", name);
    if (strcmp(role, "deeper") == 0) {
        MPI_Comm further = spawn(2, "talk", "small", 0, MPI_COMM_WORLD);
        talk(further, 0, 2000);
        MPI_Comm_disconnect(&further);
    }
    talk(parent, 1, strcmp(more, "large") ? 2000 : 300000);
    if (strcmp(role, "talk")) {
        MPI_Comm_disconnect(&parent);
        MPI_Comm_get_parent(&parent);
        SAME(parent == MPI_COMM_NULL, 1);
        usleep(200000); /* the parents go on without these processes */
    }
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    program = argv[0];
    start(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    let_errors_return();

    /* All together, root last; then alone; the first one is neither freed nor disconnected. */
    inter = spawn(3, "talk", "large", ranks - 1, MPI_COMM_WORLD);
    talk(inter, 0, 300000);
    if (rank == 0) {
        inter = spawn(1, "leave", "small", 0, MPI_COMM_SELF);
        talk(inter, 0, 2000);
        MPI_Comm_disconnect(&inter);
    }
    inter = spawn(2, "deeper", "small", 0, MPI_COMM_WORLD);
    talk(inter, 0, 2000);
    MPI_Comm_disconnect(&inter);

    /* Two programs, with arguments of each. */
    char *one[] = {"talk", "small", NULL}, *two[] = {"talk", "small", NULL};
    char *commands[] = {program, program}, **arguments[] = {one, two};
    int counts[] = {1, 2}, codes[3];
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, &inter, codes);
    talk(inter, 0, 2000);
    MPI_Comm_free(&inter); /* still connected: MPI_Finalize waits for it */

    RAISES(MPI_ERR_SPAWN, MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0,
                                         MPI_COMM_WORLD, &inter, rank == 0 ? codes : MPI_ERRCODES_IGNORE));
    if (rank == 0)
        SAME(class_of(codes[1]), MPI_ERR_SPAWN);
    RAISES(MPI_ERR_ARG, MPI_Comm_spawn(program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                                       MPI_ERRCODES_IGNORE));
    return finish();
}
