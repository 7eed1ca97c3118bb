! Intercommunicators: point-to-point, collectives with roots of the other group, sections, counts by
! the remote size, and conversions of handles between the interfaces.
program intercomm_f08
  use mpi_f08
  implicit none
  type(MPI_Comm) :: half, inter, copy
  integer :: me, n, mine, remote, colour, leader
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  if (n > 1) call all_tests()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! Groups of a third and of two thirds of the ranks.
  subroutine all_tests()
    logical :: is_inter
    integer :: size, others
    others = max(n / 3, 1)
    colour = merge(0, 1, me < others)
    leader = merge(others, 0, me < others)
    call MPI_Comm_split(MPI_COMM_WORLD, colour, me, half)
    call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 9, inter)
    call MPI_Comm_test_inter(inter, is_inter)
    call MPI_Comm_rank(inter, mine)
    call MPI_Comm_size(inter, size)
    call MPI_Comm_remote_size(inter, remote)
    call check('kind and sizes', is_inter .and. size + remote == n)
    call messages()
    call broadcast()
    call gathers()
    call all_to_all()
    call reductions()
    call merged()
    call MPI_Comm_dup(inter, copy)
    call MPI_Comm_compare(inter, copy, size)
    call check('duplicate', size == MPI_CONGRUENT .and. copy /= inter)
    call MPI_Comm_free(copy)
    call MPI_Comm_free(inter)
    call MPI_Comm_free(half)
    call check('null handles', inter == MPI_COMM_NULL .and. half == MPI_COMM_NULL)
  end subroutine

  ! Each rank of a group sends a row to each of the other.
  subroutine messages()
    integer, asynchronous :: out(3, 4), in(3, 4, 0:remote - 1)
    type(MPI_Request) :: requests(2 * remote)
    type(MPI_Status) :: statuses(2 * remote)
    integer :: i
    ! Not in Open MPI {
    out = 100 * me
    out(2, :) = out(2, :) + [1, 2, 3, 4]
    in = -1
    do i = 0, remote - 1
      call MPI_Irecv(in(3, 4:1:-1, i), 4, MPI_INTEGER, i, 1, inter, requests(i + 1))
      call MPI_Isend(out(2, :), 4, MPI_INTEGER, i, 1, inter, requests(remote + i + 1))
    end do
    call MPI_Waitall(2 * remote, requests, statuses)
    do i = 0, remote - 1
      call check('row', all(in(3, 4:1:-1, i) == 100 * world(i) + [1, 2, 3, 4]))
      call check('source', statuses(i + 1)%MPI_SOURCE == i)
    end do
    call check('rest', count(in == -1) == 8 * remote)
    ! }
  end subroutine

  ! The rank in MPI_COMM_WORLD of a rank of the other group.
  integer function world(i)
    integer, intent(in) :: i
    world = i + merge(max(n / 3, 1), 0, colour == 0)
  end function

  ! The last rank of the first group is the root.
  subroutine broadcast()
    integer :: root, values(10)
    values = -1
    if (colour == 0) then
      root = merge(MPI_ROOT, MPI_PROC_NULL, mine == n - remote - 1)
      if (root == MPI_ROOT) values = 5
    else
      root = remote - 1
    end if
    call MPI_Bcast(values(1:9:2), 5, MPI_INTEGER, root, inter)
    if (colour == 1) call check('broadcast', all(values(1:9:2) == 5) .and. count(values == -1) == 5)
  end subroutine

  subroutine gathers()
    integer :: root, got(2, 0:remote), out(4), counts(remote), places(remote), i
    type(MPI_Request) :: request
    out = [me, 0, me + 1000, 0]
    got = -1
    call MPI_Allgather(out(1:3:2), 2, MPI_INTEGER, got, 2, MPI_INTEGER, inter)
    call check('allgather', all(got(1, :remote - 1) == [(world(i), i = 0, remote - 1)]) .and. &
      all(got(2, :remote - 1) == got(1, :remote - 1) + 1000) .and. all(got(:, remote) == -1))
    got = -1
    counts = 2
    places = [(2 * (remote - i), i = 1, remote)]
    root = merge(merge(MPI_ROOT, MPI_PROC_NULL, mine == 0), 0, colour == 0)
    call MPI_Igatherv(out(1:3:2), 2, MPI_INTEGER, got, counts, places, MPI_INTEGER, root, inter, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (root == MPI_ROOT) then
      call check('gatherv', all(got(1, :remote - 1) == [(world(i), i = remote - 1, 0, -1)]))
    else
      call check('no gatherv', all(got == -1))
    end if
  end subroutine

  ! Arrays of counts and types have the size of the other group.
  subroutine all_to_all()
    integer :: out(0:remote - 1), in(0:remote - 1), counts(remote), places(remote), i
    type(MPI_Datatype) :: types(remote)
    out = [(100 * me + i, i = 0, remote - 1)]
    in = -1
    call MPI_Alltoall(out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, inter)
    call check('alltoall', all(in == [(100 * world(i) + mine, i = 0, remote - 1)]))
    in = -1
    counts = 1
    places = [(4 * i, i = 0, remote - 1)]
    types = MPI_INTEGER
    call MPI_Alltoallw(out, counts, places, types, in, counts, places, types, inter)
    call check('alltoallw', all(in == [(100 * world(i) + mine, i = 0, remote - 1)]))
  end subroutine

  subroutine reductions()
    integer :: a(6), b(6), i
    a = me
    b = -1
    call MPI_Allreduce(a(1:6:2), b(2:6:2), 3, MPI_INTEGER, MPI_SUM, inter)
    call check('allreduce', all(b(2:6:2) == sum([(world(i), i = 0, remote - 1)])) .and. &
      all(b(1:5:2) == -1))
  end subroutine

  subroutine merged()
    type(MPI_Comm) :: whole
    type(MPI_Group) :: group, world_group
    integer :: size, relation, old
    call MPI_Intercomm_merge(inter, colour == 1, whole)
    call MPI_Comm_size(whole, size)
    call MPI_Comm_group(whole, group)
    call MPI_Comm_group(MPI_COMM_WORLD, world_group)
    call MPI_Group_compare(group, world_group, relation)
    call check('merged', size == n .and. relation == MPI_IDENT)
    call MPI_Group_free(group)
    call MPI_Group_free(world_group)
    old = whole%MPI_VAL
    call MPI_Comm_free(whole)
    call check('a handle', old /= whole%MPI_VAL)
  end subroutine
end program
