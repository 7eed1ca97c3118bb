/* See bell.h. BLAKE3 as far as it is needed here: of at most 1,024 bytes, which are one chunk. */
#include "bell.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct hello) == 108 && sizeof(struct door) == 22, "as drawn in docs/verbs.md");

/* In front of a datagram lies the route that it came by. */
enum { ROUTE = 40, SLOT = 192, RECEIVES = 32 };
enum { CHUNK_START = 1, CHUNK_END = 2, ROOT = 8, KEYED = 16, CONTEXT = 32, MATERIAL = 64 };

struct bell {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *sent, *heard;
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

static void listen_with(struct bell *bell, int slot)
{
    struct ibv_sge sge = {(uintptr_t)bell->slots[slot], SLOT, bell->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
    made(ibv_post_recv(bell->qp, &wr, &bad) ? NULL : bell, "a datagram's receive");
}

static void prove(const struct bell *bell, const struct hello *hello, uint8_t out[32])
{
    uint32_t key[8];
    memcpy(key, bell->secret, 32);
    blake3(key, hello, sizeof *hello - 32, KEYED, out);
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

struct bell *bell_open(const char *device, int gid_index, const uint8_t secret[32], struct door *own)
{
    struct bell *bell = made(calloc(1, sizeof *bell), "memory");
    memcpy(bell->secret, secret, 32);
    bell->qkey = qkey(secret);
    bell->gid_index = gid_index;
    bell->context = opened(device);
    bell->pd = made(ibv_alloc_pd(bell->context), "a protection domain");
    bell->sent = made(ibv_create_cq(bell->context, 4, NULL, NULL, 0), "a queue");
    bell->heard = made(ibv_create_cq(bell->context, RECEIVES, NULL, NULL, 0), "a queue");
    bell->mr = made(ibv_reg_mr(bell->pd, bell->slots, sizeof bell->slots, IBV_ACCESS_LOCAL_WRITE), "memory");
    struct ibv_qp_init_attr wanted = {
        .send_cq = bell->sent,
        .recv_cq = bell->heard,
        .cap = {.max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    bell->qp = made(ibv_create_qp(bell->pd, &wanted), "a datagram queue pair");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = bell->qkey};
    int failed = ibv_modify_qp(bell->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    failed |= ibv_modify_qp(bell->qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    failed |= ibv_modify_qp(bell->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    failed |= ibv_query_port(bell->context, 1, &bell->port) | ibv_query_gid(bell->context, 1, gid_index, &bell->gid);
    made(failed ? NULL : bell, "a bell");
    for (int slot = 0; slot < RECEIVES; slot++)
        listen_with(bell, slot);
    memcpy(own->gid, bell->gid.raw, 16);
    own->lid = bell->port.lid;
    own->bell = bell->qp->qp_num;
    return bell;
}

void bell_ring(struct bell *bell, const struct door *to, struct hello *hello)
{
    struct ibv_ah_attr way = {.dlid = to->lid, .port_num = 1, .is_global = 1};
    way.grh.sgid_index = (uint8_t)bell->gid_index;
    way.grh.hop_limit = 64;
    memcpy(way.grh.dgid.raw, to->gid, 16);
    memcpy(&hello->magic, "vrb\x03", 4);
    memcpy(hello->gid, bell->gid.raw, 16);
    hello->lid = bell->port.lid;
    hello->mtu = (uint8_t)bell->port.active_mtu;
    prove(bell, hello, hello->proof);
    memcpy(bell->slots[RECEIVES], hello, sizeof *hello);
    struct ibv_sge sge = {(uintptr_t)bell->slots[RECEIVES], sizeof *hello, bell->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = made(ibv_create_ah(bell->pd, &way), "the way to the peer");
    wr.wr.ud.remote_qpn = to->bell;
    wr.wr.ud.remote_qkey = bell->qkey;
    made(ibv_post_send(bell->qp, &wr, &bad) ? NULL : bell, "a datagram");
    struct ibv_wc wc;
    while (!ibv_poll_cq(bell->sent, 1, &wc))
        continue;
    ibv_destroy_ah(wr.wr.ud.ah);
}

int bell_heard(struct bell *bell, struct hello *hello, uint32_t *from)
{
    struct ibv_wc wc;
    uint8_t proof[32];
    if (ibv_poll_cq(bell->heard, 1, &wc) != 1)
        return 0;
    int whole = wc.status == IBV_WC_SUCCESS && wc.byte_len == ROUTE + sizeof *hello;
    memcpy(hello, bell->slots[wc.wr_id] + ROUTE, sizeof *hello);
    *from = wc.src_qp;
    listen_with(bell, (int)wc.wr_id);
    prove(bell, hello, proof);
    return whole && !memcmp(&hello->magic, "vrb\x03", 4) && !memcmp(proof, hello->proof, 32);
}
