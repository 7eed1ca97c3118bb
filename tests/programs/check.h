/* Code that every program here shares: a check that ends the job and prints where it failed, and
 * the `ok` line that the table looks for. A program that stops half-way prints no `ok`, with any
 * exit code. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks; /* in MPI_COMM_WORLD */

__attribute__((format(printf, 3, 4), noreturn)) static inline void
fail_at(const char *file, int line, const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: rank %d of %d: %s\n", file, line, rank, ranks, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 99);
    exit(99);
}

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

/* CHECK(condition, format, values...): the message contains what was found. */
#define CHECK(condition, ...) \
    do { \
        if (!(condition)) \
            FAIL(__VA_ARGS__); \
    } while (0)

/* Two integers are the same. */
#define SAME(found, wanted) \
    do { \
        long long found_ = (long long)(found), wanted_ = (long long)(wanted); \
        if (found_ != wanted_) \
            FAIL("%s is %lld, not %lld", #found, found_, wanted_); \
    } while (0)

/* The call raises an error of this class (its handler must return). */
#define RAISES(wanted, call) \
    do { \
        int class_ = class_of(call); \
        if (class_ != (wanted)) \
            FAIL("%s raised class %d, not %s", #call, class_, #wanted); \
    } while (0)

static inline int class_of(int code)
{
    int class = MPI_ERR_LASTCODE;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    else
        class = MPI_SUCCESS;
    return class;
}

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Errors come back as codes instead of ending the job. */
static inline void let_errors_return(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static inline int finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ok\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

/* Bytes that depend on sender, message and place: a byte from elsewhere shows. */
static inline unsigned char pattern(uint64_t seed, uint64_t at)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + at * 0xd1b54a32d192ed03u;
    return (unsigned char)((x >> 56) ^ (x >> 24));
}

static inline void fill(void *buffer, size_t bytes, uint64_t seed)
{
    unsigned char *to = (unsigned char *)buffer;
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern(seed, i);
}

static inline void check_filled(const char *file, int line, const void *buffer, size_t bytes, uint64_t seed)
{
    const unsigned char *from = (const unsigned char *)buffer;
    size_t first = 0, last = 0, wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != pattern(seed, i)) {
            first = wrong++ ? first : i;
            last = i;
        }
    if (wrong)
        fail_at(file, line, "byte %zu of %zu is %d, not %d: the first of %zu that are wrong, the last is %zu", first,
                bytes, from[first], pattern(seed, first), wrong, last);
}

#define CHECK_FILLED(buffer, bytes, seed) check_filled(__FILE__, __LINE__, buffer, bytes, seed)

/* A status of a receive from `source` with `tag` of `count` items of `type`. */
static inline void check_status(const char *file, int line, const MPI_Status *status, int source, int tag,
                                MPI_Datatype type, int count)
{
    int found, cancelled;
    MPI_Get_count(status, type, &found);
    MPI_Test_cancelled(status, &cancelled);
    if (status->MPI_SOURCE != source || status->MPI_TAG != tag || found != count || cancelled)
        fail_at(file, line, "status is (source %d, tag %d, count %d, cancelled %d), not (%d, %d, %d, 0)",
                status->MPI_SOURCE, status->MPI_TAG, found, cancelled, source, tag, count);
}

#define CHECK_STATUS(status, source, tag, type, count) \
    check_status(__FILE__, __LINE__, status, source, tag, type, count)

/* The empty status, MPI-5.0 3.7.3. The next one is to be empty again. */
#define CHECK_EMPTY(status) \
    do { \
        CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_BYTE, 0); \
        SAME((status)->MPI_ERROR, MPI_SUCCESS); \
        memset(status, 0x77, sizeof(MPI_Status)); \
    } while (0)

static inline void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    CHECK(memory != NULL, "no memory for %zu bytes", bytes);
    return memory;
}

#endif
