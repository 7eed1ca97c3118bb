! A part of MPICH's `mpi_f08`, declared here, as no package of its modules can be had everywhere:
! procedures without BIND(C) that pass buffers by the compiler's own descriptors, constants with C
! names, and constants that are variables of a module.
module mpi_f08_link_constants
  integer, target :: MPI_UNWEIGHTED(1)
end module

module part_of_mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int
  use mpi_f08_link_constants
  implicit none
  type, bind(C) :: MPI_Comm
    integer :: MPI_VAL
  end type
  type, bind(C) :: MPI_Datatype
    integer :: MPI_VAL
  end type
  type, bind(C) :: MPI_Request
    integer :: MPI_VAL
  end type
  type, bind(C) :: MPI_Info
    integer :: MPI_VAL
  end type
  type, bind(C) :: MPI_Op
    integer :: MPI_VAL
  end type
  type, bind(C) :: MPI_Status
    integer :: count_lo, count_hi_and_cancelled, MPI_SOURCE, MPI_TAG, MPI_ERROR
  end type
  type(MPI_Comm), parameter :: MPI_COMM_WORLD = MPI_Comm(int(z'44000000'))
  type(MPI_Datatype), parameter :: MPI_INTEGER = MPI_Datatype(int(z'4c00041b'))
  type(MPI_Datatype), parameter :: MPI_COMPLEX = MPI_Datatype(int(z'4c00081e'))
  type(MPI_Op), parameter :: MPI_SUM = MPI_Op(int(z'58000003'))
  type(MPI_Info), parameter :: MPI_INFO_NULL = MPI_Info(int(z'1c000000'))
  type(MPI_Status), bind(C, name='MPIR_F08_MPI_STATUS_IGNORE_OBJ'), target :: MPI_STATUS_IGNORE
  integer(c_int), bind(C, name='MPIR_F08_MPI_IN_PLACE'), target :: MPI_IN_PLACE
  interface
    subroutine MPI_Init_f08(ierror)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Finalize_f08(ierror)
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Comm_rank_f08(comm, rank, ierror)
      import
      type(MPI_Comm), intent(in) :: comm
      integer, intent(out) :: rank
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Comm_size_f08(comm, size, ierror)
      import
      type(MPI_Comm), intent(in) :: comm
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine PMPIR_Comm_size_f08(comm, size, ierror)
      import
      type(MPI_Comm), intent(in) :: comm
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Irecv_f08ts(buf, count, datatype, source, tag, comm, request, ierror)
      import
      type(*), dimension(..), asynchronous :: buf
      integer, intent(in) :: count, source, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Request), intent(out) :: request
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Send_f08ts(buf, count, datatype, dest, tag, comm, ierror)
      import
      type(*), dimension(..), intent(in) :: buf
      integer, intent(in) :: count, dest, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      integer, optional, intent(out) :: ierror
    end subroutine
    ! The large form has one name in MPICH 4.0, and another one since 4.1.
    subroutine MPI_Send_f08ts_large(buf, count, datatype, dest, tag, comm, ierror)
      import
      type(*), dimension(..), intent(in) :: buf
      integer(8), intent(in) :: count
      integer, intent(in) :: dest, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Send_c_f08ts(buf, count, datatype, dest, tag, comm, ierror)
      import
      type(*), dimension(..), intent(in) :: buf
      integer(8), intent(in) :: count
      integer, intent(in) :: dest, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Wait_f08(request, status, ierror)
      import
      type(MPI_Request), intent(inout) :: request
      type(MPI_Status) :: status
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Allreduce_f08ts(sendbuf, recvbuf, count, datatype, op, comm, ierror)
      import
      type(*), dimension(..), intent(in) :: sendbuf
      type(*), dimension(..) :: recvbuf
      integer, intent(in) :: count
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Op), intent(in) :: op
      type(MPI_Comm), intent(in) :: comm
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Pack_external_f08ts(datarep, inbuf, incount, datatype, outbuf, outsize, &
        position, ierror)
      import
      character(len=*), intent(in) :: datarep
      type(*), dimension(..), intent(in) :: inbuf
      type(*), dimension(..) :: outbuf
      integer, intent(in) :: incount
      type(MPI_Datatype), intent(in) :: datatype
      integer(8), intent(in) :: outsize
      integer(8), intent(inout) :: position
      integer, optional, intent(out) :: ierror
    end subroutine
    ! Procedures of the module mpi_f08_types.
    subroutine MPI_Status_f082f(from, to, ierror) &
        bind(C, name='__mpi_f08_types_MOD_mpi_status_f082f')
      import
      type(MPI_Status), intent(in) :: from
      integer, intent(out) :: to(5)
      integer, optional, intent(out) :: ierror
    end subroutine
    integer(c_int) function MPI_Comm_eq(one, other) &
        bind(C, name='__mpi_f08_types_MOD_mpi_comm_eq')
      import
      type(MPI_Comm), intent(in) :: one, other
    end function
    subroutine MPI_Dist_graph_create_adjacent_f08(comm_old, indegree, sources, sourceweights, &
        outdegree, destinations, destweights, info, reorder, comm_dist_graph, ierror)
      import
      type(MPI_Comm), intent(in) :: comm_old
      integer, intent(in) :: indegree, outdegree
      integer, intent(in) :: sources(indegree), destinations(outdegree)
      integer, intent(in) :: sourceweights(*), destweights(*)
      type(MPI_Info), intent(in) :: info
      logical, intent(in) :: reorder
      type(MPI_Comm), intent(out) :: comm_dist_graph
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Dist_graph_neighbors_count_f08(comm, indegree, outdegree, weighted, ierror)
      import
      type(MPI_Comm), intent(in) :: comm
      integer, intent(out) :: indegree, outdegree
      logical, intent(out) :: weighted
      integer, optional, intent(out) :: ierror
    end subroutine
  end interface
