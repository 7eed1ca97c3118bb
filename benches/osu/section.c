/* Half the time of a round trip of doubles that lie `stride` apart, by a vector type that is made
 * once: the measure of array sections in Fortran (benches/fortran/section.f90). */
#include "common.h"

typedef struct {
    double *out, *in;
    MPI_Datatype type;
} column;

static void one_way(const column *c, int sender, int blocking) {
    int rank = bench_rank(), peer = 1 - rank;
    MPI_Request request;
    if (blocking && sender == rank) MPI_Send(c->out, 1, c->type, peer, 1, MPI_COMM_WORLD);
    else if (blocking) MPI_Recv(c->in, 1, c->type, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else {
        if (sender == rank) MPI_Isend(c->out, 1, c->type, peer, 1, MPI_COMM_WORLD, &request);
        else MPI_Irecv(c->in, 1, c->type, peer, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static double half_round_trip(const bench_options *o, const column *c, int blocking) {
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -bench_warmup(o, o->iterations); round < o->iterations; round++) {
        if (round == 0) start = bench_now();
        for (int sender = 0; sender < 2; sender++) one_way(c, sender, blocking);
    }
    return (bench_now() - start) / (2.0 * o->iterations);
}

static void verify(const column *c, int n, int stride) {
    for (int i = 0; i < n * stride; i++) {
        if (c->in[i] != (i % stride ? -1 : 1 - bench_rank())) {
            fprintf(stderr, "wrong data\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void measure(const bench_options *o, size_t size, int stride) {
    int n = (int)(size / sizeof(double));
    size_t extent = size * stride;
    column c = {.out = (double *)bench_buffer(extent), .in = (double *)bench_buffer(extent)};
    MPI_Type_vector(n, 1, stride, MPI_DOUBLE, &c.type);
    MPI_Type_commit(&c.type);
    for (int i = 0; i < n * stride; i++) c.out[i] = bench_rank(), c.in[i] = -1;
    double blocking = half_round_trip(o, &c, 1), nonblocking = half_round_trip(o, &c, 0);
    if (o->check) verify(&c, n, stride);
    if (bench_rank() == 0) {
        printf("%-10zu%8d%18.3f%18.3f", size, stride, blocking * 1e6, nonblocking * 1e6);
        bench_row_end(o);
    }
    MPI_Type_free(&c.type);
    free(c.out), free(c.in);
}

int main(int argc, char **argv) {
    static const int strides[] = {2, 8, 32};
    bench_options o = {.min = 1 << 20, .max = 1 << 20, .iterations = 1000, .warmup = -1};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "section [options]", "m:i:x:ch", &o);
    if (bench_size() != 2) bench_end(2, "section runs on 2 ranks");
    bench_head(&o, "section", "Size      Stride      Blocking(us)   Nonblocking(us)");
    for (size_t at = 0; at < sizeof strides / sizeof *strides; at++)
        for (size_t size = o.min; size <= o.max; size = bench_next(&o, size)) measure(&o, size, strides[at]);
    MPI_Finalize();
    return 0;
}
