/* Every predefined operation on every type that it is for, checked against a plain loop. Also the
   pair types with their locations, and types that an operation is not for. */
#include "check.h"
#include <complex.h>
#include <limits.h>
#include <stdbool.h>

enum { COUNT = 37 };

/* For one C type: values that are small enough for a product over 16 ranks, reduced by a loop in
   rank order. */
#define VALUE(r, i) (((r) + (i)) % 3 + 1)

#define REDUCE(T, type, op, expression) \
    do { \
        T mine[COUNT], out[COUNT]; \
        int i_, r_; \
        for (i_ = 0; i_ < COUNT; i_++) { \
            mine[i_] = (T)VALUE(rank, i_); \
            memset(&out[i_], 0x55, sizeof(T)); \
        } \
        SAME(MPI_Allreduce(mine, out, COUNT, type, op, MPI_COMM_WORLD), MPI_SUCCESS); \
        for (i_ = 0; i_ < COUNT; i_++) { \
            T a = (T)VALUE(0, i_), b; \
            for (r_ = 1; r_ < ranks; r_++) { \
                b = (T)VALUE(r_, i_); \
                a = (T)(expression); \
            } \
            CHECK(out[i_] == a, "%s on %s: wrong at %d", #op, #type, i_); \
        } \
    } while (0)

#define ARITHMETIC(T, type) \
    do { \
        REDUCE(T, type, MPI_SUM, a + b); \
        REDUCE(T, type, MPI_PROD, a * b); \
    } while (0)

#define ORDERED(T, type) \
    do { \
        ARITHMETIC(T, type); \
        REDUCE(T, type, MPI_MAX, a > b ? a : b); \
        REDUCE(T, type, MPI_MIN, a < b ? a : b); \
    } while (0)

#define LOGICAL(T, type) \
    do { \
        REDUCE(T, type, MPI_LAND, a && b); \
        REDUCE(T, type, MPI_LOR, a || b); \
        REDUCE(T, type, MPI_LXOR, !a != !b); \
    } while (0)

#define BITS(T, type) \
    do { \
        REDUCE(T, type, MPI_BAND, a & b); \
        REDUCE(T, type, MPI_BOR, a | b); \
        REDUCE(T, type, MPI_BXOR, a ^ b); \
    } while (0)

#define INTEGER(T, type) \
    do { \
        ORDERED(T, type); \
        LOGICAL(T, type); \
        BITS(T, type); \
    } while (0)

static void types_of_c(void)
{
    INTEGER(char, MPI_CHAR); /* beyond the standard, as elsewhere */
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
    INTEGER(MPI_Aint, MPI_AINT); /* as logical values beyond the standard, as elsewhere */
    INTEGER(MPI_Offset, MPI_OFFSET);
    INTEGER(MPI_Count, MPI_COUNT);
    ORDERED(float, MPI_FLOAT);
    ORDERED(double, MPI_DOUBLE);
    ORDERED(long double, MPI_LONG_DOUBLE);
    LOGICAL(bool, MPI_C_BOOL);
    ARITHMETIC(float complex, MPI_C_FLOAT_COMPLEX);
    ARITHMETIC(double complex, MPI_C_DOUBLE_COMPLEX);
    ARITHMETIC(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    BITS(unsigned char, MPI_BYTE);
}

/* Extremes: signs, wide values, and what small values would not show. */
static void extremes(void)
{
    long long wide = rank == 0 ? LLONG_MIN : rank, out;
    unsigned char byte = rank == ranks - 1 ? 255 : 0, most;
    char text = rank == 0 ? CHAR_MIN : 1, lowest;
    double real = rank == 0 ? -1e300 : -1.0 / (rank + 1), least;
    MPI_Allreduce(&wide, &out, 1, MPI_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
    CHECK(out == LLONG_MIN, "the least of long long is %lld", out);
    MPI_Allreduce(&byte, &most, 1, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    SAME(most, 255);
    MPI_Allreduce(&text, &lowest, 1, MPI_CHAR, MPI_MIN, MPI_COMM_WORLD);
    SAME(lowest, CHAR_MIN);
    MPI_Allreduce(&real, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    CHECK(least == -1e300, "the least of doubles is %g", least);
}

/* MAXLOC and MINLOC: of equal values the lowest location. */
#define LOCATION(T, type) \
    do { \
        struct { T value; int at; } mine[COUNT], most[COUNT], least[COUNT]; \
        int i_; \
        memset(mine, 0, sizeof mine); \
        for (i_ = 0; i_ < COUNT; i_++) { \
            mine[i_].value = (T)((rank + i_) % 4); \
            mine[i_].at = rank; \
        } \
        MPI_Allreduce(mine, most, COUNT, type, MPI_MAXLOC, MPI_COMM_WORLD); \
        MPI_Allreduce(mine, least, COUNT, type, MPI_MINLOC, MPI_COMM_WORLD); \
        for (i_ = 0; i_ < COUNT; i_++) { \
            int high_ = 0, low_ = 0, r_; \
            for (r_ = 1; r_ < ranks; r_++) { \
                if ((r_ + i_) % 4 > (high_ + i_) % 4) \
                    high_ = r_; \
                if ((r_ + i_) % 4 < (low_ + i_) % 4) \
                    low_ = r_; \
            } \
            SAME(most[i_].at, high_); \
            SAME(most[i_].value, (high_ + i_) % 4); \
            SAME(least[i_].at, low_); \
            SAME(least[i_].value, (low_ + i_) % 4); \
        } \
    } while (0)

static void locations(void)
{
    LOCATION(float, MPI_FLOAT_INT);
    LOCATION(double, MPI_DOUBLE_INT);
    LOCATION(long, MPI_LONG_INT);
    LOCATION(int, MPI_2INT);
    LOCATION(short, MPI_SHORT_INT);
    LOCATION(long double, MPI_LONG_DOUBLE_INT);
}

static void legal_combinations(void)
{
    double real = 1, real_out;
    int integer = 1, integer_out, commutes;
    float complex z = 1, z_out;
    RAISES(MPI_ERR_OP, MPI_Allreduce(&real, &real_out, 1, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD));
    RAISES(MPI_ERR_OP, MPI_Allreduce(&real, &real_out, 1, MPI_DOUBLE, MPI_LAND, MPI_COMM_WORLD));
    RAISES(MPI_ERR_OP, MPI_Allreduce(&z, &z_out, 1, MPI_C_FLOAT_COMPLEX, MPI_MAX, MPI_COMM_WORLD));
    RAISES(MPI_ERR_OP, MPI_Allreduce(&integer, &integer_out, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD));
    RAISES(MPI_ERR_OP, MPI_Allreduce(&integer, &integer_out, 1, MPI_BYTE, MPI_SUM, MPI_COMM_WORLD));
    MPI_Op_commutative(MPI_SUM, &commutes);
    SAME(commutes, 1);
    MPI_Reduce_local(&integer, &integer, 0, MPI_INT, MPI_SUM);
    integer = 5;
    integer_out = 7;
    MPI_Reduce_local(&integer, &integer_out, 1, MPI_INT, MPI_PROD);
    SAME(integer_out, 35);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    types_of_c();
    extremes();
    locations();
    legal_combinations();
    return finish();
}
