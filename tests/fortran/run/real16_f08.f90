! Reductions and accumulates of real(16) and complex(16) against what the compiler computes.
program real16_f08
  use mpi_f08
  implicit none
  ! Compilers without a real of 16 bytes test that of 8.
  integer, parameter :: WIDE = max(selected_real_kind(33), kind(1d0))
  integer, parameter :: A = MPI_ADDRESS_KIND, COUNT = 100
  integer :: me, n, i
  type(MPI_Datatype) :: real_type, complex_type
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  real_type = MPI_REAL16
  complex_type = MPI_COMPLEX32
  if (storage_size(1._WIDE) == 64) then
    real_type = MPI_REAL8
    complex_type = MPI_COMPLEX16
  end if
  call rounded()
  call over_ranks()
  call accumulated()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! Every result rounds as the compiler's does.
  subroutine rounded()
    real(WIDE) :: x(COUNT), y(COUNT), z(COUNT)
    complex(WIDE) :: c(COUNT), d(COUNT), e(COUNT)
    x = [((-1) ** i * sqrt(real(i + me, WIDE)) * 2._WIDE ** (3 * i - 150), i = 1, COUNT)]
    y = [(1 / real(3 * i + me, WIDE) * 2._WIDE ** (3 * i - 150), i = 1, COUNT)]
    c = cmplx(x, y, WIDE)
    d = cmplx(y, 1 / x, WIDE)
    z = y
    call MPI_Reduce_local(x, z, COUNT, real_type, MPI_SUM)
    call check('sum', all(z == x + y))
    z = y
    call MPI_Reduce_local(x, z, COUNT, real_type, MPI_PROD)
    call check('product', all(z == x * y))
    z = y
    call MPI_Reduce_local(x, z, COUNT, real_type, MPI_MIN)
    call check('minimum', all(z == min(x, y)))
    z = y
    call MPI_Reduce_local(x, z, COUNT, real_type, MPI_MAX)
    call check('maximum', all(z == max(x, y)))
    e = d
    call MPI_Reduce_local(c, e, COUNT, complex_type, MPI_SUM)
    call check('complex sum', all(e == c + d))
    e = d
    call MPI_Reduce_local(c, e, COUNT, complex_type, MPI_PROD)
    call check('complex product', all(e == c * d))
  end subroutine

  ! What is exact has the same result in any order.
  subroutine over_ranks()
    real(WIDE) :: x(COUNT), z(COUNT), serial(COUNT)
    complex(WIDE) :: c(COUNT), e(COUNT), product(COUNT)
    integer :: rank
    x = summand(me)
    call MPI_Allreduce(x, z, COUNT, real_type, MPI_SUM, MPI_COMM_WORLD)
    serial = 0
    do rank = 0, n - 1
      serial = serial + summand(rank)
    end do
    call check('sum over ranks', all(z == serial))
    call MPI_Scan(x, z, COUNT, real_type, MPI_SUM, MPI_COMM_WORLD)
    serial = 0
    do rank = 0, me
      serial = serial + summand(rank)
    end do
    call check('scan', all(z == serial))
    call MPI_Allreduce(x, z, COUNT, real_type, MPI_MAX, MPI_COMM_WORLD)
    call check('maximum over ranks', all(z == summand(n - 1)))
    c = factor(me)
    call MPI_Allreduce(real(c), z, COUNT, real_type, MPI_PROD, MPI_COMM_WORLD)
    call MPI_Reduce(c, e, COUNT, complex_type, MPI_PROD, 0, MPI_COMM_WORLD)
    serial = 1
    product = 1
    do rank = 0, n - 1
      serial = serial * real(factor(rank))
      product = product * factor(rank)
    end do
    call check('product over ranks', all(z == serial))
    if (me == 0) call check('complex product over ranks', all(e == product))
    call MPI_Allreduce(c, e, COUNT, complex_type, MPI_SUM, MPI_COMM_WORLD)
    product = 0
    do rank = 0, n - 1
      product = product + factor(rank)
    end do
    call check('complex sum over ranks', all(e == product))
  end subroutine

  subroutine accumulated()
    real(WIDE), asynchronous :: memory(COUNT)
    real(WIDE) :: x(COUNT), serial(COUNT), before
    integer(A) :: bytes
    integer :: rank
    type(MPI_Win) :: window
    bytes = storage_size(x) / 8
    memory = 0
    x = summand(me)
    call MPI_Win_create(memory, COUNT * bytes, int(bytes), MPI_INFO_NULL, MPI_COMM_WORLD, window)
    call MPI_Win_fence(0, window)
    call MPI_Accumulate(x, COUNT - 1, real_type, 0, 0_A, COUNT - 1, real_type, MPI_SUM, window)
    call MPI_Fetch_and_op(x(COUNT), before, real_type, 0, int(COUNT - 1, A), MPI_SUM, window)
    call MPI_Win_fence(0, window)
    serial = 0
    do rank = 0, n - 1
      serial = serial + summand(rank)
    end do
    if (me == 0) call check('accumulate', all(memory == serial))
    call check('fetch and op', before >= 0 .and. before <= serial(COUNT))
    call MPI_Win_free(window)
  end subroutine

  ! Sums over ranks need most bits of the significand.
  function summand(rank)
    integer, intent(in) :: rank
    real(WIDE) :: summand(COUNT)
    integer, parameter :: BITS = digits(1._WIDE) - 12
    summand = [(1 + (rank + i) * 2._WIDE ** (-BITS), i = 1, COUNT)]
  end function

  ! The product of seven factors is exact: each part has at most 102 bits, or 39.
  function factor(rank)
    integer, intent(in) :: rank
    complex(WIDE) :: factor(COUNT)
    integer, parameter :: BITS = merge(14, 5, digits(1._WIDE) > 53)
    factor = [(cmplx(2 ** BITS - 1 - rank, mod(i + rank, 2 ** BITS), WIDE), i = 1, COUNT)]
  end function
end program
