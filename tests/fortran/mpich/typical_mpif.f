! What old programs do with the mpif.h of MPICH and of Intel MPI: attributes and operations of
! MPI-1, constants in common blocks, statuses, and predefined procedures.
      program typical
      implicit none
      include 'mpif.h'
      integer rank, size, error, comm, copy, keyval, value, sum, op
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE,2)
      integer requests(2), left, right, numbers(4), index, dtype, len
      integer lengths(2), types(2), handler, place
      integer(kind=MPI_ADDRESS_KIND) address, places(2), wide
      double precision reals(2), got(2)
      character*(MPI_MAX_PROCESSOR_NAME) name
      logical flag, periods(1)
      integer handled, copied
      common /counted/ handled, copied
      external mysum, mycopy, handle
      handled = 0
      copied = 0
      call MPI_Init(error)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
      call MPI_Comm_size(MPI_COMM_WORLD, size, error)
      left = mod(rank + size - 1, size)
      right = mod(rank + 1, size)
!     Statuses, and those that are ignored.
      call MPI_Irecv(numbers, 4, MPI_INTEGER, left, 7, MPI_COMM_WORLD,
     &               requests(1), error)
      numbers(3) = rank
      call MPI_Isend(rank, 1, MPI_INTEGER, right, 7, MPI_COMM_WORLD,
     &               requests(2), error)
      call MPI_Waitall(2, requests, statuses, error)
      call expect(statuses(MPI_SOURCE,1) .eq. left, 'source')
      call expect(statuses(MPI_TAG,1) .eq. 7, 'tag')
      call MPI_Get_count(statuses(1,1), MPI_INTEGER, len, error)
      call expect(len .eq. 1 .and. numbers(1) .eq. left, 'count')
      call expect(requests(1) .eq. MPI_REQUEST_NULL, 'null request')
      call MPI_Sendrecv(rank, 1, MPI_INTEGER, right, 1, numbers, 1,
     &    MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE,
     &    error)
      call expect(numbers(1) .eq. left, 'MPI_STATUS_IGNORE')
      call expect(all(MPI_STATUS_IGNORE .eq. 0), 'ignored status')
      call MPI_Irecv(numbers, 1, MPI_INTEGER, left, 2, MPI_COMM_WORLD,
     &               requests(1), error)
      call MPI_Isend(rank, 1, MPI_INTEGER, right, 2, MPI_COMM_WORLD,
     &               requests(2), error)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
      call expect(numbers(1) .eq. left, 'MPI_STATUSES_IGNORE')
      call expect(all(MPI_STATUSES_IGNORE .eq. 0), 'ignored statuses')
      call MPI_Waitany(2, requests, index, status, error)
      call expect(index .eq. MPI_UNDEFINED, 'MPI_UNDEFINED')
!     MPI_IN_PLACE and MPI_BOTTOM.
      sum = rank + 1
      call MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, error)
      call expect(sum .eq. size * (size + 1) / 2, 'MPI_IN_PLACE')
      reals(1) = rank
      reals(2) = -rank
      lengths(1) = 1
      lengths(2) = 1
      types(1) = MPI_DOUBLE_PRECISION
      types(2) = MPI_DOUBLE_PRECISION
      call MPI_Get_address(reals(2), places(1), error)
      call MPI_Get_address(reals(1), places(2), error)
      call MPI_Type_create_struct(2, lengths, places, types, dtype,
     &                            error)
      call MPI_Type_commit(dtype, error)
      call MPI_Sendrecv(MPI_BOTTOM, 1, dtype, right, 3, got, 2,
     &    MPI_DOUBLE_PRECISION, left, 3, MPI_COMM_WORLD, status, error)
      call expect(got(1) .eq. -left .and. got(2) .eq. left,
     &            'MPI_BOTTOM')
      call MPI_Type_free(dtype, error)
      call expect(dtype .eq. MPI_DATATYPE_NULL, 'null datatype')
!     Predefined attributes, of MPI-1 and MPI-2.
      call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, error)
      call expect(flag .and. value .ge. 32767, 'MPI_TAG_UB')
      call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, wide, flag,
     &                       error)
      call expect(flag .and. wide .eq. value, 'MPI_TAG_UB of MPI-2')
