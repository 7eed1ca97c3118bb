/* Cost of a message in a long queue: COUNT messages of 8 bytes wait, and are consumed in the
 * reverse of the order in which they came. Once the queue holds unexpected messages that receives
 * look for, once posted receives that messages look for. The last line compares the longest queue
 * with the shortest. */
#include "common.h"

enum { BYTES = 8, GO = 0 };

/* Rank 0 sends, in order; when all have arrived, rank 1 receives from the last to the first. */
static double unexpected(int count, unsigned char *data, MPI_Request *requests) {
    double start;
    MPI_Request last;
    if (bench_rank() == 0) {
        for (int i = 0; i < count; i++)
            MPI_Isend(data + i * BYTES, BYTES, MPI_CHAR, 1, i + 1, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(data, 0, MPI_CHAR, 1, GO, MPI_COMM_WORLD, &last);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), MPI_Wait(&last, MPI_STATUS_IGNORE);
        MPI_Recv(data, 0, MPI_CHAR, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return 0;
    }
    MPI_Recv(data, 0, MPI_CHAR, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    start = bench_now();
    for (int i = count - 1; i >= 0; i--)
        MPI_Recv(data + i * BYTES, BYTES, MPI_CHAR, 0, i + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    start = bench_now() - start;
    MPI_Send(data, 0, MPI_CHAR, 0, GO, MPI_COMM_WORLD);
    return start / count;
}

/* Rank 1 posts receives in order; when all are there, rank 0 sends from the last to the first. */
static double posted(int count, unsigned char *data, MPI_Request *requests) {
    double start;
    if (bench_rank() == 0) {
        MPI_Recv(data, 0, MPI_CHAR, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = count - 1; i >= 0; i--)
            MPI_Send(data + i * BYTES, BYTES, MPI_CHAR, 1, i + 1, MPI_COMM_WORLD);
        return 0;
    }
    for (int i = 0; i < count; i++)
        MPI_Irecv(data + i * BYTES, BYTES, MPI_CHAR, 0, i + 1, MPI_COMM_WORLD, &requests[i]);
    MPI_Send(data, 0, MPI_CHAR, 0, GO, MPI_COMM_WORLD);
    start = bench_now();
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    return (bench_now() - start) / count;
}

/* Rank 0 sends each message's number, which must be in its place afterwards. */
static void number(unsigned char *data, int count) {
    for (int i = 0; i < count; i++) {
        int value = bench_rank() == 0 ? i : -1;
        memcpy(data + i * BYTES, &value, sizeof value);
    }
}

static void verify(const unsigned char *data, int count) {
    for (int i = 0; i < count; i++) {
        int value;
        memcpy(&value, data + i * BYTES, sizeof value);
        if (value != i) {
            fprintf(stderr, "message %d has the data of message %d\n", i, value);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static int by_time(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

/* The median over so many rounds that short queues too take a while. */
static double median(double (*body)(int, unsigned char *, MPI_Request *), int count, unsigned char *data,
                     MPI_Request *requests) {
    enum { MOST = 201 };
    double times[MOST];
    int rounds = 300000 / count;
    rounds = rounds < 3 ? 3 : rounds > MOST ? MOST : rounds;
    for (int round = -1; round < rounds; round++) {
        number(data, count);
        MPI_Barrier(MPI_COMM_WORLD);
        double took = body(count, data, requests);
        verify(data, count);
        if (round >= 0) times[round] = took;
    }
    qsort(times, rounds, sizeof *times, by_time);
    return times[rounds / 2];
}

int main(int argc, char **argv) {
    bench_options o = {.min = 1000, .max = 100000};
    double first[2] = {0, 0}, now[2] = {0, 0};
    MPI_Init(&argc, &argv);
    bench_parse(argc, argv, "queue [options]   (-m: messages in the queue, times ten between)", "m:h", &o);
    if (bench_size() != 2 || o.min == 0) bench_end(2, "queue runs on 2 ranks, with 1 message or more");
    unsigned char *data = bench_buffer(o.max * BYTES);
    MPI_Request *requests = malloc(sizeof *requests * o.max);
    if (!requests) MPI_Abort(MPI_COMM_WORLD, 1);
    bench_head(&o, "matching in long queues", "Messages    Unexpected(us)        Posted(us)");
    for (size_t count = o.min; count <= o.max; count *= 10) {
        now[0] = median(unexpected, (int)count, data, requests) * 1e6;
        now[1] = median(posted, (int)count, data, requests) * 1e6;
        if (count == o.min) memcpy(first, now, sizeof first);
        if (bench_rank() == 1) printf("%-10zu%18.3f%18.3f\n", count, now[0], now[1]), fflush(stdout);
    }
    if (bench_rank() == 1) printf("ratio     %18.3f%18.3f\n", now[0] / first[0], now[1] / first[1]);
    free(data), free(requests);
    MPI_Finalize();
    return 0;
}
