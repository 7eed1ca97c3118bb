! Wrong arguments in module mpi.
program wrong_mpi
  use mpi
  implicit none
  integer :: ierror, rank, request, status(MPI_STATUS_SIZE), count
  real :: a(10), x
  logical :: flag
  call MPI_Send(a, 10, MPI_REAL, 0, 1, MPI_COMM_WORLD, ierror)
  call MPI_Send(a, 10.0, MPI_REAL, 0, 1, MPI_COMM_WORLD, ierror) !WRONG
  call MPI_Send(a, 10, MPI_REAL, 0, 1, MPI_COMM_WORLD) !WRONG
  call MPI_Comm_rank(MPI_COMM_WORLD, x, ierror) !WRONG
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Test(request, flag, status, ierror)
  call MPI_Test(request, count, status, ierror) !WRONG
  call MPI_Get_count(status, MPI_REAL, count, ierror)
  call MPI_Get_count(count, MPI_REAL, count, ierror) !WRONG
end program
