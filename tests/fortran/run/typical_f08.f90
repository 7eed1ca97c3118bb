! What programs pass: derived types and their components, characters, logicals, complex numbers,
! dummy arguments of all kinds, module procedures as callbacks.
module particles
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  type :: particle
    double precision :: x(3)
    integer :: id
    logical :: is_fixed
  end type
  type :: field
    real, allocatable :: values(:, :)
    character(len=:), allocatable :: name
  end type
  type, bind(C) :: pair
    real(c_double) :: value
    integer(c_int) :: place
  end type
contains
  ! The type of a particle, by the addresses of its components.
  function particle_type() result(made)
    type(MPI_Datatype) :: made, plain
    type(particle) :: two(2)
    integer(kind=MPI_ADDRESS_KIND) :: places(4), first
    call MPI_Get_address(two(1), first)
    call MPI_Get_address(two(1)%x, places(1))
    call MPI_Get_address(two(1)%id, places(2))
    call MPI_Get_address(two(1)%is_fixed, places(3))
    call MPI_Get_address(two(2), places(4))
    places = places - first
    call MPI_Type_create_struct(3, [3, 1, 1], places(1:3), &
      [MPI_DOUBLE_PRECISION, MPI_INTEGER, MPI_LOGICAL], plain)
    call MPI_Type_create_resized(plain, 0_MPI_ADDRESS_KIND, places(4), made)
    call MPI_Type_commit(made)
    call MPI_Type_free(plain)
  end function

  subroutine keep_larger(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    type(pair), pointer :: a(:), b(:)
    integer :: i, bytes
    call MPI_Type_size(datatype, bytes)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    do i = 1, len
      if (a(i)%value > b(i)%value) b(i) = a(i)
    end do
    if (bytes /= 12) print '(A)', 'WRONG size of a pair'
  end subroutine
end module

program typical_f08
  use particles
  implicit none
  integer :: me, n, next, prev, ierror
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror=ierror)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  call derived_types()
  call components()
  call characters()
  call numbers()
  call user_operation()
  call dummies()
  call status_arrays()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine derived_types()
    type(particle) :: mine(5), theirs(5)
    type(MPI_Datatype) :: kind
    integer :: i
    mine = [(particle([1d0, 2d0, 3d0] * me, 10 * me + i, mod(i, 2) == 0), i = 1, 5)]
    kind = particle_type()
    call MPI_Sendrecv(mine, 5, kind, next, 1, theirs, 5, kind, prev, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('particles', all(theirs%id == [(10 * prev + i, i = 1, 5)]) .and. &
      all(theirs%x(2) == 2d0 * prev) .and. all(theirs%is_fixed .eqv. mine%is_fixed))
    call MPI_Type_free(kind)
    ! One component of all: a section with the stride of the type.
    theirs%id = -1
    call MPI_Sendrecv(mine%id, 5, MPI_INTEGER, next, 2, theirs%id, 5, MPI_INTEGER, prev, 2, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check('a component', all(theirs%id == [(10 * prev + i, i = 1, 5)]))
    call MPI_Bcast(theirs(1:5:2)%x(3), 3, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
    call check('a component of a component', theirs(1)%x(1) == 1d0 * prev)
  end subroutine

  subroutine components()
    type(field) :: out, in
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    integer :: length
    allocate (out%values(4, 3), in%values(4, 3))
    out%values = me
    out%name = 'field of rank ' // achar(iachar('0') + me)
    in%values = -1
    ! Not in Open MPI {
    call MPI_Irecv(in%values(2, :), 3, MPI_REAL, prev, 3, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(out%values(4, :), 3, MPI_REAL, next, 3, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('allocatable component', all(in%values(2, :) == prev) .and. count(in%values < 0) == 9)
    ! }
    call MPI_Isend(out%name, len(out%name), MPI_CHARACTER, next, 4, MPI_COMM_WORLD, requests(1))
    call MPI_Probe(prev, 4, MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_CHARACTER, length)
    allocate (character(len=length) :: in%name)
    call MPI_Recv(in%name, length, MPI_CHARACTER, prev, 4, MPI_COMM_WORLD, status)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('deferred length', in%name == 'field of rank ' // achar(iachar('0') + prev))
  end subroutine

  subroutine characters()
    character(len=6) :: words(4), got(4)
    character :: letters(0:n - 1)
    words = ['one   ', 'two   ', 'three ', 'four  ']
    got = 'xxxxxx'
    call MPI_Sendrecv(words(4:1:-2), 12, MPI_CHARACTER, next, 5, got(1::3), 12, MPI_CHARACTER, &
      prev, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check('words', got(1) == 'four' .and. got(4) == 'two' .and. got(2) == 'xxxxxx')
    call MPI_Sendrecv(words(:)(2:3), 8, MPI_CHARACTER, next, 5, got(:)(5:6), 8, MPI_CHARACTER, &
      prev, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check('substrings', got(1) == 'fourne' .and. got(2) == 'xxxxwo')
    call MPI_Allgather(achar(iachar('a') + me), 1, MPI_CHARACTER, letters, 1, MPI_CHARACTER, &
      MPI_COMM_WORLD)
    call check('letters', letters(next) == achar(iachar('a') + next))
  end subroutine

  subroutine numbers()
    complex(kind=kind(1d0)) :: z(3), sum(3)
    logical :: flags(4)
    integer :: best(2, 2)
    double precision :: least(2)
    integer(kind=8) :: large
    z = cmplx(me, 1, kind=kind(1d0))
    call MPI_Reduce(z, sum, 3, MPI_DOUBLE_COMPLEX, MPI_SUM, 0, MPI_COMM_WORLD)
    if (me == 0) call check('complex sum', all(sum == cmplx(n * (n - 1) / 2, n, kind=kind(1d0))))
    flags = [me == 0, me >= 0, me < 0, me == n - 1]
    call MPI_Allreduce(MPI_IN_PLACE, flags, 4, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
    call check('logicals', all(flags .eqv. [.true., .true., .false., .true.]))
    best(:, 1) = [-me, me]
    best(:, 2) = [mod(me, 2), me]
    call MPI_Allreduce(MPI_IN_PLACE, best, 2, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD)
    call check('maxloc', all(best(:, 1) == 0) .and. best(2, 2) == min(1, n - 1))
    least = [dble(n - me), dble(me)]
    call MPI_Allreduce(MPI_IN_PLACE, least, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD)
    call check('minloc', all(least == [1d0, n - 1d0]))
    large = 2_8**40 * (me + 1)
    call MPI_Allreduce(MPI_IN_PLACE, large, 1, MPI_INTEGER8, MPI_MAX, MPI_COMM_WORLD)
    call check('integer(8)', large == 2_8**40 * n)
  end subroutine

  subroutine user_operation()
    type(MPI_Op) :: op
    type(MPI_Datatype) :: kind
    type(pair) :: mine(2)
    integer(kind=MPI_ADDRESS_KIND) :: extent
    extent = c_sizeof(mine(1))
    mine = [pair(1d0 * me, me), pair(-1d0 * me, me)]
    block
      type(MPI_Datatype) :: plain
      call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], &
        [MPI_DOUBLE_PRECISION, MPI_INTEGER], plain)
      call MPI_Type_create_resized(plain, 0_MPI_ADDRESS_KIND, extent, kind)
      call MPI_Type_free(plain)
    end block
    call MPI_Type_commit(kind)
    call MPI_Op_create(keep_larger, .true., op)
    call MPI_Allreduce(MPI_IN_PLACE, mine, 2, kind, op, MPI_COMM_WORLD)
    call check('operation on a derived type', mine(1)%place == n - 1 .and. mine(2)%place == 0)
    call MPI_Op_free(op)
    call MPI_Type_free(kind)
  end subroutine

  subroutine dummies()
    integer, target :: a(6, 4)
    integer, pointer :: p(:, :)
    integer :: i
    a = reshape([(i, i = 1, 24)], [6, 4])
    call explicit(a(3, 2), 4)
    call assumed_size(a)
    call assumed_shape(a(2:6:2, ::3))
    call assumed_shape(a(2:6:2, [1, 4]))
    call contiguous_dummy(a(::2, :))
    p => a(6:1:-1, 2:3)
    call pointers(p)
    call scalar(a(5, 3))
    call optionals()
  end subroutine

  subroutine explicit(a, m)
    integer, intent(in) :: m, a(m)
    integer :: got(4)
    call MPI_Sendrecv(a, m, MPI_INTEGER, me, 1, got, 4, MPI_INTEGER, me, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('explicit shape', all(got == [9, 10, 11, 12]))
  end subroutine

  subroutine assumed_size(a)
    integer, intent(in) :: a(6, *)
    integer :: got(24)
    call MPI_Sendrecv(a, 24, MPI_INTEGER, me, 1, got, 24, MPI_INTEGER, me, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('assumed size', got(24) == 24 .and. got(7) == 7)
    call MPI_Sendrecv(a(1:6:3, 1:4), 8, MPI_INTEGER, me, 1, got, 8, MPI_INTEGER, me, 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check('section of assumed size', all(got(1:8) == [1, 4, 7, 10, 13, 16, 19, 22]))
  end subroutine

  subroutine assumed_shape(a)
    integer, intent(in) :: a(:, :)
    integer :: got(6)
    call MPI_Sendrecv(a, 6, MPI_INTEGER, me, 1, got, 6, MPI_INTEGER, me, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('assumed shape', all(got == [2, 4, 6, 20, 22, 24]))
  end subroutine

  subroutine contiguous_dummy(a)
    integer, contiguous, intent(in) :: a(:, :)
    integer :: got(12)
    call MPI_Sendrecv(a, 12, MPI_INTEGER, me, 1, got, 12, MPI_INTEGER, me, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('contiguous', got(4) == 7 .and. got(12) == 23)
  end subroutine

  subroutine pointers(a)
    integer, pointer, intent(in) :: a(:, :)
    integer :: got(12)
    call MPI_Sendrecv(a, 12, MPI_INTEGER, me, 1, got, 12, MPI_INTEGER, me, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
    call check('pointer', all(got(1:2) == [12, 11]) .and. got(12) == 13)
  end subroutine

  subroutine scalar(a)
    integer, intent(inout) :: a
    call MPI_Allreduce(MPI_IN_PLACE, a, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF)
    call check('scalar', a == 17)
  end subroutine

  subroutine optionals(comm, ierror)
    type(MPI_Comm), intent(in), optional :: comm
    integer, intent(out), optional :: ierror
    integer :: size
    if (present(comm)) return
    call MPI_Comm_size(MPI_COMM_SELF, size, ierror) ! An absent ierror is handed on.
    call check('absent ierror', size == 1)
  end subroutine

  subroutine status_arrays()
    type(MPI_Request), allocatable :: requests(:)
    type(MPI_Status), allocatable :: statuses(:)
    integer, asynchronous :: got(20), sent(20)
    integer :: i, old(MPI_STATUS_SIZE)
    allocate (requests(40), statuses(40))
    sent = [(i * (me + 1), i = 1, 20)]
    do i = 1, 20
      call MPI_Irecv(got(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, requests(i))
      call MPI_Isend(sent(i), 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, requests(20 + i))
    end do
    call MPI_Waitall(40, requests, statuses)
    call check('sources', all(statuses(1:20)%MPI_SOURCE == prev))
    call check('tags', all(statuses(1:20)%MPI_TAG == [(i, i = 1, 20)]))
    call check('requests', all([(requests(i) == MPI_REQUEST_NULL, i = 1, 40)]))
    call check('values', all(got == [(i * (prev + 1), i = 1, 20)]))
    ! Not in Open MPI {
    call MPI_Status_f082f(statuses(7), old)
    call check('old status', old(MPI_TAG) == 7 .and. old(MPI_SOURCE) == prev)
    ! }
  end subroutine
end program
