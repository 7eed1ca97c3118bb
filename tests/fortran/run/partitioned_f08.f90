! Partitioned communication: contiguous buffers, and sections in place and by copies.
program partitioned_f08
  use mpi_f08
  implicit none
  integer, parameter :: rounds = 3
  integer :: me, n, next, prev
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  call vector(1)
  call vector(2)
  call planes()
  call irregular()
  call halves()
  call large()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! Waits for each partition by MPI_Parrived.
  subroutine arrive(request, partitions)
    type(MPI_Request), intent(in) :: request
    integer, intent(in) :: partitions
    integer :: k
    logical :: flag
    do k = 0, partitions - 1
      flag = .false.
      do while (.not. flag)
        call MPI_Parrived(request, k, flag)
      end do
    end do
  end subroutine

  subroutine vector(step)
    integer, intent(in) :: step
    integer, asynchronous :: a(48), b(48)
    type(MPI_Request) :: requests(2)
    integer :: round, k, i
    call MPI_Psend_init(a(1:48:step), 4, 12 / step, MPI_INTEGER, next, 1, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(b(48:1:-step), 4, 12 / step, MPI_INTEGER, prev, 1, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(2))
    do round = 1, rounds
      b = -1
      call MPI_Startall(2, requests)
      do k = 3, 0, -1
        a(12 * k + 1:12 * k + 12) = [(1000 * me + 100 * round + 12 * k + i, i = 1, 12)]
        call MPI_Pready(k, requests(1))
      end do
      call arrive(requests(2), 4)
      call check('arrived', all(b(48:1:-step) == [(1000 * prev + 100 * round + i, i = 1, 48, step)]))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('vector', all(b(48:1:-step) == [(1000 * prev + 100 * round + i, i = 1, 48, step)]))
      call check('gaps', count(b == -1) == 48 - 48 / step)
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! A partition is a plane of an inner part of a matrix.
  subroutine planes()
    double precision, asynchronous :: a(0:5, 0:5, 0:7), b(0:5, 0:5, 0:7)
    type(MPI_Request) :: requests(2)
    integer :: round
    call MPI_Psend_init(a(1:4, 1:4, 1:6), 6, 16, MPI_DOUBLE_PRECISION, next, 2, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(b(1:4, 1:4, 6:1:-1), 6, 16, MPI_DOUBLE_PRECISION, prev, 2, &
      MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    do round = 1, rounds
      a = me + 10 * round
      a(:, :, 3) = 0.5d0
      b = -1
      call MPI_Startall(2, requests)
      call MPI_Pready_range(2, 5, requests(1))
      call MPI_Pready_list(2, [1, 0], requests(1))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('planes', all(b(1:4, 1:4, 1:3) == prev + 10 * round) .and. &
        all(b(1:4, 1:4, 4) == 0.5d0) .and. count(b == -1) == 6 * 6 * 8 - 96)
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! Partitions end within columns: they are copied.
  subroutine irregular()
    integer, asynchronous :: a(5, 4), b(5, 4)
    type(MPI_Request) :: requests(2)
    integer :: round, k, i
    do round = 1, rounds
      if (round == 1) then
        call MPI_Psend_init(a(1:3, :), 6, 2, MPI_INTEGER, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &
          requests(1))
        call MPI_Precv_init(b(2:4, :), 6, 2, MPI_INTEGER, prev, 3, MPI_COMM_WORLD, &
          MPI_INFO_NULL, requests(2))
      end if
      b = -1
      a = 0
      call MPI_Startall(2, requests)
      a(1:3, :) = 1000 * me + 100 * round + reshape([(i, i = 1, 12)], [3, 4])
      do k = 5, 0, -1
        call MPI_Pready(k, requests(1))
      end do
      call arrive(requests(2), 6)
      call check('copied', all(b(2:4, :) == 1000 * prev + 100 * round + &
        reshape([(i, i = 1, 12)], [3, 4])))
      b(2, 1) = 77 ! The program may use a partition that has arrived.
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('stored once', b(2, 1) == 77)
      call check('its gaps', count(b == -1) == 8)
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! The datatype is half of an element.
  subroutine halves()
    complex, asynchronous :: a(8), b(8)
    type(MPI_Request) :: requests(2)
    integer :: i
    a = [(cmplx(me, i), i = 1, 8)]
    b = -1
    call MPI_Psend_init(a(1:8:2), 8, 1, MPI_REAL, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1))
    call MPI_Precv_init(b(2:8:2), 8, 1, MPI_REAL, prev, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(2))
    call MPI_Startall(2, requests)
    call MPI_Pready_range(0, 7, requests(1))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('halves', all(b(2:8:2) == [(cmplx(prev, i), i = 1, 8, 2)]))
    call check('gaps of halves', all(b(1:7:2) == cmplx(-1, 0)))
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! A count of kind MPI_COUNT_KIND, and pieces large enough for a rendezvous.
  subroutine large()
    integer(kind=MPI_COUNT_KIND), parameter :: m = 100000
    double precision, allocatable, asynchronous :: a(:, :), b(:, :)
    type(MPI_Request) :: requests(2)
    allocate (a(2, 4 * m), b(3, 4 * m))
    a = me
    b = -1
    call MPI_Psend_init(a(2, :), 4, m, MPI_DOUBLE_PRECISION, next, 5, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(b(3, :), 4, m, MPI_DOUBLE_PRECISION, prev, 5, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(2))
    call MPI_Startall(2, requests)
    call MPI_Pready_list(4, [3, 1, 0, 2], requests(1))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('large', all(b(3, :) == prev) .and. all(b(1:2, :) == -1))
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine
end program
