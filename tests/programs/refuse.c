/* Runs a program whose system calls of these names fail, as a container's filter
 * lets them: refuse <errno> <call>,<call>... program arguments... */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { const char *name; int number; } CALLS[] = {
    {"process_vm_readv", SYS_process_vm_readv}, {"membarrier", SYS_membarrier}, {"pidfd_open", SYS_pidfd_open},
    {"memfd_create", SYS_memfd_create}, {"fallocate", SYS_fallocate}, {"prctl", SYS_prctl},
    {"sched_setaffinity", SYS_sched_setaffinity}, {"socketpair", SYS_socketpair}, {"eventfd2", SYS_eventfd2},
    {"getrandom", SYS_getrandom}, {"close_range", SYS_close_range}, {"statx", SYS_statx},
};

static int number_of(const char *name)
{
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (!strcmp(CALLS[i].name, name))
            return CALLS[i].number;
    fprintf(stderr, "refuse: no call %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    struct sock_filter filter[64];
    struct sock_fprog program = {0, filter};
    unsigned error = argc > 3 ? (unsigned)atoi(argv[1]) : EPERM;
    if (argc < 4)
        return 2;
    filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[2], ","); name && program.len < 60; name = strtok(NULL, ",")) {
        filter[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number_of(name), 0, 1);
        filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("refuse: prctl");
        return 3;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 3;
}
