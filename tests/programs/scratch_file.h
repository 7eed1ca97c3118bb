/* The name of a file that no other job uses: the same on all ranks, gone at the end. */
#ifndef SCRATCH_FILE_H
#define SCRATCH_FILE_H

#include "check.h"
#include <unistd.h>

static char scratch[300];

static inline const char *scratch_file(const char *name)
{
    if (rank == 0) {
        const char *folder = getenv("TMPDIR");
        snprintf(scratch, sizeof scratch, "%s/mpi-%s-%ld", folder ? folder : "/tmp", name, (long)getpid());
        unlink(scratch);
    }
    MPI_Bcast(scratch, sizeof scratch, MPI_CHAR, 0, MPI_COMM_WORLD);
    return scratch;
}

/* MPI_File calls return errors by default: this one must not. */
#define DO(call) \
    do { \
        int code_ = (call); \
        if (code_ != MPI_SUCCESS) { \
            char text_[MPI_MAX_ERROR_STRING]; \
            int len_; \
            MPI_Error_string(code_, text_, &len_); \
            FAIL("%s: %s", #call, text_); \
        } \
    } while (0)

/* A status of so many items. */
#define COUNT_IS(status, type, wanted) \
    do { \
        int count_ = -1; \
        MPI_Get_count(status, type, &count_); \
        SAME(count_, wanted); \
    } while (0)

#endif
