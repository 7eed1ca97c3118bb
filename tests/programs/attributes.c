/* Attributes on communicators: keyvals freed in use, overwriting, copies as the copy function
 * decides, callbacks that fail. A library caches its state with a count of users; the attributes of
 * MPI_COMM_SELF go first in Finalize. Seed cases 13 and 27. */
#include "check.h"

static int copied, deleted, last_deleted, failing;

/* Values are numbers; a copy is ten more, an odd number is not copied. */
static int copy(MPI_Comm comm, int keyval, void *state, void *value, void *out, int *flag)
{
    int size;
    (void)keyval;
    MPI_Comm_size(comm, &size); /* it may call MPI */
    CHECK(state == &copied, "the copy function has another state");
    copied++;
    if (failing && (intptr_t)value == failing)
        return MPI_ERR_DIMS;
    *flag = (intptr_t)value % 2 == 0;
    *(intptr_t *)out = (intptr_t)value + 10;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *state)
{
    int size;
    (void)keyval;
    MPI_Comm_size(comm, &size);
    CHECK(state == &copied, "the delete function has another state");
    if (failing && (intptr_t)value == failing)
        return MPI_ERR_TOPOLOGY;
    deleted++;
    last_deleted = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

static int new_keyval(void)
{
    int keyval = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(copy, delete, &keyval, &copied);
    CHECK(keyval != MPI_KEYVAL_INVALID, "no keyval was made");
    return keyval;
}

/* The value under a key; -1 when there is none. */
static int value_of(MPI_Comm comm, int keyval)
{
    intptr_t value;
    int flag;
    MPI_Comm_get_attr(comm, keyval, &value, &flag);
    return flag ? (int)value : -1;
}

static void put_get_delete(void)
{
    MPI_Comm comm;
    int keyval = new_keyval(), stale = keyval;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    SAME(value_of(comm, keyval), -1);
    MPI_Comm_set_attr(comm, keyval, (void *)4);
    SAME(value_of(comm, keyval), 4);
    deleted = 0;
    MPI_Attr_put(comm, keyval, (void *)6); /* overwriting deletes the old one */
    SAME(value_of(comm, keyval), 6);
    CHECK(deleted == 1 && last_deleted == 4, "%d deleted, %d last", deleted, last_deleted);
    MPI_Comm_delete_attr(comm, keyval);
    CHECK(deleted == 2 && last_deleted == 6, "%d deleted, %d last", deleted, last_deleted);
    SAME(value_of(comm, keyval), -1);
    MPI_Comm_set_attr(comm, keyval, (void *)8);
    MPI_Comm_free_keyval(&keyval); /* while in use */
    SAME(keyval, MPI_KEYVAL_INVALID);
    RAISES(MPI_ERR_KEYVAL, MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, NULL));
    MPI_Comm_free(&comm);
    CHECK(deleted == 3 && last_deleted == 8, "%d deleted, %d last", deleted, last_deleted);
    RAISES(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_SELF, stale, NULL));
}

static void copies(void)
{
    MPI_Comm comm, twin, part;
    MPI_Request request;
    int mine = new_keyval(), plain, never;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &never, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, mine, (void *)2);
    MPI_Comm_set_attr(comm, plain, (void *)5);
    MPI_Comm_set_attr(comm, never, (void *)7);
    MPI_Comm_dup(comm, &twin);
    CHECK(value_of(twin, mine) == 12 && value_of(twin, plain) == 5 && value_of(twin, never) == -1, "%d, %d, %d",
          value_of(twin, mine), value_of(twin, plain), value_of(twin, never));
    MPI_Comm_free(&twin);
    MPI_Comm_set_attr(comm, mine, (void *)3); /* odd: is left over */
    MPI_Comm_idup(comm, &twin, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(value_of(twin, mine) == -1 && value_of(twin, plain) == 5, "%d, %d", value_of(twin, mine), value_of(twin, plain));
    MPI_Comm_free(&twin);
    MPI_Comm_split(comm, 0, rank, &part); /* only duplicates copy */
    SAME(value_of(part, plain), -1);
    MPI_Comm_free(&part);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&mine), MPI_Comm_free_keyval(&plain), MPI_Comm_free_keyval(&never);
}

