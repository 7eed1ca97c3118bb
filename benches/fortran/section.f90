! Half the time of a round trip of an array section, as benches/osu/section.c does it with a vector
! type. Sizes are those of the data; the stride is in elements of 8 bytes.
program section
  use bench_common
  implicit none
  integer, parameter :: strides(3) = [2, 8, 32]
  double precision, allocatable, asynchronous :: out(:, :), in(:, :)
  integer :: at, bytes, n
  smallest = 1048576
  largest = 1048576
  iterations = 1000
  call bench_begin('section')
  if (rank == 0) print '(A,/,A)', '# section, Fortran', &
    '# Size      Stride      Blocking(us)   Nonblocking(us)'
  do at = 1, size(strides)
    bytes = smallest
    do while (bytes <= largest)
      n = bytes / 8
      allocate (out(strides(at), n), in(strides(at), n))
      out = rank
      in = -1
      if (rank == 0) print '(I0,T11,I8,2F18.3)', bytes, strides(at), measure(.true.), measure(.false.)
      if (rank == 1) out(2, 1) = measure(.true.) + measure(.false.)
      if (is_checked .and. (any(in(1, :) /= peer) .or. any(in(2:, :) /= -1))) &
        call bench_fail('wrong data')
      deallocate (out, in)
      bytes = 2 * bytes
    end do
  end do
  call MPI_Finalize()
contains
  double precision function measure(is_blocking)
    logical, intent(in) :: is_blocking
    double precision :: start
    integer :: round, sender
    call MPI_Barrier(MPI_COMM_WORLD)
    start = 0
    do round = -(iterations / 10 + 1), iterations - 1
      if (round == 0) start = bench_now()
      do sender = 0, 1
        if (is_blocking) then
          call blocking(sender)
        else
          call nonblocking(sender)
        end if
      end do
    end do
    measure = (bench_now() - start) / (2d0 * iterations) * 1d6
  end function

  subroutine blocking(sender)
    integer, intent(in) :: sender
    if (sender == rank) then
      call MPI_Send(out(1, :), n, MPI_DOUBLE_PRECISION, peer, 1, MPI_COMM_WORLD)
    else
      call MPI_Recv(in(1, :), n, MPI_DOUBLE_PRECISION, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    end if
  end subroutine

  subroutine nonblocking(sender)
    integer, intent(in) :: sender
    type(MPI_Request) :: request
    if (sender == rank) then
      call MPI_Isend(out(1, :), n, MPI_DOUBLE_PRECISION, peer, 1, MPI_COMM_WORLD, request)
    else
      call MPI_Irecv(in(1, :), n, MPI_DOUBLE_PRECISION, peer, 1, MPI_COMM_WORLD, request)
    end if
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end subroutine
end program
