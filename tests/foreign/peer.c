/* A process in plain C over libibverbs that talks to one of ours, from docs/verbs.md and
 * docs/protocol.md alone: peer DEVICE GID_INDEX FOLDER first|second
 *
 * It is rank 1 of a job of two whose secret is 32 times the byte 9; FOLDER is the job's store, seen by both.
 * Both sides send FRAMES numbered frames, more than fit the window, then each lets the other read
 * memory. `first`: this side calls. A connection that breaks is an error here. */
#include "bell.h"

#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of both sides: frames, the largest body (verbs.eager_max and 8), bytes of the memory that is read. */
enum { FRAMES = 200, FRAME = 8200, MEMORY = 300000 };
/* What we grant, receives for messages of credit, and what lies in front of a body. */
enum { WINDOW = 8, SPARE = 6, FRONT = 40 };
enum { EAGER = 1, RTS = 3, DONE = 6 };
enum { PSN = 0x123456, LIMIT = 60 };

static const uint8_t secret[32] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
                                   9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
static enum { IDLE, CALLING, CONFIRMING, READY, CLOSED } state;
static struct bell *bell;
static struct door own, theirs;
static int gid_index;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct {
    uint8_t in[WINDOW + SPARE][FRONT + FRAME], out[WINDOW][FRONT + FRAME], memory[MEMORY], read[MEMORY];
} room;
/* Numbers of the handshake, and of both directions. */
static uint32_t epoch, yours, window, next_frame, acked, consumed, told;
/* What was heard: frames, where to read, that ours was read, that our read is over. */
static uint32_t heard;
static uint64_t request, address;
static uint32_t key;
static int offered, done, fetched;

static void fail(const char *what, ...)
{
    va_list words;
    va_start(words, what);
    fprintf(stderr, "peer: ");
    vfprintf(stderr, what, words);
    fprintf(stderr, "\n");
    exit(1);
}

static void need(int fine, const char *what)
{
    if (!fine)
        fail("%s", what);
}

/* Of frame `number`, and what is in it. */
static uint32_t length_of(uint32_t number)
{
    static const uint32_t lengths[] = {0, 8, 200, FRAME};
    return lengths[number % 4];
}

static uint8_t byte_of(uint32_t number, uint32_t at)
{
    return (uint8_t)(number * 7 + at * 31);
}

static void store(void)
{
    FILE *file = fopen("verbs.1.new", "w");
    need(file && fwrite(&own, sizeof own, 1, file) == 1 && !fclose(file) && !rename("verbs.1.new", "verbs.1"),
         "the store can't be written");
}

static int stored(void)
{
    FILE *file = fopen("verbs.0", "r");
    int whole = file && fread(&theirs, sizeof theirs, 1, file) == 1;
    if (file)
        fclose(file);
    return whole;
}

static void say(uint32_t kind)
{
    struct hello hello = {
        .kind = kind, .from = 1, .to = 0, .epoch = epoch, .queue = qp ? qp->qp_num : 0, .psn = PSN, .yours = yours,
        .consumed = consumed, .window = WINDOW, .reads = 1, .frame = FRAME,
    };
    bell_ring(bell, &theirs, &hello);
}

static void greet(void)
{
    say(state == READY ? ANSWER : CALL);
}

static void receive_with(int slot)
{
    struct ibv_sge sge = {(uintptr_t)room.in[slot], sizeof room.in[slot], mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
    need(!ibv_post_recv(qp, &wr, &bad), "no receive");
}

/* Completions of requests other than receives. */
enum { SENT = 1000, FETCHED };

static void post(struct ibv_send_wr wr, void *bytes, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)bytes, length, mr->lkey};
    struct ibv_send_wr *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED | (length == 8 ? IBV_SEND_INLINE : 0);
    need(!ibv_post_send(qp, &wr, &bad), "a request is refused");
}

