/* Memory is offered to the processes of the job alone: the library names mpiexec, from which all
 * ranks descend, as the process that may trace this one (Yama), and not any process. This program
 * defines prctl in place of the C library's. */
#define _GNU_SOURCE
#include "check.h"
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long tracer;

__attribute__((visibility("default"))) int prctl(int option, ...)
{
    unsigned long values[4];
    va_list arguments;
    va_start(arguments, option);
    for (int i = 0; i < 4; i++)
        values[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_PTRACER)
        tracer = values[0];
    return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(tracer == (unsigned long)getppid(), "PR_SET_PTRACER with %lu, mpiexec is %d", tracer,
          (int)getppid());
    finish();
}
