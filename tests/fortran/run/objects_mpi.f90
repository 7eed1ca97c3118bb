! Module mpi: strings, LOGICALs, statuses, datatypes, topologies, info, groups, intercommunicators.
program objects_mpi
  use mpi
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: me, n, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
  call statuses()
  call strings()
  call datatypes()
  call topologies()
  call groups()
  call memory()
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize(ierror)
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine statuses()
    integer :: requests(4), values(4), sent(4), i, at, indices(4), many
    integer :: status(MPI_STATUS_SIZE), all_statuses(MPI_STATUS_SIZE, 4), seen, counted
    integer :: copy(MPI_STATUS_SIZE)
    integer(kind=MPI_COUNT_KIND) :: elements
    logical :: flag
    ! Not in Open MPI {
    type(MPI_Status) :: new
    ! }
    sent = [10, 20, 30, 40]
    do i = 1, 4
      call MPI_Irecv(values(i), 1, MPI_INTEGER, 0, i, MPI_COMM_SELF, requests(i), ierror)
    end do
    call MPI_Testany(4, requests, at, flag, status, ierror)
    call check('nothing yet', .not. flag .and. at == MPI_UNDEFINED)
    call MPI_Send(sent(3), 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, ierror)
    call MPI_Waitany(4, requests, at, status, ierror)
    call check('waitany', at == 3 .and. status(MPI_TAG) == 3 .and. values(3) == 30)
    call check('its request', requests(3) == MPI_REQUEST_NULL)
    call MPI_Send(sent(1), 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, ierror)
    call MPI_Send(sent(4), 1, MPI_INTEGER, 0, 4, MPI_COMM_SELF, ierror)
    seen = 0
    do while (seen < 2)
      call MPI_Waitsome(4, requests, many, indices, all_statuses, ierror)
      do i = 1, many
        call check('waitsome', indices(i) == all_statuses(MPI_TAG, i))
      end do
      seen = seen + many
    end do
    call MPI_Send(sent(2), 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF, ierror)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
    call check('all values', all(values == sent))
    call MPI_Waitany(4, requests, at, status, ierror)
    call check('none left', at == MPI_UNDEFINED)
    ! Not in Open MPI {
    call MPI_Status_f2f08(status, new, ierror)
    call check('conversion', new%MPI_TAG == status(MPI_TAG))
    new%MPI_TAG = 12345
    call MPI_Status_f082f(new, copy, ierror)
    call check('and back', copy(MPI_TAG) == 12345 .and. copy(MPI_SOURCE) == status(MPI_SOURCE))
    ! }
    call MPI_Status_set_elements_x(status, MPI_INTEGER, 5000000000_MPI_COUNT_KIND, ierror)
    call MPI_Get_elements_x(status, MPI_INTEGER, elements, ierror)
    call check('large elements', elements == 5000000000_MPI_COUNT_KIND)
    call MPI_Get_count(status, MPI_INTEGER, counted, ierror)
    call check('too large to count', counted == MPI_UNDEFINED)
    ! Not in Open MPI {
    call MPI_Status_set_tag(status, 99, ierror)
    call MPI_Status_get_tag(status, counted, ierror)
    call check('accessors', counted == 99)
    ! }
  end subroutine

  subroutine strings()
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=5) :: short
    character(len=MPI_MAX_ERROR_STRING) :: message
    character(len=20) :: value
    integer :: length, info, keys
    logical :: flag
    call MPI_Comm_set_name(MPI_COMM_WORLD, 'the world   ', ierror)
    call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierror)
    call check('name', name == 'the world' .and. length == 9)
    call MPI_Comm_get_name(MPI_COMM_WORLD, short, length, ierror)
    call check('short name', short == 'the w')
    call MPI_Error_string(MPI_ERR_RANK, message, length, ierror)
    call check('message', length > 3 .and. message(length + 1:) == ' ')
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, '  key ', '  some value  ', ierror)
    call MPI_Info_get(info, 'key', 20, value, flag, ierror)
    call check('info', flag .and. value == 'some value')
    call MPI_Info_get(info, 'other', 20, value, flag, ierror)
    call check('no info', .not. flag)
    call MPI_Info_get_valuelen(info, 'key', length, flag, ierror)
    call check('length', flag .and. length == 10)
    length = 20
    call MPI_Info_get_string(info, 'key', length, value, flag, ierror)
    call check('string', flag .and. value == 'some value' .and. length == 10)
    call MPI_Info_get_nkeys(info, keys, ierror)
    call MPI_Info_get_nthkey(info, 0, name, ierror)
    call check('keys', keys == 1 .and. name == 'key')
    call MPI_Info_free(info, ierror)
    call check('info is freed', info == MPI_INFO_NULL)
  end subroutine

  subroutine datatypes()
    integer :: column, kind, integers, addresses, types, parts(2), size, lengths(2), contents(2)
    integer :: values(10), got(5), position
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent, places(2)
    character(len=100) :: packed
    call MPI_Type_vector(5, 1, 2, MPI_INTEGER, column, ierror)
    call MPI_Type_commit(column, ierror)
    call MPI_Type_get_extent(column, lower, extent, ierror)
    call MPI_Type_size(column, size, ierror)
    call check('vector', lower == 0 .and. extent == 36 .and. size == 20)
    values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    position = 0
    call MPI_Pack(values, 1, column, packed, 100, position, MPI_COMM_WORLD, ierror)
    call check('packed', position == 20)
    position = 0
    call MPI_Unpack(packed, 100, position, got, 5, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call check('unpacked', all(got == [1, 3, 5, 7, 9]))
    places(1) = 0
    call MPI_Pack_external('external32', values, 2, MPI_INTEGER, packed, 100_MPI_ADDRESS_KIND, &
      places(1), ierror)
    call check('external32', places(1) == 8 .and. ichar(packed(4:4)) == 1)
    parts = [column, MPI_DOUBLE_PRECISION]
    lengths = [1, 2]
    places = [0, 40]
    call MPI_Type_create_struct(2, lengths, places, parts, kind, ierror)
    call MPI_Type_get_envelope(kind, integers, addresses, types, size, ierror)
    call check('envelope', integers == 3 .and. addresses == 2 .and. types == 2 .and. &
      size == MPI_COMBINER_STRUCT)
    block
      integer :: numbers(3)
      call MPI_Type_get_contents(kind, 3, 2, 2, numbers, places, contents, ierror)
      call check('contents', all(numbers == [2, 1, 2]) .and. all(places == [0, 40]) .and. &
        contents(2) == MPI_DOUBLE_PRECISION)
    end block
    call MPI_Type_free(contents(1), ierror)
    call MPI_Type_free(kind, ierror)
    call MPI_Type_free(column, ierror)
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, kind, ierror)
    call MPI_Type_size(kind, size, ierror)
    call check('matching type', size == 8)
    call MPI_Type_create_f90_real(6, MPI_UNDEFINED, kind, ierror)
    call MPI_Type_size(kind, size, ierror)
    call check('type of a precision', size == 4)
    call MPI_Sizeof(places, size, ierror)
    call check('size of a variable', size == 8)
  end subroutine

  subroutine topologies()
    integer :: dims(2), grid, coords(2), back, row, sources(1), destinations(1), graph
    integer :: weights(1), out_weights(1)
    integer :: in_degree, out_degree
    logical :: periods(2), got(2), weighted
    dims = 0
    call MPI_Dims_create(n, 2, dims, ierror)
    periods = [.true., .false.]
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., grid, ierror)
    call MPI_Cart_get(grid, 2, dims, got, coords, ierror)
    call check('periods', got(1) .and. .not. got(2))
    call MPI_Cart_rank(grid, coords, back, ierror)
    call check('coordinates', back == me)
    call MPI_Cart_sub(grid, [.true., .false.], row, ierror)
    call MPI_Comm_size(row, back, ierror)
    call check('a part of the grid', back == dims(1))
    call MPI_Comm_free(row, ierror)
    call MPI_Comm_free(grid, ierror)
    sources = modulo(me - 1, n)
    destinations = modulo(me + 1, n)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, &
      destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, in_degree, out_degree, weighted, ierror)
    call check('degrees', in_degree == 1 .and. out_degree == 1 .and. .not. weighted)
    call MPI_Dist_graph_neighbors(graph, 1, sources, weights, 1, destinations, out_weights, ierror)
    call check('neighbors', sources(1) == modulo(me - 1, n))
    block
      integer :: sent(1), received(1), counts(1), types(1)
      integer(kind=MPI_ADDRESS_KIND) :: places(1)
      sent = me
      counts = 1
      types = MPI_INTEGER
      places = 0
      call MPI_Neighbor_alltoallw(sent, counts, places, types, received, counts, places, types, &
        graph, ierror)
      call check('neighbor exchange', received(1) == modulo(me - 1, n))
    end block
    call MPI_Comm_free(graph, ierror)
  end subroutine

  subroutine groups()
    integer :: world, part, ranges(3, 1), size, half, inter, merged, remote, i
    integer :: counts(n), places(n), types(n), sent(n), received(n)
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierror)
    ranges(:, 1) = [0, n - 1, 2]
    call MPI_Group_range_incl(world, 1, ranges, part, ierror)
    call MPI_Group_size(part, size, ierror)
    call check('every other rank', size == (n + 1) / 2)
    call MPI_Group_free(part, ierror)
    call MPI_Group_free(world, ierror)
    counts = 1
    places = [(4 * i, i = 0, n - 1)]
    types = MPI_INTEGER
    sent = [(100 * me + i, i = 0, n - 1)]
    call MPI_Alltoallw(sent, counts, places, types, received, counts, places, types, &
      MPI_COMM_WORLD, ierror)
    call check('alltoallw', all(received == [(100 * i + me, i = 0, n - 1)]))
    if (n < 2) return
    call MPI_Comm_split(MPI_COMM_WORLD, mod(me, 2), me, half, ierror)
    call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - mod(me, 2), 5, inter, ierror)
    call MPI_Comm_remote_size(inter, remote, ierror)
    call check('remote size', remote == merge((n + 1) / 2, n / 2, mod(me, 2) == 1))
    call MPI_Intercomm_merge(inter, mod(me, 2) == 1, merged, ierror)
    call MPI_Comm_size(merged, size, ierror)
    call check('merged', size == n)
    call MPI_Comm_free(merged, ierror)
    call MPI_Comm_free(inter, ierror)
    call MPI_Comm_free(half, ierror)
  end subroutine

  subroutine memory()
    type(c_ptr) :: base
    integer(kind=MPI_ADDRESS_KIND) :: address, there, lower
    integer, pointer :: values(:)
    integer :: buffer(1000), size
    call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, base, ierror)
    call c_f_pointer(base, values, [100])
    values = 5
    call MPI_Get_address(values(1), address, ierror)
    call MPI_Get_address(values(2), there, ierror)
    call check('addresses', MPI_Aint_diff(there, address) == 4 .and. &
      MPI_Aint_add(address, 4_MPI_ADDRESS_KIND) == there)
    call MPI_Free_mem(values, ierror)
    call MPI_Buffer_attach(buffer, 4000, ierror)
    call MPI_Bsend(me, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, ierror)
    call MPI_Recv(size, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    call check('buffered', size == me)
    call MPI_Buffer_detach(lower, size, ierror)
    call check('detached', size == 4000)
    call MPI_Get_address(MPI_BOTTOM, address, ierror)
    call check('MPI_BOTTOM', address == 0)
  end subroutine
end program
