/* Nonblocking accesses of one run each, which the kernel moves by io_uring where it permits that.
 * With the argument `refused` a filter of system calls refuses io_uring, as containers do: threads
 * then move the data. */
#include "scratch_file.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MANY = 150, LONGEST = 300000 };

static unsigned char *out[MANY], *in[MANY];
static int length[MANY];
static MPI_Offset first[MANY];
static MPI_Request requests[MANY];
static MPI_Status statuses[MANY];

/* Makes io_uring_setup fail with EPERM in this process from now on. */
static void refuse_io_uring(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("seccomp");
        exit(1);
    }
}

/* Lengths of 0 bytes to some blocks of the file; the ranks' parts follow each other. */
static MPI_Offset prepare(void)
{
    MPI_Offset end = 0;
    for (int i = 0; i < MANY; i++) {
        length[i] = i % 10 == 9 ? 0 : (i * 7919) % (i % 5 ? 5000 : LONGEST);
        out[i] = malloc((size_t)length[i] + 1), in[i] = calloc((size_t)length[i] + 1, 1);
        for (int at = 0; at < length[i]; at++)
            out[i][at] = (unsigned char)(rank * 53 + i * 7 + at + at / 256 + 1);
        for (int owner = 0; owner < ranks; owner++) {
            if (owner == rank)
                first[i] = end;
            end += length[i];
        }
    }
    return end;
}

static void write_all(MPI_File file)
{
    for (int i = 0; i < MANY; i++)
        DO(MPI_File_iwrite_at(file, first[i], out[i], length[i], MPI_BYTE, &requests[i]));
    DO(MPI_Waitall(MANY, requests, statuses));
    for (int i = 0; i < MANY; i++)
        COUNT_IS(&statuses[i], MPI_BYTE, length[i]);
}

static void read_all(MPI_File file)
{
    for (int i = 0; i < MANY; i++)
        DO(MPI_File_iread_at(file, first[i], in[i], length[i], MPI_BYTE, &requests[i]));
    for (int left = MANY; left > 0; left--) {
        int which;
        MPI_Status status;
        if (left % 3 == 0) {
            /* A loop of tests, in which nothing else makes progress. */
            int done = 0;
            while (!done)
                DO(MPI_Testany(MANY, requests, &which, &done, &status));
        } else {
            DO(MPI_Waitany(MANY, requests, &which, &status));
        }
        COUNT_IS(&status, MPI_BYTE, length[which]);
        CHECK(!memcmp(in[which], out[which], (size_t)length[which]), "access %d read other bytes", which);
    }
}

/* A read that crosses the end of the file gets what is before it; one behind it gets nothing. */
static void read_the_end(MPI_File file, MPI_Offset end)
{
    MPI_Request request;
    MPI_Status status;
    static char buffer[200000];
    DO(MPI_File_iread_at(file, end - 100, buffer, sizeof buffer, MPI_BYTE, &request));
    DO(MPI_Wait(&request, &status));
    COUNT_IS(&status, MPI_BYTE, 100);
    DO(MPI_File_iread_at(file, end + 5, buffer, 10, MPI_BYTE, &request));
    DO(MPI_Wait(&request, &status));
    COUNT_IS(&status, MPI_BYTE, 0);
}

/* A rank that sleeps in a wait for a message still ends its access, and the other way round. */
static void beside_messages(MPI_File file)
{
    MPI_Request both[2];
    int token = rank, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got = -1;
    for (int round = 0; round < 20; round++) {
        DO(MPI_File_iread_at(file, first[0], in[5], length[5], MPI_BYTE, &both[0]));
        MPI_Irecv(&got, 1, MPI_INT, before, round, MPI_COMM_WORLD, &both[1]);
        MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
        DO(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        SAME(got, before);
    }
}

/* The error of an access comes with its request. */
static void fail(void)
{
    MPI_File file;
    MPI_Request request;
    int class;
    DO(MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    DO(MPI_File_iwrite_at(file, 0, out[5], length[5], MPI_BYTE, &request));
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    SAME(class, MPI_ERR_NO_SPACE);
    DO(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "refused"))
        refuse_io_uring();
    start(&argc, &argv);
    MPI_File file;
    MPI_Offset end = prepare();
    DO(MPI_File_open(MPI_COMM_WORLD, scratch_file("uring"),
                     MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    write_all(file);
    MPI_Barrier(MPI_COMM_WORLD);
    read_all(file);
    read_the_end(file, end);
    beside_messages(file);
    fail();
    MPI_Barrier(MPI_COMM_WORLD);
    /* Nothing waits for this one, and its memory ends with the program. */
    MPI_Request forgotten;
    DO(MPI_File_iwrite_at(file, first[5], out[5], length[5], MPI_BYTE, &forgotten));
    DO(MPI_Request_free(&forgotten));
    DO(MPI_File_close(&file));
    int failed = finish();
    for (int i = 0; i < MANY; i++)
        free(out[i]), free(in[i]);
    return failed;
}
