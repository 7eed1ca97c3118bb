! Threads that complete requests on copied sections: MPI gives the integer of a completed request to
! the next one, of whichever thread.
module work
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: THREADS = 4
  type(MPI_Comm) :: comms(THREADS)
  integer :: rounds, wrong(THREADS) = 0

  interface
    integer(c_int) function pthread_create(thread, attributes, start, argument) bind(C)
      import
      integer(c_size_t), intent(out) :: thread
      type(c_ptr), value :: attributes, argument
      type(c_funptr), value :: start
    end function
    integer(c_int) function pthread_join(thread, result) bind(C)
      import
      integer(c_size_t), value :: thread
      type(c_ptr), value :: result
    end function
  end interface
contains
  ! Starts and completes reductions by a communicator of the thread's own.
  recursive function run(argument) result(nothing) bind(C)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    integer, pointer :: at
    integer, asynchronous :: out(64), in(64)
    integer :: round, index, indices(1)
    logical :: flag
    type(MPI_Request) :: requests(1)
    call c_f_pointer(argument, at)
    do round = 1, rounds
      out = round * at
      in = -1
      call MPI_Iallreduce(out(1::2), in(1::2), 32, MPI_INTEGER, MPI_SUM, comms(at), requests(1))
      flag = .false.
      select case (modulo(round, 7))
      case (0)
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      case (1)
        call MPI_Waitall(1, requests, MPI_STATUSES_IGNORE)
      case (2)
        call MPI_Waitany(1, requests, index, MPI_STATUS_IGNORE)
      case (3)
        call MPI_Waitsome(1, requests, index, indices, MPI_STATUSES_IGNORE)
      case (4)
        do while (.not. flag)
          call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
        end do
      case (5)
        do while (.not. flag)
          call MPI_Testall(1, requests, flag, MPI_STATUSES_IGNORE)
        end do
      case (6)
        do while (.not. flag)
          call MPI_Testany(1, requests, index, flag, MPI_STATUS_IGNORE)
        end do
      end select
      if (any(in(1::2) /= round * at) .or. any(in(2::2) /= -1)) wrong(at) = wrong(at) + 1
    end do
    nothing = c_null_ptr
  end function
end module

program threads_f08
  use work
  implicit none
  integer(c_size_t) :: handles(THREADS)
  integer, target :: numbers(THREADS)
  integer :: me, ranks, provided, k
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  rounds = 100000 / ranks
  if (provided == MPI_THREAD_MULTIPLE) then
    do k = 1, THREADS
      numbers(k) = k
      call MPI_Comm_dup(MPI_COMM_SELF, comms(k))
    end do
    do k = 1, THREADS
      if (pthread_create(handles(k), c_null_ptr, c_funloc(run), c_loc(numbers(k))) /= 0) &
        print '(A)', 'WRONG no thread'
    end do
    do k = 1, THREADS
      if (pthread_join(handles(k), c_null_ptr) /= 0) print '(A)', 'WRONG not joined'
      call MPI_Comm_free(comms(k))
    end do
    if (any(wrong /= 0)) print '(A,I0,A,4(1X,I0))', 'rank ', me, ': WRONG results:', wrong
  end if
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
end program
