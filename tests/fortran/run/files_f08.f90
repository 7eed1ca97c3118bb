! Files: every style of data access, views, sections, data representations.
module representation
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: converted = 0, measured = 0
contains
  ! The file has the negative of each INTEGER.
  subroutine negate(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:), file(:)
    call c_f_pointer(userbuf, user, [int(position) + count])
    call c_f_pointer(filebuf, file, [count])
    if (extra_state == 1) then
      user(position + 1:position + count) = -file
    else
      print '(A)', 'WRONG state of a representation'
    end if
    if (datatype == MPI_DATATYPE_NULL) print '(A)', 'WRONG datatype of a representation'
    converted = converted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine negate_back(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:), file(:)
    call c_f_pointer(userbuf, user, [int(position) + count])
    call c_f_pointer(filebuf, file, [count])
    if (datatype == MPI_DATATYPE_NULL) print '(A)', 'WRONG datatype of a representation'
    file = -user(position + 1:position + count)
    extra_state = 1
    converted = converted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine extent(datatype, bytes, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: bytes, extra_state
    integer :: ierror
    integer :: length
    call MPI_Type_size(datatype, length)
    bytes = length
    extra_state = 1
    measured = measured + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program files_f08
  use representation
  implicit none
  integer, parameter :: O = MPI_OFFSET_KIND
  integer :: me, n, i, ierror
  type(MPI_File) :: file
  character(len=64) :: name
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  if (me == 0) call MPI_File_delete('files_f08.data', MPI_INFO_NULL, ierror)
  write (name, '(A)') 'files_f08.data'
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + &
    MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call explicit()
  call individual()
  call shared()
  call split_collective()
  call views()
  call management()
  call MPI_File_close(file)
  call check('file is closed', file == MPI_FILE_NULL)
  call representations()
  call any_bytes()
  call refused()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  ! The bytes of all ranks are in the file.
  subroutine settle()
    call MPI_File_sync(file)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_sync(file)
  end subroutine

  ! The bytes of a name are the file's, also if they are no UTF-8.
  subroutine any_bytes()
    logical :: is_there
    name = 'files_f08.' // char(255) // char(195)
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
    inquire (file=name, exist=is_there)
    call check('name that is no UTF-8', is_there)
    call MPI_File_close(file)
    if (me == 0) then
      call MPI_File_delete(name, MPI_INFO_NULL)
      inquire (file=name, exist=is_there)
      call check('deleted name that is no UTF-8', .not. is_there)
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine explicit()
    integer, asynchronous :: mine(20), got(20)
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    integer :: counted
    mine = [(100 * me + i, i = 1, 20)]
    call MPI_File_write_at(file, 40_O * me, mine(1:19:2), 10, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, counted)
    call check('written at', counted == 10)
    call settle()
    got = -1
    call MPI_File_read_at(file, 40_O * modulo(me + 1, n), got(2:20:2), 10, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, counted)
    call check('read at', counted == 10 .and. all(got(1::2) == -1) .and. &
      all(got(2:20:2) == [(100 * modulo(me + 1, n) + i, i = 1, 19, 2)]))
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_write_at_all(file, 80_O * me, mine, 20, MPI_INTEGER, MPI_STATUS_IGNORE)
    call settle()
    got = -1
    call MPI_File_read_at_all(file, 80_O * me, got(20:1:-1), 20_MPI_COUNT_KIND, MPI_INTEGER, &
      MPI_STATUS_IGNORE)
    call check('read at all', all(got(20:1:-1) == mine))
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_iwrite_at(file, 80_O * me, mine(20:2:-2), 10, MPI_INTEGER, requests(1))
    call MPI_File_iwrite_at_all(file, 80_O * me + 40, mine(1:10), 10, MPI_INTEGER, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call settle()
    call MPI_File_iread_at(file, 80_O * me, got(1:10), 10, MPI_INTEGER, requests(1))
    call MPI_File_iread_at_all(file, 80_O * me + 40, got(19:10:-1), 10, MPI_INTEGER, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    got(10) = mine(2)
    call check('nonblocking at', all(got(1:10) == mine(20:2:-2)))
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine individual()
    real(kind(1d0)), asynchronous :: mine(6), got(6)
    type(MPI_Request) :: request
    integer(kind=O) :: at, bytes
    mine = [(10d0 * me + i, i = 1, 6)]
    call MPI_File_set_view(file, 96_O * me, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, &
      'native', MPI_INFO_NULL)
    call MPI_File_write(file, mine(1:5:2), 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
    call MPI_File_write_all(file, mine(2:6:2), 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
    call MPI_File_iwrite(file, mine(1:3), 3, MPI_DOUBLE_PRECISION, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_File_iwrite_all(file, mine(6:4:-1), 3, MPI_DOUBLE_PRECISION, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_File_get_position(file, at)
    call check('position', at == 12)
    call MPI_File_get_byte_offset(file, at, bytes)
    call check('byte offset', bytes == 96_O * me + 96)
    call MPI_File_seek(file, 0_O, MPI_SEEK_SET)
    call MPI_File_read(file, got(1:5:2), 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
    call MPI_File_read_all(file, got(2:6:2), 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
    call check('read', all(got == mine))
    got = 0
    call MPI_File_iread(file, got(1:3), 3, MPI_DOUBLE_PRECISION, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_File_iread_all(file, got(6:4:-1), 3, MPI_DOUBLE_PRECISION, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('nonblocking read', all(got == mine))
    call settle()
  end subroutine

  subroutine shared()
    integer, asynchronous :: mine(4), got(4 * n)
    integer(kind=O) :: at
    type(MPI_Request) :: request
    call MPI_File_set_view(file, 0_O, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    mine = me + 1
    call MPI_File_write_ordered(file, mine(1:3:2), 2, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_get_position_shared(file, at)
    call MPI_Barrier(MPI_COMM_WORLD)
    call check('ordered', at == 2 * n)
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    call settle()
    call MPI_File_read_ordered(file, got(1:2), 2, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check('in order', all(got(1:2) == me + 1))
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    call MPI_File_write_shared(file, mine, 2, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_iwrite_shared(file, mine, 2, MPI_INTEGER, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call settle()
    call MPI_File_read_at_all(file, 0_O, got, 4 * n, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check('all are there', sum(got) == 2 * n * (n + 1))
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    call MPI_File_read_shared(file, mine(1:2), 2, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_iread_shared(file, mine(3:4), 2, MPI_INTEGER, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check('pairs', mine(1) == mine(2) .and. mine(3) == mine(4))
    call settle()
  end subroutine

  subroutine split_collective()
    integer, asynchronous :: mine(6), got(6)
    type(MPI_Status) :: status
    integer :: counted
    mine = [(100 * me + i, i = 1, 6)]
    call MPI_File_write_at_all_begin(file, 6_O * me, mine, 6, MPI_INTEGER)
    call MPI_File_write_at_all_end(file, mine, status)
    call MPI_Get_count(status, MPI_INTEGER, counted)
    call check('split write', counted == 6)
    call settle()
    got = 0
    call MPI_File_read_at_all_begin(file, 6_O * me, got(6:1:-1), 6, MPI_INTEGER)
    call MPI_File_read_at_all_end(file, got(6:1:-1), MPI_STATUS_IGNORE)
    call check('split read', all(got(6:1:-1) == mine))
    call MPI_File_seek(file, 6_O * me, MPI_SEEK_SET)
    call MPI_File_write_all_begin(file, mine(1:5:2), 3, MPI_INTEGER)
    call MPI_File_write_all_end(file, mine(1:5:2), MPI_STATUS_IGNORE)
    call settle()
    call MPI_File_seek(file, 6_O * me, MPI_SEEK_SET)
    got = 0
    call MPI_File_read_all_begin(file, got, 3, MPI_INTEGER)
    call MPI_File_read_all_end(file, got, MPI_STATUS_IGNORE)
    call check('split individual', all(got(1:3) == mine(1:5:2)))
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    call MPI_File_write_ordered_begin(file, mine(2:6:2), 3, MPI_INTEGER)
    call MPI_File_write_ordered_end(file, mine(2:6:2), MPI_STATUS_IGNORE)
    call settle()
    call MPI_File_seek_shared(file, 0_O, MPI_SEEK_SET)
    call MPI_File_read_ordered_begin(file, got, 3, MPI_INTEGER)
    call MPI_File_read_ordered_end(file, got, MPI_STATUS_IGNORE)
    call check('split ordered', all(got(1:3) == mine(2:6:2)))
    call settle()
  end subroutine

  ! A matrix whose columns the ranks take in turn, and whose rows they read back.
  subroutine views()
    type(MPI_Datatype) :: three, columns, rows, etype, filetype
    integer, asynchronous :: mine(n, 3), row(3 * n)
    integer(kind=O) :: at
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    integer :: combiner, a, b, c
    call MPI_Type_vector(3, n, n * n, MPI_INTEGER, three)
    call MPI_Type_create_resized(three, 0_MPI_ADDRESS_KIND, 12_MPI_ADDRESS_KIND * n * n, columns)
    call MPI_Type_free(three)
    call MPI_Type_commit(columns)
    call MPI_File_set_view(file, 4_O * n * me, MPI_INTEGER, columns, 'native', MPI_INFO_NULL)
    do i = 1, 3
      mine(:, i) = [(1000 * me + 10 * i + a, a = 1, n)]
    end do
    call MPI_File_write_at_all(file, 0_O, mine, 3 * n, MPI_INTEGER, MPI_STATUS_IGNORE)
    call settle()
    call MPI_File_get_view(file, at, etype, filetype, datarep)
    call MPI_Type_get_envelope(filetype, a, b, c, combiner)
    call check('view', at == 4 * n * me .and. etype == MPI_INTEGER .and. datarep == 'native')
    call MPI_Type_create_subarray(2, [n, 3 * n], [1, 3 * n], [me, 0], MPI_ORDER_FORTRAN, &
      MPI_INTEGER, rows)
    call MPI_Type_commit(rows)
    call MPI_File_set_view(file, 0_O, MPI_INTEGER, rows, 'native', MPI_INFO_NULL)
    call MPI_File_read_all(file, row, 3 * n, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check('a row of the file', all(row == [((1000 * a + 10 * i + me + 1, a = 0, n - 1), &
      i = 1, 3)]))
    if (filetype /= columns) call MPI_Type_free(filetype, ierror)
    call MPI_Type_free(columns)
    call MPI_Type_free(rows)
    call MPI_File_set_view(file, 0_O, MPI_BYTE, MPI_BYTE, 'native', MPI_INFO_NULL)
    call settle()
  end subroutine

  subroutine management()
    integer(kind=O) :: bytes
    integer :: mode, members
    logical :: flag
    type(MPI_Group) :: group
    type(MPI_Info) :: info
    integer(kind=MPI_ADDRESS_KIND) :: extent_of_integer
    call MPI_File_set_size(file, 1000_O)
    call MPI_File_get_size(file, bytes)
    call check('size', bytes == 1000)
    call MPI_File_preallocate(file, 5000_O)
    call MPI_File_get_size(file, bytes)
    call check('preallocated', bytes == 5000)
    call MPI_File_get_amode(file, mode)
    call check('mode', iand(mode, MPI_MODE_RDWR) /= 0)
    call MPI_File_get_group(file, group)
    call MPI_Group_size(group, members)
    call check('group', members == n)
    call MPI_Group_free(group)
    call MPI_File_set_atomicity(file, .true.)
    call MPI_File_get_atomicity(file, flag)
    call check('atomic', flag)
    call MPI_File_get_info(file, info)
    call MPI_Info_free(info)
    call MPI_File_get_type_extent(file, MPI_INTEGER, extent_of_integer)
    call check('extent', extent_of_integer == 4)
  end subroutine

  subroutine representations()
    integer, asynchronous :: mine(4), got(4)
    integer(kind=MPI_ADDRESS_KIND) :: state = 1
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    call MPI_Get_library_version(library, i)
    call MPI_Register_datarep('negated', negate, negate_back, extent, state, ierror)
    ! MPICH takes no conversions.
    call check('registered', ierror == MPI_SUCCESS .or. index(library, 'MPICH') > 0)
    call MPI_File_open(MPI_COMM_WORLD, 'files_f08.data', MPI_MODE_CREATE + MPI_MODE_RDWR + &
      MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
    call MPI_File_set_view(file, 0_O, MPI_INTEGER, MPI_INTEGER, 'negated', MPI_INFO_NULL, ierror)
    if (ierror == MPI_SUCCESS) then
      mine = [(10 * me + i, i = 1, 4)]
      call MPI_File_write_at_all(file, 4_O * me, mine, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
      call settle()
      call MPI_File_read_at_all(file, 4_O * me, got, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
      call check('converted twice', all(got == mine) .and. converted >= 2 .and. measured >= 1)
      call MPI_File_set_view(file, 0_O, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
      call MPI_File_read_at_all(file, 4_O * me, got, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
      call check('converted', all(got == -mine))
    end if
    call settle()
    call MPI_File_set_view(file, 0_O, MPI_INTEGER, MPI_INTEGER, 'external32', MPI_INFO_NULL)
    mine = 1 + me
    call MPI_File_write_at_all(file, 4_O * me, mine, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
    call settle()
    call MPI_File_set_view(file, 0_O, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    call MPI_File_read_at_all(file, 4_O * me, got, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check('external32', all(got == ishft(1 + me, 24)))
    call MPI_File_close(file)
  end subroutine

  ! Errors of files are returned by default.
  subroutine refused()
    type(MPI_File) :: none
    integer :: class
    type(MPI_Errhandler) :: handler
    call MPI_File_get_errhandler(MPI_FILE_NULL, handler)
    call check('default handler', handler == MPI_ERRORS_RETURN)
    call MPI_File_open(MPI_COMM_SELF, 'no_such_folder/none', MPI_MODE_RDONLY, MPI_INFO_NULL, &
      none, ierror)
    call MPI_Error_class(ierror, class)
    call check('no such file', class == MPI_ERR_NO_SUCH_FILE)
  end subroutine
end program
