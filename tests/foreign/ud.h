/* The UD endpoint of docs/verbs.md: the datagrams by which two processes connect, written from that
 * document alone, for peers that share no code with the library. Little-endian machines only. */
#ifndef UD_H
#define UD_H

#include <stdint.h>

enum { REQ = 1, REP = 2, DISCONNECT = 3 };

/* A datagram as it travels. */
struct wireup_msg {
    uint32_t magic;
    uint8_t kind, flags[3];
    uint32_t from, to, epoch, qpn, psn, peer_qpn, rx_seq, window;
    uint16_t lid;
    uint8_t mtu, reads;
    uint8_t gid[16];
    uint32_t frame;
    /* None: we write into no ring of the peer. */
    uint32_t ring_control[3];
    uint8_t proof[32];
};

/* The address in the job's store. */
struct __attribute__((packed)) address {
    uint8_t gid[16];
    uint16_t lid;
    uint32_t qpn;
};

struct ud;

/* Opens a device's first port; returns its address. Ends the process when that fails. */
struct ud *ud_open(const char *device, int gid_index, const uint8_t secret[32], struct address *own);
/* Proves and sends a datagram. Magic, address and packet size are filled in. */
void ud_send(struct ud *ud, const struct address *to, struct wireup_msg *msg);
/* 1 when a datagram of the job has arrived; `from` is the number of the endpoint that sent it. */
int ud_recv(struct ud *ud, struct wireup_msg *msg, uint32_t *from);

#endif
