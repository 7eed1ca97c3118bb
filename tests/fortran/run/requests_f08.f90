! Requests: their integers in Fortran.
program requests_f08
  use mpi_f08
  implicit none
  integer :: me, n, next, prev
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  ! First: the program's first request must be a send that is complete at once.
  call integers_after_a_complete_send()
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! Integers of completed requests are used again, whatever the first request was.
  subroutine integers_after_a_complete_send()
    integer, parameter :: ROUNDS = 2000
    integer, asynchronous :: out, in
    integer :: seen(2 * ROUNDS), kinds, round, k
    type(MPI_Request) :: requests(2)
    kinds = 0
    do round = 1, ROUNDS
      out = 10 * round + me
      call MPI_Isend(out, 1, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(1))
      call MPI_Irecv(in, 1, MPI_INTEGER, prev, 1, MPI_COMM_WORLD, requests(2))
      do k = 1, 2
        if (any(seen(:kinds) == requests(k)%MPI_VAL)) cycle
        kinds = kinds + 1
        seen(kinds) = requests(k)%MPI_VAL
      end do
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('message', in == 10 * round + prev)
    end do
    call check('integers of requests are not used again', kinds < ROUNDS / 4)
  end subroutine
end program
