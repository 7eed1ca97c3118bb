/* MPI_Pack and its like: positions, space, messages of packed data, external32. */
#include "check.h"
#include <stddef.h>

struct record {
    char tag;
    double value[2];
    int count;
};

static MPI_Datatype record_type(void)
{
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, bare, type;
    MPI_Aint places[3] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, count)};
    MPI_Type_create_struct(3, (int[]){1, 2, 1}, places, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct record), &type);
    MPI_Type_free(&bare);
    MPI_Type_commit(&type);
    return type;
}

static void positions(MPI_Datatype type)
{
    struct record out[2] = {{'a', {1, 2}, 3}, {'b', {4, 5}, 6}}, in[2];
    char packed[100];
    int position = 0, size, mine = 42 + rank, theirs;
    MPI_Pack_size(2, type, MPI_COMM_WORLD, &size);
    CHECK(size >= 42, "MPI_Pack_size says %d", size);
    MPI_Pack(&mine, 1, MPI_INT, packed, 100, &position, MPI_COMM_WORLD);
    MPI_Pack(out, 2, type, packed, 100, &position, MPI_COMM_WORLD);
    SAME(position, 46);
    int length = position, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Status status;
    MPI_Sendrecv_replace(packed, length, MPI_PACKED, next, 5, last, 5, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, last, 5, MPI_PACKED, length);
    position = 0;
    memset(in, 0, sizeof in);
    MPI_Unpack(packed, length, &position, &theirs, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(packed, length, &position, in, 2, type, MPI_COMM_WORLD);
    SAME(position, length);
    SAME(theirs, 42 + last);
    CHECK(in[0].tag == 'a' && in[0].value[1] == 2 && in[1].tag == 'b' && in[1].count == 6, "other records arrived");

    position = 90;
    RAISES(MPI_ERR_TRUNCATE, MPI_Pack(out, 2, type, packed, 100, &position, MPI_COMM_WORLD));
    SAME(position, 90);
    RAISES(MPI_ERR_TRUNCATE, MPI_Unpack(packed, 100, &position, in, 2, type, MPI_COMM_WORLD));
    position = 101;
    RAISES(MPI_ERR_ARG, MPI_Pack(out, 1, type, packed, 100, &position, MPI_COMM_WORLD));
    position = -1;
    RAISES(MPI_ERR_ARG, MPI_Unpack(packed, 100, &position, in, 1, type, MPI_COMM_WORLD));
    position = 0;
    RAISES(MPI_ERR_COMM, MPI_Pack(out, 1, type, packed, 100, &position, MPI_COMM_NULL));
    RAISES(MPI_ERR_COUNT, MPI_Pack(out, -1, type, packed, 100, &position, MPI_COMM_WORLD));
    RAISES(MPI_ERR_BUFFER, MPI_Pack(&mine, 1, MPI_INT, NULL, 100, &position, MPI_COMM_WORLD));
    MPI_Count large = 0;
    MPI_Pack_c(out, 2, type, packed, 100, &large, MPI_COMM_WORLD);
    SAME(large, 42);
}

static void external(MPI_Datatype type)
{
    struct record out = {'x', {1.5, -2}, 258}, in;
    unsigned char packed[64];
    MPI_Aint position = 3, size;
    memset(packed, 0xee, sizeof packed);
    MPI_Pack_external_size("external32", 1, type, &size);
    SAME(size, 21);
    MPI_Pack_external("external32", &out, 1, type, packed, 24, &position);
    SAME(position, 24);
    CHECK(memcmp(packed, "\xee\xee\xeex\x3f\xf8\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\0\0\1\2\xee", 25) == 0, "other bytes");
    position = 3;
    memset(&in, 0, sizeof in);
    MPI_Unpack_external("external32", packed, 24, &position, &in, 1, type);
    SAME(position, 24);
    CHECK(in.tag == 'x' && in.value[0] == 1.5 && in.value[1] == -2 && in.count == 258, "another record came back");
    position = 4;
    RAISES(MPI_ERR_TRUNCATE, MPI_Pack_external("external32", &out, 1, type, packed, 24, &position));
    RAISES(MPI_ERR_ARG, MPI_Pack_external("native", &out, 1, type, packed, 64, &position));
    RAISES(MPI_ERR_ARG, MPI_Pack_external_size("external64", 1, type, &size));
    long wide = 1L << 40;
    RAISES(MPI_ERR_CONVERSION, MPI_Pack_external("external32", &wide, 1, MPI_LONG, packed, 64, &position));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    let_errors_return();
    MPI_Datatype type = record_type();
    positions(type);
    external(type);
    MPI_Type_free(&type);
    return finish();
}
