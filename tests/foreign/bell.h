/* The bell of docs/verbs.md: the datagrams by which two processes connect, written from that document
 * alone, for peers that share no code with the library. Little-endian machines only. */
#ifndef BELL_H
#define BELL_H

#include <stdint.h>

enum { CALL = 1, ANSWER = 2, CLOSE = 3 };

/* A datagram as it travels. */
struct hello {
    uint32_t magic, kind, from, to, epoch, queue, psn, yours, consumed, window;
    uint16_t lid;
    uint8_t mtu, reads;
    uint8_t gid[16];
    uint32_t frame;
    /* None: we write into no ring of the peer. */
    uint32_t gate[3];
    uint8_t proof[32];
};

/* What stands in the job's store. */
struct __attribute__((packed)) door {
    uint8_t gid[16];
    uint16_t lid;
    uint32_t bell;
};

struct bell;

/* Opens a device's first port; says where it can be rung. Ends the process when that fails. */
struct bell *bell_open(const char *device, int gid_index, const uint8_t secret[32], struct door *own);
/* Proves and sends a datagram. Magic, address and packet size are filled in. */
void bell_ring(struct bell *bell, const struct door *to, struct hello *hello);
/* 1 when a datagram of the job has arrived; `from` is the number of the bell that rang. */
int bell_heard(struct bell *bell, struct hello *hello, uint32_t *from);

#endif
