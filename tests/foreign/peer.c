/* A process in plain C over libibverbs that exchanges frames with one of ours, written from
 * docs/verbs.md and docs/protocol.md alone: peer DEVICE GID_INDEX FOLDER first|second
 *
 * It is rank 1 of a job of two whose secret is 32 times the byte 9; FOLDER is the job's store, seen by both.
 * Both sides send FRAMES numbered frames, more than fit the window, then each lets the other read
 * memory. `first`: this side calls. A connection that breaks is an error here. */
#include "ud.h"

#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of both sides: frames, the largest body (verbs.eager_max and 8), bytes of the memory that is read. */
enum { FRAMES = 200, FRAME = 8200, MEMORY = 300000 };
/* The memory that we grant, receives for messages of credit, and the bytes before a body. */
enum { WINDOW = 8, CONTROL_RECVS = 6, HEADER = 40 };
enum { EAGER = 1, RTS = 3, DONE = 6 };
enum { PSN = 0x123456, LIMIT = 60 };

static const uint8_t secret[32] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
                                   9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
static enum { IDLE, REQUESTING, CONFIRMING, READY, CLOSED } state;
static struct ud *ud;
static struct address own, theirs;
static int gid_index;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct {
    uint8_t in[WINDOW + CONTROL_RECVS][HEADER + FRAME], out[WINDOW][HEADER + FRAME], memory[MEMORY], read[MEMORY];
} buffers;
/* Numbers of the handshake, and of both directions. */
static uint32_t epoch, peer_qpn, window, next_frame, acked, consumed, advertised;
/* The events received: frames, where to read, that ours was read, that our read is over. */
static uint32_t received;
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

static void require(int ok, const char *what)
{
    if (!ok)
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
    require(file && fwrite(&own, sizeof own, 1, file) == 1 && !fclose(file) && !rename("verbs.1.new", "verbs.1"),
         "the store can't be written");
}

static int stored(void)
{
    FILE *file = fopen("verbs.0", "r");
    int is_valid = file && fread(&theirs, sizeof theirs, 1, file) == 1;
    if (file)
        fclose(file);
    return is_valid;
}

static void send_msg(uint8_t kind)
{
    struct wireup_msg msg = {
        .kind = kind, .from = 1, .to = 0, .epoch = epoch, .qpn = qp ? qp->qp_num : 0, .psn = PSN, .peer_qpn = peer_qpn,
        .rx_seq = consumed, .window = WINDOW, .reads = 1, .frame = FRAME,
    };
    ud_send(ud, &theirs, &msg);
}

static void send_req_or_rep(void)
{
    send_msg(state == READY ? REP : REQ);
}

static void receive_with(int slot)
{
    struct ibv_sge sge = {(uintptr_t)buffers.in[slot], sizeof buffers.in[slot], mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
    require(!ibv_post_recv(qp, &wr, &bad), "no receive");
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
    require(!ibv_post_send(qp, &wr, &bad), "a request is refused");
}

/* A queue pair in INIT. */
static void create_qp(void)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 4 * WINDOW, .max_recv_wr = WINDOW + CONTROL_RECVS, .max_send_sge = 1, .max_recv_sge = 1,
                .max_inline_data = 8},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    if (qp)
        ibv_destroy_qp(qp);
    qp = ibv_create_qp(pd, &wanted);
    require(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "no queue pair");
    for (int slot = 0; slot < WINDOW + CONTROL_RECVS; slot++)
        receive_with(slot);
}

/* To RTR. */
static void connect_to(const struct wireup_msg *msg)
{
    struct ibv_port_attr port;
    require(!ibv_query_port(context, 1, &port), "no port");
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu < msg->mtu ? port.active_mtu : msg->mtu,
        .dest_qp_num = msg->qpn,
        .rq_psn = msg->psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .dlid = msg->lid},
    };
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, msg->gid, 16);
    require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "no way to RTR");
    window = msg->window < WINDOW ? msg->window : WINDOW;
    peer_qpn = msg->qpn;
}

/* To RTS. */
static void start(void)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = PSN, .max_rd_atomic = 1};
    require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "no way to RTS");
    state = READY;
}

/* The table of docs/verbs.md. */
static void on_msg(const struct wireup_msg *msg)
{
    int has_our_qpn = qp && msg->peer_qpn == qp->qp_num;
    if (msg->kind == DISCONNECT) {
        state = CLOSED;
    } else if (msg->epoch > epoch) {
        require(state != READY, "the connection broke");
        epoch = msg->epoch;
        create_qp();
        connect_to(msg);
        state = CONFIRMING;
        send_req_or_rep();
    } else if (msg->epoch == epoch && state != IDLE) {
        if (state == REQUESTING) {
            connect_to(msg);
            state = CONFIRMING;
        }
        if (state == CONFIRMING && has_our_qpn)
            start();
        if (msg->kind == REQ)
            send_req_or_rep();
    }
}

static void credit(uint32_t number)
{
    uint32_t message[2] = {number, consumed};
    post((struct ibv_send_wr){.wr_id = SENT, .opcode = IBV_WR_SEND}, message, sizeof message);
    advertised = consumed;
}

