! One program of parts with module mpi and module mpi_f08.
module old_part
  use mpi
  implicit none
contains
  subroutine sum_old(comm, value)
    integer, intent(in) :: comm
    integer, intent(inout) :: value
    integer :: ierror
    call MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INTEGER, MPI_SUM, comm, ierror)
  end subroutine

  subroutine probe_old(comm, status, request)
    integer, intent(in) :: comm
    integer, intent(out) :: status(MPI_STATUS_SIZE), request
    integer :: ierror
    call MPI_Irecv(MPI_BOTTOM, 0, MPI_INTEGER, MPI_PROC_NULL, 7, comm, request, ierror)
    call MPI_Probe(MPI_PROC_NULL, 7, comm, status, ierror)
  end subroutine
end module

module new_part
  use mpi_f08
  implicit none
contains
  subroutine use_new(old, value)
    integer, intent(in) :: old
    integer, intent(inout) :: value
    type(MPI_Comm) :: comm
    comm%MPI_VAL = old
    call MPI_Bcast(value, 1, MPI_INTEGER, 0, comm)
  end subroutine

  subroutine complete(old_request, old_status)
    integer, intent(inout) :: old_request
    integer, intent(in) :: old_status(MPI_STATUS_SIZE)
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    ! Not in Open MPI {
    call MPI_Status_f2f08(old_status, status)
    if (status%MPI_SOURCE /= MPI_PROC_NULL) print '(A)', 'WRONG source'
    ! }
    request = MPI_Request(old_request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (request /= MPI_REQUEST_NULL) print '(A)', 'WRONG request'
    old_request = request%MPI_VAL
  end subroutine
end module

program mixed
  use mpi_f08, only: MPI_Init, MPI_Finalize, MPI_Comm, MPI_COMM_WORLD, MPI_Comm_dup, MPI_Comm_free, &
    MPI_Comm_size, MPI_Barrier, MPI_Comm_rank, operator(/=)
  use mpi, only: old_world => MPI_COMM_WORLD, MPI_STATUS_SIZE, MPI_REQUEST_NULL
  use old_part, only: sum_old, probe_old
  use new_part, only: use_new, complete
  implicit none
  type(MPI_Comm) :: comm
  integer :: n, rank, value, status(MPI_STATUS_SIZE), request
  call MPI_Init()
  if (MPI_COMM_WORLD%MPI_VAL /= old_world) print '(A)', 'WRONG constant'
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_size(comm, n)
  call MPI_Comm_rank(comm, rank)
  value = rank
  call sum_old(comm%MPI_VAL, value)
  if (value /= n * (n - 1) / 2) print '(A)', 'WRONG sum'
  call use_new(comm%MPI_VAL, value)
  call probe_old(comm%MPI_VAL, status, request)
  call complete(request, status)
  if (request /= MPI_REQUEST_NULL) print '(A)', 'WRONG null request'
  call MPI_Barrier(comm)
  call MPI_Comm_free(comm)
  if (rank == 0) print '(A)', 'ok'
  call MPI_Finalize()
end program