!     Attributes with the predefined functions, and with own ones.
      call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
      call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, keyval, 5,
     &                       error)
      call MPI_Attr_put(comm, keyval, -12, error)
      call MPI_Comm_dup(comm, copy, error)
      call MPI_Attr_get(copy, keyval, value, flag, error)
      call expect(flag .and. value .eq. -12, 'MPI_DUP_FN')
      call MPI_Comm_free(copy, error)
      call MPI_Attr_delete(comm, keyval, error)
      call MPI_Keyval_free(keyval, error)
      call expect(keyval .eq. MPI_KEYVAL_INVALID, 'invalid keyval')
      address = 2**30
      address = address * 1024
      call MPI_Comm_create_keyval(mycopy, MPI_COMM_NULL_DELETE_FN,
     &                            keyval, address, error)
      call MPI_Comm_set_attr(comm, keyval, address, error)
      call MPI_Comm_dup(comm, copy, error)
      call MPI_Comm_get_attr(copy, keyval, wide, flag, error)
      call expect(flag .and. wide .eq. address + 1, 'own copy function')
      call expect(copied .eq. 1, 'calls of the copy function')
      call MPI_Comm_free(copy, error)
      call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN,
     &                   MPI_COMM_NULL_DELETE_FN, value, address, error)
      call MPI_Comm_set_attr(comm, value, address, error)
      call MPI_Comm_dup(comm, copy, error)
      call MPI_Comm_get_attr(copy, value, wide, flag, error)
      call expect(.not. flag, 'MPI_COMM_NULL_COPY_FN')
      call MPI_Comm_free(copy, error)
!     An operation and an error handler.
      call MPI_Op_create(mysum, .true., op, error)
      call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, op, comm, error)
      call expect(sum .eq. size * (size - 1) / 2, 'own operation')
      call MPI_Op_free(op, error)
      call expect(op .eq. MPI_OP_NULL, 'null operation')
      call MPI_Comm_create_errhandler(handle, handler, error)
      call MPI_Comm_set_errhandler(comm, handler, error)
      call MPI_Send(rank, 1, MPI_INTEGER, size + 5, 0, comm, error)
      call expect(handled .eq. 1, 'own error handler')
!     Topologies, whose kinds have other numbers.
      periods(1) = .true.
      call MPI_Cart_create(comm, 1, size, periods, .false., copy, error)
      call MPI_Topo_test(copy, value, error)
      call expect(value .eq. MPI_CART, 'MPI_CART')
      call MPI_Cart_shift(copy, 0, 1, index, place, error)
      call expect(index .eq. left .and. place .eq. right, 'shift')
      call MPI_Comm_free(copy, error)
      call MPI_Dist_graph_create_adjacent(comm, 1, left, MPI_UNWEIGHTED,
     &    1, right, MPI_UNWEIGHTED, MPI_INFO_NULL, .false., copy, error)
      call MPI_Dist_graph_neighbors_count(copy, index, place, flag,
     &                                    error)
      call expect(index .eq. 1 .and. place .eq. 1 .and. .not. flag,
     &            'MPI_UNWEIGHTED')
      call MPI_Comm_free(copy, error)
      call MPI_Get_processor_name(name, len, error)
      call expect(len .gt. 0 .and. name(len+1:) .eq. ' ', 'name')
      call expect(MPI_Wtime() .gt. 0, 'MPI_Wtime')
      call MPI_Comm_free(comm, error)
      call expect(comm .eq. MPI_COMM_NULL, 'null communicator')
      if (rank .eq. 0) print '(A)', 'ok'
      call MPI_Finalize(error)
      end

      subroutine expect(holds, what)
      logical holds
      character*(*) what
      if (.not. holds) print '(A,A)', 'WRONG: ', what
      end

      subroutine mysum(in, inout, len, dtype)
      implicit none
      include 'mpif.h'
      integer len, dtype, in(len), inout(len), i
      call expect(dtype .eq. MPI_INTEGER, 'type of the operation')
      do i = 1, len
        inout(i) = inout(i) + in(i)
      end do
      end

      subroutine mycopy(comm, keyval, extra, in, out, flag, error)
      implicit none
      include 'mpif.h'
      integer comm, keyval, error, handled, copied
      integer(kind=MPI_ADDRESS_KIND) extra, in, out
      logical flag
      common /counted/ handled, copied
      call expect(extra .eq. in, 'extra state')
      copied = copied + 1
      out = in + 1
      flag = .true.
      error = MPI_SUCCESS
      end

      subroutine handle(comm, code)
      implicit none
      include 'mpif.h'
      integer comm, code, handled, copied, class, error
      common /counted/ handled, copied
      call expect(comm .ne. MPI_COMM_WORLD, 'communicator of an error')
      call MPI_Error_class(code, class, error)
      call expect(class .eq. MPI_ERR_RANK, 'MPI_ERR_RANK')
      handled = handled + 1
      end
