/* Results of errors: MPI_ERR_IN_STATUS of the calls with arrays of statuses, and handlers that are
   called by hand. Also the user's own classes, codes and strings, and the hints of a duplicate.
   With `abort` or `call`, the job ends. */
#include "check.h"

enum { GOOD, LONG, LATE };

static int from[4] = {1, 2, 3, 4}, to[4];
static int handled, handled_code;
static MPI_Comm handled_on;

static void handler(MPI_Comm *on, int *code, ...)
{
    handled++;
    handled_on = *on;
    handled_code = *code;
}

static void send(int which, int count)
{
    MPI_Request request;
    MPI_Isend(from, count, MPI_INT, rank, which, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
}

/* Three receives from this process: the middle one is too short for its message. */
static void post(MPI_Request *requests, MPI_Status *statuses)
{
    int i;
    for (i = 0; i < 3; i++) {
        MPI_Irecv(&to[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
        statuses[i].MPI_ERROR = 777;
    }
    send(GOOD, 1);
    send(LONG, 2);
}

static void expect(const MPI_Request *requests, const MPI_Status *statuses)
{
    char text[MPI_MAX_ERROR_STRING];
    int i, length;
    for (i = 0; i < 3; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is not null", i);
        SAME(class_of(statuses[i].MPI_ERROR), i == LONG ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        SAME(statuses[i].MPI_TAG, i);
    }
    MPI_Error_string(statuses[LONG].MPI_ERROR, text, &length);
    CHECK(strstr(text, "MPI_ERR_TRUNCATE") && strstr(text, "8 bytes"), "the status says '%s'", text);
}

static void all_at_once(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int flag = 1;
    post(requests, statuses), send(LATE, 1);
    RAISES(MPI_ERR_IN_STATUS, MPI_Waitall(3, requests, statuses));
    expect(requests, statuses);
    post(requests, statuses), send(LATE, 1);
    RAISES(MPI_ERR_IN_STATUS, MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    post(requests, statuses);
    SAME(MPI_Testall(3, requests, &flag, statuses), MPI_SUCCESS); /* nothing is reported before all is complete */
    SAME(flag, 0);
    send(LATE, 1);
    RAISES(MPI_ERR_IN_STATUS, MPI_Testall(3, requests, &flag, statuses));
    SAME(flag, 1);
    expect(requests, statuses);
}

/* Waitsome and Testsome return those that are complete, failed or not. */
static void some(int by_test)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int indices[3], count = -1, i;
    post(requests, statuses);
    if (by_test)
        RAISES(MPI_ERR_IN_STATUS, MPI_Testsome(3, requests, &count, indices, statuses));
    else
        RAISES(MPI_ERR_IN_STATUS, MPI_Waitsome(3, requests, &count, indices, statuses));
    SAME(count, 2);
    for (i = 0; i < 2; i++) {
        SAME(indices[i], i);
        SAME(class_of(statuses[i].MPI_ERROR), i == LONG ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    }
    CHECK(requests[LATE] != MPI_REQUEST_NULL, "the request that is not complete is null");
    send(LATE, 1);
    SAME(MPI_Waitsome(3, requests, &count, indices, statuses), MPI_SUCCESS);
    CHECK(count == 1 && indices[0] == LATE, "%d complete, the first is %d", count, indices[0]);
}

/* Calls with one status give the class itself. */
static void one(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3], status;
    int index = -1, flag = 0;
    post(requests, statuses), send(LATE, 1);
    status.MPI_ERROR = 777;
    RAISES(MPI_ERR_TRUNCATE, MPI_Wait(&requests[LONG], &status));
    SAME(status.MPI_ERROR, 777);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    post(requests, statuses), send(LATE, 1);
    SAME(MPI_Waitany(3, requests, &index, &status), MPI_SUCCESS);
    SAME(index, GOOD);
    RAISES(MPI_ERR_TRUNCATE, MPI_Testany(3, requests, &index, &flag, &status));
    CHECK(flag && index == LONG && requests[LONG] == MPI_REQUEST_NULL, "Testany gives %d, %d", flag, index);
    SAME(MPI_Wait(&requests[LATE], MPI_STATUS_IGNORE), MPI_SUCCESS);
}

/* A persistent receive that fails is inactive, and can be started again. */
static void persistent(void)
{
    MPI_Request requests[1];
    MPI_Status status;
    MPI_Recv_init(to, 1, MPI_INT, rank, LONG, MPI_COMM_WORLD, &requests[0]);
    MPI_Startall(1, requests), send(LONG, 2);
    RAISES(MPI_ERR_IN_STATUS, MPI_Waitall(1, requests, &status));
    SAME(class_of(status.MPI_ERROR), MPI_ERR_TRUNCATE);
    CHECK(requests[0] != MPI_REQUEST_NULL, "a persistent request is null");
    MPI_Startall(1, requests), send(LONG, 1);
    SAME(MPI_Waitall(1, requests, &status), MPI_SUCCESS);
    MPI_Request_free(&requests[0]);
}

static int user_code;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return user_code;
}

static int nothing(void *state) { return state != NULL; }
static int no_cancel(void *state, int complete) { return state != NULL && complete; }

/* The code of a callback is in the status as it is. */
static void looked_after(void)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, nothing, no_cancel, NULL, &request);
    MPI_Grequest_complete(request);
    RAISES(MPI_ERR_IN_STATUS, MPI_Waitall(1, &request, &status));
    SAME(status.MPI_ERROR, user_code);
    MPI_Grequest_start(query, nothing, no_cancel, NULL, &request);
    MPI_Grequest_complete(request);
    SAME(MPI_Wait(&request, &status), user_code);
}

static void handlers(void)
{
    MPI_Comm comm, other;
    MPI_Errhandler mine, twin, got;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_create_errhandler(handler, &twin);
    CHECK(twin != mine, "two handlers of one function have one handle");
    MPI_Errhandler_free(&twin);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Comm_get_errhandler(comm, &got);
    CHECK(got == mine, "another handle than the one that was set");
    MPI_Errhandler_free(&got);
    MPI_Comm_dup(comm, &other); /* `mine` is still valid */
    MPI_Comm_set_errhandler(other, mine);
    MPI_Comm_get_errhandler(other, &got);
    CHECK(got == mine, "another handle than the one that was set, after a free");
    MPI_Errhandler_free(&got);
    MPI_Comm_free(&other);
    MPI_Errhandler_free(&mine);
    SAME(MPI_Comm_call_errhandler(comm, user_code), MPI_SUCCESS);
    CHECK(handled == 1 && handled_on == comm && handled_code == user_code, "%d calls, code %d", handled, handled_code);
    MPI_Comm_dup(comm, &other); /* handlers are inherited */
    MPI_Irecv(to, 1, MPI_INT, rank, 0, other, &requests[1]);
    MPI_Send(from, 2, MPI_INT, rank, 0, other);
    code = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(handled == 2 && handled_on == other && handled_code == code, "%d calls, code %d", handled, handled_code);
    SAME(class_of(code), MPI_ERR_IN_STATUS);
    MPI_Comm_get_errhandler(other, &got);
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    SAME(MPI_Comm_call_errhandler(other, MPI_ERR_OTHER), MPI_SUCCESS);
    SAME(handled, 2);
    MPI_Comm_set_errhandler(other, got);
    MPI_Errhandler_free(&got);
    RAISES(MPI_ERR_RANK, MPI_Send(from, 1, MPI_INT, ranks, 0, other));
    SAME(handled, 3);
    MPI_Comm_free(&other);
    MPI_Comm_free(&comm);
}

static void own_classes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, code, last, *last_used, flag, length;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &flag);
    CHECK(flag && *last_used >= MPI_ERR_LASTCODE, "the last code is %d", *last_used);
    last = *last_used;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    CHECK(class > last && code > class, "class %d and code %d after %d", class, code, last);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &flag);
    SAME(*last_used, code);
    MPI_Error_string(code, text, &length);
    SAME(length, 0);
    MPI_Add_error_string(code, "the soup is cold");
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "the soup is cold") && length == 16, "the text is '%s'", text);
    SAME(class_of(code), class);
    RAISES(MPI_ERR_ARG, MPI_Remove_error_class(class)); /* it has a code */
    RAISES(MPI_ERR_ARG, MPI_Remove_error_code(code));   /* it has a text */
    MPI_Remove_error_string(code);
    MPI_Remove_error_code(code);
    MPI_Remove_error_class(class);
    RAISES(MPI_ERR_ARG, MPI_Error_class(code, &flag));
    RAISES(MPI_ERR_ARG, MPI_Error_string(class, text, &length));
}

