/* Each argument of each call, wrong in each way: the call gives the error class of the table, and
 * does no harm. First each call is made with right arguments, or what follows would prove nothing.
 *
 * `each_argument.h` gives for each call the kind of each argument; `make_kinds` gives for each kind
 * which value is right and which are wrong. All arguments travel as integers of pointer size, as
 * the machines' calling conventions have it. With `names`, prints the calls of the table
 * instead. */
#include "check.h"
#include <limits.h>

typedef intptr_t Value;
typedef int Function(Value, Value, Value, Value, Value, Value, Value, Value, Value, Value, Value, Value, Value);

enum { MOST_ARGUMENTS = 13, MOST_WRONG = 8, MOST_KINDS = 170 };

/* ---- the table ------------------------------------------------------------- */

enum { BASED = 1, BASELESS = 2, NOTHING = 4 };

typedef struct {
    const char *name;
    Function *function;
    const char *words;
    int flags;
} Row;

#define ROW(name, words) {#name, (Function *)(name), words, BASED},
#define BAD(name, words) {#name, (Function *)(name), words, BASELESS},
#define NONE(name, why) {#name, (Function *)0, why, NOTHING},
#define BOTH(name, words) ROW(name, words) ROW(name##_c, words)
#define BADBOTH(name, words) BAD(name, words) BAD(name##_c, words)
#define COLLECTIVE(name, lower, words) \
    BOTH(MPI_##name, words) BOTH(MPI_I##lower, words " newreq") BOTH(MPI_##name##_init, words " info newreq")

#pragma GCC diagnostic ignored "-Wcast-function-type"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static const Row rows[] = {
#include "each_argument.h"
};

/* ---- kinds of arguments ------------------------------------------------------ */

typedef struct {
    const char *what;
    Value value;
    int class;
    const char *class_name;
} Wrong;

typedef struct {
    const char *name;
    Value right;
    int wrongs;
    Wrong wrong[MOST_WRONG];
} Kind;

static Kind kinds[MOST_KINDS];
static int kind_count;

/* A kind of calls with large counts only. */
#define LARGE(name) name "_c"

static Kind *known(const char *name, size_t length)
{
    int i;
    for (i = 0; i < kind_count; i++)
        if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, name, length))
            return &kinds[i];
    return NULL;
}

static Kind *begin(const char *name, Value right)
{
    Kind *kind = &kinds[kind_count++];
    CHECK(kind_count <= MOST_KINDS, "too many kinds");
    memset(kind, 0, sizeof *kind);
    kind->name = name;
    kind->right = right;
    return kind;
}

static void wrong(Kind *kind, const char *what, Value value, int class, const char *class_name)
{
    Wrong it = {what, value, class, class_name};
    CHECK(kind->wrongs < MOST_WRONG, "too many wrong values for %s", kind->name);
    kind->wrong[kind->wrongs++] = it;
}

/* Values that are wrong for `other` are wrong here too. */
static void as(Kind *kind, const char *other)
{
    const Kind *from = known(other, strlen(other));
    kind->wrongs = from->wrongs;
    memcpy(kind->wrong, from->wrong, sizeof from->wrong);
}

#define KIND(name, right) kind = begin(name, (Value)(right))
#define WRONG(value, class) wrong(kind, #value, (Value)(value), class, #class)

static const int ones[64] = {[0 ... 63] = 1}, negative[64] = {-1}, too_many[64] = {1 << 30}, twos[64] = {[0 ... 63] = 2};
static const MPI_Count large_ones[64] = {[0 ... 63] = 1}, large_negative[64] = {-1};
static const int first_only[1][3] = {{0, 0, 1}}, no_stride[1][3] = {{0, 0, 0}}, outside[1][3] = {{0, 1 << 30, 1}};
static MPI_Datatype int_types[64], null_types[64], uncommitted_types[64];
static MPI_Status status;
static int dims;
static int64_t zeros[64], space[MPI_MAX_LIBRARY_VERSION_STRING / 8];
static int data[64], more[64];

