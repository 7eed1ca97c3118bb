! Wrong arguments in module mpi_f08.
program wrong_f08
  use mpi_f08
  implicit none
  integer :: rank, handle
  integer(kind=MPI_COUNT_KIND) :: large
  real :: a(10), x
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Op) :: op
  type(MPI_Datatype) :: made
  type(MPI_Info) :: info
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
  call MPI_Waitall(1, [request], MPI_STATUSES_IGNORE) !WRONG
  call MPI_Send(a, 10, MPI_REAL, 0, large, MPI_COMM_WORLD) !WRONG
  call MPI_Type_vector(2, 2, 3, MPI_REAL, made)
  call MPI_Type_vector(2_MPI_COUNT_KIND, large, large, MPI_REAL, made)
  call MPI_Type_vector(2, 2, large, MPI_REAL, made) !WRONG
  call MPI_Op_create(add, .true., op)
  call MPI_Op_create(add, 1, op) !WRONG
  call MPI_Op_create(short, .true., op) !WRONG
  call MPI_Info_set(info, 'key', 5) !WRONG
  call MPI_Comm_size(rank, MPI_COMM_WORLD) !WRONG
  call MPI_Barrier(MPI_COMM_WORLD, x) !WRONG
  call MPI_Barrier() !WRONG
contains
  subroutine add(in, inout, count, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr
    type(c_ptr), value :: in, inout
    integer :: count
    type(MPI_Datatype) :: datatype
  end subroutine

  subroutine short(in, inout)
    real :: in, inout
  end subroutine
end program
