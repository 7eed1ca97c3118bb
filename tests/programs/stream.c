/* A stream of messages with numbers and checksums from the first rank to the last: stream
 * MESSAGES FILE [WORDS], where every thousandth has so many (12000). Each arrives once and in
 * order. The file is made when a tenth has arrived, or 10000. The longest time between two messages
 * is printed, to see how the network behaved then. */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { WINDOW = 64, LONGEST = 120000 };
static int longest_words = 12000;

/* FNV-1a over all but the checksum itself. */
static unsigned sum(const unsigned *words, int count)
{
    unsigned hash = 2166136261u;
    for (int i = 1; i < count; i++)
        hash = (hash ^ words[i]) * 16777619u;
    return hash;
}

/* Words of message `number`: mostly few, now and then more than one frame takes. */
static int length(int number)
{
    return number % 1000 == 999 ? longest_words : 3 + number % 61;
}

static void send_all(int messages, int to)
{
    static unsigned data[WINDOW][LONGEST];
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int number = 0; number < messages; number++) {
        int at = number % WINDOW, words = length(number);
        MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        for (int i = 1; i < words; i++)
            data[at][i] = (unsigned)number + (unsigned)i - 1;
        data[at][0] = sum(data[at], words);
        MPI_Isend(data[at], words, MPI_UNSIGNED, to, 7, MPI_COMM_WORLD, &requests[at]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

static void receive_all(int messages, const char *file)
{
    static unsigned data[LONGEST];
    double last = MPI_Wtime(), longest = 0;
    for (int number = 0; number < messages; number++) {
        int words;
        MPI_Status status;
        MPI_Recv(data, LONGEST, MPI_UNSIGNED, 0, 7, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_UNSIGNED, &words);
        SAME(data[1], number);
        SAME(words, length(number));
        SAME(data[0], sum(data, words));
        double now = MPI_Wtime();
        if (now - last > longest)
            longest = now - last;
        last = now;
        if (number == (messages < 100000 ? messages / 10 : 10000))
            CHECK(close(open(file, O_CREAT | O_WRONLY, 0666)) == 0, "cannot make %s", file);
    }
    int more;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &more, MPI_STATUS_IGNORE);
    CHECK(!more, "there is one message more");
    printf("%d messages, the longest pause was %.0f ms\n", messages, longest * 1e3);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc == 4)
        longest_words = atoi(argv[3]);
    CHECK(argc >= 3 && longest_words <= LONGEST && ranks >= 2, "stream MESSAGES FILE [WORDS], on 2 ranks or more");
    if (rank == 0)
        send_all(atoi(argv[1]), ranks - 1);
    if (rank == ranks - 1)
        receive_all(atoi(argv[1]), argv[2]);
    return finish();
}
