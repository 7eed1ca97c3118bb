/* The tool information interface: each variable is described, read and, before MPI_Init, written;
 * the written value is what MPI uses; wrong handles, indices and names have their codes. */
#include "check.h"

static void each_cvar(void)
{
    int number, index, i;
    SAME(MPI_T_cvar_get_num(&number), MPI_SUCCESS);
    CHECK(number > 20, "%d variables", number);
    for (i = 0; i < number; i++) {
        char name[256], desc[1024], value[1024];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity, bind, scope, count;
        MPI_Datatype type;
        MPI_T_enum words;
        MPI_T_cvar_handle handle;
        SAME(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &words, desc, &desc_len,
                                 &bind, &scope),
             MPI_SUCCESS);
        SAME(name_len, (int)strlen(name) + 1);
        SAME(desc_len, (int)strlen(desc) + 1);
        SAME(bind, MPI_T_BIND_NO_OBJECT);
        SAME(MPI_T_cvar_get_index(name, &index), MPI_SUCCESS);
        SAME(index, i);
        SAME(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count), MPI_SUCCESS);
        CHECK(count * (type == MPI_CHAR ? 1 : 8) <= (int)sizeof value, "%s: %d", name, count);
        SAME(MPI_T_cvar_read(handle, value), MPI_SUCCESS);
        if (type == MPI_INT) {
            int items, item;
            char word[64];
            int word_len = sizeof word;
            memcpy(&item, value, sizeof item);
            SAME(MPI_T_enum_get_info(words, &items, NULL, NULL), MPI_SUCCESS);
            CHECK(item >= 0 && item < items, "%s: %d of %d", name, item, items);
            SAME(MPI_T_enum_get_item(words, item, &index, word, &word_len), MPI_SUCCESS);
            CHECK(index == item && word_len > 1, "%s: %d, %d", name, index, word_len);
            SAME(MPI_T_enum_get_item(words, items, &index, word, &word_len),
                 MPI_T_ERR_INVALID_ITEM);
        } else {
            CHECK(words == MPI_T_ENUM_NULL, "%s has words", name);
        }
        SAME(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL, "%s: not null", name);
    }
    SAME(MPI_T_cvar_handle_alloc(number, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    SAME(MPI_T_cvar_get_index("no.such_variable", &index), MPI_T_ERR_INVALID_NAME);
}

static void write_limit(unsigned long long bytes, int expected)
{
    int index, count;
    unsigned long long now = bytes;
    MPI_T_cvar_handle handle;
    SAME(MPI_T_cvar_get_index("pt2pt.unexpected_max", &index), MPI_SUCCESS);
    SAME(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count), MPI_SUCCESS);
    SAME(MPI_T_cvar_write(handle, &now), expected);
    SAME(MPI_T_cvar_read(handle, &now), MPI_SUCCESS);
    if (expected == MPI_SUCCESS)
        SAME(now, bytes);
    SAME(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
}

/* Messages that wait for their receive are counted. */
static void unexpected_messages(void)
{
    int index, count, i, sent[3] = {1, 2, 3}, flag;
    unsigned long long waiting = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    MPI_Request requests[3];
    SAME(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    SAME(MPI_T_pvar_get_index("pt2pt.unexpected_messages", MPI_T_PVAR_CLASS_LEVEL, &index),
         MPI_SUCCESS);
    SAME(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count), MPI_SUCCESS);
    SAME(count, 1);
    for (i = 0; i < 3; i++)
        MPI_Isend(&sent[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Iprobe(rank, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    SAME(flag, 1);
    SAME(MPI_T_pvar_read(session, handle, &waiting), MPI_SUCCESS);
    SAME(waiting, 3);
    for (i = 0; i < 3; i++)
        MPI_Recv(&sent[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    SAME(MPI_T_pvar_read(session, handle, &waiting), MPI_SUCCESS);
    SAME(waiting, 0);
    SAME(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
    SAME(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
    SAME(MPI_T_pvar_reset(session, handle), MPI_T_ERR_PVAR_NO_WRITE);
    SAME(MPI_T_pvar_handle_free(session, &handle), MPI_SUCCESS);
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL, "the handle is not null");
    SAME(MPI_T_pvar_read(session, handle, &waiting), MPI_T_ERR_INVALID_HANDLE);
    SAME(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    CHECK(session == MPI_T_PVAR_SESSION_NULL, "the session is not null");
}

/* Each variable is in one category. */
static void categories(void)
{
    int categories, cvars, all = 0, i, in[200];
    SAME(MPI_T_category_get_num(&categories), MPI_SUCCESS);
    for (i = 0; i < categories; i++) {
        char name[64];
        int len = sizeof name, here, pvars, below, index, events;
        SAME(MPI_T_category_get_info(i, name, &len, NULL, NULL, &here, &pvars, &below),
             MPI_SUCCESS);
        SAME(MPI_T_category_get_index(name, &index), MPI_SUCCESS);
        SAME(index, i);
        SAME(MPI_T_category_get_cvars(i, 200, in), MPI_SUCCESS);
        SAME(MPI_T_category_get_num_events(i, &events), MPI_SUCCESS);
        SAME(events, 0);
        all += here;
    }
    SAME(MPI_T_cvar_get_num(&cvars), MPI_SUCCESS);
    SAME(all, cvars);
}

int main(int argc, char **argv)
{
    int provided, number;
    SAME(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    SAME(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    SAME(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    each_cvar();
    write_limit(1 << 22, MPI_SUCCESS);
    start(&argc, &argv);
    write_limit(1 << 23, MPI_T_ERR_CVAR_SET_NOT_NOW);
    each_cvar();
    unexpected_messages();
    categories();
    SAME(MPI_T_event_get_num(&number), MPI_SUCCESS);
    SAME(number, 0);
    SAME(MPI_T_source_get_num(&number), MPI_SUCCESS);
    SAME(number, 0);
    SAME(MPI_T_finalize(), MPI_SUCCESS);
    number = finish();
    SAME(MPI_T_finalize(), MPI_SUCCESS);
    SAME(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    return number;
}
