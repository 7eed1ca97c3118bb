! Array sections as choice buffers: blocking, nonblocking, persistent, collective.
program sections_f08
  use mpi_f08
  implicit none
  integer :: me, n, next, prev, i, j, k, counted
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  next = modulo(me + 1, n)
  prev = modulo(me - 1, n)
  call strided_vector()
  call planes()
  call part_of_a_plane()
  call collectives()
  call reductions()
  call persistent()
  call others()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine strided_vector()
    integer, asynchronous :: a(20), b(20)
    a = [(100 * me + i, i = 1, 20)]
    b = -1
    call MPI_Irecv(b(2:20:3), 7, MPI_INTEGER, prev, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(20:2:-3), 7, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('strided vector', all(b(2:20:3) == [(100 * prev + i, i = 20, 2, -3)]))
    call check('gaps', count(b == -1) == 13)
    b = -1
    call MPI_Sendrecv(a(1:19:2), 10, MPI_INTEGER, next, 2, b, 20, MPI_INTEGER, prev, 2, &
      MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, counted)
    call check('count', counted == 10 .and. status%MPI_SOURCE == prev)
    call check('section to vector', all(b(1:10) == [(100 * prev + i, i = 1, 19, 2)]))
  end subroutine

  subroutine planes()
    real(kind(1d0)), allocatable, asynchronous :: a(:, :, :), b(:, :, :)
    allocate(a(6, 5, 4), b(6, 5, 4))
    do k = 1, 4
      do j = 1, 5
        do i = 1, 6
          a(i, j, k) = 1000 * me + 100 * i + 10 * j + k
        end do
      end do
    end do
    do i = 1, 3
      b = 0
      call MPI_Irecv(b(2:6:2, 5:1:-2, :), 36, MPI_DOUBLE_PRECISION, prev, 3, MPI_COMM_WORLD, &
        requests(1))
      call MPI_Isend(a(2:6:2, 5:1:-2, :), 36, MPI_DOUBLE_PRECISION, next, 3, MPI_COMM_WORLD, &
        requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('planes', all(b(2:6:2, 5:1:-2, :) == a(2:6:2, 5:1:-2, :) + 1000 * (prev - me)))
      call check('between planes', all(b(1:5:2, :, :) == 0))
    end do
    b = 0
    call MPI_Irecv(b(3, :, 2), 5, MPI_DOUBLE_PRECISION, prev, 4, MPI_COMM_WORLD, requests(1))
    call MPI_Send(a(:, 2, 3), 5, MPI_DOUBLE_PRECISION, next, 4, MPI_COMM_WORLD)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('a row', all(b(3, :, 2) == a(1:5, 2, 3) + 1000 * (prev - me)))
  end subroutine

  subroutine part_of_a_plane()
    integer, asynchronous :: a(10, 10), b(10, 10)
    complex, asynchronous :: c(8), d(8)
    a = reshape([(1000 * me + i, i = 1, 100)], [10, 10])
    b = 0
    ! 7 of the 15 elements: one column of the section and two elements of the next.
    call MPI_Irecv(b, 7, MPI_INTEGER, prev, 5, MPI_COMM_WORLD, requests(1))
    call MPI_Send(a(1:9:2, 2:10:4), 7, MPI_INTEGER, next, 5, MPI_COMM_WORLD)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('part', all(b(1:7, 1) - 1000 * prev == [11, 13, 15, 17, 19, 51, 53]))
    ! Two REALs for each element, and a count that ends inside of one.
    c = [(cmplx(i, me), i = 1, 8)]
    d = 0
    call MPI_Irecv(d(1:7:2), 7, MPI_REAL, prev, 6, MPI_COMM_WORLD, requests(1))
    call MPI_Send(c(2:8:2), 7, MPI_REAL, next, 6, MPI_COMM_WORLD)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('halves', all(d(1:5:2) == [(cmplx(i, prev), i = 2, 6, 2)]))
    call check('last half', real(d(7)) == 8 .and. aimag(d(7)) == 0)
    ! Large counts take the other specific procedure.
    b = 0
    call MPI_Irecv(b(:, 1), 5_MPI_COUNT_KIND, MPI_INTEGER, prev, 7, MPI_COMM_WORLD, requests(1))
    call MPI_Send(a(2:10:2, 1), 5_MPI_COUNT_KIND, MPI_INTEGER, next, 7, MPI_COMM_WORLD)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('large count', all(b(1:5, 1) - 1000 * prev == [2, 4, 6, 8, 10]))
    ! Nothing at all.
    call MPI_Sendrecv(a(5:4, :), 0, MPI_INTEGER, next, 8, b(5:4:2, 1), 0, MPI_INTEGER, prev, 8, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine

  subroutine collectives()
    integer, asynchronous :: a(12), all_of(2, 3 * n)
    a = 0
    if (me == n - 1) a(1:12:4) = [7, 8, 9]
    call MPI_Bcast(a(1:12:4), 3, MPI_INTEGER, n - 1, MPI_COMM_WORLD)
    call check('broadcast', all(a(1:12:4) == [7, 8, 9]) .and. sum(a) == 24)
    a(2:12:4) = [me, 2 * me, 3 * me]
    all_of = -1
    call MPI_Allgather(a(2:12:4), 3, MPI_INTEGER, all_of(2, :), 3, MPI_INTEGER, MPI_COMM_WORLD)
    call check('gather', all(all_of(2, :) == [((j * i, i = 1, 3), j = 0, n - 1)]))
    call check('beside', all(all_of(1, :) == -1))
    all_of = -1
    call MPI_Iallgather(a(2:12:4), 3, MPI_INTEGER, all_of(1, :), 3, MPI_INTEGER, MPI_COMM_WORLD, &
      requests(1))
    call MPI_Wait(requests(1), status)
    call check('nonblocking gather', all(all_of(1, :) == [((j * i, i = 1, 3), j = 0, n - 1)]))
    call check('beside it', all(all_of(2, :) == -1))
  end subroutine

  subroutine reductions()
    real, asynchronous :: a(9), b(9)
    logical :: is_done
    a = [(real(i + me), i = 1, 9)]
    b = -1
    call MPI_Allreduce(a(1:9:2), b(9:1:-2), 5, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    call check('sums', all(b(9:1:-2) == [(real(n * i + n * (n - 1) / 2), i = 1, 9, 2)]))
    b = -1
    call MPI_Iallreduce(a(1:9:2), b(1:9:2), 5, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, requests(1))
    is_done = .false.
    do while (.not. is_done)
      call MPI_Test(requests(1), is_done, MPI_STATUS_IGNORE)
    end do
    call check('maxima', all(b(1:9:2) == [(real(i + n - 1), i = 1, 9, 2)]) .and. b(2) == -1)
    call MPI_Allreduce(MPI_IN_PLACE, a(2:8:3), 3, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    call check('in place', all(a(2:8:3) == [(real(n * i + n * (n - 1) / 2), i = 2, 8, 3)]))
  end subroutine

  subroutine persistent()
    integer, asynchronous :: a(10), b(10), sums(10)
    call MPI_Send_init(a(1:10:3), 4, MPI_INTEGER, next, 9, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(b(10:1:-3), 4, MPI_INTEGER, prev, 9, MPI_COMM_WORLD, requests(2))
    do i = 1, 3
      a = 10 * me + i
      b = 0
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check('persistent', all(b(10:1:-3) == 10 * prev + i) .and. sum(b) == 4 * b(10))
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call MPI_Allreduce_init(a(1:9:2), sums(2:10:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(1))
    do i = 1, 3
      a = i
      sums = 0
      call MPI_Start(requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call check('persistent sums', all(sums(2:10:2) == n * i) .and. sum(sums) == 5 * n * i)
    end do
    call MPI_Request_free(requests(1))
    call check('freed', requests(1) == MPI_REQUEST_NULL)
  end subroutine

  subroutine others()
    type pair
      integer :: one
      real(kind(1d0)) :: other
    end type
    type(pair), target, asynchronous :: pairs(6)
    character(len=3), asynchronous :: words(4)
    real(kind(1d0)), pointer :: column(:)
    integer :: bytes
    do i = 1, 6
      pairs(i) = pair(i, 10 * me + i)
    end do
    column => pairs(1:6:2)%other
    call MPI_Sendrecv_replace(column, 3, MPI_DOUBLE_PRECISION, next, 10, prev, 10, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check('components', all(pairs(1:6:2)%other == [(10d0 * prev + i, i = 1, 5, 2)]))
    call check('other components', all(pairs%one == [(i, i = 1, 6)]))
    words = ['abc', 'def', 'ghi', 'jkl']
    if (me == 0) words(2:4:2) = ['xyz', 'uvw']
    call MPI_Bcast(words(2:4:2), 6, MPI_CHARACTER, 0, MPI_COMM_WORLD)
    call check('words', all(words == ['abc', 'xyz', 'ghi', 'uvw']))
    call MPI_Sizeof(column, bytes)
    call check('size', bytes == 8)
    call MPI_F_sync_reg(words)
  end subroutine
end program
