/* See ud.h. BLAKE3 as far as it is needed here: of at most 1,024 bytes, which are one chunk. */
#include "ud.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct wireup_msg) == 108 && sizeof(struct address) == 22, "as drawn in docs/verbs.md");

/* In front of a datagram lies the route that it came by. */
enum { ROUTE = 40, SLOT = 192, RECEIVES = 32 };
enum { CHUNK_START = 1, CHUNK_END = 2, ROOT = 8, KEYED = 16, CONTEXT = 32, MATERIAL = 64 };

struct ud {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *sent, *received;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    /* The last one is for sending. */
    uint8_t slots[RECEIVES + 1][SLOT];
    struct ibv_port_attr port;
    union ibv_gid gid;
    int gid_index;
    uint8_t secret[32];
    uint32_t qkey;
};

static const uint32_t IV[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static void mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y)
{
#define ROTATED(word, by) ((word) >> (by) | (word) << (32 - (by)))
    v[a] += v[b] + x;
    v[d] = ROTATED(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = ROTATED(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = ROTATED(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = ROTATED(v[b] ^ v[c], 7);
}

/* A block of at most 64 bytes changes the chain's value. */
static void compress(uint32_t chain[8], const void *bytes, uint32_t length, uint32_t flags)
{
    static const uint8_t order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
    uint32_t m[16] = {0}, next[16], v[16];
    memcpy(m, bytes, length);
    memcpy(v, chain, 32);
    memcpy(v + 8, IV, 16);
    v[12] = v[13] = 0; /* the chunk's number */
    v[14] = length;
    v[15] = flags;
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i]);
        for (int i = 0; i < 16; i++)
            next[i] = m[order[i]];
        memcpy(m, next, sizeof m);
    }
    for (int i = 0; i < 8; i++)
        chain[i] = v[i] ^ v[i + 8];
}

/* The hash of one chunk. */
static void blake3(const uint32_t key[8], const void *bytes, uint32_t length, uint32_t flags, uint8_t out[32])
{
    uint32_t chain[8], begin = CHUNK_START;
    memcpy(chain, key, 32);
    for (; length > 64; length -= 64, bytes = (const uint8_t *)bytes + 64, begin = 0)
        compress(chain, bytes, 64, flags | begin);
    compress(chain, bytes, length, flags | begin | CHUNK_END | ROOT);
    memcpy(out, chain, 32);
}

static void *made(void *thing, const char *what)
{
    if (!thing) {
        perror(what);
        exit(2);
    }
    return thing;
}

static void post_recv(struct ud *ud, int slot)
{
    struct ibv_sge sge = {(uintptr_t)ud->slots[slot], SLOT, ud->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
    made(ibv_post_recv(ud->qp, &wr, &bad) ? NULL : ud, "a datagram's receive");
}

static void prove(const struct ud *ud, const struct wireup_msg *msg, uint8_t out[32])
{
    uint32_t key[8];
    memcpy(key, ud->secret, 32);
    blake3(key, msg, sizeof *msg - 32, KEYED, out);
}

static uint32_t qkey(const uint8_t secret[32])
{
    static const char context[] = "verbena verbs bell qkey";
    uint8_t hash[32];
    uint32_t key[8];
    blake3(IV, context, sizeof context - 1, CONTEXT, hash);
    memcpy(key, hash, 32);
    blake3(key, secret, 32, MATERIAL, hash);
    memcpy(key, hash, 4);
    return key[0] & 0x7fffffff;
}

static struct ibv_context *opened(const char *device)
{
    struct ibv_device **list = made(ibv_get_device_list(NULL), "devices");
    for (int i = 0; list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), device))
            return made(ibv_open_device(list[i]), device);
    return made(NULL, device);
}

struct ud *ud_open(const char *device, int gid_index, const uint8_t secret[32], struct address *own)
{
    struct ud *ud = made(calloc(1, sizeof *ud), "memory");
    memcpy(ud->secret, secret, 32);
    ud->qkey = qkey(secret);
    ud->gid_index = gid_index;
    ud->context = opened(device);
    ud->pd = made(ibv_alloc_pd(ud->context), "a protection domain");
    ud->sent = made(ibv_create_cq(ud->context, 4, NULL, NULL, 0), "a queue");
    ud->received = made(ibv_create_cq(ud->context, RECEIVES, NULL, NULL, 0), "a queue");
    ud->mr = made(ibv_reg_mr(ud->pd, ud->slots, sizeof ud->slots, IBV_ACCESS_LOCAL_WRITE), "memory");
    struct ibv_qp_init_attr wanted = {
        .send_cq = ud->sent,
        .recv_cq = ud->received,
        .cap = {.max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    ud->qp = made(ibv_create_qp(ud->pd, &wanted), "a datagram queue pair");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = ud->qkey};
    int failed = ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    failed |= ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    failed |= ibv_modify_qp(ud->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    failed |= ibv_query_port(ud->context, 1, &ud->port) | ibv_query_gid(ud->context, 1, gid_index, &ud->gid);
    made(failed ? NULL : ud, "a ud");
    for (int slot = 0; slot < RECEIVES; slot++)
        post_recv(ud, slot);
    memcpy(own->gid, ud->gid.raw, 16);
    own->lid = ud->port.lid;
    own->qpn = ud->qp->qp_num;
    return ud;
}

void ud_send(struct ud *ud, const struct address *to, struct wireup_msg *msg)
{
    struct ibv_ah_attr route = {.dlid = to->lid, .port_num = 1, .is_global = 1};
    route.grh.sgid_index = (uint8_t)ud->gid_index;
    route.grh.hop_limit = 64;
    memcpy(route.grh.dgid.raw, to->gid, 16);
    memcpy(&msg->magic, "vrb\x03", 4);
    memcpy(msg->gid, ud->gid.raw, 16);
    msg->lid = ud->port.lid;
    msg->mtu = (uint8_t)ud->port.active_mtu;
    prove(ud, msg, msg->proof);
    memcpy(ud->slots[RECEIVES], msg, sizeof *msg);
    struct ibv_sge sge = {(uintptr_t)ud->slots[RECEIVES], sizeof *msg, ud->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = made(ibv_create_ah(ud->pd, &route), "the way to the peer");
    wr.wr.ud.remote_qpn = to->qpn;
    wr.wr.ud.remote_qkey = ud->qkey;
    made(ibv_post_send(ud->qp, &wr, &bad) ? NULL : ud, "a datagram");
    struct ibv_wc wc;
    while (!ibv_poll_cq(ud->sent, 1, &wc))
        continue;
    ibv_destroy_ah(wr.wr.ud.ah);
}

int ud_recv(struct ud *ud, struct wireup_msg *msg, uint32_t *from)
{
    struct ibv_wc wc;
    uint8_t proof[32];
    if (ibv_poll_cq(ud->received, 1, &wc) != 1)
        return 0;
    int is_valid = wc.status == IBV_WC_SUCCESS && wc.byte_len == ROUTE + sizeof *msg;
    memcpy(msg, ud->slots[wc.wr_id] + ROUTE, sizeof *msg);
    *from = wc.src_qp;
    post_recv(ud, (int)wc.wr_id);
    prove(ud, msg, proof);
    return is_valid && !memcmp(&msg->magic, "vrb\x03", 4) && !memcmp(proof, msg->proof, 32);
}
