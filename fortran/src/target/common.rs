//! Constants that are compared by address: in `mpif.h` and `use mpi` common blocks or parts of
//! them, in `mpi_f08` variables.
//!
//! A program's common blocks take the place of those here, or those here the place of the
//! program's, as the dynamic linker decides; both have the same lengths. Nothing reads them.

use std::cell::UnsafeCell;

/// Memory that is compared by address only, exactly as large as the program's: the dynamic linker
/// warns of another size.
#[repr(transparent)]
pub(super) struct Block<T>(UnsafeCell<T>);

// SAFETY: nothing here reads or writes the contents.
unsafe impl<T> Sync for Block<T> {}

impl<T> Block<T> {
    pub(super) const fn new(contents: T) -> Block<T> {
        Block(UnsafeCell::new(contents))
    }
}

/// Common blocks and variables of so many elements.
macro_rules! blocks {
    ($($($symbol:ident)*: $element:ident $len:literal;)*) => {
        $($(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static $symbol: $crate::target::common::Block<[$element; $len]> =
                $crate::target::common::Block::new([0; $len]);
        )*)*
    };
}
pub(super) use blocks;

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
pub(super) use sentinels;

/// Tells C the addresses of Fortran's constants, which C code may compare with (MPI-5.0 §19.3.5):
/// variables of the library below, and the block and offset of each.
macro_rules! told_to_c {
    ($($variable:ident = $symbol:ident + $offset:literal;)*) => {
        unsafe extern "C" {
            $(static mut $variable: *mut c_int;)*
        }

        extern "C" fn set_addresses() {
            let at = |block: *const u8, offset| block.wrapping_add(offset).cast::<c_int>().cast_mut();
            // SAFETY: the library below is loaded before this one; nothing reads its variables yet.
            unsafe {
                $($variable = at((&raw const $symbol).cast(), $offset);)*
            }
        }

        /// Called when the library is loaded.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static SET_ADDRESSES: extern "C" fn() = set_addresses;
    };
}
pub(super) use told_to_c;
