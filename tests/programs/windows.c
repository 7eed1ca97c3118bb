/* Windows of all four kinds: their attributes, names, groups, hints, error handlers, memory, and
 * what misuse is called. */
#include "check.h"

static int deleted;

static int on_delete(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

static void check_attributes(MPI_Win win, void *base, MPI_Aint size, int unit, int flavor)
{
    void *found_base;
    MPI_Aint *found_size;
    int *found, flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &found_base, &flag);
    CHECK(flag && found_base == base, "base is %p, not %p", found_base, base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &found_size, &flag);
    SAME(*found_size, size);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &found, &flag);
    SAME(*found, unit);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &found, &flag);
    SAME(*found, flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &found, &flag);
    SAME(*found, MPI_WIN_UNIFIED);
}

static void check_object(MPI_Win win)
{
    char name[MPI_MAX_OBJECT_NAME], value[10];
    static int seven = 7;
    int len, flag, key, *found, same;
    MPI_Group group, world;
    MPI_Info info;
    MPI_Win_set_name(win, "halo");
    MPI_Win_get_name(win, name, &len);
    CHECK(len == 4 && strcmp(name, "halo") == 0, "the name is %s", name);
    MPI_Win_get_group(win, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    SAME(same, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "unknown", "x");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &info);
    len = sizeof value;
    MPI_Info_get_string(info, "accumulate_ordering", &len, value, &flag);
    CHECK(flag && strcmp(value, "none") == 0, "accumulate_ordering is %s", value);
    MPI_Info_free(&info);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
    MPI_Win_set_attr(win, key, &seven);
    MPI_Win_get_attr(win, key, &found, &flag);
    CHECK(flag && found == &seven, "the attribute is lost");
    MPI_Win_free_keyval(&key);
    SAME(MPI_Win_fromint(MPI_Win_toint(win)) == win, 1);
    deleted = 0;
}

static void free_window(MPI_Win *win)
{
    MPI_Win_free(win);
    CHECK(*win == MPI_WIN_NULL, "the handle stays");
    SAME(deleted, 7);
}

static void create(void)
{
    int memory[10] = {0};
    MPI_Win win;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check_attributes(win, memory, sizeof memory, sizeof(int), MPI_WIN_FLAVOR_CREATE);
    check_object(win);
    free_window(&win);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_free(&win);
}

