/* Queries before MPI_Init, and handles as integers. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            wrong = 1; \
        } \
    } while (0)

static int wrong;

static void versions(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME];
    int major = -1, minor = -1, length = -1;
    CHECK(MPI_Get_version(&major, &minor) == MPI_SUCCESS && major == 5 && minor == 0);
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == 1 && minor == 0);
    CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS && length == (int)strlen(text));
    CHECK(MPI_Get_processor_name(name, &length) == MPI_SUCCESS && length == (int)strlen(name) && length > 0);
    CHECK(MPI_Pcontrol(1, 2.0, "any") == MPI_SUCCESS);
}

static void addresses_and_clock(void) {
    int values[8];
    MPI_Aint from, to;
    double start = MPI_Wtime(), tick = MPI_Wtick();
    MPI_Get_address(&values[1], &from);
    MPI_Get_address(&values[5], &to);
    CHECK(MPI_Aint_diff(to, from) == 4 * (MPI_Aint)sizeof(int));
    CHECK(MPI_Aint_add(from, MPI_Aint_diff(to, from)) == to);
    CHECK(tick > 0 && tick < 0.1);
    while (MPI_Wtime() - start < 2 * tick) {
    }
    CHECK(MPI_Wtime() - start < 10);
}

static void handles(void) {
    MPI_Status status = {3, 4, 5, {6, 7, 8, 9, 10}}, back;
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    MPI_Comm dup;
    CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101 && MPI_Comm_fromint(0x101) == MPI_COMM_WORLD);
    CHECK(MPI_Comm_c2f(MPI_COMM_SELF) == 0x102 && MPI_Comm_f2c(0x102) == MPI_COMM_SELF);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &dup);
    CHECK(MPI_Comm_toint(dup) >= 0x1000 && MPI_Comm_fromint(MPI_Comm_toint(dup)) == dup);
    CHECK(MPI_Comm_fromint(-1) == MPI_COMM_NULL && MPI_Comm_fromint(0x7fffffff) == MPI_COMM_NULL);
    MPI_Comm_free(&dup);
    CHECK(MPI_Status_c2f(&status, fortran) == MPI_SUCCESS);
    CHECK(fortran[MPI_F_SOURCE] == 3 && fortran[MPI_F_TAG] == 4 && fortran[MPI_F_ERROR] == 5);
    CHECK(MPI_Status_f2c(fortran, &back) == MPI_SUCCESS && memcmp(&status, &back, sizeof back) == 0);
    MPI_F08_status f08, again;
    CHECK(MPI_Status_f2f08(fortran, &f08) == MPI_SUCCESS && MPI_Status_f082c(&f08, &back) == MPI_SUCCESS);
    CHECK(memcmp(&status, &back, sizeof back) == 0);
    CHECK(MPI_Status_c2f08(&back, &again) == MPI_SUCCESS && memcmp(&f08, &again, sizeof f08) == 0);
    MPI_Fint old[MPI_F_STATUS_SIZE];
    CHECK(MPI_Status_f082f(&again, old) == MPI_SUCCESS && memcmp(old, fortran, sizeof old) == 0);
}

static void interface(void) {
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, flag = 0, yes = 0, no = 1, set = 0;
    MPI_Info info;
    CHECK(MPI_Abi_get_info(&info) == MPI_SUCCESS);
    CHECK(MPI_Info_get_string(info, "mpi_aint_size", &length, value, &flag) == MPI_SUCCESS);
    CHECK(flag && strcmp(value, "8") == 0);
    MPI_Info_free(&info);
    length = sizeof value;
    CHECK(MPI_Abi_get_fortran_info(&info) == MPI_SUCCESS);
    CHECK(MPI_Info_get_string(info, "mpi_double_precision_size", &length, value, &flag) == MPI_SUCCESS);
    CHECK(flag && strcmp(value, "8") == 0);
    MPI_Info_free(&info);
    CHECK(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &set) == MPI_SUCCESS && set && yes == 1 && no == 0);
}

int main(int argc, char **argv) {
    versions();
    addresses_and_clock();
    MPI_Init(&argc, &argv);
    handles();
    interface();
    MPI_Finalize();
    return wrong;
}
