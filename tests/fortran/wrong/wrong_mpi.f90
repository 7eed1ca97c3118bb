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
  call MPI_Waitall(1, [1], 2, ierror) !WRONG
  call MPI_Op_create(short, 1, rank, ierror) !WRONG
  call MPI_Info_set(rank, 'key', 5, ierror) !WRONG
  call MPI_Type_vector(2, 2, 3.0, MPI_REAL, rank, ierror) !WRONG
  call MPI_Barrier(MPI_COMM_WORLD) !WRONG
contains
  subroutine short(in, inout)
    real :: in, inout
  end subroutine
end program