/* Things that calls make, or use up; the latter are made afresh. */
static MPI_Comm comm, self, inter, cart, graph, dist, new_comm, freed_comm, own_comm;
static MPI_Group group, self_group, new_group, freed_group, own_group;
static MPI_Datatype derived, uncommitted, new_type, freed_type, own_type;
static MPI_Op user_op, new_op, freed_op;
static MPI_Info info, new_info, freed_info, own_info;
static MPI_Errhandler new_handler, freed_handler, own_handler, comm_handler, session_handler;
static MPI_Session session, new_session, freed_session, own_session;
static MPI_Request new_request, freed_request, active, persistent, generalized, new_generalized;
static MPI_Message message;
static int own_keyval, own_type_keyval, own_win_keyval, freed_keyval;
static int new_keyval, new_type_keyval, new_win_keyval, user_code, new_class, new_code;
static MPI_Win win, own_win, new_win, freed_win;
static MPI_Errhandler win_handler, file_handler;
static void *memory;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int nothing(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int no_cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void no_handler(MPI_Comm *on, int *code, ...) { (void)on, (void)code; }
static void no_win_handler(MPI_Win *on, int *code, ...) { (void)on, (void)code; }
static void no_file_handler(MPI_File *on, int *code, ...) { (void)on, (void)code; }
static void no_session_handler(MPI_Session *on, int *code, ...) { (void)on, (void)code; }

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int i;
    (void)type;
    for (i = 0; i < *length; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

#define FREE(slot, null, call) \
    if ((slot) != (null)) \
    call(&(slot))
#define MAKE(slot, null, ...) \
    if ((slot) == (null)) \
    __VA_ARGS__

/* Frees what the last call has made. */
static void tidy(void)
{
    if (new_request != MPI_REQUEST_NULL)
        MPI_Wait(&new_request, MPI_STATUS_IGNORE);
    FREE(new_request, MPI_REQUEST_NULL, MPI_Request_free);
    FREE(new_comm, MPI_COMM_NULL, MPI_Comm_free);
    FREE(new_group, MPI_GROUP_NULL, MPI_Group_free);
    FREE(new_type, MPI_DATATYPE_NULL, MPI_Type_free);
    FREE(new_op, MPI_OP_NULL, MPI_Op_free);
    FREE(new_info, MPI_INFO_NULL, MPI_Info_free);
    FREE(new_handler, MPI_ERRHANDLER_NULL, MPI_Errhandler_free);
    FREE(new_session, MPI_SESSION_NULL, MPI_Session_finalize);
    FREE(new_win, MPI_WIN_NULL, MPI_Win_free);
    FREE(new_keyval, MPI_KEYVAL_INVALID, MPI_Comm_free_keyval);
    FREE(new_type_keyval, MPI_KEYVAL_INVALID, MPI_Type_free_keyval);
    FREE(new_win_keyval, MPI_KEYVAL_INVALID, MPI_Win_free_keyval);
    if (new_code)
        MPI_Remove_error_code(new_code);
    if (new_class)
        MPI_Remove_error_class(new_class);
    if (memory)
        MPI_Free_mem(memory);
    if (new_generalized != MPI_REQUEST_NULL)
        MPI_Grequest_complete(new_generalized), MPI_Wait(&new_generalized, MPI_STATUS_IGNORE);
    new_code = new_class = 0;
    memory = NULL;
}

/* Makes what the next call may use up. */
static void renew(void)
{
    int flag;
    MAKE(own_comm, MPI_COMM_NULL, MPI_Comm_dup(MPI_COMM_SELF, &own_comm));
    MAKE(own_group, MPI_GROUP_NULL, MPI_Comm_group(MPI_COMM_WORLD, &own_group));
    MAKE(own_type, MPI_DATATYPE_NULL, MPI_Type_contiguous(3, MPI_INT, &own_type));
    MAKE(user_op, MPI_OP_NULL, MPI_Op_create(add, 1, &user_op));
    MAKE(own_info, MPI_INFO_NULL, MPI_Info_create(&own_info), MPI_Info_set(own_info, "key", "value"));
    MAKE(own_handler, MPI_ERRHANDLER_NULL, MPI_Comm_create_errhandler(no_handler, &own_handler));
    MAKE(own_session, MPI_SESSION_NULL, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own_session));
    if (own_win == MPI_WIN_NULL) {
        MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, self, &own_win);
        MPI_Win_set_errhandler(own_win, MPI_ERRORS_RETURN);
    }
    MAKE(own_keyval, MPI_KEYVAL_INVALID, MPI_Comm_create_keyval(0, 0, &own_keyval, NULL));
    MAKE(own_type_keyval, MPI_KEYVAL_INVALID, MPI_Type_create_keyval(0, 0, &own_type_keyval, NULL));
    MAKE(own_win_keyval, MPI_KEYVAL_INVALID, MPI_Win_create_keyval(0, 0, &own_win_keyval, NULL));
    MAKE(persistent, MPI_REQUEST_NULL, MPI_Recv_init(data, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &persistent));
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Wait(&active, MPI_STATUS_IGNORE);
    MPI_Irecv(data, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &active);
    MPI_Test(&generalized, &flag, MPI_STATUS_IGNORE);
    MAKE(generalized, MPI_REQUEST_NULL, MPI_Grequest_start(query, nothing, no_cancel, NULL, &generalized));
    message = MPI_MESSAGE_NO_PROC;
    memset(zeros, 0, sizeof zeros);
}

static Value values[256];
static int value_count;

/* The address of a value, as an array of one or where a call takes a handle's address. */
static Value held(Value value)
{
    CHECK(value_count < 256, "too many values are held");
    values[value_count] = value;
    return (Value)&values[value_count++];
}

#define HELD(value) held((Value)(value))
#define GARBAGE 0x123456789abcd8

