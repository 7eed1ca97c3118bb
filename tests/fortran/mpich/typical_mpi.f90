! What programs do with `use mpi` of MPICH and of Intel MPI: windows and their attributes, files,
! generalized requests, memory, names and numbers that depend on the ABI.
module generalized
  use mpi
  implicit none
  integer :: queried = 0, freed = 0
contains
  subroutine query(extra, status, error)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), error
    queried = queried + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra), error)
    call MPI_Status_set_cancelled(status, .false., error)
    status(MPI_SOURCE) = 3
    status(MPI_TAG) = 4
  end subroutine

  subroutine release(extra, error)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: error
    if (extra == 9) freed = freed + 1
    error = MPI_SUCCESS
  end subroutine

  subroutine stop_it(extra, complete, error)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: error
    error = MPI_SUCCESS
  end subroutine

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) print '(A,A)', 'WRONG: ', what
  end subroutine
end module

program typical
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_ptr
  use generalized
  implicit none
  integer :: rank, size, error, win, file, request, status(MPI_STATUS_SIZE), length, value, info
  integer :: numbers(4), group, kind, handler
  integer(MPI_ADDRESS_KIND) :: bytes, attribute, first, second
  integer(MPI_OFFSET_KIND) :: offset
  type(c_ptr) :: memory
  integer, pointer :: shared(:)
  logical :: flag
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=20) :: answer
  double precision :: number
  call MPI_Init_thread(MPI_THREAD_FUNNELED, kind, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  ! Memory and a window, with its attributes.
  bytes = 40
  call MPI_Alloc_mem(bytes, MPI_INFO_NULL, memory, error)
  call c_f_pointer(memory, shared, [10])
  shared = rank
  call MPI_Win_create(shared, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, attribute, flag, error)
  call expect(flag .and. attribute == 40, 'MPI_WIN_SIZE')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, attribute, flag, error)
  call expect(flag .and. attribute == 4, 'MPI_WIN_DISP_UNIT')
  call MPI_Get_address(shared, first, error)
  call MPI_Win_get_attr(win, MPI_WIN_BASE, attribute, flag, error)
  call expect(flag .and. attribute == first, 'MPI_WIN_BASE')
  call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, attribute, flag, error)
  call expect(flag .and. attribute == MPI_WIN_FLAVOR_CREATE, 'MPI_WIN_CREATE_FLAVOR')
  call MPI_Win_fence(0, win, error)
  offset = 2
  call MPI_Put(rank, 1, MPI_INTEGER, mod(rank + 1, size), 3_MPI_ADDRESS_KIND, 1, MPI_INTEGER, &
    win, error)
  call MPI_Win_fence(0, win, error)
  call expect(shared(4) == mod(rank + size - 1, size), 'MPI_Put')
  call MPI_Win_set_name(win, 'a window', error)
  call MPI_Win_get_name(win, name, length, error)
  call expect(length == 8 .and. name == 'a window', 'name of a window')
  call MPI_Win_free(win, error)
  call expect(win == MPI_WIN_NULL, 'null window')
  call MPI_Free_mem(shared, error)
  ! A file, whose handle is a pointer in C.
  call MPI_File_open(MPI_COMM_WORLD, 'typical_mpi.data', &
    MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, error)
  call expect(error == MPI_SUCCESS .and. file /= MPI_FILE_NULL, 'open')
  offset = 4 * rank
  call MPI_File_write_at_all(file, offset, rank + 10, 1, MPI_INTEGER, status, error)
  call MPI_Get_count(status, MPI_INTEGER, length, error)
  call expect(length == 1, 'count of a file')
  call MPI_File_sync(file, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  offset = 4 * mod(rank + 1, size)
  call MPI_File_read_at(file, offset, value, 1, MPI_INTEGER, MPI_STATUS_IGNORE, error)
  call expect(value == mod(rank + 1, size) + 10, 'read')
  call MPI_File_get_errhandler(file, handler, error)
  call expect(handler == MPI_ERRORS_RETURN, 'handler of a file')
  call MPI_File_close(file, error)
  call expect(file == MPI_FILE_NULL, 'null file')
  ! A generalized request, and a status that C has filled.
  call MPI_Grequest_start(query, release, stop_it, 9_MPI_ADDRESS_KIND, request, error)
  call MPI_Grequest_complete(request, error)
  call MPI_Wait(request, status, error)
  call MPI_Get_elements(status, MPI_INTEGER, length, error)
  call expect(length == 9 .and. status(MPI_SOURCE) == 3 .and. status(MPI_TAG) == 4, 'query')
  call MPI_Test_cancelled(status, flag, error)
  call expect(.not. flag .and. queried == 1 .and. freed == 1, 'generalized request')
  ! Text in and out.
  call MPI_Info_create(info, error)
  call MPI_Info_set(info, ' key ', ' a value ', error)
  call MPI_Info_get(info, 'key', 20, answer, flag, error)
  call expect(flag .and. answer == 'a value', 'info')
  call MPI_Info_free(info, error)
  call expect(info == MPI_INFO_NULL, 'null info')
  call MPI_Error_string(MPI_ERR_TRUNCATE, text, length, error)
  call expect(length > 0, 'text of an error')
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
  call MPI_Bcast(value, 1, MPI_INTEGER, -7, MPI_COMM_WORLD, error)
  call MPI_Error_class(error, kind, value)
  call expect(kind == MPI_ERR_ROOT, 'MPI_ERR_ROOT')
  ! Addresses, sizes, groups, and datatypes that depend on the compiler.
  call MPI_Get_address(numbers(1), first, error)
  call MPI_Get_address(numbers(3), second, error)
  call expect(MPI_Aint_diff(second, first) == 8, 'MPI_Aint_diff')
  call expect(MPI_Aint_add(first, 8_MPI_ADDRESS_KIND) == second, 'MPI_Aint_add')
  call MPI_Sizeof(number, length, error)
  call expect(length == 8, 'MPI_Sizeof')
  call MPI_Sizeof(numbers, length, error)
  call expect(length == 4, 'MPI_Sizeof of an array')
  call MPI_Type_create_f90_real(12, 100, kind, error)
  call MPI_Type_size(kind, length, error)
  call expect(length == 8, 'MPI_Type_create_f90_real')
  call MPI_Type_get_name(MPI_DOUBLE_PRECISION, name, length, error)
  call expect(name == 'MPI_DOUBLE_PRECISION', 'name of a datatype')
  call MPI_Comm_group(MPI_COMM_WORLD, group, error)
  call MPI_Group_translate_ranks(group, 1, [0], MPI_GROUP_EMPTY, numbers, error)
  call expect(numbers(1) == MPI_UNDEFINED, 'MPI_UNDEFINED')
  call MPI_Group_free(group, error)
  call expect(group == MPI_GROUP_NULL, 'null group')
  call expect(PMPI_Wtime() > 0, 'PMPI_Wtime')
  if (rank == 0) print '(A)', 'ok'
  call MPI_Finalize(error)
end program
