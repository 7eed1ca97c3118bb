! Sections of all shapes in calls of all kinds: each shape goes around the ring by each kind of call.
module by_all_calls
  use mpi_f08
  implicit none
  integer, parameter :: CALLS = 13, A = MPI_ADDRESS_KIND, C = MPI_COUNT_KIND
  integer :: me, ranks, next, prev
  type(MPI_Comm) :: ring
  type(MPI_File) :: file
contains
  subroutine check(what, by, is_right)
    character(len=*), intent(in) :: what
    integer, intent(in) :: by
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,3A,I0)', 'rank ', me, ': WRONG ', what, ' by call ', by
  end subroutine

  ! Passes `count` elements of `out` to the next rank's `in`.
  subroutine pass(by, out, in, count, datatype)
    integer, intent(in) :: by, count
    type(*), dimension(..), asynchronous :: out, in
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Request) :: requests(2)
    type(MPI_Message) :: message
    integer :: size, bytes, place
    character, allocatable, asynchronous :: room(:)
    call MPI_Type_size(datatype, size)
    bytes = size * count
    select case (by)
    case (1)
      call MPI_Sendrecv(out, count, datatype, next, by, in, count, datatype, prev, by, ring, &
        MPI_STATUS_IGNORE)
    case (2)
      call MPI_Irecv(in, count, datatype, prev, by, ring, requests(1))
      call MPI_Isend(out, count, datatype, next, by, ring, requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    case (3)
      call MPI_Irecv(in, int(count, C), datatype, prev, by, ring, requests(1))
      call MPI_Isend(out, int(count, C), datatype, next, by, ring, requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    case (4)
      call MPI_Recv_init(in, count, datatype, prev, by, ring, requests(1))
      call MPI_Ssend_init(out, count, datatype, next, by, ring, requests(2))
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call MPI_Request_free(requests(1))
      call MPI_Request_free(requests(2))
    case (5)
      call MPI_Isend(out, count, datatype, next, by, ring, requests(1))
      call MPI_Mprobe(prev, by, ring, message, MPI_STATUS_IGNORE)
      call MPI_Mrecv(in, count, datatype, message, MPI_STATUS_IGNORE)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    case (6)
      call MPI_Isendrecv(out, count, datatype, next, by, in, count, datatype, prev, by, ring, &
        requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    case (7)
      call MPI_Neighbor_alltoall(out, count, datatype, in, count, datatype, ring)
    case (8)
      call MPI_Ineighbor_allgather(out, count, datatype, in, count, datatype, ring, requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    case (9)
      call MPI_Neighbor_alltoallw_init(out, [count], [0_A], [datatype], in, [count], [0_A], &
        [datatype], ring, MPI_INFO_NULL, requests(1))
      call MPI_Start(requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call MPI_Request_free(requests(1))
    case (10)
      allocate (room(bytes + MPI_BSEND_OVERHEAD))
      place = 0
      call MPI_Pack(out, count, datatype, room, bytes, place, ring)
      call check('packed', by, place == bytes)
      call MPI_Sendrecv_replace(room, bytes, MPI_PACKED, next, by, prev, by, ring, &
        MPI_STATUS_IGNORE)
      place = 0
      call MPI_Unpack(room, bytes, place, in, count, datatype, ring)
    case (11)
      call through_window(bytes, size, out, in, count, datatype)
    case (12)
      call MPI_File_write_at(file, int(me * bytes, MPI_OFFSET_KIND), out, count, datatype, &
        MPI_STATUS_IGNORE)
      call MPI_File_sync(file)
      call MPI_Barrier(ring)
      call MPI_File_sync(file)
      call MPI_File_iread_at(file, int(prev * bytes, MPI_OFFSET_KIND), in, count, datatype, &
        requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call MPI_Barrier(ring)
    case (13)
      call MPI_Precv_init(in, 1, count, datatype, prev, by, ring, MPI_INFO_NULL, requests(1))
      call MPI_Psend_init(out, 1, count, datatype, next, by, ring, MPI_INFO_NULL, requests(2))
      call MPI_Startall(2, requests)
      call MPI_Pready(0, requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call MPI_Request_free(requests(1))
      call MPI_Request_free(requests(2))
    end select
  end subroutine

  subroutine through_window(bytes, size, out, in, count, datatype)
    integer, intent(in) :: bytes, size, count
    type(*), dimension(..), asynchronous :: out, in
    type(MPI_Datatype), intent(in) :: datatype
    character, allocatable, asynchronous :: memory(:)
    type(MPI_Win) :: window
    allocate (memory(max(bytes, 1)))
    call MPI_Win_create(memory, int(bytes, A), size, MPI_INFO_NULL, ring, window)
    call MPI_Win_fence(0, window)
    call MPI_Put(out, count, datatype, next, 0_A, count, datatype, window)
    call MPI_Win_fence(0, window)
    call MPI_Get(in, count, datatype, me, 0_A, count, datatype, window)
    call MPI_Win_fence(0, window)
    call MPI_Win_free(window)
  end subroutine
end module

program section_shapes_f08
  use by_all_calls
  implicit none
  integer :: by, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  next = modulo(me + 1, ranks)
  prev = modulo(me - 1, ranks)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [prev], MPI_UNWEIGHTED, 1, [next], &
    MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring)
  call MPI_File_open(ring, 'section_shapes_f08.data', &
    MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  do by = 1, CALLS
    call seven_dimensions()
    call fifteen_dimensions()
    call dummies()
    call pointers()
    call parts_of_elements()
    call nothing()
    call single_elements()
  end do
  call MPI_File_close(file)
  call MPI_Comm_free(ring)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  ! Strides of both signs, a section of one element, and a whole dimension.
  subroutine seven_dimensions()
    integer, allocatable, asynchronous :: x(:, :, :, :, :, :, :), y(:, :, :, :, :, :, :)
    logical, allocatable :: hit(:, :, :, :, :, :, :)
    allocate (x(3, 4, 2, 3, 2, 5, 2), y(3, 4, 2, 3, 2, 5, 2), hit(3, 4, 2, 3, 2, 5, 2))
    x = reshape([(10000 * me + i, i = 1, size(x))], shape(x))
    y = -1
    hit = .false.
    hit(1:3:2, 4:1:-3, 2:2, :, 2:1:-1, 5:1:-2, 1) = .true.
    call pass(by, x(1:3:2, 4:1:-3, 2:2, :, 2:1:-1, 5:1:-2, 1), &
      y(1:3:2, 4:1:-3, 2:2, :, 2:1:-1, 5:1:-2, 1), 72, MPI_INTEGER)
    call check('seven dimensions', by, all(merge(y == x + 10000 * (prev - me), y == -1, hit)))
    ! Another shape on the other side, and backwards.
    y = -1
    call pass(by, x(:, :, :, 3, :, 1:4:3, :), y(3:1:-1, 4:1:-1, 2:1:-1, 1, 2:1:-1, 2:5:3, 2:1:-1), &
      192, MPI_INTEGER)
    call check('reversed', by, all(y(3:1:-1, 4:1:-1, 2:1:-1, 1, 2:1:-1, 2:5:3, 2:1:-1) == &
      x(:, :, :, 3, :, 1:4:3, :) + 10000 * (prev - me)) .and. count(y == -1) == size(y) - 192)
  end subroutine

  subroutine fifteen_dimensions()
    integer(kind=2), asynchronous :: x(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), &
      y(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
    x = reshape([(int(modulo(i, 1000) + me, 2), i = 1, size(x))], shape(x))
    y = -1
    call pass(by, x(:, 2, :, 1, :, :, 2:1:-1, :, 1, :, :, :, 2, :, :), &
      y(2:1:-1, :, :, 1, :, 2, :, :, :, :, 1, :, 2, :, :), 2048, MPI_INTEGER2)
    call check('fifteen dimensions', by, all(y(2:1:-1, :, :, 1, :, 2, :, :, :, :, 1, :, 2, :, :) == &
      x(:, 2, :, 1, :, :, 2:1:-1, :, 1, :, :, :, 2, :, :) + prev - me) .and. count(y == -1) == 30720)
  end subroutine

  ! Dummy arguments of assumed size and assumed shape.
  subroutine dummies()
    real, asynchronous :: x(24), y(24)
    x = [(1000. * me + i, i = 1, 24)]
    y = -1
    call of_assumed_size(x, y)
    call check('assumed size', by, all(y == x + 1000 * (prev - me)))
    y = -1
    call of_assumed_size_parts(x, y)
    call check('part of assumed size', by, &
      all(y(2:24:3) == x(1:24:3) + 1000 * (prev - me)) .and. count(y == -1) == 16)
    y = -1
    call of_assumed_shape(x(24:1:-2), y(1:12))
    call check('assumed shape', by, all(y(2:12:2) == x(22:2:-4) + 1000 * (prev - me)) .and. &
      count(y == -1) == 18)
  end subroutine

  subroutine of_assumed_size(x, y)
    real, asynchronous :: x(*), y(3, *)
    call pass(by, x, y, 24, MPI_REAL)
  end subroutine

  subroutine of_assumed_size_parts(x, y)
    real, asynchronous :: x(3, *), y(3, 2, *)
    call pass(by, x(1, 1:8), y(2, :, 1:4), 8, MPI_REAL)
  end subroutine

  subroutine of_assumed_shape(x, y)
    real, asynchronous :: x(0:), y(-3:)
    call pass(by, x(1::2), y(-2::2), 6, MPI_REAL)
  end subroutine

  subroutine pointers()
    type particle
      integer :: number
      double precision :: place(3)
    end type
    type(particle), allocatable, target, asynchronous :: x(:, :), y(:, :)
    double precision, pointer, asynchronous :: from(:, :), to(:, :)
    allocate (x(4, 3), y(4, 3))
    do i = 1, 4
      x(i, :)%number = i
      x(i, :)%place(1) = 100 * me + i
      x(i, :)%place(2) = 100 * me + i + 10
      x(i, :)%place(3) = 100 * me + i + 20
      y(i, :)%number = -i
    end do
    do i = 1, 3
      y%place(i) = -1
    end do
    from => x(4:1:-1, 1:3:2)%place(2)
    to => y(:, 3:1:-2)%place(1)
    call pass(by, from, to, 8, MPI_DOUBLE_PRECISION)
    call check('pointers', by, all(to == from + 100 * (prev - me)) .and. all(y(:, 2)%place(1) == -1) &
      .and. all(y%place(2) == -1) .and. all(y(4, :)%number == -4))
    ! Elements of two numbers each, of which the call passes an odd number.
    y(1, :)%place(1) = -1
    call pass(by, x(2, 2)%place(1:3:2), y(1, :)%place(1), 2, MPI_DOUBLE_PRECISION)
    call check('components', by, all(y(1, :2)%place(1) == [100 * prev + 2, 100 * prev + 22]) .and. &
      y(1, 3)%place(1) == -1)
  end subroutine

  ! Substrings, and real parts of complex numbers.
  subroutine parts_of_elements()
    character(len=5), asynchronous :: x(6), y(6)
    complex, target, asynchronous :: z(5), w(5)
    real, pointer, asynchronous :: parts(:), others(:)
    x = 'abcde'
    do i = 1, 6
      x(i)(2:3) = achar(iachar('A') + me) // achar(iachar('0') + i)
    end do
    y = '-----'
    call pass(by, x(6:2:-2)(2:3), y(1:5:2)(3:4), 6, MPI_CHARACTER)
    do i = 1, 5, 2
      call check('substring', by, &
        y(i) == '--' // achar(iachar('A') + prev) // achar(iachar('0') + 7 - i) // '-')
    end do
    call check('other strings', by, all(y(2:6:2) == '-----'))
    z = [(cmplx(i, 10 * me + i), i = 1, 5)]
    w = (-1, -2)
    parts => z(5:1:-1)%im
    others => w%re
    call pass(by, parts, others, 5, MPI_REAL)
    call check('imaginary parts', by, all(real(w) == [(real(10 * prev + i), i = 5, 1, -1)]) .and. &
      all(aimag(w) == -2))
  end subroutine

  subroutine nothing()
    integer, allocatable, asynchronous :: x(:, :), y(:)
    integer :: empty
    empty = 3
    allocate (x(4, 0), y(5))
    y = 7
    call pass(by, x(1:4:2, :), y(empty:2:2), 0, MPI_INTEGER)
    call pass(by, x, y(1:5:2), 0, MPI_INTEGER)
    call check('nothing', by, all(y == 7))
  end subroutine

  ! Scalars, and sections of one element.
  subroutine single_elements()
    integer, asynchronous :: x(4, 4), y(4, 4), scalar
    x = me
    y = -1
    call pass(by, x(2, 3), y(4:4, 1:1), 1, MPI_INTEGER)
    call check('element', by, y(4, 1) == prev .and. count(y == -1) == 15)
    scalar = -1
    call pass(by, x(1:4:2, 2:4:2), scalar, 1, MPI_INTEGER)
    call check('scalar', by, scalar == prev)
  end subroutine
end program
