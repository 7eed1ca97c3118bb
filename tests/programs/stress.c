/* Random traffic from a seed that all ranks share, so that each knows the sends of all: sizes,
 * tags, modes and orders of completion vary; contents and statuses are checked, and nothing may be
 * left over. */
#include "check.h"

enum { ROUNDS = 60, MOST = 24, LONGEST = 200000 };

static uint64_t state;

static unsigned next(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

typedef struct { int from, to, tag, bytes, mode, wild; } Message;

static Message random_message(int tag)
{
    static const unsigned longest[] = {16, 16, 300, 5000, 70000, LONGEST};
    Message m;
    m.from = next(ranks);
    m.to = next(ranks);
    m.tag = tag; /* unique, so that it is certain which message a receive from any source gets */
    m.bytes = next(longest[next(6)]);
    m.mode = next(3);
    m.wild = next(2);
    return m;
}

static void round_of_messages(int round)
{
    Message list[MOST];
    MPI_Request requests[2 * MOST];
    unsigned char *data[2 * MOST];
    int of[2 * MOST], count = next(MOST) + 1, active = 0, i, index, receives = next(2);
    MPI_Status status;
    for (i = 0; i < count; i++)
        list[i] = random_message(round * MOST + i);
    for (i = 0; i < 2 * count; i++) {
        Message *m = &list[i % count];
        const int receiving = (i < count) == receives; /* receives first, or sends first */
        if (rank != (receiving ? m->to : m->from))
            continue;
        data[active] = allocate(m->bytes);
        of[active] = receiving ? i % count : -1;
        if (receiving)
            MPI_Irecv(data[active], m->bytes, MPI_BYTE, m->wild ? MPI_ANY_SOURCE : m->from, m->tag, MPI_COMM_WORLD,
                      &requests[active]);
        else {
            fill(data[active], m->bytes, m->tag);
            (m->mode == 0 ? MPI_Issend : MPI_Isend)(data[active], m->bytes, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD,
                                                    &requests[active]);
        }
        active++;
    }
    for (i = 0; i < active; i++) {
        MPI_Waitany(active, requests, &index, &status);
        if (of[index] >= 0) {
            Message *m = &list[of[index]];
            CHECK_STATUS(&status, m->from, m->tag, MPI_BYTE, m->bytes);
            CHECK_FILLED(data[index], m->bytes, m->tag);
        }
        free(data[index]);
    }
    if (next(3) == 0)
        MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int i, there, rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    start(&argc, &argv);
    state = argc > 1 ? (uint64_t)atoll(argv[1]) : 1;
    if (rank == 0)
        printf("seed %llu\n", (unsigned long long)state);
    for (i = 0; i < rounds; i++)
        round_of_messages(i);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    CHECK(!there, "a message is left over");
    return finish();
}
