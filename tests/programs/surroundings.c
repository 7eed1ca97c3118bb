/* The surroundings that a rank was started in, one line each, for the table to compare: arguments,
   variables, directory, standard input. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void variable(int rank, const char *name)
{
    const char *value = getenv(name);
    printf("rank %d: %s is %s\n", rank, name, value ? value : "not set");
}

static void standard_input(int rank)
{
    char line[200];
    long bytes = 0, lines = 0;
    while (fgets(line, sizeof line, stdin)) {
        bytes += (long)strlen(line);
        lines += strchr(line, '\n') != NULL;
    }
    printf("rank %d: stdin has %ld lines, %ld bytes\n", rank, lines, bytes);
}

int main(int argc, char **argv)
{
    int rank, size, i;
    char folder[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--stdin"))
            standard_input(rank);
        else if (!strcmp(argv[i], "--folder"))
            printf("rank %d: in %s\n", rank, getcwd(folder, sizeof folder));
        else if (argv[i][0] == '$')
            variable(rank, argv[i] + 1);
        else
            printf("rank %d of %d: argument %d is %s\n", rank, size, i, argv[i]);
    }
    fprintf(stderr, "rank %d: stderr\n", rank);
    MPI_Finalize();
    return 0;
}
