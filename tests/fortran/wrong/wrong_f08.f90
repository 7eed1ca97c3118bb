! Wrong arguments in module mpi_f08.
program wrong_f08
  use mpi_f08
  implicit none
  integer :: rank, handle
  integer(kind=MPI_COUNT_KIND) :: large
  real :: a(10), x
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  call MPI_Send(a, 10, MPI_REAL, 0, 1, MPI_COMM_WORLD)
  call MPI_Send(a, large, MPI_REAL, 0, 1, MPI_COMM_WORLD)
  call MPI_Send(a, 10, MPI_COMM_WORLD, 0, 1, MPI_COMM_WORLD) !WRONG
  call MPI_Send(a, 10, MPI_REAL, 0, 1, handle) !WRONG
  call MPI_Send(a, x, MPI_REAL, 0, 1, MPI_COMM_WORLD) !WRONG
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_rank(MPI_COMM_WORLD, x) !WRONG
  call MPI_Wait(request, status)
  call MPI_Wait(request, rank) !WRONG
  if (request == MPI_REQUEST_NULL) print *, 'ok'
  if (request == MPI_COMM_NULL) print *, 'ok' !WRONG
end program
