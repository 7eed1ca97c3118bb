! Module mpi: procedures that MPI calls, all kinds; handles are INTEGERs in them.
module callbacks
  use mpi
  implicit none
  integer :: handled(4) = 0, copied = 0, deleted = 0, queried = 0, freed = 0, cancelled = 0
  integer :: converted = 0, last_code = 0
contains
  subroutine product_of(invec, inoutvec, len, datatype)
    integer :: len, datatype
    double precision :: invec(len), inoutvec(len)
    if (datatype /= MPI_DOUBLE_PRECISION) print '(A)', 'WRONG datatype'
    inoutvec = invec * inoutvec
  end subroutine

  subroutine comm_handler(comm, code)
    integer :: comm, code
    if (comm == MPI_COMM_NULL .or. code == MPI_SUCCESS) print '(A)', 'WRONG communicator'
    handled(1) = handled(1) + 1
    last_code = code
  end subroutine

  subroutine win_handler(win, code)
    integer :: win, code
    if (win == MPI_WIN_NULL .or. code == MPI_SUCCESS) print '(A)', 'WRONG window'
    handled(2) = handled(2) + 1
  end subroutine

  subroutine file_handler(file, code)
    integer :: file, code
    if (file == MPI_FILE_NULL .or. code == MPI_SUCCESS) print '(A)', 'WRONG file'
    handled(3) = handled(3) + 1
  end subroutine

  ! Not in Open MPI {
  subroutine session_handler(session, code)
    integer :: session, code
    if (session == MPI_SESSION_NULL .or. code == MPI_SUCCESS) print '(A)', 'WRONG session'
    handled(4) = handled(4) + 1
  end subroutine
  ! }

  ! Communicators, windows and datatypes alike.
  subroutine copy(object, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: object, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    if (object == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) print '(A)', 'WRONG object to copy'
    value_out = value_in + extra_state
    flag = value_in >= 0
    copied = copied + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete(object, keyval, value, extra_state, ierror)
    integer :: object, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    if (object == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) print '(A)', 'WRONG object to delete'
    if (extra_state /= 3 .or. value < -1) print '(A)', 'WRONG value to delete'
    deleted = deleted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine refuse(object, keyval, value, extra_state, ierror)
    integer :: object, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    if (object == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID .or. value + extra_state /= 9) &
      print '(A)', 'WRONG arguments of a refusal'
    ierror = MPI_ERR_OTHER
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: status(MPI_STATUS_SIZE), ierror
    call MPI_Status_set_elements(status, MPI_REAL, int(extra_state), ierror)
    call MPI_Status_set_cancelled(status, cancelled > 0, ierror)
    status(MPI_SOURCE) = 1
    status(MPI_TAG) = 2
    queried = queried + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (complete .or. extra_state /= 4) print '(A)', 'WRONG cancellation'
    cancelled = cancelled + 1
    ierror = MPI_SUCCESS
  end subroutine

  ! The file has each INTEGER plus 5.
  subroutine from_file(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    integer :: userbuf(*), filebuf(*), datatype, count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    if (datatype == MPI_DATATYPE_NULL) print '(A)', 'WRONG datatype'
    userbuf(position + 1:position + count) = filebuf(1:count) - int(extra_state)
    converted = converted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine to_file(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    integer :: userbuf(*), filebuf(*), datatype, count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    if (datatype == MPI_DATATYPE_NULL) print '(A)', 'WRONG datatype'
    filebuf(1:count) = userbuf(position + 1:position + count) + int(extra_state)
    converted = converted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine extent(datatype, bytes, extra_state, ierror)
    integer :: datatype, ierror, length
    integer(kind=MPI_ADDRESS_KIND) :: bytes, extra_state
    call MPI_Type_size(datatype, length, ierror)
    if (extra_state /= 5) print '(A)', 'WRONG state of a representation'
    bytes = length
    ierror = MPI_SUCCESS
  end subroutine
end module

program callbacks_mpi
  use callbacks
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer :: me, n, ierror, i, class
  logical :: flag
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
  call operations()
  call handlers()
  call codes()
  call attributes()
  call old_attributes()
  call requests()
  call representations()
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize(ierror)
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine operations()
    double precision, asynchronous :: x(2), y(2)
    integer :: ops(40), request
    x = [2d0, 1d0 + me]
    ! As many operations as there are: one procedure needs one slot.
    do i = 1, 40
      call MPI_Op_create(product_of, .true., ops(i), ierror)
      call check('operation is made', ierror == MPI_SUCCESS)
    end do
    call MPI_Allreduce(x, y, 2, MPI_DOUBLE_PRECISION, ops(40), MPI_COMM_WORLD, ierror)
    call check('product', all(y == [2d0**n, product([(dble(i), i = 1, n)])]))
    call MPI_Iscan(x, y, 2, MPI_DOUBLE_PRECISION, ops(1), MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call check('scan', y(1) == 2d0**(me + 1))
    do i = 1, 40
      call MPI_Op_free(ops(i), ierror)
    end do
    call check('operation is freed', all(ops == MPI_OP_NULL))
  end subroutine

  subroutine handlers()
    integer :: handler, got, comm, win, file, session, group
    integer, asynchronous :: memory(2)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_create_errhandler(comm_handler, handler, ierror)
    call MPI_Comm_set_errhandler(comm, handler, ierror)
    call MPI_Comm_get_errhandler(comm, got, ierror)
    call check('handler of a communicator', got == handler)
    call MPI_Errhandler_free(got, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Send(me, 1, MPI_INTEGER, -70, 0, comm, ierror)
    call MPI_Error_class(last_code, class, ierror)
    call check('error of a communicator', handled(1) == 1 .and. class == MPI_ERR_RANK)
    call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER, ierror)
    call check('called handler', handled(1) == 2)
    call MPI_Comm_free(comm, ierror)

    call MPI_Win_create(memory, 8_A, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_create_errhandler(win_handler, handler, ierror)
    call MPI_Win_set_errhandler(win, handler, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Win_call_errhandler(win, MPI_ERR_RMA_RANGE, ierror)
    call check('error of a window', handled(2) == 1)
    call MPI_Win_free(win, ierror)

    call MPI_File_open(MPI_COMM_SELF, name_of('handler'), MPI_MODE_CREATE + MPI_MODE_WRONLY + &
      MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
    call MPI_File_create_errhandler(file_handler, handler, ierror)
    call MPI_File_set_errhandler(file, handler, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_File_call_errhandler(file, MPI_ERR_FILE, ierror)
    call check('error of a file', handled(3) == 1)
    call MPI_File_close(file, ierror)

    ! Not in Open MPI {
    call MPI_Session_create_errhandler(session_handler, handler, ierror)
    call MPI_Session_init(MPI_INFO_NULL, handler, session, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Session_call_errhandler(session, MPI_ERR_OTHER, ierror)
    call check('error of a session', handled(4) == 1)
    call MPI_Group_from_session_pset(session, 'mpi://WORLD', group, ierror)
    call MPI_Group_size(group, got, ierror)
    call check('group of a session', got == n)
    call MPI_Group_free(group, ierror)
    call MPI_Session_finalize(session, ierror)
    ! }
  end subroutine

  function name_of(what) result(name)
    character(len=*), intent(in) :: what
    character(len=40) :: name
    write (name, '(A,I0,A)') what, me, '_mpi.data'
  end function

  subroutine codes()
    integer :: new_class, code, length
    character(len=MPI_MAX_ERROR_STRING) :: text
    call MPI_Add_error_class(new_class, ierror)
    call MPI_Add_error_code(new_class, code, ierror)
    call MPI_Add_error_string(code, 'no more sugar', ierror)
    call MPI_Error_string(code, text, length, ierror)
    call check('own text', text == 'no more sugar' .and. length == 13)
    call MPI_Error_class(code, class, ierror)
    call check('own class', class == new_class)
    ! Not in Open MPI {
    call MPI_Remove_error_string(code, ierror)
    call MPI_Remove_error_code(code, ierror)
    call MPI_Remove_error_class(new_class, ierror)
    ! }
    call check('removed', ierror == MPI_SUCCESS)
  end subroutine

  subroutine attributes()
    integer :: keyval, comm, other, win, kind, new
    integer, asynchronous :: memory(2)
    integer(kind=A) :: value
    copied = 0
    deleted = 0
    call MPI_Comm_create_keyval(copy, delete, keyval, 3_A, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_set_attr(comm, keyval, 40_A, ierror)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Comm_get_attr(other, keyval, value, flag, ierror)
    call check('attribute of a communicator', flag .and. value == 43 .and. copied == 1)
    call MPI_Comm_free(other, ierror)
    call MPI_Comm_set_attr(comm, keyval, -1_A, ierror)
    call check('replaced', deleted == 2)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Comm_get_attr(other, keyval, value, flag, ierror)
    call check('not copied', .not. flag)
    call MPI_Comm_free(other, ierror)
    call MPI_Comm_free(comm, ierror)
    call check('deleted with the communicator', deleted == 3)
    call MPI_Comm_free_keyval(keyval, ierror)

    call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete, keyval, 3_A, ierror)
    call MPI_Win_create(memory, 8_A, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_set_attr(win, keyval, 2_A**40, ierror)
    call MPI_Win_get_attr(win, keyval, value, flag, ierror)
    call check('attribute of a window', flag .and. value == 2_A**40)
    call MPI_Win_delete_attr(win, keyval, ierror)
    call check('deleted from the window', deleted == 4)
    call MPI_Win_free_keyval(keyval, ierror)
    call MPI_Win_free(win, ierror)

    call MPI_Type_create_keyval(copy, delete, keyval, 3_A, ierror)
    call MPI_Type_contiguous(3, MPI_REAL, kind, ierror)
    call MPI_Type_set_attr(kind, keyval, 10_A, ierror)
    call MPI_Type_dup(kind, new, ierror)
    call MPI_Type_get_attr(new, keyval, value, flag, ierror)
    call check('attribute of a type', flag .and. value == 13)
    call MPI_Type_free(new, ierror)
    call MPI_Type_free(kind, ierror)
    call check('deleted with the types', deleted == 6)
    call MPI_Type_free_keyval(keyval, ierror)

    ! A deletion may be refused, and its code is returned.
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, refuse, keyval, 4_A, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
    call MPI_Comm_set_attr(comm, keyval, 5_A, ierror)
    call MPI_Comm_delete_attr(comm, keyval, ierror)
    call check('refused deletion', ierror /= MPI_SUCCESS)
    call MPI_Comm_free_keyval(keyval, ierror)
  end subroutine

  ! The deprecated procedures have INTEGER values.
  subroutine old_attributes()
    integer :: keyval, comm, other, value
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, keyval, 0, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Attr_put(comm, keyval, -17, ierror)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Attr_get(other, keyval, value, flag, ierror)
    call check('old attribute', flag .and. value == -17)
    call MPI_Attr_delete(other, keyval, ierror)
    call MPI_Attr_get(other, keyval, value, flag, ierror)
    call check('no old attribute', .not. flag)
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call check('old MPI_TAG_UB', flag .and. value >= 32767)
    call MPI_Comm_free(other, ierror)
    call MPI_Comm_free(comm, ierror)
    call MPI_Keyval_free(keyval, ierror)
    call check('old keyval is freed', keyval == MPI_KEYVAL_INVALID)
  end subroutine

  subroutine requests()
    integer :: request(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), count, at
    call MPI_Grequest_start(query, release, cancel, 4_A, request(1), ierror)
    call MPI_Grequest_start(query, release, cancel, 6_A, request(2), ierror)
    call MPI_Request_get_status(request(1), flag, status, ierror)
    call check('not complete', .not. flag)
    call MPI_Cancel(request(1), ierror)
    call MPI_Grequest_complete(request(1), ierror)
    call MPI_Waitany(2, request, at, status, ierror)
    call MPI_Get_count(status, MPI_REAL, count, ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    call check('first request', at == 1 .and. count == 4 .and. flag .and. freed == 4)
    cancelled = 0
    call MPI_Grequest_complete(request(2), ierror)
    call MPI_Waitall(2, request, statuses, ierror)
    call MPI_Get_count(statuses(:, 2), MPI_REAL, count, ierror)
    call MPI_Test_cancelled(statuses(:, 2), flag, ierror)
    call check('second request', count == 6 .and. .not. flag .and. freed == 10 .and. &
      statuses(MPI_TAG, 2) == 2 .and. statuses(MPI_SOURCE, 2) == 1)
  end subroutine

  subroutine representations()
    integer :: file, mine(3), got(3)
    integer(kind=MPI_OFFSET_KIND), parameter :: start = 0
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    ! MPICH takes no conversions.
    call MPI_Get_library_version(library, i, ierror)
    if (index(library, 'MPICH') > 0) return
    call MPI_Register_datarep('five more', from_file, to_file, extent, 5_A, ierror)
    call check('registered', ierror == MPI_SUCCESS)
    call MPI_Register_datarep('five more', from_file, to_file, extent, 5_A, ierror)
    call MPI_Error_class(ierror, class, i)
    call check('registered twice', class == MPI_ERR_DUP_DATAREP)
    call MPI_File_open(MPI_COMM_SELF, name_of('five'), MPI_MODE_CREATE + MPI_MODE_RDWR + &
      MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
    call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, 'five more', MPI_INFO_NULL, &
      ierror)
    if (ierror == MPI_SUCCESS) then
      mine = [me, 1, 2]
      call MPI_File_write_at(file, start, mine, 3, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
      call MPI_File_read_at(file, start, got, 3, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
      call check('converted twice', all(got == mine) .and. converted >= 2)
      call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, &
        ierror)
      call MPI_File_read_at(file, start, got, 3, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
      call check('converted', all(got == mine + 5))
    end if
    call MPI_File_close(file, ierror)
  end subroutine
end program