/* A callback that fails makes the call fail, and nothing is half done. */
static void failing_callbacks(void)
{
    MPI_Comm comm, twin = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int first = new_keyval(), second = new_keyval();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, first, (void *)2);
    MPI_Comm_set_attr(comm, second, (void *)4);
    failing = 4;
    deleted = 0;
    RAISES(MPI_ERR_DIMS, MPI_Comm_dup(comm, &twin));
    CHECK(deleted <= 1 && (deleted == 0 || last_deleted == 12), "%d copies were deleted, %d last", deleted, last_deleted);
    RAISES(MPI_ERR_DIMS, MPI_Comm_idup(comm, &twin, &request));
    CHECK(twin == MPI_COMM_NULL && request == MPI_REQUEST_NULL, "Comm_idup fails and returns handles");
    RAISES(MPI_ERR_TOPOLOGY, MPI_Comm_delete_attr(comm, second));
    SAME(value_of(comm, second), 4);
    RAISES(MPI_ERR_TOPOLOGY, MPI_Comm_set_attr(comm, second, (void *)6));
    SAME(value_of(comm, second), 4);
    RAISES(MPI_ERR_TOPOLOGY, MPI_Comm_free(&comm));
    CHECK(comm != MPI_COMM_NULL, "a communicator whose attribute stays is freed");
    MPI_Barrier(comm);
    failing = 0;
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&first), MPI_Comm_free_keyval(&second);
}

/* ---- a library that keeps its state on the communicator that it is given ---- */

typedef struct {
    MPI_Comm own;
    int users, calls;
} State;

static int library_key = MPI_KEYVAL_INVALID, states;

static int share_state(MPI_Comm comm, int keyval, void *extra, void *value, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    ((State *)value)->users++;
    *(void **)out = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int leave_state(MPI_Comm comm, int keyval, void *value, void *extra)
{
    State *state = value;
    (void)comm, (void)keyval, (void)extra;
    if (--state->users == 0) {
        MPI_Comm_free(&state->own);
        free(state);
        states--;
    }
    return MPI_SUCCESS;
}

/* The sum of the ranks, on a communicator of the library's own. */
static int library_sum(MPI_Comm comm)
{
    State *state;
    int flag, sum;
    if (library_key == MPI_KEYVAL_INVALID)
        MPI_Comm_create_keyval(share_state, leave_state, &library_key, NULL);
    MPI_Comm_get_attr(comm, library_key, &state, &flag);
    if (!flag) {
        state = allocate(sizeof *state);
        MPI_Comm_dup(comm, &state->own);
        state->users = 1;
        states++;
        MPI_Comm_set_attr(comm, library_key, state);
    }
    state->calls++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, state->own);
    return sum;
}

static void library(void)
{
    MPI_Comm one, two, three;
    State *state;
    int flag;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    SAME(library_sum(one), ranks * (ranks - 1) / 2);
    MPI_Comm_dup(one, &two);
    SAME(library_sum(two), ranks * (ranks - 1) / 2);
    SAME(states, 1);
    MPI_Comm_get_attr(two, library_key, &state, &flag);
    CHECK(flag && state->users == 2 && state->calls == 2, "%d users, %d calls", state->users, state->calls);
    MPI_Comm_free(&one);
    SAME(library_sum(two), ranks * (ranks - 1) / 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &three);
    library_sum(three);
    SAME(states, 2);
    MPI_Comm_free_keyval(&library_key);
    MPI_Comm_free(&two);
    MPI_Comm_free(&three);
    SAME(states, 0);
}

/* ---- Finalize ------------------------------------------------------------------ */

static int at_end;

/* The newest goes first, while MPI still works. */
static int delete_at_end(MPI_Comm comm, int keyval, void *value, void *state)
{
    int finalized = 1, got = -1;
    (void)keyval, (void)state;
    MPI_Finalized(&finalized);
    CHECK(!finalized && comm == MPI_COMM_SELF, "finalized is %d", finalized);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 1, &got, 1, MPI_INT, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(got, (rank + ranks - 1) % ranks);
    SAME((intptr_t)value, 3 - ++at_end);
    if (at_end == 3 && rank == 0)
        printf("ok\n");
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int i, keyval;
    start(&argc, &argv);
    let_errors_return();
    put_get_delete();
    copies();
    failing_callbacks();
    library();
    for (i = 0; i < 3; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_at_end, &keyval, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keyval, (void *)(intptr_t)i);
        MPI_Comm_free_keyval(&keyval);
    }
    MPI_Finalize();
    CHECK(at_end == 3, "%d of 3 attributes of MPI_COMM_SELF were deleted", at_end);
    return 0;
}
