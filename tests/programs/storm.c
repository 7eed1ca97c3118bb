/* Random traffic of every kind: storm <seed> <rounds> <threads>. All ranks draw the same messages
 * from the seed, so that each knows the sends of all. Delays, orders of completion and when
 * something is cancelled are each rank's own. Each thread has communicators of its own and shares
 * one with the others.
 *
 * A round: messages of every kind, and channels (persistent requests that live as long as their
 * thread and are started again and again), all under way at once. Receives without a message are
 * cancelled, and sends that may have arrived; then a collective. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { MOST = 20, LONGEST = 2000000, BUFFERED = 5000, PHANTOMS = 3, THREADS = 8 };
enum { CHANNELS = 6, DOUBTS = 4, REQUESTS = 2 * (MOST + CHANNELS) };
/* Tags: a thread's number in the upper part, after that of what it is for. */
enum { OF_DOUBT = THREADS, OF_CHANNEL = 2 * THREADS, OF_WORD = 3 * THREADS, OF_PHANTOM = 100 };
/* Communicators: all threads', this thread's, with ranks reversed, and one whose
 * receives name no tag. */
enum { SHARED, OWN, REVERSED, ORDERED, COMMS };
enum { ISEND, ISSEND, IBSEND, SEND_INIT, SSEND_INIT, BSEND_INIT, SEND, SSEND, BSEND, SEND_KINDS };
enum { IRECV, RECV_INIT, PROBE, MPROBE, IPROBE, IMPROBE, RECEIVE_KINDS };
/* The receive of a doubtful message: after it is known what became of it; before; before,
 * and cancelled. */
enum { LATE, POSTED, WITHDRAWN, DOUBT_KINDS };

static uint64_t seed;
static int rounds = 40, threads = 1;
static MPI_Comm comms[THREADS][COMMS];
static MPI_Op user_sum;

/* `start`: which message of a channel. */
typedef struct { int comm, from, to, tag, bytes, send, receive, wild, start; } Message;

typedef struct { MPI_Request send, receive; unsigned char *out, *in; } Channel;

typedef struct {
    int number, round;
    uint64_t plan, luck; /* the same everywhere; this rank's own */
    MPI_Request requests[REQUESTS];
    unsigned char *data[REQUESTS];
    int of[REQUESTS];   /* the message of a receive, -1 of a send */
    int kept[REQUESTS]; /* request and data are used again */
    int active;
    Channel channels[CHANNELS];
    Message list[MOST + CHANNELS]; /* those of channels last */
} Thread;

static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % below;
}

static void delay(Thread *t)
{
    struct timespec time = {0, draw(&t->luck, 500000)};
    switch (draw(&t->luck, 40)) {
    case 0: nanosleep(&time, NULL); break;
    case 1: sched_yield(); break;
    }
}

static int tag_of(const Thread *t, int what, int index)
{
    return (what + t->number) << 20 | (t->round * MOST + index) % (1 << 20);
}

static Message draw_message(Thread *t, int index, int ready)
{
    static const unsigned longest[] = {16, 16, 16, 300, 300, 5000, 5000, 70000, 200000, LONGEST};
    Message m = {0};
    m.comm = (int)draw(&t->plan, COMMS);
    m.from = (int)draw(&t->plan, ranks);
    m.to = (int)draw(&t->plan, ranks);
    m.tag = tag_of(t, 0, index);
    m.bytes = (int)draw(&t->plan, longest[draw(&t->plan, 10)]);
    m.send = (int)draw(&t->plan, SEND_KINDS);
    m.receive = (int)draw(&t->plan, RECEIVE_KINDS);
    m.wild = (int)draw(&t->plan, 2);
    if (m.comm == ORDERED)
        m.send = m.send % 2 ? ISSEND : ISEND, m.receive = IRECV;
    if (m.send == SEND || m.send == SSEND || ready)
        m.receive %= 2; /* posted before any rank blocks */
    if (m.send == IBSEND || m.send == BSEND_INIT || m.send == BSEND)
        m.bytes %= BUFFERED;
    return m;
}

static int rank_in(const Message *m) { return m->comm == REVERSED ? ranks - 1 - rank : rank; }
static uint64_t pattern_of(const Message *m)
{
    return (uint64_t)m->tag * 64 + (uint64_t)m->from + ((uint64_t)m->start << 40);
}