/* A message on the connection. */
static void on_frame(const uint8_t *message, uint32_t length)
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
    require(length >= HEADER, "a frame without a header");
    memcpy(&context_or_request, message + 24, 8);
    memcpy(&number, message + 32, 8);
    const uint8_t *body = message + HEADER;
    switch (message[8]) {
    case EAGER:
        if (number != received || length - HEADER != length_of(received))
            fail("message %u has number %u and %u bytes", received, (unsigned)number, length - HEADER);
        for (uint32_t at = 0; at < length - HEADER; at++)
            if (body[at] != byte_of(received, at))
                fail("byte %u of message %u is wrong", at, received);
        received++;
        break;
    case RTS:
        require(length == HEADER + 40 && body[8] == 1, "no memory to read is offered");
        memcpy(&request, body, 8);
        memcpy(&address, body + 16, 8);
        memcpy(&key, body + 24, 4);
        offered = 1;
        break;
    case DONE:
        require(context_or_request == 77, "Done is not for our request");
        done = 1;
        break;
    default:
        fail("a frame of kind %u", message[8]);
    }
    consumed++;
    if (consumed - advertised >= window / 2)
        credit(0);
}

/* Looks at everything once. */
static void progress(void)
{
    static time_t began;
    static unsigned polls;
    struct wireup_msg msg;
    struct ibv_wc wc;
    uint32_t from;
    if (ud_recv(ud, &msg, &from) && msg.to == 1 && msg.from == 0) {
        require(msg.frame == FRAME, "the other side's frames are of another size");
        memcpy(theirs.gid, msg.gid, 16);
        theirs.lid = msg.lid;
        theirs.qpn = from;
        on_msg(&msg);
    }
    /* Some milliseconds on any machine. */
    if ((state == REQUESTING || state == CONFIRMING) && polls++ % 200 == 199)
        send_req_or_rep();
    if (ibv_poll_cq(cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS)
            fail("request %u fails: %s", (unsigned)wc.wr_id, ibv_wc_status_str(wc.status));
        if (wc.wr_id < SENT) {
            if (state == CONFIRMING)
                start();
            on_frame(buffers.in[wc.wr_id], wc.byte_len);
            receive_with((int)wc.wr_id);
        }
        fetched |= wc.wr_id == FETCHED;
    } else {
        usleep(50);
    }
    began = began ? began : time(NULL);
    if (time(NULL) - began > LIMIT)
        fail("too slow: state %d, %u sent, %u of them consumed, %u heard", (int)state, next_frame, acked, received);
}

/* The body is written by the caller: `buffers.out` of the next frame. */
static uint8_t *next_body(void)
{
    while (state != READY || next_frame - acked >= window)
        progress();
    return buffers.out[next_frame % WINDOW] + HEADER;
}

static void send_frame(uint8_t kind, uint64_t context_or_request, uint64_t length, uint32_t bytes)
{
    uint8_t *frame = buffers.out[next_frame % WINDOW];
    memset(frame, 0, HEADER);
    memcpy(frame, &next_frame, 4);
    memcpy(frame + 4, &consumed, 4);
    frame[8] = kind;
    memcpy(frame + 24, &context_or_request, 8);
    memcpy(frame + 32, &length, 8);
    advertised = consumed;
    next_frame++;
    post((struct ibv_send_wr){.wr_id = SENT, .opcode = IBV_WR_SEND}, frame, HEADER + bytes);
}

/* Offers our memory, reads the other's. */
static void read_each_other(void)
{
    for (uint32_t at = 0; at < MEMORY; at++)
        buffers.memory[at] = byte_of(1, at);
    uint64_t offer[5] = {77, 1, (uintptr_t)buffers.memory, mr->rkey, 0};
    memcpy(next_body(), offer, sizeof offer);
    send_frame(RTS, 0, MEMORY, sizeof offer);
    while (!offered)
        progress();
    struct ibv_send_wr wr = {.wr_id = FETCHED, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
    post(wr, buffers.read, MEMORY);
    while (!fetched)
        progress();
    for (uint32_t at = 0; at < MEMORY; at++)
        if (buffers.read[at] != byte_of(0, at))
            fail("byte %u that was read is wrong", at);
    next_body();
    send_frame(DONE, request, 0, 0);
    while (!done)
        progress();
}

int main(int argc, char **argv)
{
    require(argc == 5 && !chdir(argv[3]), "peer DEVICE GID_INDEX FOLDER first|second");
    gid_index = atoi(argv[2]);
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
            context = ibv_open_device(list[i]);
    require(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 8 * WINDOW, NULL, NULL, 0)) &&
             (mr = ibv_reg_mr(pd, &buffers, sizeof buffers, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)),
         "the device can't be used");
    ud = ud_open(argv[1], gid_index, secret, &own);
    store();
    if (!strcmp(argv[4], "first")) {
        while (!stored())
            usleep(1000);
        epoch = 1;
        create_qp();
        state = REQUESTING;
        send_req_or_rep();
    }
    for (uint32_t number = 0; number < FRAMES; number++) {
        uint8_t *body = next_body();
        for (uint32_t at = 0; at < length_of(number); at++)
            body[at] = byte_of(number, at);
        send_frame(EAGER, 0, number, length_of(number));
    }
    while (received < FRAMES)
        progress();
    read_each_other();
    while (state != CLOSED)
        progress();
    send_msg(DISCONNECT);
    printf("peer: ok, %u frames each way\n", received);
    return 0;
}
