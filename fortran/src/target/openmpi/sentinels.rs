//! The common blocks of Open MPI's `mpif.h`, one for each constant, in the four manglings of
//! compilers. Its `mpi_f08` has variables with the C name of the first.

use std::os::raw::c_int;

use crate::target::common::{blocks, sentinels, told_to_c};

/// Constants: the test for each, its block in each mangling, and the elements of that.
macro_rules! constants {
    ($($(#[$doc:meta])* $test:ident: $($symbol:ident)* = $element:ident $len:literal;)*) => {
        blocks! { $($($symbol)*: $element $len;)* }
        sentinels! { $($(#[$doc])* $test: $($symbol + 0)*;)* }
    };
}

constants! {
    /// MPI_BOTTOM.
    is_bottom: mpi_fortran_bottom_ mpi_fortran_bottom mpi_fortran_bottom__ MPI_FORTRAN_BOTTOM =
        c_int 1;
    /// MPI_IN_PLACE.
    is_in_place: mpi_fortran_in_place_ mpi_fortran_in_place mpi_fortran_in_place__
        MPI_FORTRAN_IN_PLACE = c_int 1;
    /// MPI_STATUS_IGNORE.
    is_status_ignore: mpi_fortran_status_ignore_ mpi_fortran_status_ignore
        mpi_fortran_status_ignore__ MPI_FORTRAN_STATUS_IGNORE = c_int 6;
    /// MPI_STATUSES_IGNORE.
    is_statuses_ignore: mpi_fortran_statuses_ignore_ mpi_fortran_statuses_ignore
        mpi_fortran_statuses_ignore__ MPI_FORTRAN_STATUSES_IGNORE = c_int 6;
    /// MPI_ERRCODES_IGNORE.
    is_errcodes_ignore: mpi_fortran_errcodes_ignore_ mpi_fortran_errcodes_ignore
        mpi_fortran_errcodes_ignore__ MPI_FORTRAN_ERRCODES_IGNORE = c_int 1;
    /// MPI_ARGV_NULL.
    is_argv_null: mpi_fortran_argv_null_ mpi_fortran_argv_null mpi_fortran_argv_null__
        MPI_FORTRAN_ARGV_NULL = u8 1;
    /// MPI_ARGVS_NULL.
    is_argvs_null: mpi_fortran_argvs_null_ mpi_fortran_argvs_null mpi_fortran_argvs_null__
        MPI_FORTRAN_ARGVS_NULL = u8 1;
    /// MPI_UNWEIGHTED.
    is_unweighted: mpi_fortran_unweighted_ mpi_fortran_unweighted mpi_fortran_unweighted__
        MPI_FORTRAN_UNWEIGHTED = c_int 1;
    /// MPI_WEIGHTS_EMPTY.
    is_weights_empty: mpi_fortran_weights_empty_ mpi_fortran_weights_empty
        mpi_fortran_weights_empty__ MPI_FORTRAN_WEIGHTS_EMPTY = c_int 1;
}

/// MPI_BUFFER_AUTOMATIC is younger.
pub(crate) fn is_buffer_automatic<T>(_address: *const T) -> bool {
    false
}

told_to_c! {
    MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_ + 0;
    MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_ + 0;
    MPI_F08_STATUS_IGNORE = mpi_fortran_status_ignore_ + 0;
    MPI_F08_STATUSES_IGNORE = mpi_fortran_statuses_ignore_ + 0;
}

/// MPI_BOTTOM and MPI_STATUS_IGNORE in the second mangling.
#[cfg(test)]
pub(super) fn addresses() -> (*const c_int, *const c_int) {
    ((&raw const mpi_fortran_bottom).cast(), (&raw const mpi_fortran_status_ignore).cast())
}
