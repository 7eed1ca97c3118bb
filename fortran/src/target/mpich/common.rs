//! Constants that are compared by address: in `mpif.h` and `use mpi` parts of common blocks, in
//! `mpi_f08` variables.
//!
//! A program's common blocks take the place of those here, or those here the place of the
//! program's, as the dynamic linker decides; both have the same lengths. Nothing reads them.

use std::cell::UnsafeCell;
use std::os::raw::c_int;

/// Memory that is compared by address only, exactly as large as the program's: the dynamic linker
/// warns of another size.
#[repr(transparent)]
struct Block<T>(UnsafeCell<T>);

// SAFETY: nothing here reads or writes the contents.
unsafe impl<T> Sync for Block<T> {}

macro_rules! blocks {
    ($($symbol:ident: $element:ident $len:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static $symbol: Block<[$element; $len]> = Block(UnsafeCell::new([0; $len]));
        )*
    };
}

blocks! {
    mpipriv1_: c_int 7;
    mpipriv2_: c_int 6;
    mpiprivc_: u8 2;
    mpifcmb5_: c_int 1;
    mpifcmb9_: c_int 1;
    mpifcmba_: c_int 1;
    MPIR_F08_MPI_BOTTOM: c_int 1;
    MPIR_F08_MPI_IN_PLACE: c_int 1;
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: c_int 5;
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: c_int 5;
    __mpi_f08_link_constants_MOD_mpi_argv_null: u8 1;
    __mpi_f08_link_constants_MOD_mpi_argvs_null: u8 1;
    __mpi_f08_link_constants_MOD_mpi_errcodes_ignore: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_unweighted: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_weights_empty: c_int 1;
    __mpi_f08_link_constants_MOD_mpi_buffer_automatic: c_int 1;
    mpi_f08_link_constants_mp_mpi_argv_null_: u8 1;
    mpi_f08_link_constants_mp_mpi_argvs_null_: u8 1;
    mpi_f08_link_constants_mp_mpi_errcodes_ignore_: c_int 1;
    mpi_f08_link_constants_mp_mpi_unweighted_: c_int 1;
    mpi_f08_link_constants_mp_mpi_weights_empty_: c_int 1;
    mpi_f08_link_constants_mp_mpi_buffer_automatic_: c_int 1;
}

/// Tests for an address in one of some blocks, at its offset.
macro_rules! sentinels {
    ($($(#[$doc:meta])* $test:ident: $($symbol:ident + $offset:literal)*;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub(crate) fn $test<T>(address: *const T) -> bool {
                $((&raw const $symbol).addr() + $offset == address.addr())||*
            }
        )*
    };
}

sentinels! {
    /// MPI_BOTTOM.
    is_bottom: mpipriv1_ + 0 MPIR_F08_MPI_BOTTOM + 0;
    /// MPI_IN_PLACE.
    is_in_place: mpipriv1_ + 4 MPIR_F08_MPI_IN_PLACE + 0;
    /// MPI_STATUS_IGNORE.
    is_status_ignore: mpipriv1_ + 8 MPIR_F08_MPI_STATUS_IGNORE_OBJ + 0;
    /// MPI_STATUSES_IGNORE.
    is_statuses_ignore: mpipriv2_ + 0 MPIR_F08_MPI_STATUSES_IGNORE_OBJ + 0;
    /// MPI_ERRCODES_IGNORE.
    is_errcodes_ignore: mpipriv2_ + 20 __mpi_f08_link_constants_MOD_mpi_errcodes_ignore + 0
        mpi_f08_link_constants_mp_mpi_errcodes_ignore_ + 0;
    /// MPI_ARGVS_NULL.
    is_argvs_null: mpiprivc_ + 0 __mpi_f08_link_constants_MOD_mpi_argvs_null + 0
        mpi_f08_link_constants_mp_mpi_argvs_null_ + 0;
    /// MPI_ARGV_NULL.
    is_argv_null: mpiprivc_ + 1 __mpi_f08_link_constants_MOD_mpi_argv_null + 0
        mpi_f08_link_constants_mp_mpi_argv_null_ + 0;
    /// MPI_UNWEIGHTED.
    is_unweighted: mpifcmb5_ + 0 __mpi_f08_link_constants_MOD_mpi_unweighted + 0
        mpi_f08_link_constants_mp_mpi_unweighted_ + 0;
    /// MPI_WEIGHTS_EMPTY.
    is_weights_empty: mpifcmb9_ + 0 __mpi_f08_link_constants_MOD_mpi_weights_empty + 0
        mpi_f08_link_constants_mp_mpi_weights_empty_ + 0;
    /// MPI_BUFFER_AUTOMATIC.
    is_buffer_automatic: mpifcmba_ + 0 __mpi_f08_link_constants_MOD_mpi_buffer_automatic + 0
        mpi_f08_link_constants_mp_mpi_buffer_automatic_ + 0;
}

unsafe extern "C" {
    static mut MPI_F_STATUS_IGNORE: *mut c_int;
    static mut MPI_F_STATUSES_IGNORE: *mut c_int;
}

/// Tells C the addresses of Fortran's constants, which C code may compare with (MPI-5.0 §19.3.5).
extern "C" fn set_addresses() {
    let at = |block: *const u8, offset| block.wrapping_add(offset).cast::<c_int>().cast_mut();
    // SAFETY: variables of the MPI library, which is loaded before this library; nothing reads
    // them yet.
    unsafe {
        MPI_F_STATUS_IGNORE = at((&raw const mpipriv1_).cast(), 8);
        MPI_F_STATUSES_IGNORE = at((&raw const mpipriv2_).cast(), 0);
    }
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static SET_ADDRESSES: extern "C" fn() = set_addresses;
