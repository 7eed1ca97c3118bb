//! Variables and functions that Open MPI's `mpi.h` declares beside MPI's.

use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use crate::generated::{collectives, topologies};
use crate::prelude::jump;
use crate::symbols::{copy_functions, variables};

variables! {
    // Set by Fortran's library.
    MPI_F_STATUS_IGNORE: c_int = null_mut();
    MPI_F_STATUSES_IGNORE: c_int = null_mut();
    MPI_F08_STATUS_IGNORE: c_int = null_mut();
    MPI_F08_STATUSES_IGNORE: c_int = null_mut();
}

// MPI_COMM_DUP_FN and its like.
copy_functions! {
    OMPI_C_MPI_DUP_FN OMPI_C_MPI_COMM_DUP_FN OMPI_C_MPI_TYPE_DUP_FN OMPI_C_MPI_WIN_DUP_FN
}

/// What MPI_COMM_NULL_COPY_FN and its like are: copy nothing.
macro_rules! no_copy_functions {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                _object: *mut c_void,
                _keyval: c_int,
                _extra_state: *mut c_void,
                _value_in: *mut c_void,
                _value_out: *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                // SAFETY: the caller's argument.
                unsafe { *flag = 0 };
                0
            }
        )*
    };
}
no_copy_functions! {
    OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_TYPE_NULL_COPY_FN
    OMPI_C_MPI_WIN_NULL_COPY_FN
}

/// Functions that do nothing and return 0: MPI_COMM_NULL_DELETE_FN and its like;
/// MPIX_Query_cuda_support and its like, since buffers of devices are not known.
macro_rules! nothing {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                0
            }
        )*
    };
}
nothing! {
    OMPI_C_MPI_NULL_DELETE_FN OMPI_C_MPI_COMM_NULL_DELETE_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN
    OMPI_C_MPI_WIN_NULL_DELETE_FN MPIX_Query_cuda_support MPIX_Query_rocm_support
}

/// Persistent collective operations under the names of Open MPI 4.
macro_rules! persistent {
    ($($chapter:ident: $($old:ident $profiled:ident $new:ident)*;)*) => {
        $($(
            jump!($old to $chapter::$new);
            jump!($profiled to $chapter::$new);
        )*)*
    };
}
persistent! {
    collectives:
        MPIX_Allgather_init PMPIX_Allgather_init PMPI_Allgather_init
        MPIX_Allgatherv_init PMPIX_Allgatherv_init PMPI_Allgatherv_init
        MPIX_Allreduce_init PMPIX_Allreduce_init PMPI_Allreduce_init
        MPIX_Alltoall_init PMPIX_Alltoall_init PMPI_Alltoall_init
        MPIX_Alltoallv_init PMPIX_Alltoallv_init PMPI_Alltoallv_init
        MPIX_Alltoallw_init PMPIX_Alltoallw_init PMPI_Alltoallw_init
        MPIX_Barrier_init PMPIX_Barrier_init PMPI_Barrier_init
        MPIX_Bcast_init PMPIX_Bcast_init PMPI_Bcast_init
        MPIX_Exscan_init PMPIX_Exscan_init PMPI_Exscan_init
        MPIX_Gather_init PMPIX_Gather_init PMPI_Gather_init
        MPIX_Gatherv_init PMPIX_Gatherv_init PMPI_Gatherv_init
        MPIX_Reduce_init PMPIX_Reduce_init PMPI_Reduce_init
        MPIX_Reduce_scatter_block_init PMPIX_Reduce_scatter_block_init
            PMPI_Reduce_scatter_block_init
        MPIX_Reduce_scatter_init PMPIX_Reduce_scatter_init PMPI_Reduce_scatter_init
        MPIX_Scan_init PMPIX_Scan_init PMPI_Scan_init
        MPIX_Scatter_init PMPIX_Scatter_init PMPI_Scatter_init
        MPIX_Scatterv_init PMPIX_Scatterv_init PMPI_Scatterv_init;
    topologies:
        MPIX_Neighbor_allgather_init PMPIX_Neighbor_allgather_init PMPI_Neighbor_allgather_init
        MPIX_Neighbor_allgatherv_init PMPIX_Neighbor_allgatherv_init PMPI_Neighbor_allgatherv_init
        MPIX_Neighbor_alltoall_init PMPIX_Neighbor_alltoall_init PMPI_Neighbor_alltoall_init
        MPIX_Neighbor_alltoallv_init PMPIX_Neighbor_alltoallv_init PMPI_Neighbor_alltoallv_init
        MPIX_Neighbor_alltoallw_init PMPIX_Neighbor_alltoallw_init PMPI_Neighbor_alltoallw_init;
}

/// Variables that the C++ bindings of Open MPI 4, `libmpi_cxx.so.40`, read: no codes of Open MPI's
/// own, and no data representations.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ompi_errcode_intern_lastused: c_int = 0;
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ompi_errcodes_intern: [usize; 15] = [0; 15];
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ompi_registered_datareps: [usize; 8] = [0; 8];

/// Functions by which these bindings register functions of C++ in Open MPI. The other bindings call
/// functions of C.
macro_rules! no_functions_of_cpp {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> ! {
                eprintln!(
                    "Verbena's libmpi.so.40 has no callbacks, error handlers and reductions of the \
                     C++ bindings ({}), which MPI-3.0 removed: use those of C",
                    stringify!($name)
                );
                std::process::abort()
            }
        )*
    };
}
no_functions_of_cpp! {
    ompi_attr_create_keyval ompi_errhandler_create ompi_errhandler_invoke ompi_op_set_cxx_callback
}