/* Handles: null, freed, of another class, and no handle at all. */
static void make_handle_kinds(void)
{
    Kind *kind;
    KIND("namedcomm", comm);
    WRONG(freed_comm, MPI_ERR_COMM), WRONG(MPI_INT, MPI_ERR_COMM);
    WRONG(GARBAGE, MPI_ERR_COMM), WRONG(0, MPI_ERR_COMM);
    KIND("comm", comm), as(kind, "namedcomm"), WRONG(MPI_COMM_NULL, MPI_ERR_COMM);
    KIND("self", self), as(kind, "comm");
    KIND("inter", inter), as(kind, "comm"), WRONG(comm, MPI_ERR_COMM);
    KIND("cart", cart), as(kind, "comm"), WRONG(comm, MPI_ERR_TOPOLOGY), WRONG(graph, MPI_ERR_TOPOLOGY);
    KIND("graph", graph), as(kind, "comm"), WRONG(comm, MPI_ERR_TOPOLOGY), WRONG(cart, MPI_ERR_TOPOLOGY);
    KIND("dist", dist), as(kind, "comm"), WRONG(comm, MPI_ERR_TOPOLOGY), WRONG(cart, MPI_ERR_TOPOLOGY);
    KIND("topo", dist), as(kind, "comm"), WRONG(comm, MPI_ERR_TOPOLOGY);
    KIND("group", group);
    WRONG(MPI_GROUP_NULL, MPI_ERR_GROUP), WRONG(freed_group, MPI_ERR_GROUP), WRONG(MPI_COMM_WORLD, MPI_ERR_GROUP);
    WRONG(GARBAGE, MPI_ERR_GROUP);
    KIND("selfgroup", self_group), as(kind, "group");
    KIND("namedtype", MPI_INT);
    WRONG(freed_type, MPI_ERR_TYPE), WRONG(MPI_SUM, MPI_ERR_TYPE);
    WRONG(GARBAGE, MPI_ERR_TYPE);
    KIND("type", MPI_INT), as(kind, "namedtype"), WRONG(MPI_DATATYPE_NULL, MPI_ERR_TYPE);
    KIND("ctype", MPI_INT), as(kind, "type"), WRONG(uncommitted, MPI_ERR_TYPE);
    KIND("rtype", MPI_INT), as(kind, "ctype"), WRONG(derived, MPI_ERR_OP), WRONG(MPI_2INT, MPI_ERR_OP);
    KIND("derived", derived), as(kind, "type");
    KIND("op", MPI_SUM);
    WRONG(MPI_OP_NULL, MPI_ERR_OP), WRONG(freed_op, MPI_ERR_OP), WRONG(MPI_INT, MPI_ERR_OP), WRONG(GARBAGE, MPI_ERR_OP);
    KIND("info", info);
    WRONG(freed_info, MPI_ERR_INFO), WRONG(MPI_INT, MPI_ERR_INFO), WRONG(GARBAGE, MPI_ERR_INFO);
    KIND("realinfo", own_info), as(kind, "info"), WRONG(MPI_INFO_NULL, MPI_ERR_INFO);
    KIND("session", session);
    WRONG(MPI_SESSION_NULL, MPI_ERR_SESSION), WRONG(freed_session, MPI_ERR_SESSION);
    WRONG(MPI_COMM_WORLD, MPI_ERR_SESSION), WRONG(GARBAGE, MPI_ERR_SESSION);
    KIND("win", win);
    WRONG(freed_win, MPI_ERR_WIN), WRONG(MPI_INT, MPI_ERR_WIN), WRONG(GARBAGE, MPI_ERR_WIN), WRONG(0, MPI_ERR_WIN);
    KIND("livewin", win), as(kind, "win"), WRONG(MPI_WIN_NULL, MPI_ERR_WIN);
    /* MPI_FILE_NULL names the handler of files that are opened later. */
    KIND("file", MPI_FILE_NULL), WRONG(MPI_INT, MPI_ERR_FILE), WRONG(GARBAGE, MPI_ERR_FILE);
    KIND("anyhandler", comm_handler);
    WRONG(MPI_ERRHANDLER_NULL, MPI_ERR_ERRHANDLER), WRONG(freed_handler, MPI_ERR_ERRHANDLER);
    WRONG(MPI_INT, MPI_ERR_ERRHANDLER), WRONG(GARBAGE, MPI_ERR_ERRHANDLER);
    KIND("errhandler", comm_handler), as(kind, "anyhandler"), WRONG(session_handler, MPI_ERR_ERRHANDLER);
    KIND("sessionhandler", session_handler), as(kind, "anyhandler"), WRONG(comm_handler, MPI_ERR_ERRHANDLER);
    KIND("winhandler", win_handler), as(kind, "anyhandler"), WRONG(comm_handler, MPI_ERR_ERRHANDLER);
    KIND("filehandler", file_handler), as(kind, "anyhandler"), WRONG(win_handler, MPI_ERR_ERRHANDLER);
    KIND("request", active);
    WRONG(freed_request, MPI_ERR_REQUEST), WRONG(MPI_COMM_WORLD, MPI_ERR_REQUEST), WRONG(GARBAGE, MPI_ERR_REQUEST);
    KIND("live", active), as(kind, "request"), WRONG(MPI_REQUEST_NULL, MPI_ERR_REQUEST);
    KIND("startable", persistent), as(kind, "live"), WRONG(active, MPI_ERR_REQUEST);
    KIND("greq", generalized), as(kind, "startable");
    KIND("message", message), WRONG(MPI_MESSAGE_NULL, MPI_ERR_REQUEST), WRONG(active, MPI_ERR_REQUEST);
    WRONG(GARBAGE, MPI_ERR_REQUEST);
    KIND("keyval", own_keyval);
    WRONG(MPI_KEYVAL_INVALID, MPI_ERR_KEYVAL), WRONG(freed_keyval, MPI_ERR_KEYVAL);
    WRONG(own_type_keyval, MPI_ERR_KEYVAL), WRONG(-7, MPI_ERR_KEYVAL);
    KIND("ownkeyval", own_keyval), as(kind, "keyval"), WRONG(MPI_TAG_UB, MPI_ERR_KEYVAL);
    KIND("winkeyval", own_win_keyval), WRONG(MPI_KEYVAL_INVALID, MPI_ERR_KEYVAL), WRONG(freed_keyval, MPI_ERR_KEYVAL);
    WRONG(own_keyval, MPI_ERR_KEYVAL);
    KIND("typekeyval", own_type_keyval), WRONG(MPI_KEYVAL_INVALID, MPI_ERR_KEYVAL);
    WRONG(freed_keyval, MPI_ERR_KEYVAL), WRONG(own_keyval, MPI_ERR_KEYVAL), WRONG(MPI_TAG_UB, MPI_ERR_KEYVAL);
}