end module

program names
  use part_of_mpi_f08
  implicit none
  type :: pair
    complex :: first
    integer :: second
  end type
  type(pair), target :: pairs(5)
  complex, pointer :: firsts(:)
  integer :: rank, size, left, right, matrix(4, 6), scalar, sum, degrees(2), unnamed(1)
  integer :: numbers(8)
  complex, allocatable :: column(:)
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Comm) :: graph
  logical :: weighted
  integer(8) :: position
  character(len=1) :: bytes(8)
  call MPI_Init_f08()
  call MPI_Comm_rank_f08(MPI_COMM_WORLD, rank)
  call MPI_Comm_size_f08(MPI_COMM_WORLD, size)
  call PMPIR_Comm_size_f08(MPI_COMM_WORLD, scalar)
  call expect(scalar == size, 'PMPI')
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  ! A row goes into every second element of another one.
  matrix = -1
  call MPI_Irecv_f08ts(matrix(3, 1:6:2), 3, MPI_INTEGER, left, 1, MPI_COMM_WORLD, request)
  matrix(2, :) = [1, 2, 3, 4, 5, 6] + rank
  call MPI_Send_f08ts(matrix(2, 4:), 3, MPI_INTEGER, right, 1, MPI_COMM_WORLD)
  call MPI_Wait_f08(request, status)
  call expect(all(matrix(3, :) == [left + 4, -1, left + 5, -1, left + 6, -1]), 'sections')
  call expect(count(matrix == -1) == 24 - 9, 'what lies between')
  call expect(status%MPI_SOURCE == left .and. status%MPI_TAG == 1, 'status')
  numbers = -1
  status%MPI_ERROR = 5
  call MPI_Status_f082f(status, numbers(:5))
  call expect(all(numbers(3:) == [left, 1, 5, -1, -1, -1]), 'conversion')
  ! Two dimensions, backwards.
  call MPI_Irecv_f08ts(matrix(4:1:-3, 2:1:-1), 4, MPI_INTEGER, left, 2, MPI_COMM_WORLD, request)
  call MPI_Send_f08ts_large([1, 2, 3, 4] * 10, 4_8, MPI_INTEGER, right, 2, MPI_COMM_WORLD)
  call MPI_Wait_f08(request, MPI_STATUS_IGNORE)
  call expect(all([matrix(4, 2), matrix(1, 2), matrix(4, 1), matrix(1, 1)] == &
    [10, 20, 30, 40]), 'backwards')
  ! A component of an array of a type.
  pairs%first = [1, 2, 3, 4, 5] + cmplx(0, rank)
  allocate (column(5))
  call MPI_Irecv_f08ts(column, 5, MPI_COMPLEX, left, 3, MPI_COMM_WORLD, request)
  firsts => pairs%first
  call MPI_Send_c_f08ts(firsts, 5_8, MPI_COMPLEX, right, 3, MPI_COMM_WORLD)
  call MPI_Wait_f08(request, MPI_STATUS_IGNORE)
  call expect(all(column == [1, 2, 3, 4, 5] + cmplx(0, left)), 'a component')
  call expect(MPI_STATUS_IGNORE%MPI_TAG == 0, 'MPI_STATUS_IGNORE')
  ! Scalars and constants.
  sum = rank
  call MPI_Allreduce_f08ts(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call expect(sum == size * (size - 1) / 2, 'MPI_IN_PLACE')
  call MPI_Dist_graph_create_adjacent_f08(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
    MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors_count_f08(graph, degrees(1), degrees(2), weighted)
  call expect(all(degrees == 1) .and. .not. weighted, 'MPI_UNWEIGHTED')
  unnamed = 7
  call MPI_Dist_graph_create_adjacent_f08(MPI_COMM_WORLD, 1, [left], unnamed, 1, [right], &
    unnamed, MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors_count_f08(graph, degrees(1), degrees(2), weighted)
  call expect(weighted, 'weights')
  call expect(MPI_Comm_eq(graph, MPI_COMM_WORLD) == 0, 'different communicators')
  call expect(MPI_Comm_eq(graph, graph) /= 0, 'the same communicator')
  ! Text and buffers.
  position = 0
  call MPI_Pack_external_f08ts('external32', [1, 258], 2, MPI_INTEGER, bytes, 8_8, position)
  call expect(position == 8 .and. all(ichar(bytes) == [0, 0, 0, 1, 0, 0, 1, 2]), 'external32')
  if (rank == 0) print '(A)', 'ok'
  call MPI_Finalize_f08()
contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) print '(A,A)', 'WRONG: ', what
  end subroutine
end program
