/* All calls on groups, against lists. Seed case 23; needs 6 ranks or more to
 * see everything, works on any number. */
#include "check.h"

static MPI_Group world;

/* The group has exactly these world ranks in this order; then it is freed. */
static void is(MPI_Group group, int count, const int *members)
{
    int size, me, i, *all = allocate(ranks * sizeof(int)), *there = allocate(ranks * sizeof(int)), mine = MPI_UNDEFINED;
    MPI_Group_size(group, &size);
    SAME(size, count);
    for (i = 0; i < count; i++) {
        all[i] = i;
        if (members[i] == rank)
            mine = i;
    }
    MPI_Group_rank(group, &me);
    SAME(me, mine);
    MPI_Group_translate_ranks(group, count, all, world, there);
    for (i = 0; i < count; i++)
        SAME(there[i], members[i]);
    if (group != MPI_GROUP_EMPTY)
        MPI_Group_free(&group);
    free(all);
    free(there);
}

static MPI_Group of(int count, const int *members)
{
    MPI_Group group;
    MPI_Group_incl(world, count, members, &group);
    return group;
}

static void sets(void)
{
    const int left[] = {4, 0, 2}, right[] = {5, 2, 1, 4};
    MPI_Group a = of(3, left), b = of(4, right), out;
    MPI_Group_union(a, b, &out);
    is(out, 5, (int[]){4, 0, 2, 5, 1});
    MPI_Group_intersection(a, b, &out);
    is(out, 2, (int[]){4, 2}); /* the order of the first */
    MPI_Group_intersection(b, a, &out);
    is(out, 2, (int[]){2, 4});
    MPI_Group_difference(a, b, &out);
    is(out, 1, (int[]){0});
    MPI_Group_difference(b, a, &out);
    is(out, 2, (int[]){5, 1});
    MPI_Group_difference(a, a, &out);
    is(out, 0, NULL);
    MPI_Group_union(MPI_GROUP_EMPTY, a, &out);
    is(out, 3, left);
    MPI_Group_excl(a, 2, (int[]){0, 2}, &out);
    is(out, 1, (int[]){0});
    MPI_Group_free(&a);
    MPI_Group_free(&b);
}

static void ranges(void)
{
    MPI_Group out;
    MPI_Group_range_incl(world, 2, (int[][3]){{5, 1, -2}, {0, 2, 2}}, &out);
    is(out, 5, (int[]){5, 3, 1, 0, 2});
    MPI_Group_range_incl(world, 1, (int[][3]){{1, 4, 2}}, &out);
    is(out, 2, (int[]){1, 3});
    MPI_Group_range_excl(world, 2, (int[][3]){{0, ranks - 1, 3}, {4, 1, -3}}, &out);
    {
        int i, count = 0, *members = allocate(ranks * sizeof(int));
        for (i = 0; i < ranks; i++)
            if (i % 3 != 0 && i != 4 && i != 1)
                members[count++] = i;
        is(out, count, members);
        free(members);
    }
}

static void comparisons(void)
{
    MPI_Group same = of(3, (int[]){0, 1, 2}), other = of(3, (int[]){2, 0, 1}), smaller = of(2, (int[]){0, 1}), twin;
    int result;
    twin = of(3, (int[]){0, 1, 2});
    MPI_Group_compare(same, twin, &result);
    SAME(result, MPI_IDENT);
    MPI_Group_compare(same, other, &result);
    SAME(result, MPI_SIMILAR);
    MPI_Group_compare(same, smaller, &result);
    SAME(result, MPI_UNEQUAL);
    MPI_Group_free(&same);
    MPI_Group_free(&other);
    MPI_Group_free(&smaller);
    MPI_Group_free(&twin);
}

static void translations(void)
{
    MPI_Group part = of(3, (int[]){5, 3, 1});
    int out[4];
    MPI_Group_translate_ranks(world, 4, (int[]){1, 2, 5, MPI_PROC_NULL}, part, out);
    SAME(out[0], 2);
    SAME(out[1], MPI_UNDEFINED);
    SAME(out[2], 0);
    SAME(out[3], MPI_PROC_NULL);
    MPI_Group_free(&part);
}

static void empty_and_null(void)
{
    MPI_Group none;
    int size = -1, me = 0, result;
    MPI_Group_size(MPI_GROUP_EMPTY, &size);
    SAME(size, 0);
    MPI_Group_rank(MPI_GROUP_EMPTY, &me);
    SAME(me, MPI_UNDEFINED);
    MPI_Group_incl(world, 0, NULL, &none);
    MPI_Group_compare(none, MPI_GROUP_EMPTY, &result);
    SAME(result, MPI_IDENT);
    RAISES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &size));
    RAISES(MPI_ERR_GROUP, MPI_Group_compare(world, MPI_GROUP_NULL, &result));
}

int main(int argc, char **argv)
{
    int size, i, *all;
    start(&argc, &argv);
    let_errors_return();
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(world, &size);
    SAME(size, ranks);
    all = allocate(ranks * sizeof(int));
    for (i = 0; i < ranks; i++)
        all[i] = i;
    is(of(ranks, all), ranks, all);
    empty_and_null();
    if (ranks >= 6) {
        sets();
        ranges();
        comparisons();
        translations();
    }
    MPI_Group_free(&world);
    free(all);
    return finish();
}
