! Procedures that MPI calls: operations, attributes, error handlers, generalized requests.
module callbacks
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: handled = 0, last_code = 0, queried = 0, freed = 0, cancelled = 0, deleted = 0
  integer :: copied = 0
contains
  subroutine largest(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype /= MPI_INTEGER) print '(A)', 'WRONG datatype'
    b = max(a, b)
  end subroutine

  subroutine largest_c(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    if (datatype /= MPI_INTEGER) print '(A)', 'WRONG datatype'
    b = max(a, b)
  end subroutine

  subroutine handler(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    handled = handled + 1
    last_code = error_code
    if (comm == MPI_COMM_NULL) print '(A)', 'WRONG communicator'
  end subroutine

  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, &
      ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    if (oldcomm == MPI_COMM_NULL .or. comm_keyval == MPI_KEYVAL_INVALID) ierror = MPI_ERR_OTHER
    copied = copied + 1
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    if (extra_state /= 1000) print '(A)', 'WRONG extra state'
    if (attribute_val /= -5 .and. attribute_val /= 995) print '(A)', 'WRONG value'
    if (comm == MPI_COMM_NULL .or. comm_keyval == MPI_KEYVAL_INVALID) print '(A)', 'WRONG object'
    deleted = deleted + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    if (extra_state /= 77) print '(A)', 'WRONG state in query'
    call MPI_Status_set_elements(status, MPI_INTEGER, 11)
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 5
    status%MPI_TAG = 6
    queried = queried + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    if (extra_state /= 77) print '(A)', 'WRONG state in free'
    freed = freed + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (extra_state /= 77 .or. complete) print '(A)', 'WRONG state in cancel'
    cancelled = cancelled + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program callbacks_f08
  use callbacks
  implicit none
  integer :: me, n, keyval, ierror, counted, i
  integer, asynchronous :: values(3), sums(3)
  integer(kind=MPI_ADDRESS_KIND) :: value
  logical :: flag
  type(MPI_Comm) :: comm
  type(MPI_Errhandler) :: errhandler
  type(MPI_Op) :: op
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)

  call MPI_Op_create(largest, .true., op)
  call MPI_Op_commutative(op, flag)
  call check('commutes', flag)
  call MPI_Allreduce([me, -me, 7], sums, 3, MPI_INTEGER, op, MPI_COMM_WORLD)
  call check('operation', all(sums == [n - 1, 0, 7]))
  call MPI_Op_free(op)
  call check('operation is freed', op == MPI_OP_NULL)
  ! Not in Open MPI {
  call MPI_Op_create_c(largest_c, .false., op)
  call MPI_Op_commutative(op, flag)
  call check('does not commute', .not. flag)
  values = [me, -me, 7]
  call MPI_Iallreduce(values, sums, 3, MPI_INTEGER, op, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check('large operation', all(sums == [n - 1, 0, 7]))
  call MPI_Op_free(op)
  ! }

  call MPI_Comm_create_errhandler(handler, errhandler)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_set_errhandler(comm, errhandler)
  call MPI_Send(me, 1, MPI_INTEGER, n + 5, 0, comm, ierror)
  call MPI_Error_class(last_code, i)
  call check('error is handled', handled == 1 .and. i == MPI_ERR_RANK)
  call MPI_Errhandler_free(errhandler)
  call MPI_Comm_free(comm)

  call MPI_Comm_create_keyval(copy, delete, keyval, 1000_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  call check('no attribute', .not. flag)
  call MPI_Comm_set_attr(comm, keyval, -5_MPI_ADDRESS_KIND)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  call check('attribute', flag .and. value == -5)
  block
    type(MPI_Comm) :: other
    call MPI_Comm_dup(comm, other)
    call MPI_Comm_get_attr(other, keyval, value, flag)
    call check('copied attribute', flag .and. value == 995 .and. copied == 1)
    call MPI_Comm_free(other)
  end block
  call MPI_Comm_delete_attr(comm, keyval)
  call check('deleted', deleted == 2)
  call MPI_Comm_free_keyval(keyval)
  call check('keyval is freed', keyval == MPI_KEYVAL_INVALID)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, &
    0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, keyval, huge(value))
  block
    type(MPI_Comm) :: other
    call MPI_Comm_dup(comm, other)
    call MPI_Comm_get_attr(other, keyval, value, flag)
    call check('MPI_COMM_DUP_FN', flag .and. value == huge(value))
    call MPI_Comm_free(other)
  end block
  call MPI_Comm_free(comm)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check('MPI_TAG_UB', flag .and. value >= 32767)

  call MPI_Grequest_start(query, release, cancel, 77_MPI_ADDRESS_KIND, request)
  call MPI_Cancel(request)
  call MPI_Test(request, flag, status)
  call check('generalized request is active', .not. flag .and. cancelled == 1)
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, counted)
  call check('generalized request', counted == 11 .and. status%MPI_TAG == 6 .and. queried == 1 &
    .and. freed == 1)

  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) print '(A)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(what, is_right)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_right
    if (.not. is_right) print '(A,I0,2A)', 'rank ', me, ': WRONG ', what
  end subroutine
end program
