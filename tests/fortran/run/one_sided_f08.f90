! One-sided communication: all kinds of windows, synchronisation and operations, with sections.
program one_sided_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer :: me, n, next, prev, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  call created()
  call allocated()
  call shared()
  call dynamic()
  call attributes()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! A window of the program's memory: fences, and sections as origins.
  subroutine created()
    integer, asynchronous :: memory(40), mine(20), got(20)
    type(MPI_Win) :: win
    type(MPI_Group) :: world, to, from
    memory = -1
    mine = [(100 * me + i, i = 1, 20)]
    call MPI_Win_create(memory, 160_A, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    call MPI_Put(mine(1:19:2), 10, MPI_INTEGER, next, 0_A, 10, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call check('put of a section', all(memory(1:10) == [(100 * prev + i, i = 1, 19, 2)]))
    got = -1
    call MPI_Get(got(20:2:-2), 10_MPI_COUNT_KIND, MPI_INTEGER, next, 0_A, 10_MPI_COUNT_KIND, &
      MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call check('get into a section', all(got(20:2:-2) == mine(1:19:2)) .and. all(got(1::2) == -1))
    call MPI_Accumulate(mine(2:8:3), 3, MPI_INTEGER, next, 20_A, 3, MPI_INTEGER, MPI_SUM, win)
    call MPI_Win_fence(0, win)
    call check('accumulate', all(memory(21:23) == [(100 * prev + i - 1, i = 2, 8, 3)]))
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    call MPI_Group_incl(world, 1, [next], to)
    call MPI_Group_incl(world, 1, [prev], from)
    call MPI_Win_post(from, 0, win)
    call MPI_Win_start(to, 0, win)
    call MPI_Put(me, 1, MPI_INTEGER, next, 39_A, 1, MPI_INTEGER, win)
    call MPI_Win_complete(win)
    call MPI_Win_wait(win)
    call check('post, start, complete, wait', memory(40) == prev)
    call MPI_Group_free(to)
    call MPI_Group_free(from)
    call MPI_Group_free(world)
    call MPI_Win_free(win)
    call check('window is freed', win == MPI_WIN_NULL)
  end subroutine

  ! MPI's memory: locks, requests, atomic operations.
  subroutine allocated()
    type(MPI_Win) :: win
    type(c_ptr) :: base
    integer(kind=8), pointer :: memory(:)
    integer(kind=8), asynchronous :: mine(8), before(8), one, old, zero
    type(MPI_Request) :: request
    call MPI_Win_allocate(80_A, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
    call c_f_pointer(base, memory, [10])
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win)
    memory = 0
    call MPI_Win_unlock(me, win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock_all(0, win)
    one = 1
    call MPI_Fetch_and_op(one, old, MPI_INTEGER8, 0, 0_A, MPI_SUM, win)
    call MPI_Win_flush(0, win)
    call check('ticket', old >= 0 .and. old < n)
    mine = [(int(i + me, 8), i = 1, 8)]
    call MPI_Rput(mine(1:7:2), 4, MPI_INTEGER8, next, 1_A, 4, MPI_INTEGER8, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Win_flush_local(next, win)
    call MPI_Win_flush_all(win)
    before = -1
    call MPI_Rget(before(2:8:2), 4, MPI_INTEGER8, next, 1_A, 4, MPI_INTEGER8, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('request-based', all(before(2:8:2) == mine(1:7:2)) .and. all(before(1::2) == -1))
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Get_accumulate(mine(1:4), 4, MPI_INTEGER8, before(1:7:2), 4, MPI_INTEGER8, next, 1_A, &
      4, MPI_INTEGER8, MPI_REPLACE, win)
    call MPI_Win_flush(next, win)
    call check('get and accumulate', all(before(1:7:2) == mine(1:7:2)))
    zero = 0
    one = 100 + me
    call MPI_Compare_and_swap(one, zero, old, MPI_INTEGER8, next, 9_A, win)
    call MPI_Win_flush(next, win)
    call check('compare and swap', old == 0)
    call MPI_Raccumulate(one, 1, MPI_INTEGER8, next, 8_A, 1, MPI_INTEGER8, MPI_MAX, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Rget_accumulate(one, 0, MPI_INTEGER8, old, 1, MPI_INTEGER8, next, 9_A, 1, &
      MPI_INTEGER8, MPI_NO_OP, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('no operation', old == one)
    call MPI_Win_unlock_all(win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win)
    call MPI_Win_sync(win)
    call check('memory of others', memory(9) == 100 + prev .and. memory(10) == 100 + prev)
    if (me == 0) call check('tickets', memory(1) == n)
    call MPI_Win_unlock(me, win)
    call MPI_Win_free(win)
  end subroutine

  ! Memory that the ranks of a host share.
  subroutine shared()
    type(MPI_Comm) :: host
    type(MPI_Win) :: win
    type(c_ptr) :: base
    integer :: members, at, unit
    integer(kind=A) :: bytes
    integer, pointer :: memory(:)
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host)
    call MPI_Comm_size(host, members)
    call MPI_Comm_rank(host, at)
    call MPI_Win_allocate_shared(16_A, 4, MPI_INFO_NULL, host, base, win)
    call c_f_pointer(base, memory, [4])
    call MPI_Win_fence(0, win)
    memory = me
    call MPI_Win_fence(0, win)
    call MPI_Win_shared_query(win, modulo(at + 1, members), bytes, unit, base)
    call c_f_pointer(base, memory, [4])
    call check('shared query', bytes == 16 .and. unit == 4)
    if (members == n) call check('shared memory', all(memory == next))
    call MPI_Win_fence(0, win)
    call MPI_Win_free(win)
    call MPI_Comm_free(host)
  end subroutine

  ! Memory that is attached later; a whole address as displacement.
  subroutine dynamic()
    type(MPI_Win) :: win
    integer, asynchronous :: memory(10)
    integer(kind=A) :: address, remote
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win)
    memory = 0
    call MPI_Win_attach(win, memory, 40_A)
    call MPI_Get_address(memory(3), address)
    call MPI_Sendrecv(address, 1, MPI_AINT, prev, 1, remote, 1, MPI_AINT, next, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Win_fence(0, win)
    call MPI_Put(me, 1, MPI_INTEGER, next, MPI_Aint_add(remote, 4_A), 1, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call MPI_F_sync_reg(memory)
    call check('dynamic window', memory(4) == prev .and. sum(memory) == prev)
    call MPI_Win_detach(win, memory)
    call MPI_Win_free(win)
  end subroutine

  subroutine attributes()
    type(MPI_Win) :: win
    type(MPI_Group) :: group
    type(MPI_Info) :: info
    integer, asynchronous :: memory(5)
    integer(kind=A) :: value, address
    integer :: members, length
    logical :: flag
    character(len=MPI_MAX_OBJECT_NAME) :: name
    call MPI_Win_create(memory, 20_A, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Get_address(memory, address)
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
    call check('base', flag .and. value == address)
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
    call check('size', flag .and. value == 20)
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
    call check('unit', flag .and. value == 4)
    call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, flag)
    call check('flavor', flag .and. value == MPI_WIN_FLAVOR_CREATE)
    call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, flag)
    call check('model', flag .and. (value == MPI_WIN_UNIFIED .or. value == MPI_WIN_SEPARATE))
    call MPI_Win_get_group(win, group)
    call MPI_Group_size(group, members)
    call check('group', members == n)
    call MPI_Group_free(group)
    call MPI_Win_set_name(win, 'five numbers')
    call MPI_Win_get_name(win, name, length)
    call check('name', name == 'five numbers' .and. length == 12)
    call MPI_Win_get_info(win, info)
    call MPI_Info_free(info)
    call MPI_Win_free(win)
  end subroutine
end program
