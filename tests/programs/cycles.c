/* Objects are made and freed again and again: memory does not grow.
 *
 * usage: cycles KIND CYCLES. Resident memory after a tenth of the cycles is
 * compared with that after all of them: the first tenth has filled all tables and pools. */
#include "check.h"
#include <unistd.h>

/* More than this is growth, bytes: 1,000,000 cycles that lose a byte each are found. Rings and
   pools are shared; they take memory when it is first needed, up to their limit. */
enum { ALLOWED = 512 * 1024, ALLOWED_SHARED = 16 * 1024 * 1024 };

/* Resident memory, bytes: the process' own, and what it shares. */
struct memory {
    long own, shared;
};

static struct memory resident(void)
{
    struct memory now = {0, 0};
    char row[256];
    FILE *file = fopen("/proc/self/status", "r");
    int found = 0;
    CHECK(file, "cannot read /proc/self/status");
    while (fgets(row, sizeof row, file))
        found += sscanf(row, "RssAnon: %ld kB", &now.own) == 1 || sscanf(row, "RssShmem: %ld kB", &now.shared) == 1;
    fclose(file);
    CHECK(found == 2, "RssAnon and RssShmem are not in /proc/self/status");
    return (struct memory){1024 * now.own, 1024 * now.shared};
}

/* ---- one cycle of each kind ------------------------------------------------ */

static void datatypes(int cycle)
{
    int lengths[3] = {2, 1 + cycle % 3, 4}, displacements[3] = {0, 5, 20};
    MPI_Datatype vector, indexed, resized;
    MPI_Type_vector(3, 2, 5 + cycle % 7, MPI_DOUBLE, &vector);
    MPI_Type_indexed(3, lengths, displacements, vector, &indexed);
    MPI_Type_create_resized(indexed, 0, 8000, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&vector);
    MPI_Type_free(&indexed);
    MPI_Type_free(&resized);
}

static void groups(int cycle)
{
    int first = cycle % ranks;
    MPI_Group world, some, rest, both;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &first, &some);
    MPI_Group_difference(world, some, &rest);
    MPI_Group_union(rest, some, &both);
    MPI_Group_free(&world);
    MPI_Group_free(&some);
    MPI_Group_free(&rest);
    MPI_Group_free(&both);
}

static void requests(int cycle)
{
    static int out, in;
    MPI_Request pair[2];
    out = cycle;
    MPI_Irecv(&in, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &pair[0]);
    MPI_Isend(&out, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &pair[1]);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    SAME(in, cycle);
}

static void persistent(int cycle)
{
    static int out, in;
    MPI_Request pair[2];
    out = cycle;
    MPI_Recv_init(&in, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &pair[0]);
    MPI_Send_init(&out, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &pair[1]);
    MPI_Startall(2, pair);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    SAME(in, cycle);
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);
}

static void cancelled(int cycle)
{
    static int in;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, 0, cycle % 1000, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static int keep(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static void rest(int cycle)
{
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler handler;
    int key;
    MPI_Op_create(sum, 1, &op);
    MPI_Info_create(&info);
    MPI_Info_set(info, "a key", "a value");
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, keep, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &cycle);
    MPI_Comm_delete_attr(MPI_COMM_SELF, key);
    MPI_Comm_free_keyval(&key);
    MPI_Errhandler_free(&handler);
    MPI_Info_free(&info);
    MPI_Op_free(&op);
}

static void duplicate(int cycle)
{
    MPI_Comm twin;
    (void)cycle;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_free(&twin);
}

static void split(int cycle)
{
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, (rank + cycle) % 2, -rank, &part);
    MPI_Comm_free(&part);
}

static void create(int cycle)
{
    MPI_Group world, some;
    MPI_Comm part;
    int left_out = cycle % ranks;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, ranks > 1, &left_out, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &part);
    MPI_Group_free(&world);
    MPI_Group_free(&some);
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
}

static void cartesian(int cycle)
{
    int dims[2] = {0, 0}, periods[2] = {cycle % 2, 1};
    MPI_Comm grid;
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_free(&grid);
}

static void intercommunicators(int cycle)
{
    MPI_Comm half, inter, both;
    int high = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, high, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !high, cycle % 100, &inter);
    MPI_Intercomm_merge(inter, high, &both);
    MPI_Comm_free(&half);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&both);
}

/* Messages of every protocol, each with a derived type of its own. */
static void messages(int cycle)
{
    static double out[200000], in[200000];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int blocks = cycle % 50 == 0 ? 90000 : 1 + cycle % 3000;
    MPI_Datatype odd;
    MPI_Type_vector(blocks, 1, 2, MPI_DOUBLE, &odd);
    MPI_Type_commit(&odd);
    MPI_Request request;
    MPI_Irecv(in, 1, odd, before, 3, MPI_COMM_WORLD, &request);
    MPI_Send(out, 1, odd, next, 3, MPI_COMM_WORLD);
    MPI_Type_free(&odd);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- many at once ---------------------------------------------------------- */

/* All of them are alive, and a message on one is never seen on another. */
static void alive(int many)
{
    MPI_Comm *comms = malloc(many * sizeof *comms);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < many; i++) {
        if (i % 3 == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        else if (i % 3 == 1)
            MPI_Comm_split(comms[i - 1], 0, rank, &comms[i]);
        else
            MPI_Comm_dup(comms[i - 1], &comms[i]);
    }
    for (int i = 0; i < many; i++) {
        int out = rank * many + i, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, next, 0, &in, 1, MPI_INT, before, 0, comms[i], MPI_STATUS_IGNORE);
        SAME(in, before * many + i);
    }
    for (int i = many - 1; i >= 0; i -= 7) {
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
        SAME(sum, ranks);
    }
    for (int i = 0; i < many; i++)
        MPI_Comm_free(&comms[i]);
    free(comms);
}

static const struct {
    const char *name;
    void (*once)(int cycle);
} kinds[] = {
    {"datatypes", datatypes}, {"groups", groups},       {"requests", requests},
    {"persistent", persistent}, {"cancelled", cancelled}, {"rest", rest},
    {"dup", duplicate},            {"split", split},         {"create", create},
    {"cartesian", cartesian}, {"intercommunicators", intercommunicators}, {"messages", messages},
};

static void cycles_of(void (*once)(int), const char *name, int cycles)
{
    struct memory early = {0, 0};
    for (int cycle = 0; cycle < cycles; cycle++) {
        if (cycle == cycles / 10)
            early = resident();
        once(cycle);
    }
    struct memory late = resident();
    long own = late.own - early.own, shared = late.shared - early.shared;
    CHECK(own <= ALLOWED && shared <= ALLOWED_SHARED, "%s: memory grew by %ld bytes, shared memory by %ld, in %d cycles",
          name, own, shared, cycles - cycles / 10);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(argc % 2 == 1, "usage: cycles KIND CYCLES ...");
    for (int at = 1; at < argc; at += 2) {
        int known = 0, cycles = atoi(argv[at + 1]);
        double begin = MPI_Wtime();
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            if (strcmp(argv[at], kinds[kind].name) == 0) {
                cycles_of(kinds[kind].once, argv[at], cycles);
                known = 1;
            }
        if (strcmp(argv[at], "alive") == 0) {
            alive(cycles);
            known = 1;
        }
        CHECK(known, "no kind of object is called %s", argv[at]);
        if (rank == 0)
            printf("%s: %d in %.2f s\n", argv[at], cycles, MPI_Wtime() - begin);
    }
    return finish();
}
