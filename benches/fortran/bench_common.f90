! Code that the benchmark programs in Fortran share: options and a clock, as in benches/osu/common.h.
module bench_common
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: int64, error_unit
  implicit none
  integer :: rank, peer
  integer :: smallest = 1, largest = 4194304, iterations = 10000
  logical :: is_checked = .false.
contains
  ! Begins a program on two ranks, and reads -m [MIN:]MAX, -i N and -c over the defaults.
  subroutine bench_begin(name)
    character(len=*), intent(in) :: name
    character(len=64) :: word
    integer :: at, ranks, colon
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    peer = 1 - rank
    if (ranks /= 2) call bench_fail(name // ' runs on 2 ranks')
    at = 1
    do while (at <= command_argument_count())
      call get_command_argument(at, word)
      select case (word)
      case ('-c')
        is_checked = .true.
      case ('-i')
        iterations = number(at + 1)
        at = at + 1
      case ('-m')
        call get_command_argument(at + 1, word)
        colon = index(word, ':')
        if (colon > 0) read (word(:colon - 1), *) smallest
        read (word(colon + 1:), *) largest
        at = at + 1
      case default
        call bench_fail('usage: ' // name // ' [-m [MIN:]MAX] [-i N] [-c]')
      end select
      at = at + 1
    end do
  end subroutine

  integer function number(at)
    integer, intent(in) :: at
    character(len=64) :: word
    call get_command_argument(at, word)
    read (word, *) number
  end function

  subroutine bench_fail(sentence)
    character(len=*), intent(in) :: sentence
    if (rank == 0) write (error_unit, '(A)') sentence
    call MPI_Abort(MPI_COMM_WORLD, 2)
  end subroutine

  ! Seconds of the system's clock, which all libraries are measured by.
  double precision function bench_now()
    integer(int64) :: count, rate
    call system_clock(count, rate)
    bench_now = dble(count) / dble(rate)
  end function

  ! Iterations of a size: fewer of large messages.
  integer function bench_iterations(bytes)
    integer, intent(in) :: bytes
    bench_iterations = max(min(iterations, int(iterations * 8192_int64 / max(bytes, 1))), &
      max(iterations / 50, 1))
  end function
end module
