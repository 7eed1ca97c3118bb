/* A repeated collective allocates nothing: an allocator that counts stands in front of that of the C
 * library. In each call form, for short and long vectors. */
#include "check.h"
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static atomic_long allocations;

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(old, size);
}

void *memalign(size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    *out = memalign(align, size);
    return *out ? 0 : 12;
}

void free(void *old)
{
    __libc_free(old);
}

enum { MOST = 1 << 18, KINDS = 9, FORMS = 3, EACH = 4, MOST_RUNS = 100 };

static const char *const names[KINDS] = {"barrier", "bcast", "reduce", "allreduce", "gather",
                                         "scatter", "allgather", "alltoall", "reduce_scatter_block"};
static const char *const forms[FORMS] = {"blocking", "nonblocking", "persistent"};
static int *from, *into;

static void blocking(int kind, int n)
{
    MPI_Comm w = MPI_COMM_WORLD;
    switch (kind) {
    case 0: MPI_Barrier(w); break;
    case 1: MPI_Bcast(into, n, MPI_INT, 0, w); break;
    case 2: MPI_Reduce(from, into, n, MPI_INT, MPI_SUM, 0, w); break;
    case 3: MPI_Allreduce(from, into, n, MPI_INT, MPI_SUM, w); break;
    case 4: MPI_Gather(from, n, MPI_INT, into, n, MPI_INT, 0, w); break;
    case 5: MPI_Scatter(from, n, MPI_INT, into, n, MPI_INT, 0, w); break;
    case 6: MPI_Allgather(from, n, MPI_INT, into, n, MPI_INT, w); break;
    case 7: MPI_Alltoall(from, n, MPI_INT, into, n, MPI_INT, w); break;
    default: MPI_Reduce_scatter_block(from, into, n, MPI_INT, MPI_SUM, w);
    }
}

static void nonblocking(int kind, int n, MPI_Request *r)
{
    MPI_Comm w = MPI_COMM_WORLD;
    switch (kind) {
    case 0: MPI_Ibarrier(w, r); break;
    case 1: MPI_Ibcast(into, n, MPI_INT, 0, w, r); break;
    case 2: MPI_Ireduce(from, into, n, MPI_INT, MPI_SUM, 0, w, r); break;
    case 3: MPI_Iallreduce(from, into, n, MPI_INT, MPI_SUM, w, r); break;
    case 4: MPI_Igather(from, n, MPI_INT, into, n, MPI_INT, 0, w, r); break;
    case 5: MPI_Iscatter(from, n, MPI_INT, into, n, MPI_INT, 0, w, r); break;
    case 6: MPI_Iallgather(from, n, MPI_INT, into, n, MPI_INT, w, r); break;
    case 7: MPI_Ialltoall(from, n, MPI_INT, into, n, MPI_INT, w, r); break;
    default: MPI_Ireduce_scatter_block(from, into, n, MPI_INT, MPI_SUM, w, r);
    }
}

static void persistent(int kind, int n, MPI_Request *r)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Info i = MPI_INFO_NULL;
    switch (kind) {
    case 0: MPI_Barrier_init(w, i, r); break;
    case 1: MPI_Bcast_init(into, n, MPI_INT, 0, w, i, r); break;
    case 2: MPI_Reduce_init(from, into, n, MPI_INT, MPI_SUM, 0, w, i, r); break;
    case 3: MPI_Allreduce_init(from, into, n, MPI_INT, MPI_SUM, w, i, r); break;
    case 4: MPI_Gather_init(from, n, MPI_INT, into, n, MPI_INT, 0, w, i, r); break;
    case 5: MPI_Scatter_init(from, n, MPI_INT, into, n, MPI_INT, 0, w, i, r); break;
    case 6: MPI_Allgather_init(from, n, MPI_INT, into, n, MPI_INT, w, i, r); break;
    case 7: MPI_Alltoall_init(from, n, MPI_INT, into, n, MPI_INT, w, i, r); break;
    default: MPI_Reduce_scatter_block_init(from, into, n, MPI_INT, MPI_SUM, w, i, r);
    }
}

/* Runs EACH calls; the allocations of this rank. Ranks are in step before each call, so that none has
 * more of them under way than another time. */
static long counted(int kind, int form, int n, MPI_Request *request)
{
    long before = 0;
    int i;
    for (i = 0; i <= EACH; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (i == 1)
            before = atomic_load(&allocations);
        if (form == 0)
            blocking(kind, n);
        else if (form == 1)
            nonblocking(kind, n, request);
        else
            MPI_Start(request);
        if (form > 0)
            MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    return atomic_load(&allocations) - before;
}

/* Each rank has allocated nothing in some run of EACH calls; in other runs buffers may grow, and a
 * rank that has waited for long asks others what they do. */
static int allocates(int kind, int form, int n)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int i, done = 0, all = 0;
    long many = 0;
    if (form == 2)
        persistent(kind, n, &request);
    for (i = 0; i < MOST_RUNS && !all; i++) {
        many = counted(kind, form, n, &request);
        done = done || many == 0;
        MPI_Allreduce(&done, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    if (form == 2)
        MPI_Request_free(&request);
    if (!done)
        printf("rank %d: %ld allocations in %d %s calls of %s, %d numbers\n", rank, many, EACH,
               forms[form], names[kind], n);
    return !all;
}

int main(int argc, char **argv)
{
    static const int counts[] = {2, 1000, 20000, MOST};
    int kind, form, wrong = 0;
    size_t k;
    start(&argc, &argv);
    from = calloc(MOST * (size_t)ranks, sizeof *from);
    into = calloc(MOST * (size_t)ranks, sizeof *into);
    for (form = 0; form < FORMS; form++)
        for (kind = 0; kind < KINDS; kind++)
            for (k = 0; k < sizeof counts / sizeof *counts; k++)
                wrong += allocates(kind, form, counts[k]);
    SAME(wrong, 0);
    free(from);
    free(into);
    return finish();
}