static void check(const Message *m, unsigned char *data, const MPI_Status *status)
{
    CHECK_STATUS(status, m->from, m->tag, MPI_BYTE, m->bytes);
    CHECK_FILLED(data, m->bytes, pattern_of(m));
}

static MPI_Request *add(Thread *t, unsigned char *data, int of)
{
    t->data[t->active] = data;
    t->of[t->active] = of;
    t->kept[t->active] = 0;
    return &t->requests[t->active++];
}

static void post_receive(Thread *t, int index)
{
    const Message *m = &t->list[index];
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = allocate(m->bytes);
    MPI_Request *request = add(t, data, index);
    int source = m->wild && m->comm != ORDERED ? MPI_ANY_SOURCE : m->from;
    int tag = m->comm == ORDERED ? MPI_ANY_TAG : m->tag;
    delay(t);
    if (m->receive != RECV_INIT)
        MPI_Irecv(data, m->bytes, MPI_BYTE, source, tag, comm, request);
    else {
        MPI_Recv_init(data, m->bytes, MPI_BYTE, source, tag, comm, request);
        MPI_Start(request);
    }
}

static void send_init(const Message *m, unsigned char *data, MPI_Comm comm, int ready, MPI_Request *request)
{
    switch (m->send) {
    case SEND_INIT:
        (ready ? MPI_Rsend_init : MPI_Send_init)(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request);
        break;
    case SSEND_INIT: MPI_Ssend_init(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); break;
    case BSEND_INIT: MPI_Bsend_init(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); break;
    }
}

static void post_send(Thread *t, const Message *m, int ready)
{
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = allocate(m->bytes);
    MPI_Request *request = add(t, data, -1);
    fill(data, m->bytes, pattern_of(m));
    delay(t);
    switch (m->send) {
    case ISEND: (ready ? MPI_Irsend : MPI_Isend)(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    case ISSEND: MPI_Issend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    case IBSEND: MPI_Ibsend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    }
    send_init(m, data, comm, ready, request);
    MPI_Start(request);
}

static void send_now(Thread *t, const Message *m, int ready)
{
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = allocate(m->bytes);
    fill(data, m->bytes, pattern_of(m));
    delay(t);
    switch (m->send) {
    case SEND: (ready ? MPI_Rsend : MPI_Send)(data, m->bytes, MPI_BYTE, m->to, m->tag, comm); break;
    case SSEND: MPI_Ssend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm); break;
    case BSEND: MPI_Bsend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm); break;
    }
    free(data);
}

static void probe_and_receive(Thread *t, const Message *m)
{
    MPI_Comm comm = comms[t->number][m->comm];
    int source = m->wild ? MPI_ANY_SOURCE : m->from, there = 0;
    unsigned char *data = allocate(m->bytes);
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    delay(t);
    switch (m->receive) {
    case PROBE: MPI_Probe(source, m->tag, comm, &status); break;
    case MPROBE: MPI_Mprobe(source, m->tag, comm, &message, &status); break;
    case IPROBE:
        while (!there)
            MPI_Iprobe(source, m->tag, comm, &there, &status);
        break;
    case IMPROBE:
        while (!there)
            MPI_Improbe(source, m->tag, comm, &there, &message, &status);
        break;
    }
    CHECK_STATUS(&status, m->from, m->tag, MPI_BYTE, m->bytes);
    delay(t);
    if (m->receive == PROBE || m->receive == IPROBE)
        MPI_Recv(data, m->bytes, MPI_BYTE, source, m->tag, comm, &status);
    else if (m->receive == MPROBE)
        MPI_Mrecv(data, m->bytes, MPI_BYTE, &message, &status);
    else {
        MPI_Imrecv(data, m->bytes, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &status);
    }
    check(m, data, &status);
    free(data);
}

static void over(Thread *t, int at, const MPI_Status *status)
{
    if (t->of[at] >= 0)
        check(&t->list[t->of[at]], t->data[at], status);
    t->of[at] = -2;
    if (t->kept[at])
        return;
    free(t->data[at]);
    if (t->requests[at] != MPI_REQUEST_NULL)
        MPI_Request_free(&t->requests[at]); /* a persistent one */
}

