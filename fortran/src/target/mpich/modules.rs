//! What the modules of MPICH and of Intel MPI have beside external procedures and
//! [`modules`](super::super::modules).

use std::os::raw::{c_int, c_void};

use crate::attribute::{
    mpi_comm_dup_fn_, mpi_comm_null_copy_fn_, mpi_comm_null_delete_fn_, mpi_dup_fn_,
};
use crate::datatype::{verbena_handle_eq, verbena_handle_ne};
use crate::environment::{
    mpi_aint_add_, mpi_aint_diff_, mpi_f_sync_reg_, mpi_status_f2f08_, mpi_wtick_, mpi_wtime_,
    pmpi_pcontrol_,
};
use crate::names::names;
use crate::prelude::{SUCCESS, finish};
use crate::target::modules::{module_names, size};

/// Comparisons of handles. MPICH and Intel MPI abbreviate "not equal" in two ways.
macro_rules! comparisons {
    ($($class:literal)*) => {
        $(
            comparisons!(@of verbena_handle_eq, $class, "eq");
            comparisons!(@of verbena_handle_ne, $class, "neq");
            comparisons!(@mixed verbena_handle_ne, $class, "ne");
        )*
    };
    (@of $target:ident, $class:literal, $operator:literal) => {
        module_names! {
            $target:
                concat!("__mpi_constants_MOD_", $class, $operator),
                concat!("mpi_constants_mp_", $class, $operator, "_"),
                concat!("__mpi_f08_types_MOD_mpi_", $class, "_", $operator),
                concat!("mpi_f08_types_mp_mpi_", $class, "_", $operator, "_");
        }
        comparisons!(@mixed $target, $class, $operator);
    };
    (@mixed $target:ident, $class:literal, $operator:literal) => {
        module_names! {
            $target:
                concat!("__mpi_f08_types_MOD_mpi_", $class, "_f08_", $operator, "_f"),
                concat!("__mpi_f08_types_MOD_mpi_", $class, "_f_", $operator, "_f08"),
                concat!("mpi_f08_types_mp_mpi_", $class, "_f08_", $operator, "_f_"),
                concat!("mpi_f08_types_mp_mpi_", $class, "_f_", $operator, "_f08_");
        }
    };
}

comparisons! {
    "comm" "datatype" "errhandler" "file" "group" "info" "message" "op" "request" "session" "win"
}

/// MPI_Sizeof of a CHARACTER in `mpi_f08`.
unsafe extern "C" fn size_of_text(
    _x: *const c_void,
    size: *mut c_int,
    ierror: *mut c_int,
    len: usize,
) {
    // SAFETY: the caller's INTEGERs.
    unsafe {
        *size = len as c_int;
        finish(ierror, SUCCESS);
    }
}

/// MPI_Sizeof has a procedure for each type: in `use mpi` one for scalars and one for arrays.
macro_rules! sizes {
    ($($bytes:literal: ($($kind:literal)*) ($($kind_f08:literal)*);)*) => {
        $(module_names! {
            size::<$bytes>: $(
                concat!("__mpi_sizeofs_MOD_mpi_sizeof_", $kind),
                concat!("__mpi_sizeofs_MOD_mpi_sizeof_", $kind, "v"),
                concat!("mpi_sizeofs_mp_mpi_sizeof_", $kind, "_"),
                concat!("mpi_sizeofs_mp_mpi_sizeof_", $kind, "v_"),
            )* $(
                concat!("__mpi_f08_types_MOD_mpi_sizeof_", $kind_f08),
                concat!("mpi_f08_types_mp_mpi_sizeof_", $kind_f08, "_"),
            )*;
        })*
    };
}

// The second names of a kind are those of MPICH 5.
sizes! {
    1: ("ch" "ch1" "i1") ("xint8");
    2: ("i2") ("xint16");
    4: ("l" "l4" "i" "i4" "r" "r4") ("logical" "xint32" "xreal32");
    8: ("i8" "d" "r8" "cx" "cx8") ("xint64" "xreal64" "xcomplex32");
    16: ("cx16") ("xreal128" "xcomplex64");
    32: () ("xcomplex128");
}

module_names! {
    size_of_text: "__mpi_f08_types_MOD_mpi_sizeof_character",
        "mpi_f08_types_mp_mpi_sizeof_character_",;
    mpi_status_f2f08_: "__mpi_f08_types_MOD_mpi_status_f2f08",
        "__mpi_f08_types_MOD_mpi_status_f082f", "__mpi_f08_types_MOD_pmpi_status_f2f08",
        "__mpi_f08_types_MOD_pmpi_status_f082f", "mpi_f08_types_mp_mpi_status_f2f08_",
        "mpi_f08_types_mp_mpi_status_f082f_", "mpi_f08_types_mp_pmpi_status_f2f08_",
        "mpi_f08_types_mp_pmpi_status_f082f_",;
}

// External procedures that other interfaces of MPI have under no name of their own.
names!(mpi_comm_dup_fn_: pmpi_comm_dup_fn_ pmpi_type_dup_fn_ pmpi_win_dup_fn_);
names!(mpi_dup_fn_: pmpi_dup_fn_);
names!(mpi_comm_null_copy_fn_:
    pmpi_comm_null_copy_fn_ pmpi_type_null_copy_fn_ pmpi_win_null_copy_fn_ pmpi_null_copy_fn_);
names!(mpi_comm_null_delete_fn_:
    pmpi_comm_null_delete_fn_ pmpi_type_null_delete_fn_ pmpi_win_null_delete_fn_
    pmpi_null_delete_fn_);
names!(mpi_wtime_: mpi_wtime_f08_ pmpir_wtime_f08_);
names!(mpi_wtick_: mpi_wtick_f08_ pmpir_wtick_f08_);
names!(mpi_aint_add_: pmpir_aint_add_f08_);
names!(mpi_aint_diff_: pmpir_aint_diff_f08_);
names!(mpi_f_sync_reg_: mpi_f_sync_reg_f08ts_ pmpir_f_sync_reg_f08ts_);
names!(pmpi_pcontrol_: pmpir_pcontrol_f08_);
