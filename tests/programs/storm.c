/* Random traffic of every kind: storm <seed> <rounds> <threads>. All ranks draw
 * the same messages from the seed, so that everybody knows what everybody sends;
 * delays and orders of completion are each rank's own. Each thread has
 * communicators of its own and shares one with the others. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { MOST = 20, LONGEST = 2000000, BUFFERED = 5000, PHANTOMS = 3, THREADS = 8 };
/* Communicators: all threads', this thread's, with ranks reversed, and one whose
 * receives name no tag. */
enum { SHARED, OWN, REVERSED, ORDERED, COMMS };
enum { ISEND, ISSEND, IBSEND, SEND_INIT, SSEND_INIT, BSEND_INIT, SEND, SSEND, BSEND, SEND_KINDS };
enum { IRECV, RECV_INIT, PROBE, MPROBE, IPROBE, IMPROBE, RECEIVE_KINDS };

static uint64_t seed;
static int rounds = 40, threads = 1;
static MPI_Comm comms[THREADS][COMMS];

typedef struct { int comm, from, to, tag, bytes, send, receive, wild; } Message;

typedef struct {
    int number, round;
    uint64_t plan, luck; /* the same everywhere; this rank's own */
    MPI_Request requests[2 * MOST];
    unsigned char *data[2 * MOST];
    int of[2 * MOST]; /* the message of a receive, -1 of a send */
    int active;
    Message list[MOST];
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

static Message draw_message(Thread *t, int index, int ready)
{
    static const unsigned longest[] = {16, 16, 16, 300, 300, 5000, 5000, 70000, 200000, LONGEST};
    Message m;
    m.comm = (int)draw(&t->plan, COMMS);
    m.from = (int)draw(&t->plan, ranks);
    m.to = (int)draw(&t->plan, ranks);
    m.tag = t->number << 20 | (t->round * MOST + index) % (1 << 20);
    m.bytes = (int)draw(&t->plan, longest[draw(&t->plan, 10)]);
    m.send = (int)draw(&t->plan, SEND_KINDS);
    m.receive = (int)draw(&t->plan, RECEIVE_KINDS);
    m.wild = (int)draw(&t->plan, 2);
    if (m.comm == ORDERED)
        m.send = m.send % 2 ? ISSEND : ISEND, m.receive = IRECV;
    if (m.send == SEND || m.send == SSEND || ready)
        m.receive %= 2; /* posted before anybody blocks */
    if (m.send == IBSEND || m.send == BSEND_INIT || m.send == BSEND)
        m.bytes %= BUFFERED;
    return m;
}

static int rank_in(const Message *m) { return m->comm == REVERSED ? ranks - 1 - rank : rank; }
static uint64_t pattern_of(const Message *m) { return (uint64_t)m->tag * 64 + (uint64_t)m->from; }

static void check(const Message *m, unsigned char *data, const MPI_Status *status)
{
    CHECK_STATUS(status, m->from, m->tag, MPI_BYTE, m->bytes);
    CHECK_FILLED(data, m->bytes, pattern_of(m));
}

static MPI_Request *add(Thread *t, unsigned char *data, int of)
{
    t->data[t->active] = data;
    t->of[t->active] = of;
    return &t->requests[t->active++];
}

static void post_receive(Thread *t, int index)
{
    const Message *m = &t->list[index];
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = room(m->bytes);
    MPI_Request *request = add(t, data, index);
    int source = m->wild && m->comm != ORDERED ? MPI_ANY_SOURCE : m->from;
    int tag = m->comm == ORDERED ? MPI_ANY_TAG : m->tag;
    delay(t);
    if (m->receive == IRECV)
        MPI_Irecv(data, m->bytes, MPI_BYTE, source, tag, comm, request);
    else {
        MPI_Recv_init(data, m->bytes, MPI_BYTE, source, tag, comm, request);
        MPI_Start(request);
    }
}

static void post_send(Thread *t, const Message *m, int ready)
{
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = room(m->bytes);
    MPI_Request *request = add(t, data, -1);
    fill(data, m->bytes, pattern_of(m));
    delay(t);
    switch (m->send) {
    case ISEND: (ready ? MPI_Irsend : MPI_Isend)(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    case ISSEND: MPI_Issend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    case IBSEND: MPI_Ibsend(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); return;
    case SEND_INIT:
        (ready ? MPI_Rsend_init : MPI_Send_init)(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request);
        break;
    case SSEND_INIT: MPI_Ssend_init(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); break;
    case BSEND_INIT: MPI_Bsend_init(data, m->bytes, MPI_BYTE, m->to, m->tag, comm, request); break;
    }
    MPI_Start(request);
}

static void send_now(Thread *t, const Message *m, int ready)
{
    MPI_Comm comm = comms[t->number][m->comm];
    unsigned char *data = room(m->bytes);
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
    unsigned char *data = room(m->bytes);
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
    free(t->data[at]);
    if (t->requests[at] != MPI_REQUEST_NULL)
        MPI_Request_free(&t->requests[at]); /* a persistent one */
    t->of[at] = -2;
}

/* Completes everything, in one of five ways. */
static void complete(Thread *t)
{
    MPI_Status statuses[2 * MOST];
    int which[2 * MOST], way = (int)draw(&t->luck, 5), left = t->active, i, count, flag = 0;
    while (left > 0) {
        switch (way) {
        case 0:
            MPI_Waitany(t->active, t->requests, &which[0], &statuses[0]);
            over(t, which[0], &statuses[0]);
            left--;
            break;
        case 1:
        case 2:
            (way == 1 ? MPI_Waitsome : MPI_Testsome)(t->active, t->requests, &count, which, statuses);
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

/* Receives that nobody answers, cancelled. */
static void phantoms(Thread *t, MPI_Request requests[PHANTOMS])
{
    for (int i = 0; i < PHANTOMS; i++) {
        MPI_Status status;
        int cancelled;
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "a receive without a message was not cancelled (round %d)", t->round);
    }
}

static void collective(Thread *t, int which)
{
    MPI_Comm comm = comms[t->number][OWN];
    int mine = rank + t->round, sum = 0, root = t->round % ranks, word = rank == root ? t->round : -1;
    MPI_Request request = MPI_REQUEST_NULL;
    delay(t);
    switch (which) {
    case 0: MPI_Barrier(comm); return;
    case 1: MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm); break;
    case 2: MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request); break;
    case 3: MPI_Bcast(&word, 1, MPI_INT, root, comm); SAME(word, t->round); return;
    default: return;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(sum, ranks * (ranks - 1) / 2 + ranks * t->round);
}

static void one_round(Thread *t)
{
    int count = (int)draw(&t->plan, MOST) + 1, ready = draw(&t->plan, 4) == 0, which = (int)draw(&t->plan, 8), i;
    int first = (int)draw(&t->luck, MOST);
    MPI_Request nobody[PHANTOMS];
    char dummy[PHANTOMS];
    for (i = 0; i < count; i++)
        t->list[i] = draw_message(t, i, ready);
    for (i = 0; i < PHANTOMS; i++)
        MPI_Irecv(&dummy[i], 1, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, (t->number + 100) << 20, comms[t->number][SHARED],
                  &nobody[i]);
    for (i = 0; i < count; i++)
        if (t->list[i].to == rank_in(&t->list[i]) && t->list[i].receive <= RECV_INIT)
            post_receive(t, i);
    if (ready)
        MPI_Barrier(comms[t->number][OWN]);
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
    phantoms(t, nobody);
    collective(t, which);
}

static void *storm(void *argument)
{
    Thread *t = argument;
    t->plan = seed * 977 + (uint64_t)t->number;
    t->luck = t->plan * 31 + (uint64_t)rank;
    for (t->round = 0; t->round < rounds; t->round++)
        one_round(t);
    return NULL;
}

int main(int argc, char **argv)
{
    static Thread all[THREADS];
    enum { ATTACHED = 32 << 20 };
    pthread_t running[THREADS];
    void *buffer = room(ATTACHED);
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
    MPI_Buffer_detach(&buffer, &size);
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < threads * COMMS; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i / COMMS][i % COMMS], &there, MPI_STATUS_IGNORE);
        CHECK(!there, "a message is left over");
    }
    return finish();
}
