/* Calls what is not implemented: with an argument through the default error handler, otherwise with
   MPI_ERRORS_RETURN, and looks at what comes back. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    int code, class, length;
    MPI_Init(&argc, &argv);
    if (argc > 1) {
        MPI_Open_port(MPI_INFO_NULL, port);
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("class %d: %s\n", class, text);
    MPI_Finalize();
    return class != MPI_ERR_UNSUPPORTED_OPERATION || !strstr(text, "MPI_Open_port");
}