static void allocated(void)
{
    char *base;
    MPI_Win win;
    MPI_Aint size = 100 * (rank % 3);
    MPI_Win_allocate(size, 1 + rank, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    check_attributes(win, base, size, 1 + rank, MPI_WIN_FLAVOR_ALLOCATE);
    memset(base, rank, size);
    check_object(win);
    free_window(&win);
}

/* `noncontig`: the hint of all ranks, or "first": only rank 0 has it. */
static void shared(const char *noncontig)
{
    int *base, *theirs, unit;
    MPI_Win win;
    MPI_Aint size = rank % 4 == 3 ? 0 : 1000 * sizeof(int), found;
    MPI_Info info;
    MPI_Info_create(&info);
    int is_first = strcmp(noncontig, "first") == 0;
    if (!is_first || rank == 0)
        MPI_Info_set(info, "alloc_shared_noncontig", is_first ? "true" : noncontig);
    MPI_Win_allocate_shared(size, sizeof(int), info, MPI_COMM_WORLD, &base, &win);
    MPI_Info_free(&info);
    check_attributes(win, base, size, sizeof(int), MPI_WIN_FLAVOR_SHARED);
    for (int i = 0; i < (int)(size / sizeof(int)); i++)
        base[i] = 10000 * rank + i;
    MPI_Win_fence(0, win);
    int *expected = NULL;
    for (int other = 0; other < ranks; other++) {
        MPI_Win_shared_query(win, other, &found, &unit, &theirs);
        SAME(found, other % 4 == 3 ? 0 : 1000 * sizeof(int));
        SAME(unit, sizeof(int));
        CHECK((found == 0) == (theirs == NULL), "%ld bytes at %p", (long)found, (void *)theirs);
        if (found == 0)
            continue;
        if (strcmp(noncontig, "true") != 0 && expected)
            CHECK(theirs == expected, "the memory of rank %d is not adjacent", other);
        expected = theirs + found / sizeof(int);
        for (int i = 0; i < (int)(found / sizeof(int)); i++)
            SAME(theirs[i], 10000 * other + i);
    }
    MPI_Win_shared_query(win, MPI_PROC_NULL, &found, &unit, &theirs);
    SAME(*theirs, 0);
    check_object(win);
    free_window(&win);
}

/* One access to memory that was attached in two parts, which adjoin. */
static void adjoining(MPI_Win win, int next, int before)
{
    int memory[6] = {0}, values[4] = {rank, rank + 1, rank + 2, rank + 3}, old[4];
    MPI_Aint address, theirs;
    MPI_Win_attach(win, memory + 3, 3 * sizeof(int));
    MPI_Win_attach(win, memory, 3 * sizeof(int));
    MPI_Get_address(memory + 1, &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, before, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Put(values, 4, MPI_INT, next, theirs, 4, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(values, 4, MPI_INT, old, 4, MPI_INT, next, theirs, 4, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < 4; i++) {
        SAME(old[i], rank + i);
        SAME(memory[1 + i], 2 * (before + i));
    }
    SAME(memory[0] + memory[5], 0);
    MPI_Win_detach(win, memory);
    MPI_Win_detach(win, memory + 3);
}

/* A type whose runs lie in two attached pieces, with memory between them that is not attached. */
static void pieces(MPI_Win win, int next, int before)
{
    int memory[9] = {0}, found[5] = {0}, values[5], ones[5] = {1, 1, 1, 1, 1};
    int lengths[2] = {2, 3}, last;
    MPI_Aint mine, theirs;
    MPI_Get_address(memory, &mine);
    MPI_Win_attach(win, memory, 2 * sizeof(int));
    MPI_Win_attach(win, memory + 6, 3 * sizeof(int));
    MPI_Sendrecv(&mine, 1, MPI_AINT, before, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
        MPI_STATUS_IGNORE);
    for (int other = 0; other < 2; other++) {
        int target = other ? next : rank;
        MPI_Aint base = other ? theirs : mine, at[2] = {base, MPI_Aint_add(base, 6 * sizeof(int))};
        MPI_Datatype both;
        MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &both);
        MPI_Type_commit(&both);
        for (int i = 0; i < 5; i++)
            values[i] = 100 * target + i;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        SAME(MPI_Put(values, 5, MPI_INT, target, 0, 1, both, win), MPI_SUCCESS);
        MPI_Win_flush(target, win);
        SAME(MPI_Accumulate(ones, 5, MPI_INT, target, 0, 1, both, MPI_SUM, win), MPI_SUCCESS);
        MPI_Win_flush(target, win);
        SAME(MPI_Get(found, 5, MPI_INT, target, 0, 1, both, win), MPI_SUCCESS);
        MPI_Win_unlock(target, win);
        for (int i = 0; i < 5; i++)
            SAME(found[i], values[i] + 1);
        MPI_Type_free(&both);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (last = 2; last < 6; last++)
        SAME(memory[last], 0);
    /* One run is not attached: nothing changes. */
    MPI_Aint at[2] = {mine, MPI_Aint_add(mine, 4 * sizeof(int))};
    MPI_Datatype beyond;
    MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &beyond);
    MPI_Type_commit(&beyond);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    RAISES(MPI_ERR_RMA_RANGE, MPI_Put(ones, 5, MPI_INT, rank, 0, 1, beyond, win));
    MPI_Win_unlock(rank, win);
    SAME(memory[0], 100 * rank + 1);
    MPI_Type_free(&beyond);
    MPI_Win_detach(win, memory);
    MPI_Win_detach(win, memory + 6);
}

static void dynamic(void)
{
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check_attributes(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    check_object(win);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 20; round++) {
        int memory[4] = {0}, value = 100 * round + rank;
        MPI_Aint address, theirs;
        MPI_Win_attach(win, memory, sizeof memory);
        MPI_Get_address(memory, &address);
        MPI_Sendrecv(&address, 1, MPI_AINT, before, 0, &theirs, 1, MPI_AINT, next, 0,
            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_INT, next, MPI_Aint_add(theirs, 2 * sizeof(int)), 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        SAME(memory[2], 100 * round + before);
        SAME(memory[1], 0);
        MPI_Win_detach(win, memory);
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int value = 1;
    RAISES(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, &value));
    MPI_Win_fence(0, win);
    /* Nothing is attached: the target refuses it, and the origin hears of it at the latest at the
     * end of the epoch. */
    int code = MPI_Put(&value, 1, MPI_INT, next, 64, 1, MPI_INT, win);
    int later = MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    RAISES(MPI_ERR_RMA_RANGE, code != MPI_SUCCESS ? code : later);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    code = MPI_Get(&value, 1, MPI_INT, next, 64, 1, MPI_INT, win);
    later = MPI_Win_flush(next, win);
    RAISES(MPI_ERR_RMA_RANGE, code != MPI_SUCCESS ? code : later);
    code = MPI_Fetch_and_op(&value, &value, MPI_INT, next, 64, MPI_SUM, win);
    later = MPI_Win_unlock(next, win);
    RAISES(MPI_ERR_RMA_RANGE, code != MPI_SUCCESS ? code : later);
    /* The handlers of communicators would end the job. */
    MPI_Request request;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    code = MPI_Rget(&value, 1, MPI_INT, next, 64, 1, MPI_INT, win, &request);
    RAISES(MPI_ERR_RMA_RANGE, code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Win_unlock(next, win);
    adjoining(win, next, before);
    pieces(win, next, before);
    free_window(&win);
}

static void misuse(void)
{
    int memory[4] = {0}, value = 3;
    MPI_Win win, freed;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    RAISES(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    RAISES(MPI_ERR_LOCKTYPE, MPI_Win_lock(0, 0, 0, win));
    RAISES(MPI_ERR_ASSERT, MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOSTORE, win));
    RAISES(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win));
    RAISES(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(win, memory, 4));
    MPI_Win_lock_all(0, win);
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    RAISES(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
    RAISES(MPI_ERR_DISP, MPI_Put(&value, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
    RAISES(MPI_ERR_RANK, MPI_Put(&value, 1, MPI_INT, ranks, 0, 1, MPI_INT, win));
    RAISES(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win));
    RAISES(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win));
    MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, -7, 1, MPI_INT, win);
    MPI_Win_unlock_all(win);
    /* An access that is refused begins no fence epoch. */
    MPI_Win_fence(0, win);
    RAISES(MPI_ERR_RMA_RANGE, MPI_Put(&value, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
    RAISES(MPI_ERR_RMA_RANGE, MPI_Get(&value, 2, MPI_INT, 0, 3, 2, MPI_INT, win));
    RAISES(MPI_ERR_OP, MPI_Accumulate(&value, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win));
    RAISES(MPI_ERR_TYPE, MPI_Compare_and_swap(&value, &value, &value, MPI_FLOAT, 0, 0, win));
    SAME(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
    MPI_Win_unlock(0, win);
    MPI_Get(&value, 1, MPI_INT, 0, 3, 1, MPI_INT, win);
    RAISES(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    freed = win;
    MPI_Win_free(&win);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    RAISES(MPI_ERR_WIN, MPI_Win_fence(0, freed));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    RAISES(MPI_ERR_SIZE,
        MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    RAISES(MPI_ERR_DISP,
        MPI_Win_create(memory, 1, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    create();
    allocated();
    shared("false");
    shared("true");
    shared("first");
    dynamic();
    misuse();
    return finish();
}