/* A kind whose values are the addresses of those of the kind `of`. */
static Kind *address(const char *name, Value right, const char *of)
{
    const Kind *from = known(of, strlen(of));
    Kind *kind;
    int i;
    KIND(name, right);
    for (i = 0; i < from->wrongs; i++)
        wrong(kind, from->wrong[i].what, held(from->wrong[i].value), from->wrong[i].class, from->wrong[i].class_name);
    WRONG(NULL, MPI_ERR_ARG);
    return kind;
}

#define ADDRESS(name, right, of) kind = address(name, (Value)(right), of)

static void make_address_kinds(void)
{
    Kind *kind;
    ADDRESS("comm&", &own_comm, "comm"), WRONG(HELD(MPI_COMM_WORLD), MPI_ERR_COMM);
    ADDRESS("group&", &own_group, "group");
    ADDRESS("anytype&", &own_type, "type");
    ADDRESS("type&", &own_type, "type"), WRONG(HELD(MPI_INT), MPI_ERR_TYPE);
    ADDRESS("op&", &user_op, "op"), WRONG(HELD(MPI_SUM), MPI_ERR_OP);
    ADDRESS("info&", &own_info, "realinfo"), WRONG(HELD(MPI_INFO_ENV), MPI_ERR_INFO);
    ADDRESS("errhandler&", &own_handler, "anyhandler");
    ADDRESS("session&", &own_session, "session");
    ADDRESS("request&", &active, "request");
    ADDRESS("live&", &active, "live");
    ADDRESS("startable&", &persistent, "startable");
    ADDRESS("message&", &message, "message");
    ADDRESS("win&", &own_win, "livewin");
    ADDRESS("keyval&", &own_keyval, "ownkeyval");
    ADDRESS("typekeyval&", &own_type_keyval, "typekeyval");
    ADDRESS("winkeyval&", &own_win_keyval, "typekeyval");
}

/* Arrays, and numbers. */
static void make_number_kinds(void)
{
    Kind *kind;
    KIND("n", 1), WRONG(-1, MPI_ERR_COUNT), WRONG(INT_MIN, MPI_ERR_COUNT);
    KIND("dest", MPI_PROC_NULL);
    WRONG(MPI_ANY_SOURCE, MPI_ERR_RANK), WRONG(-5, MPI_ERR_RANK), WRONG(ranks, MPI_ERR_RANK), WRONG(1 << 30, MPI_ERR_RANK);
    KIND("source", MPI_PROC_NULL), WRONG(-5, MPI_ERR_RANK), WRONG(ranks, MPI_ERR_RANK), WRONG(INT_MIN, MPI_ERR_RANK);
    KIND("target", MPI_PROC_NULL), WRONG(-5, MPI_ERR_RANK), WRONG(ranks, MPI_ERR_RANK), WRONG(1 << 30, MPI_ERR_RANK);
    KIND("winrank", 0), WRONG(-5, MPI_ERR_RANK), WRONG(ranks, MPI_ERR_RANK), WRONG(1 << 30, MPI_ERR_RANK);
    KIND("winsize", 8), WRONG(-1, MPI_ERR_SIZE);
    KIND("unit", 4), WRONG(0, MPI_ERR_DISP), WRONG(-1, MPI_ERR_DISP);
    KIND("assert", 0), WRONG(1, MPI_ERR_ASSERT), WRONG(-1, MPI_ERR_ASSERT);
    KIND("locktype", MPI_LOCK_SHARED), WRONG(0, MPI_ERR_LOCKTYPE), WRONG(-1, MPI_ERR_LOCKTYPE);
    KIND("leader", 0), WRONG(-1, MPI_ERR_RANK), WRONG(1, MPI_ERR_RANK), WRONG(MPI_ANY_SOURCE, MPI_ERR_RANK);
    KIND("degree", 1), WRONG(-1, MPI_ERR_ARG), WRONG(INT_MIN, MPI_ERR_ARG);
    KIND("rank", 0), WRONG(-1, MPI_ERR_RANK), WRONG(ranks, MPI_ERR_RANK), WRONG(MPI_PROC_NULL, MPI_ERR_RANK);
    KIND("stag", 0), WRONG(MPI_ANY_TAG, MPI_ERR_TAG), WRONG(-1, MPI_ERR_TAG), WRONG(INT_MIN, MPI_ERR_TAG);
    KIND("rtag", 0), WRONG(-3, MPI_ERR_TAG), WRONG(-1, MPI_ERR_TAG), WRONG(INT_MIN, MPI_ERR_TAG);
    KIND("root", 0), WRONG(-1, MPI_ERR_ROOT), WRONG(ranks, MPI_ERR_ROOT), WRONG(MPI_ROOT, MPI_ERR_ROOT);
    WRONG(MPI_PROC_NULL, MPI_ERR_ROOT);
    KIND("positive", 1), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("size", 8), WRONG(-1, MPI_ERR_ARG);
    KIND("length", 1), WRONG(-1, MPI_ERR_ARG);
    KIND("ndims", 1), WRONG(-1, MPI_ERR_DIMS);
    KIND("maxdims", 1), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("maxnodes", 64), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("max1", 1), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("direction", 0), WRONG(-1, MPI_ERR_DIMS), WRONG(1, MPI_ERR_DIMS);
    KIND("nnodes", 1), WRONG(-1, MPI_ERR_ARG), WRONG(ranks + 1, MPI_ERR_ARG);
    KIND("colour", 0), WRONG(-1, MPI_ERR_ARG), WRONG(INT_MIN, MPI_ERR_ARG);
    KIND("splittype", MPI_COMM_TYPE_SHARED), WRONG(-1, MPI_ERR_ARG), WRONG(1 << 20, MPI_ERR_ARG);
    KIND("order", MPI_ORDER_C), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("darraysize", 1), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG), WRONG(2, MPI_ERR_ARG);
    KIND("darrayrank", 0), WRONG(-1, MPI_ERR_ARG), WRONG(1, MPI_ERR_ARG);
    KIND("precision", 6), WRONG(1000, MPI_ERR_ARG);
    KIND("typeclass", MPI_TYPECLASS_REAL), WRONG(0, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("size8", 8), WRONG(3, MPI_ERR_ARG), WRONG(-1, MPI_ERR_ARG);
    KIND("packsize", 64), WRONG(-1, MPI_ERR_ARG), WRONG(3, MPI_ERR_TRUNCATE);
    KIND("code", MPI_ERR_OTHER), WRONG(-1, MPI_ERR_ARG), WRONG(1 << 30, MPI_ERR_ARG);
    KIND("class", MPI_ERR_OTHER), WRONG(-1, MPI_ERR_ARG), WRONG(1 << 30, MPI_ERR_ARG);
    KIND("usercode", user_code), as(kind, "class"), WRONG(MPI_ERR_OTHER, MPI_ERR_ARG), WRONG(MPI_SUCCESS, MPI_ERR_ARG);
    KIND("nth", 0), WRONG(-1, MPI_ERR_ARG), WRONG(1 << 20, MPI_ERR_ARG);
    KIND("valuelen", 8), WRONG(-1, MPI_ERR_ARG);
    KIND("maxneighbors", 64), WRONG(-1, MPI_ERR_ARG);
}