/* Completes everything, by one of five calls. */
static void complete(Thread *t)
{
    MPI_Status statuses[REQUESTS];
    int which[REQUESTS], call = (int)draw(&t->luck, 5), left = t->active, i, count, flag = 0;
    while (left > 0) {
        switch (call) {
        case 0:
            MPI_Waitany(t->active, t->requests, &which[0], &statuses[0]);
            over(t, which[0], &statuses[0]);
            left--;
            break;
        case 1:
        case 2:
            (call == 1 ? MPI_Waitsome : MPI_Testsome)(t->active, t->requests, &count, which, statuses);
            CHECK(count != MPI_UNDEFINED, "no request is active, and %d are missing", left);
            for (i = 0; i < count; i++)
                over(t, which[i], &statuses[i]);
            left -= count;
            break;
        case 3:
            MPI_Testall(t->active, t->requests, &flag, statuses);
            if (!flag) {
                delay(t);
                break;
            } /* fall through */
        default:
            if (!flag)
                MPI_Waitall(t->active, t->requests, statuses);
            for (i = 0; i < t->active; i++)
                over(t, i, &statuses[i]);
            left = 0;
        }
    }
    t->active = 0;
}

static void open_channels(Thread *t)
{
    for (int i = 0; i < CHANNELS; i++) {
        Message *m = &t->list[MOST + i];
        Channel *channel = &t->channels[i];
        *m = draw_message(t, 0, 0);
        m->comm = OWN;
        m->tag = (OF_CHANNEL + t->number) << 20 | i;
        m->send = SEND_INIT + m->send % 3;
        m->bytes %= m->send == BSEND_INIT ? BUFFERED : LONGEST;
        channel->out = allocate(m->bytes);
        channel->in = allocate(m->bytes);
        if (m->from == rank)
            send_init(m, channel->out, comms[t->number][OWN], 0, &channel->send);
        if (m->to == rank)
            MPI_Recv_init(channel->in, m->bytes, MPI_BYTE, m->wild ? MPI_ANY_SOURCE : m->from, m->tag,
                          comms[t->number][OWN], &channel->receive);
    }
}

/* Starts about half of them again, one by one or together. */
static void start_channels(Thread *t)
{
    int first = t->active, together = (int)draw(&t->luck, 2), i;
    for (i = 0; i < CHANNELS; i++) {
        Message *m = &t->list[MOST + i];
        Channel *channel = &t->channels[i];
        if (draw(&t->plan, 2))
            continue;
        m->start++;
        fill(channel->out, m->bytes, pattern_of(m));
        if (m->to == rank)
            *add(t, channel->in, MOST + i) = channel->receive;
        if (m->from == rank)
            *add(t, channel->out, -1) = channel->send;
    }
    for (i = first; i < t->active; i++) {
        t->kept[i] = 1;
        if (!together)
            MPI_Start(&t->requests[i]);
    }
    if (together)
        MPI_Startall(t->active - first, t->requests + first);
}

static void close_channels(Thread *t)
{
    for (int i = 0; i < CHANNELS; i++) {
        if (t->list[MOST + i].from == rank)
            MPI_Request_free(&t->channels[i].send);
        if (t->list[MOST + i].to == rank)
            MPI_Request_free(&t->channels[i].receive);
        free(t->channels[i].out);
        free(t->channels[i].in);
    }
}

/* True if it was cancelled before it was complete. */
static int cancel(MPI_Request *request, MPI_Status *status)
{
    int cancelled;
    MPI_Cancel(request);
    MPI_Wait(request, status);
    MPI_Test_cancelled(status, &cancelled);
    return cancelled;
}

/* Receives that no rank answers, cancelled. */
static void phantoms(Thread *t, MPI_Request requests[PHANTOMS])
{
    MPI_Status status;
    for (int i = 0; i < PHANTOMS; i++)
        CHECK(cancel(&requests[i], &status), "a receive without a message was not cancelled (round %d)", t->round);
}

static Message draw_doubt(Thread *t, int index)
{
    Message m = draw_message(t, index, 0);
    m.comm = OWN;
    m.tag = tag_of(t, OF_DOUBT, index);
    m.send %= SEND;
    if (m.send == IBSEND || m.send == BSEND_INIT)
        m.bytes %= BUFFERED;
    m.receive %= DOUBT_KINDS;
    m.start = 1;
    return m;
}

