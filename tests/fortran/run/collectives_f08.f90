! Every collective in its three call forms, MPI_IN_PLACE, MPI_BOTTOM, intercommunicators, graphs.
program collectives_f08
  use mpi_f08
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer :: me, n, i, j
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  call rooted()
  call everywhere()
  call reductions()
  call bottom()
  call graphs()
  if (n > 1) call between_groups()
  call persistent()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine rooted()
    integer, asynchronous :: mine(4), all_of(4 * n), counts(n), places(n)
    integer, asynchronous :: varying(n * (n + 1) / 2), some(n)
    mine = [(10 * me + i, i = 1, 4)]
    all_of = -1
    if (me == 0) all_of(1:4) = mine
    if (me == 0) then
      call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_of, 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
      call check('gather', all(all_of == [((10 * j + i, i = 1, 4), j = 0, n - 1)]))
    else
      call MPI_Gather(mine, 4, MPI_INTEGER, all_of, 0, MPI_INTEGER, 0, MPI_COMM_WORLD)
    end if
    all_of = [((10 * j + i, i = 1, 4), j = 0, n - 1)]
    mine = 0
    if (me == n - 1) then
      call MPI_Scatter(all_of, 4, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, n - 1, &
        MPI_COMM_WORLD)
    else
      call MPI_Scatter(all_of, 4, MPI_INTEGER, mine, 4, MPI_INTEGER, n - 1, MPI_COMM_WORLD)
      call check('scatter', all(mine == [(10 * me + i, i = 1, 4)]))
    end if
    counts = [(i, i = 1, n)]
    places = [(i * (i - 1) / 2, i = 1, n)]
    some = me
    varying = -1
    call MPI_Gatherv(some, me + 1, MPI_INTEGER, varying, counts, places, MPI_INTEGER, 0, &
      MPI_COMM_WORLD)
    if (me == 0) call check('gatherv', all(varying == [((j, i = 0, j), j = 0, n - 1)]))
    call MPI_Bcast(varying, size(varying), MPI_INTEGER, 0, MPI_COMM_WORLD)
    some = -1
    call MPI_Iscatterv(varying, counts, places, MPI_INTEGER, some, me + 1, MPI_INTEGER, 0, &
      MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('scatterv', all(some(1:me + 1) == me) .and. all(some(me + 2:) == -1))
    call MPI_Ibarrier(MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine

  subroutine everywhere()
    integer, asynchronous :: sent(n), got(n), counts(n), places(n), wide(2, n)
    integer(kind=MPI_COUNT_KIND), asynchronous :: large(n)
    integer(kind=A), asynchronous :: far(n)
    type(MPI_Datatype), asynchronous :: types(n)
    sent = [(100 * me + i, i = 0, n - 1)]
    call MPI_Alltoall(sent, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD)
    call check('alltoall', all(got == [(100 * i + me, i = 0, n - 1)]))
    got = sent
    call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, 1, MPI_INTEGER, MPI_COMM_WORLD)
    call check('alltoall in place', all(got == [(100 * i + me, i = 0, n - 1)]))
    counts = 1
    places = [(n - i, i = 1, n)]
    call MPI_Alltoallv(sent, counts, places, MPI_INTEGER, got, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD)
    call check('alltoallv', all(got == [(100 * i + n - 1 - me, i = n - 1, 0, -1)]))
    ! Not in Open MPI {
    large = 1
    far = [(int(i - 1, A), i = 1, n)]
    got = -1
    call MPI_Ialltoallv(sent, large, far, MPI_INTEGER, got, large, far, MPI_INTEGER, &
      MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('large alltoallv', all(got == [(100 * i + me, i = 0, n - 1)]))
    ! }
    types = MPI_INTEGER
    far = 4 * far
    ! Not in Open MPI {
    got = -1
    call MPI_Alltoallw(sent, large, far, types, got, large, far, types, MPI_COMM_WORLD)
    call check('large alltoallw', all(got == [(100 * i + me, i = 0, n - 1)]))
    ! }
    wide = -1
    wide(:, me + 1) = [me, -me]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, wide, 2, MPI_INTEGER, MPI_COMM_WORLD)
    call check('allgather', all(wide(1, :) == [(i, i = 0, n - 1)]) .and. all(sum(wide, 1) == 0))
    places = [(n - i, i = 1, n)]
    call MPI_Iallgatherv(me, 1, MPI_INTEGER, got, counts, places, MPI_INTEGER, MPI_COMM_WORLD, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('allgatherv', all(got == [(n - i, i = 1, n)]))
  end subroutine

  subroutine reductions()
    real(kind(1d0)) :: x(3), y(3)
    complex :: z, w
    integer, asynchronous :: counts(n), sent(n), got(2)
    double precision :: pair(2), place(2)
    logical :: yes, all_yes
    x = [1d0, 2d0, 3d0] * (me + 1)
    call MPI_Reduce(x, y, 3, MPI_DOUBLE_PRECISION, MPI_SUM, n - 1, MPI_COMM_WORLD)
    if (me == n - 1) call check('reduce', all(abs(y - [1, 2, 3] * n * (n + 1) / 2) < 1d-9))
    call MPI_Scan(me, j, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check('scan', j == me * (me + 1) / 2)
    j = -1
    call MPI_Exscan(me, j, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (me > 0) call check('exscan', j == me * (me - 1) / 2)
    sent = [(i, i = 1, n)]
    call MPI_Reduce_scatter_block(sent, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check('reduce-scatter block', got(1) == n * (me + 1))
    counts = 1
    call MPI_Ireduce_scatter(sent, got, counts, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('reduce-scatter', got(1) == me + 1)
    z = cmplx(1, me)
    call MPI_Allreduce(z, w, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD)
    call check('complex', w == cmplx(n, n * (n - 1) / 2))
    yes = me == 0
    call MPI_Allreduce(yes, all_yes, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
    call check('and', all_yes .eqv. (n == 1))
    call MPI_Allreduce(yes, all_yes, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
    call check('or', all_yes)
    pair = [dble(-me), dble(me)]
    call MPI_Allreduce(pair, place, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD)
    call check('minimum and place', place(1) == 1 - n .and. place(2) == n - 1)
    call MPI_Reduce_local(sent, counts, n, MPI_INTEGER, MPI_PROD)
    call check('local', all(counts == sent))
  end subroutine

  ! Absolute addresses in derived types.
  subroutine bottom()
    integer, asynchronous :: one(3), three(3)
    real(kind(1d0)), asynchronous :: two(2)
    integer(kind=A) :: places(2)
    type(MPI_Datatype) :: both, integers
    one = -1
    two = -1
    if (me == 0) then
      one = [1, 2, 3]
      two = [0.5d0, 0.25d0]
    end if
    call MPI_Get_address(one, places(1))
    call MPI_Get_address(two, places(2))
    call MPI_Type_create_struct(2, [3, 2], places, [MPI_INTEGER, MPI_DOUBLE_PRECISION], both)
    call MPI_Type_commit(both)
    call MPI_Type_create_hindexed(1, [3], places, MPI_INTEGER, integers)
    call MPI_Type_commit(integers)
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD)
    call MPI_F_sync_reg(one)
    call MPI_F_sync_reg(two)
    call check('MPI_BOTTOM', all(one == [1, 2, 3]) .and. all(two == [0.5d0, 0.25d0]))
    ! Not in Open MPI {
    three = 0
    call MPI_Irecv(three, 3, MPI_INTEGER, me, 3, MPI_COMM_WORLD, request)
    call MPI_Send(MPI_BOTTOM, 1_MPI_COUNT_KIND, integers, me, 3, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('sent from MPI_BOTTOM', all(three == one))
    ! }
    call MPI_Type_free(integers)
    call MPI_Type_free(both)
  end subroutine

  subroutine graphs()
    type(MPI_Comm) :: graph, old
    integer, asynchronous :: sources(2), targets(2), weights(2), got(2)
    integer :: into, out, edges(2), nodes, index(n)
    logical :: weighted
    sources = [modulo(me - 1, n), modulo(me + 1, n)]
    targets = [modulo(me + 1, n), modulo(me - 1, n)]
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, [5, 6], 2, targets, [7, 8], &
      MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call check('weighted', into == 2 .and. out == 2 .and. weighted)
    call MPI_Dist_graph_neighbors(graph, 2, sources, weights, 2, targets, edges)
    call check('weights', all(weights == [5, 6]) .and. all(edges == [7, 8]))
    call MPI_Neighbor_allgather(me, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph)
    call check('neighbors', all(got == sources))
    call MPI_Ineighbor_alltoall(targets, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('neighbors get their own', n < 3 .or. all(got == me))
    call MPI_Comm_free(graph)
    ! A rank without edges, and weights of no edges.
    if (me == 0) then
      call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [0], [1], [n - 1], MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., graph)
    else
      call MPI_Dist_graph_create(MPI_COMM_WORLD, 0, [0], [0], [0], MPI_UNWEIGHTED, MPI_INFO_NULL, &
        .false., graph)
    end if
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call check('one edge', into == merge(1, 0, me == n - 1) .and. out == merge(1, 0, me == 0) &
      .and. .not. weighted)
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 0, [0], &
      MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, into, out, weighted)
    call check('no edges', into == 0 .and. out == 0 .and. weighted)
    call MPI_Comm_free(graph)
    index = [(2 * i, i = 1, n)]
    call MPI_Graph_create(MPI_COMM_WORLD, n, index, [(modulo(i - 1, n), modulo(i + 1, n), &
      i = 0, n - 1)], .false., old)
    call MPI_Graphdims_get(old, nodes, i)
    call check('graph', nodes == n .and. i == 2 * n)
    call MPI_Graph_neighbors(old, me, 2, edges)
    call check('its neighbors', all(edges == [modulo(me - 1, n), modulo(me + 1, n)]))
    call MPI_Comm_free(old)
  end subroutine

  subroutine between_groups()
    type(MPI_Comm) :: half, inter, merged
    integer :: side, first, others, root, total
    logical :: is_inter
    integer, asynchronous :: got(n)
    side = mod(me, 2)
    call MPI_Comm_split(MPI_COMM_WORLD, side, me, half)
    call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, inter)
    call MPI_Comm_test_inter(inter, is_inter)
    call MPI_Comm_remote_size(inter, others)
    call check('intercommunicator', is_inter .and. others == merge((n + 1) / 2, n / 2, side == 1))
    call MPI_Allreduce(me, total, 1, MPI_INTEGER, MPI_SUM, inter)
    call check('sum of the others', total == sum([(i, i = 1 - side, n - 1, 2)]))
    first = -1
    if (side == 1) first = 77
    call MPI_Comm_rank(half, i)
    root = 0
    if (side == 1) root = merge(MPI_ROOT, MPI_PROC_NULL, i == 0)
    call MPI_Bcast(first, 1, MPI_INTEGER, root, inter)
    call check('broadcast to the others', first == 77)
    got = -1
    call MPI_Iallgather(me, 1, MPI_INTEGER, got, 1, MPI_INTEGER, inter, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('all of the others', all(got(1:others) == [(i, i = 1 - side, n - 1, 2)]))
    call MPI_Intercomm_merge(inter, side == 1, merged)
    call MPI_Comm_rank(merged, i)
    call check('merged', i == merge((n + 1) / 2, 0, side == 1) + me / 2)
    call MPI_Comm_free(merged)
    call MPI_Comm_free(inter)
    call MPI_Comm_free(half)
  end subroutine

  subroutine persistent()
    integer, asynchronous :: a(3), b(3), counts(n), places(n), all_of(n)
    type(MPI_Request) :: requests(3)
    counts = 1
    places = [(i - 1, i = 1, n)]
    ! Open MPI 4 has no interfaces of these: without ierror they would write to any address.
    call MPI_Allreduce_init(a, b, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1), j)
    call MPI_Allgatherv_init(me, 1, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), j)
    call MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, requests(3), j)
    do j = 1, 3
      a = [j, me, 1]
      b = 0
      all_of = -1
      call MPI_Startall(3, requests)
      call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
      call check('persistent', all(b == [n * j, n * (n - 1) / 2, n]) .and. all(all_of == places))
    end do
    do j = 1, 3
      call MPI_Request_free(requests(j))
    end do
  end subroutine
end program