static void make_array_kinds(void)
{
    Kind *kind;
    KIND("counts", ones), WRONG(negative, MPI_ERR_COUNT), WRONG(NULL, MPI_ERR_ARG);
    KIND(LARGE("counts"), large_ones), WRONG(large_negative, MPI_ERR_COUNT), WRONG(NULL, MPI_ERR_ARG);
    KIND("lengths", ones), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND(LARGE("lengths"), large_ones), WRONG(large_negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("sizes", ones), WRONG(negative, MPI_ERR_ARG), WRONG(zeros, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND(LARGE("sizes"), large_ones), WRONG(large_negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("subsizes", ones), as(kind, "sizes"), WRONG(twos, MPI_ERR_ARG);
    KIND(LARGE("subsizes"), large_ones), as(kind, LARGE("sizes"));
    KIND("starts", zeros), WRONG(ones, MPI_ERR_ARG), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND(LARGE("starts"), zeros), WRONG(large_ones, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("degrees", ones), as(kind, "lengths");
    KIND("flags", zeros), WRONG(NULL, MPI_ERR_ARG);
    KIND("displs", zeros), WRONG(NULL, MPI_ERR_ARG);
    KIND("weights", ones), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("distribs", HELD(MPI_DISTRIBUTE_BLOCK)), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("dargs", HELD(MPI_DISTRIBUTE_DFLT_DARG)), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("psizes", ones), WRONG(negative, MPI_ERR_ARG), WRONG(zeros, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("ranks", zeros), WRONG(negative, MPI_ERR_RANK), WRONG(too_many, MPI_ERR_RANK), WRONG(NULL, MPI_ERR_ARG);
    KIND("ranges", first_only), WRONG(no_stride, MPI_ERR_ARG), WRONG(outside, MPI_ERR_RANK), WRONG(NULL, MPI_ERR_ARG);
    KIND("dims", ones), WRONG(negative, MPI_ERR_DIMS), WRONG(too_many, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("dims&", &dims), WRONG(negative, MPI_ERR_DIMS), WRONG(twos, MPI_ERR_DIMS), WRONG(NULL, MPI_ERR_ARG);
    KIND("coords", zeros), WRONG(negative, MPI_ERR_ARG), WRONG(too_many, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("index", ones), WRONG(negative, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("edges", zeros), WRONG(negative, MPI_ERR_ARG), WRONG(too_many, MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    ADDRESS("types", HELD(MPI_INT), "type");
    KIND("ctypes", int_types), WRONG(null_types, MPI_ERR_TYPE), WRONG(uncommitted_types, MPI_ERR_TYPE), WRONG(NULL, MPI_ERR_ARG);
    ADDRESS("requests", &active, "request");
    ADDRESS("startables", &persistent, "startable");
}

/* Addresses, and texts. */
static void make_address_only_kinds(void)
{
    static char long_key[MPI_MAX_INFO_KEY + 2], long_value[MPI_MAX_INFO_VAL + 2];
    static char *commands[] = {"a name"};
    Kind *kind;
    memset(long_key, 'k', MPI_MAX_INFO_KEY + 1), memset(long_value, 'v', MPI_MAX_INFO_VAL + 1);
    KIND("buf", data), WRONG(NULL, MPI_ERR_BUFFER), WRONG(MPI_IN_PLACE, MPI_ERR_BUFFER);
    KIND("winbase", data), WRONG(NULL, MPI_ERR_BASE);
    KIND("buf2", more), as(kind, "buf");
    KIND("packed", space), WRONG(NULL, MPI_ERR_BUFFER);
    /* Not significant on rank 0, where any value is right. */
    KIND("exbuf", more);
    KIND("sbuf", data), WRONG(NULL, MPI_ERR_BUFFER);
    KIND("sbuf2", more), as(kind, "sbuf");
    KIND("status", &status), WRONG(MPI_STATUS_IGNORE, MPI_ERR_ARG);
    KIND("scratch", zeros);
    KIND("position", zeros), WRONG(NULL, MPI_ERR_ARG), WRONG(HELD(-1), MPI_ERR_ARG);
    KIND("length&", zeros), WRONG(NULL, MPI_ERR_ARG);
    KIND("string", "a name"), WRONG(NULL, MPI_ERR_ARG);
    KIND("port", "verbena-port:1:0:1"), WRONG("", MPI_ERR_PORT), WRONG("a name", MPI_ERR_PORT);
    WRONG(NULL, MPI_ERR_ARG);
    KIND("socket", 0), WRONG(-1, MPI_ERR_ARG), WRONG(INT_MIN, MPI_ERR_ARG);
    KIND("commands", commands), WRONG(NULL, MPI_ERR_ARG), WRONG(HELD(NULL), MPI_ERR_ARG);
    KIND("processes", HELD(1)), WRONG(NULL, MPI_ERR_ARG), WRONG(HELD(0), MPI_ERR_ARG), WRONG(HELD(-1), MPI_ERR_ARG);
    KIND("infos", &info), WRONG(NULL, MPI_ERR_ARG), WRONG(HELD(freed_info), MPI_ERR_INFO);
    KIND("datarep", "external32"), WRONG("native64", MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("pset", "mpi://SELF"), WRONG("mpi://NOBODY", MPI_ERR_ARG), WRONG(NULL, MPI_ERR_ARG);
    KIND("key", "key"), WRONG(NULL, MPI_ERR_ARG), WRONG("", MPI_ERR_INFO_KEY), WRONG(long_key, MPI_ERR_INFO_KEY);
    KIND("value", "value"), WRONG(NULL, MPI_ERR_ARG), WRONG(long_value, MPI_ERR_INFO_VALUE);
    KIND("query", query), WRONG(NULL, MPI_ERR_ARG);
    KIND("free", nothing), WRONG(NULL, MPI_ERR_ARG);
    KIND("cancel", no_cancel), WRONG(NULL, MPI_ERR_ARG);
#define OUT(name, slot) (KIND(name, slot), WRONG(NULL, MPI_ERR_ARG))
    OUT("out", space);
    OUT("function", no_handler);
    OUT("newreq", &new_request), OUT("newcomm", &new_comm), OUT("newgroup", &new_group), OUT("newtype", &new_type);
    OUT("newop", &new_op), OUT("newinfo", &new_info), OUT("newhandler", &new_handler), OUT("newsession", &new_session);
    OUT("newkeyval", &new_keyval), OUT("newtypekeyval", &new_type_keyval), OUT("newwinkeyval", &new_win_keyval);
    OUT("newwin", &new_win);
    OUT("newcode", &new_code), OUT("newclass", &new_class), OUT("newmemory", &memory), OUT("newgreq", &new_generalized);
}

/* ---- the test --------------------------------------------------------------- */

static void make_kinds(void)
{
    kind_count = value_count = 0;
    make_handle_kinds();
    make_address_kinds();
    make_number_kinds();
    make_array_kinds();
    make_address_only_kinds();
}

static int failures;

static void failed(const Row *row, int argument, const char *what, int got, const char *wanted)
{
    char name[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(got, name, &length);
    fprintf(stderr, "rank %d of %d: %s, argument %d is %s: got class %d (%s), not %s\n", rank, ranks, row->name, argument,
            what, got, name, wanted);
    failures++;
}

static int made(const Row *row, const Value *a)
{
    int code = row->function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
    return class_of(code);
}

/* Reads the words of a row: right values, and the kind of each or NULL. */
static int arguments_of(const Row *row, Value *values, const Kind **kind_of)
{
    const char *word = row->words;
    const int large = strlen(row->name) > 2 && !strcmp(row->name + strlen(row->name) - 2, "_c");
    int count = 0;
    for (; *word; word += strspn(word, " "), count++) {
        const size_t length = strcspn(word, " ");
        char with_c[40];
        CHECK(count < MOST_ARGUMENTS && length < 30, "%s has too many arguments", row->name);
        snprintf(with_c, sizeof with_c, "%.*s_c", (int)length, word);
        kind_of[count] = large ? known(with_c, strlen(with_c)) : NULL;
        if (kind_of[count] == NULL && *word != '=')
            kind_of[count] = known(word, length);
        CHECK(kind_of[count] || *word == '=', "%s: there is no kind %.*s", row->name, (int)length, word);
        values[count] = kind_of[count] ? kind_of[count]->right : atoi(word + 1);
        word += length;
    }
    return count;
}

/* The call with argument `argument` wrong in the given `variant`; with -1, all are right.
 * False when there is no such way. */
static int once(const Row *row, int argument, int variant)
{
    const Kind *kind_of[MOST_ARGUMENTS];
    Value arguments[MOST_ARGUMENTS] = {0};
    const Wrong *it;
    int got;
    renew();
    make_kinds();
    if (argument >= arguments_of(row, arguments, kind_of))
        return 0;
    if (argument < 0) {
        got = made(row, arguments);
        if (got != MPI_SUCCESS)
            failed(row, argument, "nothing wrong", got, "MPI_SUCCESS");
    } else {
        if (kind_of[argument] == NULL || variant >= kind_of[argument]->wrongs)
            return 0;
        it = &kind_of[argument]->wrong[variant];
        arguments[argument] = it->value;
        got = made(row, arguments);
        if (got != it->class)
            failed(row, argument, it->what, got, it->class_name);
    }
    tidy();
    return 1;
}

static void all_of(const Row *row)
{
    int argument, variant;
    if (row->flags == NOTHING || (ranks == 1 && strstr(row->words, "inter") == row->words))
        return;
    if (row->flags == BASED)
        once(row, -1, 0);
    for (argument = 0; argument < MOST_ARGUMENTS; argument++)
        for (variant = 0; once(row, argument, variant); variant++)
            ;
}

static void make_communicators(void)
{
    int index[64], edges[64], i, none = 0;
    MPI_Comm half;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Cart_create(comm, 1, &ranks, &none, 0, &cart);
    for (i = 0; i < ranks; i++)
        index[i] = i + 1, edges[i] = i;
    MPI_Graph_create(comm, ranks, index, edges, 0, &graph);
    MPI_Dist_graph_create_adjacent(comm, 1, &rank, MPI_UNWEIGHTED, 1, &rank, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist);
    inter = new_comm = own_comm = MPI_COMM_NULL;
    if (ranks > 1) {
        MPI_Comm_split(comm, rank == 0, 0, &half);
        MPI_Intercomm_create(half, 0, comm, rank == 0, 0, &inter);
        MPI_Comm_free(&half);
    }
}

/* A handle that was freed: `slot` gets it, after `make` made it and `free` freed it. */
#define FREED(slot, make, free) \
    do { \
        make; \
        stale = (Value)(slot); \
        free(&(slot)); \
        (slot) = (__typeof__(slot))stale; \
    } while (0)

static void make_the_rest(void)
{
    Value stale;
    int i;
    MPI_Comm_group(MPI_COMM_WORLD, &group), MPI_Comm_group(MPI_COMM_SELF, &self_group);
    MPI_Type_contiguous(1, MPI_INT, &derived), MPI_Type_commit(&derived);
    MPI_Type_contiguous(1, MPI_INT, &uncommitted);
    MPI_Info_create(&info);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_create_errhandler(no_handler, &comm_handler);
    MPI_Win_create_errhandler(no_win_handler, &win_handler);
    MPI_File_create_errhandler(no_file_handler, &file_handler);
    MPI_Win_create(more, sizeof more, 1, MPI_INFO_NULL, self, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    own_win = new_win = MPI_WIN_NULL;
    MPI_Session_create_errhandler(no_session_handler, &session_handler);
    MPI_Add_error_code(MPI_ERR_OTHER, &user_code);
    FREED(freed_comm, MPI_Comm_dup(MPI_COMM_SELF, &freed_comm), MPI_Comm_free);
    FREED(freed_win, MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, self, &freed_win), MPI_Win_free);
    FREED(freed_group, MPI_Comm_group(MPI_COMM_WORLD, &freed_group), MPI_Group_free);
    FREED(freed_type, MPI_Type_contiguous(2, MPI_INT, &freed_type), MPI_Type_free);
    FREED(freed_op, MPI_Op_create(add, 1, &freed_op), MPI_Op_free);
    FREED(freed_info, MPI_Info_create(&freed_info), MPI_Info_free);
    FREED(freed_handler, MPI_Comm_create_errhandler(no_handler, &freed_handler), MPI_Errhandler_free);
    FREED(freed_session, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &freed_session), MPI_Session_finalize);
    FREED(freed_request, MPI_Send_init(data, 1, MPI_INT, 0, 0, self, &freed_request), MPI_Request_free);
    FREED(freed_keyval, MPI_Comm_create_keyval(0, 0, &freed_keyval, NULL), MPI_Comm_free_keyval);
    for (i = 0; i < 64; i++)
        int_types[i] = MPI_INT, null_types[i] = MPI_DATATYPE_NULL, uncommitted_types[i] = uncommitted;
    new_group = own_group = MPI_GROUP_NULL, new_type = own_type = MPI_DATATYPE_NULL, new_op = user_op = MPI_OP_NULL;
    new_info = own_info = MPI_INFO_NULL, new_handler = own_handler = MPI_ERRHANDLER_NULL;
    new_session = own_session = MPI_SESSION_NULL;
    new_request = new_generalized = active = persistent = generalized = MPI_REQUEST_NULL;
}

static void free_all(void)
{
    MPI_Comm *comms[] = {&comm, &self, &cart, &graph, &dist, &inter, &own_comm};
    MPI_Datatype *types[] = {&derived, &uncommitted, &own_type};
    size_t i;
    for (i = 0; i < sizeof comms / sizeof *comms; i++)
        FREE(*comms[i], MPI_COMM_NULL, MPI_Comm_free);
    for (i = 0; i < sizeof types / sizeof *types; i++)
        FREE(*types[i], MPI_DATATYPE_NULL, MPI_Type_free);
    MPI_Group_free(&group), MPI_Group_free(&self_group), MPI_Group_free(&own_group), MPI_Op_free(&user_op);
    MPI_Info_free(&info), MPI_Info_free(&own_info);
    MPI_Errhandler_free(&comm_handler), MPI_Errhandler_free(&session_handler), MPI_Errhandler_free(&own_handler);
    MPI_Session_finalize(&session), MPI_Session_finalize(&own_session);
    MPI_Request_free(&persistent), MPI_Wait(&active, MPI_STATUS_IGNORE);
    MPI_Grequest_complete(generalized), MPI_Wait(&generalized, MPI_STATUS_IGNORE);
}

/* Combinations that are wrong although each argument by itself is right. */
static void combinations(void)
{
    const int twice[] = {0, 0}, falling[] = {2, 1}, back[2][3] = {{0, 0, 1}, {0, 0, 1}};
    MPI_Comm made;
    MPI_Group group_made;
    MPI_Datatype type;
    MPI_Request request;
    int number, more_numbers[4];
    MPI_Aint address;
    RAISES(MPI_ERR_OTHER, MPI_Init(NULL, NULL));
    RAISES(MPI_ERR_OTHER, MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &number));
    RAISES(MPI_ERR_BUFFER, MPI_Bsend(data, 1, MPI_INT, 0, 0, self));
    MPI_Buffer_attach(space, sizeof space);
    RAISES(MPI_ERR_BUFFER, MPI_Buffer_attach(space, sizeof space));
    RAISES(MPI_ERR_BUFFER, MPI_Bsend(data, 1 << 20, MPI_INT, 0, 0, self));
    MPI_Buffer_detach(&address, &number);
    MPI_Start(&persistent), MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Recv_init(data, 1, MPI_INT, 0, 77, self, &request), MPI_Start(&request);
    RAISES(MPI_ERR_REQUEST, MPI_Start(&request));
    MPI_Cancel(&request), MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_Request_free(&request);
    MPI_Grequest_start(query, nothing, no_cancel, NULL, &request), MPI_Grequest_complete(request);
    RAISES(MPI_ERR_REQUEST, MPI_Grequest_complete(request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    RAISES(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 4, 0, 0, more_numbers, NULL, NULL));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_DOUBLE, MPI_BAND, comm));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, MPI_MINLOC, comm));
    RAISES(MPI_ERR_OP, MPI_Allreduce(data, more, 1, MPI_INT, MPI_REPLACE, comm));
    RAISES(MPI_ERR_BUFFER, MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, comm));
    RAISES(MPI_ERR_RANK, MPI_Group_incl(group, 2, twice, &group_made));
    RAISES(MPI_ERR_RANK, MPI_Group_excl(group, 2, twice, &group_made));
    RAISES(MPI_ERR_RANK, MPI_Group_range_incl(group, 2, (int(*)[3])back, &group_made));
    RAISES(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(data, 1, MPI_INT, more, 1, MPI_INT, self));
    RAISES(MPI_ERR_ARG, MPI_Type_create_subarray(1, ones, ones, ones, MPI_ORDER_C, MPI_INT, &type));
    RAISES(MPI_ERR_ARG, MPI_Graph_create(comm, 2, falling, falling, 0, &made));
    RAISES(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(self, 1, twice, MPI_UNWEIGHTED, 1, twice, ones, MPI_INFO_NULL, 0, &made));
    RAISES(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "no such key"));
    if (ranks == 1)
        return;
    RAISES(MPI_ERR_GROUP, MPI_Comm_create(self, group, &made));
    RAISES(MPI_ERR_GROUP, MPI_Comm_create_group(self, group, 0, &made));
    RAISES(MPI_ERR_COMM, MPI_Scan(data, more, 1, MPI_INT, MPI_SUM, inter));
    RAISES(MPI_ERR_COMM, MPI_Cart_create(inter, 1, ones, twice, 0, &made));
    RAISES(MPI_ERR_ROOT, MPI_Bcast(data, 1, MPI_INT, ranks, inter));
    RAISES(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, more, 1, MPI_INT, MPI_SUM, inter));
}

int main(int argc, char **argv)
{
    const int count = sizeof rows / sizeof *rows;
    int i;
    if (argc > 1 && !strcmp(argv[1], "names")) {
        for (i = 0; i < count; i++)
            printf("%s\n", rows[i].name);
        return 0;
    }
    start(&argc, &argv);
    CHECK(ranks <= 64, "%d ranks are too many", ranks);
    let_errors_return();
    make_communicators();
    make_the_rest();
    for (i = 0; i < count; i++)
        all_of(&rows[i]);
    combinations();
    CHECK(failures == 0, "%d wrong arguments were taken for others", failures);
    free_all();
    return finish();
}