/* Cancels a send that may have arrived; a persistent one is then sent again. True if
 * the receiver gets the message. */
static int change_ones_mind(Thread *t, const Message *m, int at)
{
    MPI_Status status;
    delay(t);
    if (!cancel(&t->requests[at], &status))
        return 1;
    if (m->send < SEND_INIT)
        return 0;
    MPI_Start(&t->requests[at]);
    return 1;
}

/* The other end; `at` is where its receive is, or is to be. */
static void finish_receive(Thread *t, const Message *m, int at, MPI_Request *word, const int *coming)
{
    MPI_Comm comm = comms[t->number][OWN];
    MPI_Status status;
    int lost = m->receive == LATE, there;
    delay(t);
    if (m->receive == WITHDRAWN)
        lost = cancel(&t->requests[at], &status);
    MPI_Wait(word, MPI_STATUS_IGNORE);
    if (m->receive == POSTED && *coming)
        MPI_Wait(&t->requests[at], &status);
    else if (m->receive == POSTED)
        lost = cancel(&t->requests[at], &status);
    CHECK(lost || *coming, "a cancelled message arrived (round %d)", t->round);
    if (lost && *coming)
        MPI_Recv(t->data[at], m->bytes, MPI_BYTE, m->wild ? MPI_ANY_SOURCE : m->from, m->tag, comm, &status);
    if (*coming)
        check(m, t->data[at], &status);
    MPI_Iprobe(m->from, m->tag, comm, &there, MPI_STATUS_IGNORE);
    CHECK(!there, "a message came twice, or was cancelled and is there (round %d)", t->round);
    t->of[at] = -1;
    over(t, at, &status);
}

/* Messages that are cancelled, and a word to the receiver what became of each. */
static void doubts(Thread *t)
{
    MPI_Comm comm = comms[t->number][OWN];
    MPI_Request words[2 * DOUBTS];
    Message *list = t->list;
    int sent[DOUBTS], received[DOUBTS], outcome[DOUBTS], expected[DOUBTS], i;
    for (i = 0; i < DOUBTS; i++) {
        Message *m = &list[i];
        *m = draw_doubt(t, i);
        words[2 * i] = words[2 * i + 1] = MPI_REQUEST_NULL;
        if (m->to == rank) {
            MPI_Irecv(&expected[i], 1, MPI_INT, m->from, tag_of(t, OF_WORD, i), comm, &words[2 * i]);
            received[i] = t->active;
            if (m->receive == LATE)
                *add(t, allocate(m->bytes), -1) = MPI_REQUEST_NULL;
            else
                post_receive(t, i);
        }
        if (m->from == rank) {
            sent[i] = t->active;
            post_send(t, m, 0);
        }
    }
    for (i = 0; i < DOUBTS; i++)
        if (list[i].from == rank) {
            outcome[i] = change_ones_mind(t, &list[i], sent[i]);
            MPI_Isend(&outcome[i], 1, MPI_INT, list[i].to, tag_of(t, OF_WORD, i), comm, &words[2 * i + 1]);
        }
    for (i = 0; i < DOUBTS; i++)
        if (list[i].to == rank)
            finish_receive(t, &list[i], received[i], &words[2 * i], &expected[i]);
    for (i = 0; i < DOUBTS; i++)
        if (list[i].from == rank) {
            MPI_Wait(&t->requests[sent[i]], MPI_STATUS_IGNORE);
            over(t, sent[i], MPI_STATUS_IGNORE);
        }
    MPI_Waitall(2 * DOUBTS, words, MPI_STATUSES_IGNORE);
    t->active = 0;
}

/* Where a collective of a thread is: now and then on MPI_COMM_WORLD, which others may use for messages meanwhile. */
static MPI_Comm shared_comm(const Thread *t)
{
    return t->number == 0 && t->round % 2 ? MPI_COMM_WORLD : comms[t->number][OWN];
}

