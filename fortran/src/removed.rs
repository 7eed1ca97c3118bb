//! The ten procedures of MPI-1 that MPI-3.0 removed and old programs still call, through `mpif.h`
//! alone. They call their successors, as not every MPI has them. Addresses are default INTEGERs:
//! one that does not fit is an error of class MPI_ERR_ARG.

use crate::prelude::*;
use crate::target::ERR_ARG;

/// Stores an address that fits an INTEGER.
unsafe fn shortened(code: c_int, address: i64, to: *mut c_int) -> c_int {
    match (code, c_int::try_from(address)) {
        (SUCCESS, Ok(address)) => {
            // SAFETY: the caller's INTEGER.
            unsafe { *to = address };
            SUCCESS
        }
        (SUCCESS, Err(_)) => ERR_ARG,
        (code, _) => code,
    }
}

/// Displacements as MPI_Aint.
unsafe fn wide(displacements: *const c_int, count: c_int) -> Vec<i64> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's array has `count` elements.
    (0..count).map(|at| i64::from(unsafe { *displacements.add(at) })).collect()
}

macro_rules! removed {
    ($($first:ident ($($names:ident)*)
        ($($param:ident: $rtype:ty),*) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $first($($param: $rtype,)* ierror: *mut c_int) {
                // SAFETY: the caller's arguments.
                unsafe {
                    let code: c_int = $body;
                    finish(ierror, code);
                }
            }
            names!($first: $($names)*);
        )*
    };
}

removed! {
    mpi_address_ (mpi_address mpi_address__ MPI_ADDRESS pmpi_address_)
    (location: *mut c_void, address: *mut c_int) {
        let mut found = 0;
        let code = c::MPI_Get_address(c_buffer(location), &raw mut found);
        shortened(code, found, address)
    }
    mpi_type_extent_ (mpi_type_extent mpi_type_extent__ MPI_TYPE_EXTENT pmpi_type_extent_)
    (datatype: *mut c_int, extent: *mut c_int) {
        let (mut lower, mut found) = (0, 0);
        let datatype = MPI_Datatype::from_fortran(*datatype);
        let code = c::MPI_Type_get_extent(datatype, &raw mut lower, &raw mut found);
        shortened(code, found, extent)
    }
    mpi_type_lb_ (mpi_type_lb mpi_type_lb__ MPI_TYPE_LB pmpi_type_lb_)
    (datatype: *mut c_int, bound: *mut c_int) {
        let (mut lower, mut found) = (0, 0);
        let datatype = MPI_Datatype::from_fortran(*datatype);
        let code = c::MPI_Type_get_extent(datatype, &raw mut lower, &raw mut found);
        shortened(code, lower, bound)
    }
    mpi_type_ub_ (mpi_type_ub mpi_type_ub__ MPI_TYPE_UB pmpi_type_ub_)
    (datatype: *mut c_int, bound: *mut c_int) {
        let (mut lower, mut found) = (0, 0);
        let datatype = MPI_Datatype::from_fortran(*datatype);
        let code = c::MPI_Type_get_extent(datatype, &raw mut lower, &raw mut found);
        shortened(code, lower + found, bound)
    }
    mpi_type_hvector_ (mpi_type_hvector mpi_type_hvector__ MPI_TYPE_HVECTOR pmpi_type_hvector_)
    (count: *mut c_int, blocklength: *mut c_int, stride: *mut c_int, oldtype: *mut c_int,
        newtype: *mut c_int) {
        let mut made = MPI_Datatype::NULL;
        let old = MPI_Datatype::from_fortran(*oldtype);
        let stride = i64::from(*stride);
        let code =
            c::MPI_Type_create_hvector(*count, *blocklength, stride, old, &raw mut made);
        *newtype = made.to_fortran();
        code
    }
    mpi_type_hindexed_ (mpi_type_hindexed mpi_type_hindexed__ MPI_TYPE_HINDEXED
        pmpi_type_hindexed_)
    (count: *mut c_int, lengths: *mut c_int, displacements: *mut c_int, oldtype: *mut c_int,
        newtype: *mut c_int) {
        let mut made = MPI_Datatype::NULL;
        let places = wide(displacements, *count);
        let old = MPI_Datatype::from_fortran(*oldtype);
        let code =
            c::MPI_Type_create_hindexed(*count, lengths, places.as_ptr(), old, &raw mut made);
        *newtype = made.to_fortran();
        code
    }
    mpi_type_struct_ (mpi_type_struct mpi_type_struct__ MPI_TYPE_STRUCT pmpi_type_struct_)
    (count: *mut c_int, lengths: *mut c_int, displacements: *mut c_int, types: *mut c_int,
        newtype: *mut c_int) {
        let mut made = MPI_Datatype::NULL;
        let places = wide(displacements, *count);
        let mut types = Handles::<MPI_Datatype>::new(types, i64::from(*count));
        let code = c::MPI_Type_create_struct(
            *count,
            lengths,
            places.as_ptr(),
            types.as_mut_ptr(),
            &raw mut made,
        );
        *newtype = made.to_fortran();
        code
    }
    mpi_errhandler_create_ (mpi_errhandler_create mpi_errhandler_create__ MPI_ERRHANDLER_CREATE
        pmpi_errhandler_create_)
    (procedure: *const c_void, errhandler: *mut c_int) {
        crate::user_function::comm_create_errhandler::<false>(procedure, errhandler)
    }
    mpi_errhandler_set_ (mpi_errhandler_set mpi_errhandler_set__ MPI_ERRHANDLER_SET
        pmpi_errhandler_set_)
    (comm: *mut c_int, errhandler: *mut c_int) {
        let errhandler = MPI_Errhandler::from_fortran(*errhandler);
        c::MPI_Comm_set_errhandler(MPI_Comm::from_fortran(*comm), errhandler)
    }
    mpi_errhandler_get_ (mpi_errhandler_get mpi_errhandler_get__ MPI_ERRHANDLER_GET
        pmpi_errhandler_get_)
    (comm: *mut c_int, errhandler: *mut c_int) {
        let mut found = MPI_Errhandler::NULL;
        let comm = MPI_Comm::from_fortran(*comm);
        let code = c::MPI_Comm_get_errhandler(comm, &raw mut found);
        *errhandler = found.to_fortran();
        code
    }
}