/* A queue pair in INIT. */
static void renew(void)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 4 * WINDOW, .max_recv_wr = WINDOW + SPARE, .max_send_sge = 1, .max_recv_sge = 1,
                .max_inline_data = 8},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    if (qp)
        ibv_destroy_qp(qp);
    qp = ibv_create_qp(pd, &wanted);
    need(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "no queue pair");
    for (int slot = 0; slot < WINDOW + SPARE; slot++)
        receive_with(slot);
}

/* To RTR. */
static void connect_to(const struct hello *hello)
{
    struct ibv_port_attr port;
    need(!ibv_query_port(context, 1, &port), "no port");
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu < hello->mtu ? port.active_mtu : hello->mtu,
        .dest_qp_num = hello->queue,
        .rq_psn = hello->psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .dlid = hello->lid},
    };
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, hello->gid, 16);
    need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "no way to RTR");
    window = hello->window < WINDOW ? hello->window : WINDOW;
    yours = hello->queue;
}

/* To RTS. */
static void start(void)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = PSN, .max_rd_atomic = 1};
    need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "no way to RTS");
    state = READY;
}

/* The table of docs/verbs.md. */
static void hear(const struct hello *hello)
{
    int knows_us = qp && hello->yours == qp->qp_num;
    if (hello->kind == CLOSE) {
        state = CLOSED;
    } else if (hello->epoch > epoch) {
        need(state != READY, "the connection broke");
        epoch = hello->epoch;
        renew();
        connect_to(hello);
        state = CONFIRMING;
        greet();
    } else if (hello->epoch == epoch && state != IDLE) {
        if (state == CALLING) {
            connect_to(hello);
            state = CONFIRMING;
        }
        if (state == CONFIRMING && knows_us)
            start();
        if (hello->kind == CALL)
            greet();
    }
}

static void credit(uint32_t number)
{
    uint32_t message[2] = {number, consumed};
    post((struct ibv_send_wr){.wr_id = SENT, .opcode = IBV_WR_SEND}, message, sizeof message);
    told = consumed;
}

/* A message on the connection. */
static void arrived(const uint8_t *message, uint32_t length)
{
    uint32_t words[2];
    uint64_t context_or_request, number;
    memcpy(words, message, 8);
    if ((int32_t)(words[1] - acked) > 0)
        acked = words[1];
    if (length == 8) {
        if (words[0] == 1)
            credit(0);
        return;
    }
    if (words[0] != consumed)
        fail("frame %u where %u was to come", words[0], consumed);
    need(length >= FRONT, "a frame without a header");
    memcpy(&context_or_request, message + 24, 8);
    memcpy(&number, message + 32, 8);
    const uint8_t *body = message + FRONT;
    switch (message[8]) {
    case EAGER:
        if (number != heard || length - FRONT != length_of(heard))
            fail("message %u has number %u and %u bytes", heard, (unsigned)number, length - FRONT);
        for (uint32_t at = 0; at < length - FRONT; at++)
            if (body[at] != byte_of(heard, at))
                fail("byte %u of message %u is wrong", at, heard);
        heard++;
        break;
    case RTS:
        need(length == FRONT + 40 && body[8] == 1, "no memory to read is offered");
        memcpy(&request, body, 8);
        memcpy(&address, body + 16, 8);
        memcpy(&key, body + 24, 4);
        offered = 1;
        break;
    case DONE:
        need(context_or_request == 77, "Done is not for our request");
        done = 1;
        break;
    default:
        fail("a frame of kind %u", message[8]);
    }
    consumed++;
    if (consumed - told >= window / 2)
        credit(0);
}