static void collective(Thread *t, int which)
{
    MPI_Comm comm = shared_comm(t);
    int mine = rank + t->round, sum = 0, root = t->round % ranks, word = rank == root ? t->round : -1;
    MPI_Request request = MPI_REQUEST_NULL;
    delay(t);
    switch (which) {
    case 0: MPI_Barrier(comm); return;
    case 1: MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm); break;
    case 2: MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request); break;
    case 3: MPI_Bcast(&word, 1, MPI_INT, root, comm); SAME(word, t->round); return;
    case 4: MPI_Allreduce(&mine, &sum, 1, MPI_INT, user_sum, comm); break;
    case 5: MPI_Iallreduce(&mine, &sum, 1, MPI_INT, user_sum, comm, &request); break;
    default: return;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(sum, ranks * (ranks - 1) / 2 + ranks * t->round);
}

static void one_round(Thread *t)
{
    int count = (int)draw(&t->plan, MOST) + 1, ready = draw(&t->plan, 4) == 0, which = (int)draw(&t->plan, 10), i;
    int first = (int)draw(&t->luck, MOST);
    MPI_Request unmatched[PHANTOMS];
    char dummy[PHANTOMS];
    for (i = 0; i < count; i++)
        t->list[i] = draw_message(t, i, ready);
    for (i = 0; i < PHANTOMS; i++)
        MPI_Irecv(&dummy[i], 1, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, (OF_PHANTOM + t->number) << 20,
                  comms[t->number][SHARED], &unmatched[i]);
    for (i = 0; i < count; i++)
        if (t->list[i].to == rank_in(&t->list[i]) && t->list[i].receive <= RECV_INIT)
            post_receive(t, i);
    if (ready)
        MPI_Barrier(shared_comm(t));
    start_channels(t);
    for (i = 0; i < count; i++)
        if (t->list[i].from == rank_in(&t->list[i]) && t->list[i].send < SEND)
            post_send(t, &t->list[i], ready);
    for (i = 0; i < count; i++)
        if (t->list[i].from == rank_in(&t->list[i]) && t->list[i].send >= SEND)
            send_now(t, &t->list[i], ready);
    for (i = 0; i < count; i++) {
        Message *m = &t->list[(first + i) % count];
        if (m->to == rank_in(m) && m->receive > RECV_INIT)
            probe_and_receive(t, m);
    }
    complete(t);
    phantoms(t, unmatched);
    doubts(t);
    collective(t, which);
}

static void add_up(void *from, void *to, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)to)[i] += ((int *)from)[i];
}

static void *storm(void *argument)
{
    Thread *t = argument;
    t->plan = seed * 977 + (uint64_t)t->number;
    t->luck = t->plan * 31 + (uint64_t)rank;
    open_channels(t);
    for (t->round = 0; t->round < rounds; t->round++)
        one_round(t);
    close_channels(t);
    return NULL;
}

int main(int argc, char **argv)
{
    static Thread all[THREADS];
    enum { ATTACHED = 32 << 20 };
    pthread_t running[THREADS];
    void *buffer = allocate(ATTACHED);
    int provided, i, there, size;
    MPI_Comm shared;
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    threads = argc > 3 ? atoi(argv[3]) : threads;
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(threads >= 1 && threads <= THREADS, "1 to %d threads", THREADS);
    if (rank == 0)
        printf("seed %llu, %d rounds, %d threads\n", (unsigned long long)seed, rounds, threads);
    MPI_Buffer_attach(buffer, ATTACHED);
    MPI_Comm_dup(MPI_COMM_WORLD, &shared);
    MPI_Op_create(add_up, 1, &user_sum);
    for (i = 0; i < threads; i++) {
        comms[i][SHARED] = shared;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i][OWN]);
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[i][REVERSED]);
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i][ORDERED]);
        all[i].number = i;
    }
    for (i = 1; i < threads; i++)
        CHECK(pthread_create(&running[i], NULL, storm, &all[i]) == 0, "cannot start a thread");
    storm(&all[0]);
    for (i = 1; i < threads; i++)
        pthread_join(running[i], NULL);
    MPI_Op_free(&user_sum);
    MPI_Buffer_detach(&buffer, &size);
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < threads * COMMS; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i / COMMS][i % COMMS], &there, MPI_STATUS_IGNORE);
        CHECK(!there, "a message is left over");
    }
    return finish();
}
