//! Procedures of the modules of MPICH, Intel MPI and Open MPI that are no external procedures: each
//! has the name that gfortran gives it, and that of Intel's compilers.

use std::os::raw::{c_int, c_void};

use crate::attribute::{mpi_comm_dup_fn_, mpi_comm_null_copy_fn_, mpi_comm_null_delete_fn_};
use crate::grequest::mpi_conversion_fn_null_;
use crate::names::names;
use crate::prelude::{SUCCESS, finish};

/// Gives a function names that are put together.
macro_rules! module_names {
    ($($target:path: $($name:expr),* $(,)?;)*) => {
        $($(abi_client::jump::jump!($name, to $target);)*)*
    };
}
pub(super) use module_names;

/// MPI_Sizeof of one type.
pub(super) unsafe extern "C" fn size<const BYTES: c_int>(
    _x: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's INTEGERs.
    unsafe {
        *size = BYTES;
        finish(ierror, SUCCESS);
    }
}

/// The predefined attribute functions of `mpi_f08`.
macro_rules! callbacks {
    ($($target:ident: $($name:literal)*;)*) => {
        module_names! {
            $($target: $(
                concat!("__mpi_f08_callbacks_MOD_", $name),
                concat!("mpi_f08_callbacks_mp_", $name, "_"),
            )*;)*
        }
    };
}

callbacks! {
    mpi_comm_dup_fn_: "mpi_comm_dup_fn" "mpi_type_dup_fn" "mpi_win_dup_fn";
    mpi_comm_null_copy_fn_: "mpi_comm_null_copy_fn" "mpi_type_null_copy_fn" "mpi_win_null_copy_fn";
    mpi_comm_null_delete_fn_:
        "mpi_comm_null_delete_fn" "mpi_type_null_delete_fn" "mpi_win_null_delete_fn";
}

/// MPI_CONVERSION_FN_NULL of `mpi_f08`: names whose addresses are compared.
macro_rules! null_conversions {
    ($($symbol:ident)*) => {
        names!(mpi_conversion_fn_null_: $($symbol)*);

        /// MPI_CONVERSION_FN_NULL of a module.
        pub(crate) fn is_null_conversion(procedure: *const c_void) -> bool {
            let names: &[unsafe extern "C" fn()] = &[$($symbol),*];
            names.iter().any(|name| *name as *const c_void == procedure)
        }
    };
}

null_conversions! {
    __mpi_f08_callbacks_MOD_mpi_conversion_fn_null __mpi_f08_callbacks_MOD_mpi_conversion_fn_null_c
    mpi_f08_callbacks_mp_mpi_conversion_fn_null_ mpi_f08_callbacks_mp_mpi_conversion_fn_null_c_
}
