/* Loads the library as Python does: late, at once, and for itself alone. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

typedef int get_library_version(char *, int *);

int main(int argc, char **argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    get_library_version *function;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    *(void **)&function = dlsym(library, "MPI_Get_library_version");
    if (!function || function(text, &length) != MPI_SUCCESS) return 1;
    printf("%s\n", text);
    return 0;
}