/* Looks at everything once. */
static void turn(void)
{
    static time_t began;
    static unsigned turns;
    struct hello hello;
    struct ibv_wc wc;
    uint32_t from;
    if (bell_heard(bell, &hello, &from) && hello.to == 1 && hello.from == 0) {
        need(hello.frame == FRAME, "the other side's frames are of another size");
        memcpy(theirs.gid, hello.gid, 16);
        theirs.lid = hello.lid;
        theirs.bell = from;
        hear(&hello);
    }
    /* Some milliseconds, whatever the machine. */
    if ((state == CALLING || state == CONFIRMING) && turns++ % 200 == 199)
        greet();
    if (ibv_poll_cq(cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS)
            fail("request %u fails: %s", (unsigned)wc.wr_id, ibv_wc_status_str(wc.status));
        if (wc.wr_id < SENT) {
            if (state == CONFIRMING)
                start();
            arrived(room.in[wc.wr_id], wc.byte_len);
            receive_with((int)wc.wr_id);
        }
        fetched |= wc.wr_id == FETCHED;
    } else {
        usleep(50);
    }
    began = began ? began : time(NULL);
    if (time(NULL) - began > LIMIT)
        fail("too slow: state %d, %u sent, %u of them consumed, %u heard", (int)state, next_frame, acked, heard);
}

/* The body is written by the caller: `room.out` of the next frame. */
static uint8_t *next_body(void)
{
    while (state != READY || next_frame - acked >= window)
        turn();
    return room.out[next_frame % WINDOW] + FRONT;
}

static void send_frame(uint8_t kind, uint64_t context_or_request, uint64_t length, uint32_t bytes)
{
    uint8_t *frame = room.out[next_frame % WINDOW];
    memset(frame, 0, FRONT);
    memcpy(frame, &next_frame, 4);
    memcpy(frame + 4, &consumed, 4);
    frame[8] = kind;
    memcpy(frame + 24, &context_or_request, 8);
    memcpy(frame + 32, &length, 8);
    told = consumed;
    next_frame++;
    post((struct ibv_send_wr){.wr_id = SENT, .opcode = IBV_WR_SEND}, frame, FRONT + bytes);
}

/* Offers our memory, reads the other's. */
static void read_each_other(void)
{
    for (uint32_t at = 0; at < MEMORY; at++)
        room.memory[at] = byte_of(1, at);
    uint64_t offer[5] = {77, 1, (uintptr_t)room.memory, mr->rkey, 0};
    memcpy(next_body(), offer, sizeof offer);
    send_frame(RTS, 0, MEMORY, sizeof offer);
    while (!offered)
        turn();
    struct ibv_send_wr wr = {.wr_id = FETCHED, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
    post(wr, room.read, MEMORY);
    while (!fetched)
        turn();
    for (uint32_t at = 0; at < MEMORY; at++)
        if (room.read[at] != byte_of(0, at))
            fail("byte %u that was read is wrong", at);
    next_body();
    send_frame(DONE, request, 0, 0);
    while (!done)
        turn();
}

int main(int argc, char **argv)
{
    need(argc == 5 && !chdir(argv[3]), "peer DEVICE GID_INDEX FOLDER first|second");
    gid_index = atoi(argv[2]);
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
            context = ibv_open_device(list[i]);
    need(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 8 * WINDOW, NULL, NULL, 0)) &&
             (mr = ibv_reg_mr(pd, &room, sizeof room, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)),
         "the device can't be used");
    bell = bell_open(argv[1], gid_index, secret, &own);
    store();
    if (!strcmp(argv[4], "first")) {
        while (!stored())
            usleep(1000);
        epoch = 1;
        renew();
        state = CALLING;
        greet();
    }
    for (uint32_t number = 0; number < FRAMES; number++) {
        uint8_t *body = next_body();
        for (uint32_t at = 0; at < length_of(number); at++)
            body[at] = byte_of(number, at);
        send_frame(EAGER, 0, number, length_of(number));
    }
    while (heard < FRAMES)
        turn();
    read_each_other();
    while (state != CLOSED)
        turn();
    say(CLOSE);
    printf("peer: ok, %u frames each way\n", heard);
    return 0;
}
