! Numbers above 2**31: types, counts, positions, packing; and every kind of large-count procedure.
program large_counts_f08
  use mpi_f08
  implicit none
  integer, parameter :: C = MPI_COUNT_KIND, A = MPI_ADDRESS_KIND
  integer(kind=C), parameter :: huge_count = 5000000000_C
  integer :: me, n, ierror
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  call types()
  call contents()
  call statuses()
  call messages()
  call packing()
  call partitions()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine

  subroutine types()
    type(MPI_Datatype) :: large, other
    integer(kind=C) :: bytes, lower, extent
    integer(kind=A) :: low, wide
    integer :: small
    call MPI_Type_contiguous(huge_count, MPI_INTEGER, large)
    call MPI_Type_size(large, bytes)
    call check('size', bytes == 4 * huge_count)
    call MPI_Type_size(large, small)
    call check('size of too much', small == MPI_UNDEFINED)
    call MPI_Type_get_extent(large, low, wide)
    call check('extent', low == 0 .and. wide == 4 * huge_count)
    call MPI_Type_get_true_extent(large, lower, extent)
    call check('true extent', lower == 0 .and. extent == 4 * huge_count)
    call MPI_Type_free(large)
    call MPI_Type_vector(3_C, 2_C, huge_count, MPI_INTEGER, large)
    call MPI_Type_get_extent(large, lower, extent)
    call MPI_Type_size(large, bytes)
    call check('vector', extent == 8 * huge_count + 8 .and. bytes == 24)
    call MPI_Type_create_hvector(2_C, 1_C, huge_count, large, other)
    call MPI_Type_free(large)
    call MPI_Type_size(other, bytes)
    call check('hvector', bytes == 48)
    call MPI_Type_free(other)
    call MPI_Type_indexed(2_C, [1_C, 2_C], [0_C, huge_count], MPI_BYTE, large)
    call MPI_Type_get_extent(large, lower, extent)
    call check('indexed', extent == huge_count + 2)
    call MPI_Type_free(large)
    call MPI_Type_create_hindexed(2_C, [1_C, 2_C], [0_C, huge_count], MPI_BYTE, large)
    call MPI_Type_free(large)
    call MPI_Type_create_indexed_block(2_C, 3_C, [0_C, huge_count], MPI_BYTE, large)
    call MPI_Type_free(large)
    call MPI_Type_create_hindexed_block(2_C, 3_C, [0_C, huge_count], MPI_BYTE, large)
    call MPI_Type_free(large)
    call MPI_Type_create_subarray(2, [huge_count, 4_C], [2_C, 2_C], [1_C, 1_C], &
      MPI_ORDER_FORTRAN, MPI_BYTE, large)
    call MPI_Type_get_true_extent(large, lower, extent)
    call check('subarray', lower == huge_count + 1 .and. extent == huge_count + 2)
    call MPI_Type_free(large)
    call MPI_Type_create_resized(MPI_BYTE, -1_C, huge_count, large)
    call MPI_Type_get_extent(large, lower, extent)
    call check('resized', lower == -1 .and. extent == huge_count)
    call MPI_Type_free(large)
    call MPI_Type_create_darray(n, me, 1, [huge_count], [MPI_DISTRIBUTE_BLOCK], &
      [MPI_DISTRIBUTE_DFLT_DARG], [n], MPI_ORDER_FORTRAN, MPI_BYTE, large)
    call MPI_Type_get_extent(large, lower, extent)
    call check('darray', extent == huge_count)
    call MPI_Type_free(large)
  end subroutine

  subroutine contents()
    type(MPI_Datatype) :: large, parts(2)
    integer(kind=C) :: integers, addresses, counts, types_, numbers(3)
    integer :: combiner
    integer(kind=C) :: all_counts(5)
    integer(kind=A) :: places(1)
    integer :: whole(1)
    call MPI_Type_create_struct(2_C, [1_C, 2_C], [0_C, huge_count], [MPI_INTEGER, &
      MPI_DOUBLE_PRECISION], large)
    call MPI_Type_get_envelope(large, integers, addresses, counts, types_, combiner)
    call check('envelope', combiner == MPI_COMBINER_STRUCT .and. types_ == 2 .and. &
      integers + addresses + counts == 5)
    call MPI_Type_get_contents(large, integers, addresses, counts, types_, whole, places, &
      all_counts, parts)
    numbers = all_counts(1:3)
    call check('contents', all(numbers == [2_C, 1_C, 2_C]) .and. all_counts(5) == huge_count &
      .and. parts(2) == MPI_DOUBLE_PRECISION)
    call MPI_Type_free(large)
  end subroutine

  subroutine statuses()
    integer(kind=C) :: counted
    integer :: small
    call MPI_Status_set_elements(status, MPI_REAL, huge_count)
    call MPI_Get_elements(status, MPI_REAL, counted)
    call check('elements', counted == huge_count)
    call MPI_Get_count(status, MPI_REAL, counted)
    call check('count', counted == huge_count)
    call MPI_Get_count(status, MPI_REAL, small)
    call check('count of too much', small == MPI_UNDEFINED)
    call MPI_Get_elements_x(status, MPI_REAL, counted)
    call check('elements_x', counted == huge_count)
  end subroutine

  ! Few bytes, but by the procedures with large counts.
  subroutine messages()
    integer, asynchronous :: a(12), b(12)
    integer(kind=C) :: counted
    type(MPI_Request) :: requests(2)
    type(MPI_Message) :: message
    integer, allocatable :: buffer(:)
    integer :: next, prev
    next = modulo(me + 1, n)
    prev = modulo(me - 1, n)
    a = me
    call MPI_Sendrecv(a, 12_C, MPI_INTEGER, next, 1, b, 12_C, MPI_INTEGER, prev, 1, &
      MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, counted)
    call check('sendrecv', counted == 12 .and. all(b == prev))
    call MPI_Isend(a(1:11:2), 6_C, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Mprobe(prev, 2, MPI_COMM_WORLD, message, status)
    b = -1
    call MPI_Imrecv(b(2:12:2), 6_C, MPI_INTEGER, message, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('matched probe', all(b(2:12:2) == prev) .and. all(b(1::2) == -1) .and. &
      message == MPI_MESSAGE_NULL)
    allocate(buffer(1000))
    call MPI_Buffer_attach(buffer, 4000_C)
    call MPI_Ibsend(a, 3_C, MPI_INTEGER, me, 3, MPI_COMM_WORLD, requests(1))
    call MPI_Recv(b, 3_C, MPI_INTEGER, me, 3, MPI_COMM_WORLD, status)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call check('buffered', all(b(1:3) == me))
    block
      use, intrinsic :: iso_c_binding, only: c_ptr, c_loc, c_associated
      type(c_ptr) :: where
      call MPI_Buffer_detach(where, counted)
      call check('detached', counted == 4000)
    end block
    call MPI_Rsend_init(a, 2_C, MPI_INTEGER, me, 4, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(b, 2_C, MPI_INTEGER, me, 4, MPI_COMM_WORLD, requests(2))
    call MPI_Start(requests(2))
    call MPI_Start(requests(1))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  subroutine packing()
    integer(kind=C) :: at, bytes
    integer :: a(5), b(5)
    character(len=64) :: packed
    a = [1, 2, 3, 4, 5]
    call MPI_Pack_size(huge_count, MPI_INTEGER, MPI_COMM_WORLD, bytes)
    call check('pack size', bytes >= 4 * huge_count)
    at = 0
    call MPI_Pack(a(1:5:2), 3_C, MPI_INTEGER, packed, 64_C, at, MPI_COMM_WORLD)
    call check('packed', at == 12)
    at = 0
    b = 0
    call MPI_Unpack(packed, 64_C, at, b(5:1:-2), 3_C, MPI_INTEGER, MPI_COMM_WORLD)
    call check('unpacked', all(b == [5, 0, 3, 0, 1]))
    call MPI_Pack_external_size('external32', huge_count, MPI_REAL8, bytes)
    call check('external size', bytes == 8 * huge_count)
    at = 0
    call MPI_Pack_external('external32', a, 5_C, MPI_INTEGER, packed, 64_C, at)
    at = 0
    call MPI_Unpack_external('external32', packed, 64_C, at, b, 5_C, MPI_INTEGER, ierror)
    call check('external', at == 20 .and. all(b == a))
  end subroutine

  ! More elements in a partition than C's plain form takes; they have no bytes.
  subroutine partitions()
    type(MPI_Datatype) :: nothing
    type(MPI_Request) :: requests(2)
    integer, asynchronous :: data(4)
    data = me
    call MPI_Type_contiguous(0, MPI_INTEGER, nothing)
    call MPI_Type_commit(nothing)
    call MPI_Precv_init(data, 2, huge_count, nothing, me, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1))
    call MPI_Psend_init(data, 2, huge_count, nothing, me, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(2))
    call MPI_Startall(2, requests)
    call MPI_Pready_range(0, 1, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check('partitions', all(data == me))
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call MPI_Type_free(nothing)
  end subroutine
end program
