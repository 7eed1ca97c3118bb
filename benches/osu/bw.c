/* Bytes a second from rank 0 to rank 1, a window of messages at a time. */
#include "common.h"

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    bench_options o = bench_parse(argc, argv, "point-to-point bandwidth");
    bench_ranks(2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char *data = bench_buffer(o.max);
    MPI_Request *requests = malloc(sizeof *requests * o.window);
    if (rank == 0) printf("# Bandwidth\n# Size        Bandwidth (MB/s)    Messages/s\n");
    for (size_t size = o.min; size <= o.max; size = bench_next(size)) {
        int iterations = bench_iterations(&o, size) / 10 + 1, warmup = bench_warmup(&o, iterations);
        double start = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int round = -warmup; round < iterations; round++) {
            if (round == 0) start = MPI_Wtime();
            if (o.check && rank == 0) bench_fill(data, size, round);
            for (int i = 0; i < o.window; i++)
                if (rank == 0) MPI_Isend(data, (int)size, MPI_CHAR, 1, 100, MPI_COMM_WORLD, &requests[i]);
                else MPI_Irecv(data, (int)size, MPI_CHAR, 0, 100, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(o.window, requests, MPI_STATUSES_IGNORE);
            if (o.check && rank == 1) bench_verify(data, size, round);
            if (rank == 0) MPI_Recv(NULL, 0, MPI_CHAR, 1, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else MPI_Send(NULL, 0, MPI_CHAR, 0, 101, MPI_COMM_WORLD);
        }
        double took = MPI_Wtime() - start, messages = (double)iterations * o.window;
        if (rank == 0) printf("%-15zu %14.2f %13.0f\n", size, messages * size / took / 1e6, messages / took), fflush(stdout);
    }
    free(data), free(requests);
    MPI_Finalize();
    return 0;
}
