! What Open MPI's modules have in a way of their own: MPI_Sizeof, comparisons, constants in common
! blocks, integers of handles, which C must convert, and procedures that begin with PMPI_.
module of_c
  use, intrinsic :: iso_c_binding
  implicit none
  ! Objects whose addresses are handles.
  integer(c_int), bind(C, name='ompi_mpi_comm_world'), target :: c_world(128)
  integer(c_int), bind(C, name='ompi_mpi_dblprec'), target :: c_double_precision(128)
  type(c_ptr), bind(C, name='MPI_F_STATUS_IGNORE') :: c_status_ignore
end module

program names_f08
  use of_c
  use mpi_f08
  implicit none
  interface
    function comm_f2c(comm) bind(C, name='MPI_Comm_f2c') result(handle)
      import
      integer(c_int), value :: comm
      type(c_ptr) :: handle
    end function
    function comm_c2f(handle) bind(C, name='MPI_Comm_c2f') result(comm)
      import
      type(c_ptr), value :: handle
      integer(c_int) :: comm
    end function
    function type_c2f(handle) bind(C, name='MPI_Type_c2f') result(datatype)
      import
      type(c_ptr), value :: handle
      integer(c_int) :: datatype
    end function
    function c_comm_size(handle, size) bind(C, name='MPI_Comm_size') result(code)
      import
      type(c_ptr), value :: handle
      integer(c_int) :: size, code
    end function
  end interface
  type(MPI_Comm) :: copy, graph
  type(MPI_Datatype) :: types(2)
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Op) :: op
  integer :: rank, size, bytes, answer, next, prev, numbers(4), f_status(MPI_STATUS_SIZE)
  integer :: sources(1), targets(1), in, out
  integer(c_int) :: code
  logical :: is_weighted
  double precision :: values(2, 3)
  real :: both(2)
  call MPI_Init()
  call PMPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  next = mod(rank + 1, size)
  prev = mod(rank + size - 1, size)
  ! Sizes of types.
  call MPI_Sizeof(values, bytes)
  call expect(bytes == 8, 'MPI_Sizeof of DOUBLE PRECISION')
  call MPI_Sizeof(rank, bytes)
  call expect(bytes == 4, 'MPI_Sizeof of an INTEGER')
  call MPI_Sizeof((1.0, 2.0), bytes)
  call expect(bytes == 8, 'MPI_Sizeof of a COMPLEX')
  ! Handles in both languages.
  call expect(c_associated(comm_f2c(MPI_COMM_WORLD%MPI_VAL), c_loc(c_world)), 'MPI_Comm_f2c')
  call expect(comm_c2f(c_loc(c_world)) == MPI_COMM_WORLD%MPI_VAL, 'MPI_Comm_c2f')
  call expect(type_c2f(c_loc(c_double_precision)) == MPI_DOUBLE_PRECISION%MPI_VAL, 'MPI_Type_c2f')
  call MPI_Comm_dup(MPI_COMM_WORLD, copy)
  call expect(copy /= MPI_COMM_WORLD .and. copy == copy, 'comparisons of communicators')
  code = c_comm_size(comm_f2c(copy%MPI_VAL), answer)
  call expect(code == MPI_SUCCESS .and. answer == size, 'a communicator in C')
  call expect(comm_c2f(comm_f2c(copy%MPI_VAL)) == copy%MPI_VAL, 'a communicator and back')
  call MPI_Comm_free(copy)
  call expect(copy == MPI_COMM_NULL, 'MPI_COMM_NULL')
  types = [MPI_INTEGER, MPI_DATATYPE_NULL]
  call MPI_Type_contiguous(2, types(1), types(2))
  call MPI_Type_commit(types(2))
  call expect(types(2) /= types(1), 'comparisons of datatypes')
  ! Constants by address, and statuses.
  call expect(c_associated(c_status_ignore), 'MPI_F_STATUS_IGNORE')
  numbers = rank
  call MPI_Irecv(numbers(3:4), 1, types(2), prev, 7, MPI_COMM_WORLD, requests(1))
  call PMPI_Isend(numbers(1:2), 2, MPI_INTEGER, next, 7, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, statuses)
  call MPI_Get_count(statuses(1), MPI_INTEGER, answer)
  call expect(all(numbers(3:4) == prev) .and. answer == 2, 'a message')
  call expect(statuses(1)%MPI_SOURCE == prev .and. statuses(1)%MPI_TAG == 7, 'a status')
  call expect(all(requests == MPI_REQUEST_NULL), 'MPI_REQUEST_NULL')
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, next, 0, answer, 1, MPI_INTEGER, prev, MPI_ANY_TAG, &
    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call expect(answer == prev, 'MPI_STATUS_IGNORE')
  call MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, status)
  f_status(MPI_SOURCE) = status%MPI_SOURCE
  call expect(f_status(MPI_SOURCE) == MPI_PROC_NULL, 'MPI_PROC_NULL')
  numbers = 1
  call MPI_Allreduce(MPI_IN_PLACE, numbers, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call expect(all(numbers == size), 'MPI_IN_PLACE')
  call MPI_Op_create(larger, .true., op)
  both = [real(rank), real(-rank)]
  call MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_REAL, op, MPI_COMM_WORLD)
  call expect(all(both == [real(size - 1), 0.0]), 'MPI_Op_create')
  call MPI_Op_free(op)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [prev], MPI_UNWEIGHTED, 1, [next], &
    MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors_count(graph, in, out, is_weighted)
  call expect(in == 1 .and. out == 1 .and. .not. is_weighted, 'MPI_UNWEIGHTED')
  call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED)
  call expect(sources(1) == prev .and. targets(1) == next, 'MPI_Dist_graph_neighbors')
  call MPI_Comm_free(graph)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, sources, MPI_WEIGHTS_EMPTY, 0, targets, &
    MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors_count(graph, in, out, is_weighted)
  call expect(in == 0 .and. out == 0 .and. is_weighted, 'MPI_WEIGHTS_EMPTY')
  call MPI_Comm_free(graph)
  call MPI_Type_free(types(2))
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine larger(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    real, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype == MPI_REAL) b = max(a, b)
  end subroutine

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) print '(A,I0,A,A)', 'WRONG on rank ', rank, ': ', what
  end subroutine
end program