#define HINT "mpi_assert_no_any_tag"

static void hint_is(MPI_Comm comm, const char *wanted)
{
    char value[MPI_MAX_INFO_VAL] = "";
    int length = sizeof value, flag;
    MPI_Info info;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, HINT, &length, value, &flag);
    CHECK(flag && !strcmp(value, wanted), "the hint is '%s', not '%s'", value, wanted);
    MPI_Info_free(&info);
}

/* A duplicate has the hints that it is given, not those of its model (MPI-5.0 7.4.2). */
static void hints_of_duplicates(void)
{
    MPI_Comm model, made;
    MPI_Info info;
    MPI_Request request;
    MPI_Info_create(&info);
    MPI_Info_set(info, HINT, "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &model);
    hint_is(model, "true");
    MPI_Comm_dup(model, &made), hint_is(made, "false"), MPI_Comm_free(&made);
    MPI_Comm_dup_with_info(model, MPI_INFO_NULL, &made), hint_is(made, "false"), MPI_Comm_free(&made);
    MPI_Comm_idup(model, &made, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
    hint_is(made, "false"), MPI_Comm_free(&made);
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &made, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
    hint_is(made, "true"), MPI_Comm_free(&made);
    hint_is(MPI_COMM_WORLD, "false");
    MPI_Info_free(&info);
    MPI_Comm_free(&model);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "abort")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == ranks - 1)
            MPI_Send(from, 1, MPI_INT, ranks + 3, 0, MPI_COMM_WORLD);
    } else if (argc > 1 && rank == ranks - 1)
        MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_DIMS);
    if (argc > 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        FAIL("the job goes on after a fatal error");
    }
    let_errors_return();
    MPI_Add_error_code(MPI_ERR_OTHER, &user_code);
    all_at_once();
    some(0), some(1);
    one();
    persistent();
    looked_after();
    handlers();
    own_classes();
    hints_of_duplicates();
    return finish();
}
