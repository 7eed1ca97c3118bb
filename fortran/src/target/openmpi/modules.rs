//! What the modules of Open MPI have beside external procedures and
//! [`modules`](super::super::modules).

use crate::datatype::{verbena_handle_eq, verbena_handle_ne};
use crate::environment::mpi_f_sync_reg_;
use crate::names::names;
use crate::target::modules::{module_names, size};

/// Handles that are variables: gfortran's name, that of Intel's compilers, and the C name that some
/// versions have.
macro_rules! variables {
    ($($name:literal $short:literal: $value:literal;)*) => {
        $(const _: () = {
            use std::os::raw::c_int;
            #[unsafe(export_name = concat!("__mpi_f08_types_MOD_mpi_", $name))]
            static OF_GFORTRAN: c_int = $value;
            #[unsafe(export_name = concat!("mpi_f08_types_mp_mpi_", $name, "_"))]
            static OF_INTEL: c_int = $value;
            #[unsafe(export_name = concat!("ompi_f08_mpi_", $short))]
            static IN_C: c_int = $value;
        };)*
    };
}
pub(crate) use variables;

/// Comparisons of handles, which are in another module since Open MPI 5.
macro_rules! comparisons {
    ($($class:literal)*) => {
        module_names! {
            $(
                verbena_handle_eq:
                    concat!("__mpi_f08_types_MOD_ompi_", $class, "_op_eq"),
                    concat!("__mpi_types_MOD_ompi_", $class, "_op_eq"),
                    concat!("mpi_f08_types_mp_ompi_", $class, "_op_eq_"),
                    concat!("mpi_types_mp_ompi_", $class, "_op_eq_");
                verbena_handle_ne:
                    concat!("__mpi_f08_types_MOD_ompi_", $class, "_op_ne"),
                    concat!("__mpi_types_MOD_ompi_", $class, "_op_ne"),
                    concat!("mpi_f08_types_mp_ompi_", $class, "_op_ne_"),
                    concat!("mpi_types_mp_ompi_", $class, "_op_ne_");
            )*
        }
    };
}

comparisons! {
    "comm" "datatype" "errhandler" "file" "group" "info" "message" "op" "request" "session" "win"
}

/// MPI_Sizeof has an external procedure for each type and rank.
macro_rules! sizes {
    ($($bytes:literal: $($kind:literal)*;)*) => {
        $($(sizes!(@ranks $bytes, $kind,
            "scalar" "r1" "r2" "r3" "r4" "r5" "r6" "r7" "r8" "r9" "r10" "r11" "r12" "r13" "r14"
            "r15");)*)*
    };
    (@ranks $bytes:literal, $kind:literal, $($rank:literal)*) => {
        module_names! {
            size::<$bytes>: $(
                concat!("mpi_sizeof_", $kind, "_", $rank, "_"),
                concat!("pmpi_sizeof_", $kind, "_", $rank, "_"),
            )*;
        }
    };
}

sizes! {
    1: "character" "int8";
    2: "int16";
    4: "logical" "int32" "real32";
    8: "int64" "real64" "complex32";
    16: "real128" "complex64";
    32: "complex128";
}

names!(mpi_f_sync_reg_: mpi_f_sync_reg_f08_ pmpi_f_sync_reg_f08_);
