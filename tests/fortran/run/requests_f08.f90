! Requests: their integers in Fortran, and copies of sections that they keep.
program requests_f08
  use mpi_f08
  implicit none
  integer :: me, n, next, prev, form
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  ! First: the program's first request must be a send that is complete at once.
  call integers_after_a_complete_send()
  do form = 1, 4
    call reported_and_waited(form)
    call reported_and_freed(form)
  end do
  call inactive_requests()
  call active_and_freed()
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
  ! Waits by one of the calls that leave the requests as they are.
  subroutine report(form, requests)
    integer, intent(in) :: form
    type(MPI_Request), intent(in) :: requests(:)
    logical :: done(size(requests)), flag
    integer :: k, index, outcount, indices(size(requests))
    done = .false.
    do while (.not. all(done))
      select case (form)
      case (1)
        do k = 1, size(requests)
          call MPI_Request_get_status(requests(k), done(k), MPI_STATUS_IGNORE)
        end do
      case (2)
        call MPI_Request_get_status_all(size(requests), requests, flag, MPI_STATUSES_IGNORE)
        done = flag
      case (3)
        do k = 1, size(requests)
          call MPI_Request_get_status_any(1, requests(k:k), index, done(k), MPI_STATUS_IGNORE)
          if (done(k)) call check('index', index == 1)
        end do
      case (4)
        call MPI_Request_get_status_some(size(requests), requests, outcount, indices, &
          MPI_STATUSES_IGNORE)
        ! MPICH's form for some makes no progress.
        call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE)
        if (outcount > 0) done(indices(:outcount)) = .true.
      end select
    end do
  end subroutine

  ! A result is there when it is reported, and what the program writes then stays.
  subroutine reported_and_waited(form)
    integer, intent(in) :: form
    integer, asynchronous :: out(9), once(9), again(9)
    integer :: round
    type(MPI_Request) :: requests(2)
    call MPI_Allreduce_init(out(1::2), again(1::2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(2))
    do round = 1, 2
      out = 10 * round + me
      once = -1
      again = -1
      call MPI_Iallreduce(out(1::2), once(9:1:-2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
        requests(1))
      call MPI_Start(requests(2))
      call report(form, requests(:1))
      ! MPICH takes a persistent collective in the first form alone.
      call report(1, requests(2:))
      call check('reported', all(once(1::2) == 10 * n * round + n * (n - 1) / 2))
      call check('reported again', all(again(1::2) == 10 * n * round + n * (n - 1) / 2))
      call check('between', all(once(2::2) == -1) .and. all(again(2::2) == -1))
      once(3) = -3
      again(5) = -5
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('written after the report', once(3) == -3 .and. again(5) == -5)
    end do
    call MPI_Request_free(requests(2))
  end subroutine

  ! A request that is reported may be freed.
  subroutine reported_and_freed(form)
    integer, intent(in) :: form
    integer, asynchronous :: out(9), in(9)
    complex, target, asynchronous :: z(5), w(5)
    type(MPI_Request) :: requests(2)
    out = me
    in = -1
    z = cmplx(me, me)
    w = -1
    ! The count is of parts of elements, which are copied.
    call MPI_Irecv(w(1::2), 5, MPI_REAL, prev, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Irecv(in(1::2), 5, MPI_INTEGER, prev, 3, MPI_COMM_WORLD, requests(2))
    call MPI_Send(z(1::2), 5, MPI_REAL, next, 2, MPI_COMM_WORLD)
    call MPI_Send(out(1::2), 5, MPI_INTEGER, next, 3, MPI_COMM_WORLD)
    call report(form, requests)
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call check('freed', all(w(1:3:2) == cmplx(prev, prev)) .and. real(w(5)) == prev)
    call check('freed in place', all(in(1::2) == prev) .and. all(in(2::2) == -1))
  end subroutine

  ! An inactive persistent request is complete, and its buffer is left alone.
  subroutine inactive_requests()
    integer, asynchronous :: out(9), in(9)
    type(MPI_Request) :: request
    logical :: flag
    integer :: round
    call MPI_Allreduce_init(out(1::2), in(1::2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
      MPI_INFO_NULL, request)
    do round = 1, 2
      in = -round
      call MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE)
      call check('inactive and reported', flag .and. all(in == -round))
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      call check('inactive and waited', all(in == -round))
      out = 1
      call MPI_Start(request)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      call check('active', all(in(1::2) == n) .and. all(in(2::2) == -round))
    end do
    call MPI_Request_free(request)
  end subroutine
  ! A send that is freed while it is active still has its data.
  subroutine active_and_freed()
    integer, parameter :: NUMBERS = 300001
    complex, allocatable, target, asynchronous :: z(:)
    real, allocatable, asynchronous :: in(:)
    real, allocatable :: other(:, :)
    type(MPI_Request) :: requests(2)
    integer :: k
    allocate (z(NUMBERS), in(NUMBERS))
    z = cmplx(me + 1, -me - 1)
    in = 0
    ! The count is of parts of elements, which are copied.
    call MPI_Ssend_init(z(1::2), NUMBERS, MPI_REAL, next, 4, MPI_COMM_WORLD, requests(1))
    call MPI_Start(requests(1))
    call MPI_Request_free(requests(1))
    ! Memory of the same size, which must not be the copy's.
    allocate (other(NUMBERS + 1, 4), source=-7.)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Irecv(in, NUMBERS, MPI_REAL, prev, 4, MPI_COMM_WORLD, requests(2))
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call check('freed while active', all([(in(k) == merge(1, -1, modulo(k, 2) == 1) * (prev + 1), &
      k = 1, NUMBERS)]))
    call MPI_Barrier(MPI_COMM_WORLD)
    call check('other memory', all(other == -7))
  end subroutine
end program
