//! Variables and functions that MPICH's `mpi.h` declares beside MPI's.

use std::os::raw::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use crate::symbols::{copy_functions, variables};
use crate::target::MPI_Status;

/// What Fortran's MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE of `mpi_f08` are.
#[unsafe(no_mangle)]
static mut MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; 5] = [0; 5];
#[unsafe(no_mangle)]
static mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; 5] = [0; 5];

variables! {
    // The standard ABI's values.
    MPI_UNWEIGHTED: c_int = without_provenance_mut(10);
    MPI_WEIGHTS_EMPTY: c_int = without_provenance_mut(11);
    MPI_T_PVAR_ALL_HANDLES: c_void = without_provenance_mut(1);
    // Set by Fortran's library.
    MPI_F_STATUS_IGNORE: c_int = null_mut();
    MPI_F_STATUSES_IGNORE: c_int = null_mut();
    MPI_F08_STATUS_IGNORE: MPI_Status = (&raw mut MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast();
    MPI_F08_STATUSES_IGNORE: MPI_Status = (&raw mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast();
}

// MPI_DUP_FN and its like of all classes.
copy_functions!(MPIR_Dup_fn);

/// MPIX_Query_cuda_support and its like: buffers of devices are not known.
macro_rules! no_support {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                0
            }
        )*
    };
}
no_support!(MPIX_Query_cuda_support MPIX_Query_ze_support MPIX_Query_hip_support);
/// MPIX_GPU_query_support: the same, for a kind of device.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPIX_GPU_query_support(_kind: c_int, is_supported: *mut c_int) -> c_int {
    // SAFETY: the caller's argument.
    unsafe { *is_supported = 0 };
    0
}
