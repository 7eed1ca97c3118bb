/* Data that does not lie in a row: MPI_Pack, MPI_Unpack, and half the time of a
 * round trip in which both ranks send and receive it. A column of a matrix, the
 * six faces of a cube with a halo (six messages), and an indexed type of many
 * random short blocks. */
#include "common.h"

enum { MATRIX = 1000, CUBE = 130, BLOCKS = 10000, MOST = 6 };

typedef struct {
    const char *name;
    int parts;
    MPI_Datatype types[MOST];
    size_t extent, bytes; /* of the memory that the types lie in, and of the data */
} shape;

static shape column(void) {
    shape s = {.name = "column", .parts = 1, .extent = (size_t)MATRIX * MATRIX * 8};
    MPI_Type_vector(MATRIX, 1, MATRIX, MPI_DOUBLE, s.types);
    return s;
}

static shape faces(void) {
    shape s = {.name = "faces", .parts = 6, .extent = (size_t)CUBE * CUBE * CUBE * 8};
    int sizes[3] = {CUBE, CUBE, CUBE};
    for (int face = 0; face < 6; face++) {
        int part[3] = {CUBE - 2, CUBE - 2, CUBE - 2}, start[3] = {1, 1, 1}, axis = face / 2;
        part[axis] = 1, start[axis] = face % 2 ? CUBE - 2 : 1;
        MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &s.types[face]);
    }
    return s;
}

static shape indexed(void) {
    static int lengths[BLOCKS], displacements[BLOCKS];
    unsigned seed = 12345, at = 0;
    for (int block = 0; block < BLOCKS; block++) {
        seed = seed * 1103515245 + 12345;
        displacements[block] = at += (seed >> 16) % 128;
        seed = seed * 1103515245 + 12345;
        lengths[block] = 8 + (seed >> 16) % 57;
        at += lengths[block];
    }
    shape s = {.name = "indexed", .parts = 1, .extent = at};
    MPI_Type_indexed(BLOCKS, lengths, displacements, MPI_BYTE, s.types);
    return s;
}

static double packing(const bench_options *o, const shape *s, unsigned char *data, char *packed, int unpack) {
    double start = 0;
    for (int round = -bench_warmup(o, o->iterations); round < o->iterations; round++) {
        if (round == 0) start = bench_now();
        for (int part = 0, at = 0; part < s->parts; part++) {
            if (unpack) MPI_Unpack(packed, (int)s->bytes, &at, data, 1, s->types[part], MPI_COMM_SELF);
            else MPI_Pack(data, 1, s->types[part], packed, (int)s->bytes, &at, MPI_COMM_SELF);
        }
    }
    return (bench_now() - start) / o->iterations;
}

static double half_round_trip(const bench_options *o, const shape *s, unsigned char *out, unsigned char *in) {
    int rank = bench_rank(), peer = 1 - rank;
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, o->iterations); round < o->iterations; round++) {
        if (round == 0) start = bench_now();
        for (int sender = 0; sender < 2; sender++)
            for (int part = 0; part < s->parts; part++) {
                if (sender == rank) MPI_Send(out, 1, s->types[part], peer, part, MPI_COMM_WORLD);
                else MPI_Recv(in, 1, s->types[part], peer, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
    }
    return (bench_now() - start) / o->iterations / 2;
}

/* `in` must hold the bytes that were packed from `out`; other bytes must be untouched. */
static void verify(const shape *s, const unsigned char *out, const unsigned char *in, char *packed) {
    unsigned char *wanted = bench_buffer(s->extent);
    for (int part = 0, from = 0, to = 0; part < s->parts; part++) {
        MPI_Pack(out, 1, s->types[part], packed, (int)s->bytes, &to, MPI_COMM_SELF);
        MPI_Unpack(packed, (int)s->bytes, &from, wanted, 1, s->types[part], MPI_COMM_SELF);
    }
    if (memcmp(wanted, in, s->extent)) {
        fprintf(stderr, "%s: wrong data\n", s->name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(wanted);
}

static void measure(const bench_options *o, shape s) {
    for (int part = 0; part < s.parts; part++) {
        int size;
        MPI_Type_commit(&s.types[part]);
        MPI_Type_size(s.types[part], &size);
        s.bytes += size;
    }
    unsigned char *out = bench_buffer(s.extent), *in = bench_buffer(s.extent);
    char *packed = (char *)bench_buffer(s.bytes);
    bench_fill(out, s.extent, 1);
    double pack = packing(o, &s, out, packed, 0), unpack = packing(o, &s, in, packed, 1);
    if (o->check) verify(&s, out, in, packed), memset(in, 0, s.extent);
    double trip = half_round_trip(o, &s, out, in);
    if (o->check) verify(&s, out, in, packed);
    if (bench_rank() == 0) {
        printf("%-10s%10zu%18.3f%18.3f%18.3f", s.name, s.bytes, pack * 1e6, unpack * 1e6, trip * 1e6);
        bench_row_end(o);
    }
    for (int part = 0; part < s.parts; part++) MPI_Type_free(&s.types[part]);
    free(out), free(in), free(packed);
}

int main(int argc, char **argv) {
    bench_options o = {.iterations = 1000, .warmup = -1};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "strided [options]", "i:x:ch", &o);
    if (bench_size() != 2) bench_end(2, "strided runs on 2 ranks");
    bench_head(&o, "strided data", "Shape         Size          Pack(us)        Unpack(us)   Avg Latency(us)");
    measure(&o, column());
    measure(&o, faces());
    measure(&o, indexed());
    MPI_Finalize();
    return 0;
}
