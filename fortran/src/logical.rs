//! LOGICAL values. Compilers represent .FALSE. as 0 and .TRUE. as 1 or -1 (all bits set). Those
//! with -1 look at the lowest bit alone, and negate by inverting all bits: they make -2 of a 1 that
//! came from MPI. Therefore odd values are read as true, and 1 is written, unless the MPI library
//! knows another .TRUE. (MPI_Abi_set_fortran_booleans).

use std::os::raw::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::generated::c;

static TRUE: AtomicI32 = AtomicI32::new(1);

/// A LOGICAL as C has it.
pub(crate) fn from_logical(value: c_int) -> c_int {
    value & 1
}

/// A C truth value as a LOGICAL.
pub(crate) fn to_logical(value: c_int) -> c_int {
    // Relaxed: a number on its own, stored before other threads may call MPI.
    if value != 0 { TRUE.load(Ordering::Relaxed) } else { 0 }
}

/// Reads the library's .TRUE.; called after MPI is initialized.
pub(crate) fn learn() {
    let (mut yes, mut no, mut is_set): (c_int, c_int, c_int) = (1, 0, 0);
    // SAFETY: all three are valid for the call, and have the size that is passed.
    let code = unsafe {
        c::PMPI_Abi_get_fortran_booleans(
            size_of::<c_int>() as c_int,
            (&raw mut yes).cast(),
            (&raw mut no).cast(),
            &raw mut is_set,
        )
    };
    if code == 0 && is_set != 0 && yes != 0 {
        TRUE.store(yes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_are_true() {
        assert_eq!([0, 1, -1, !1].map(from_logical), [0, 1, 1, 0]);
        assert_eq!([0, 1, 7].map(to_logical), [0, 1, 1]);
    }
}
