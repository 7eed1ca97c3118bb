//! Error codes.
//!
//! ```text
//! standard ABI                          MPICH               Open MPI
//! a class                               its class, by the table
//! other codes to 0x3fff                 0x10000 more        0x40000000 more
//! from 0x4000: made by the program      from 0x40000000     from 93
//! ```
//!
//! Either way back. The last ones are above the MPI_ERR_LASTCODE of each ABI.

use std::os::raw::c_int;

use crate::generated::values;
use crate::library::library;
pub(crate) use crate::target::{ERR_ARG as ARG, ERR_OTHER as OTHER, ERR_PORT as PORT};
use crate::target::{ERR_LASTCODE, OTHER_CODES};

/// MPI_SUCCESS of all.
pub(crate) const SUCCESS: c_int = 0;
/// MPI_ERR_UNSUPPORTED_OPERATION of the standard ABI.
pub(crate) const STANDARD_UNSUPPORTED: c_int = 55;
/// MPI_ERR_IN_STATUS of the standard ABI.
const STANDARD_IN_STATUS: c_int = 19;
/// The last class of the standard ABI, and the first and last code of its tool interface.
const STANDARD_LAST_CLASS: c_int = 62;
const FIRST_TOOL: c_int = 1001;
const LAST_TOOL: c_int = 1018;
/// MPI_ERR_LASTCODE of the standard ABI.
const STANDARD_LAST: c_int = 0x3fff;
/// The last of the codes that are no classes.
const LAST_OTHER: c_int = OTHER_CODES + STANDARD_LAST;

/// The code as the program has it.
#[inline]
pub(crate) fn from_standard(code: c_int) -> c_int {
    if code == SUCCESS { SUCCESS } else { error_from_standard(code) }
}

/// The code as the standard ABI has it.
#[inline]
pub(crate) fn to_standard(code: c_int) -> c_int {
    if code == SUCCESS { SUCCESS } else { error_to_standard(code) }
}

/// The value of MPI_LASTUSEDCODE, which is MPI_ERR_LASTCODE until the program has made a code.
pub(crate) fn last_from_standard(code: c_int) -> c_int {
    error_from_standard(code.max(STANDARD_LAST))
}

#[cold]
#[inline(never)]
fn error_from_standard(code: c_int) -> c_int {
    match code {
        ..=STANDARD_LAST_CLASS | FIRST_TOOL..=LAST_TOOL => values::error_out(code),
        STANDARD_LAST.. => code.wrapping_add(ERR_LASTCODE - STANDARD_LAST),
        _ => code + OTHER_CODES,
    }
}

#[cold]
#[inline(never)]
fn error_to_standard(code: c_int) -> c_int {
    match code {
        OTHER_CODES..=LAST_OTHER => code - OTHER_CODES,
        ERR_LASTCODE.. => code.wrapping_sub(ERR_LASTCODE - STANDARD_LAST),
        _ => values::error_in(code),
    }
}

/// Whether a code of the standard ABI says that statuses have errors.
#[cold]
pub(crate) fn is_in_status(code: c_int) -> bool {
    let mut class = code;
    // SAFETY: a number of ours.
    unsafe { (library().PMPI_Error_class)(code, &raw mut class) };
    class == STANDARD_IN_STATUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_and_those_of_the_program_are_above_the_last_one() {
        let mut substitutes = 0;
        for code in 0..0x4100 {
            let users = from_standard(code);
            substitutes += usize::from(to_standard(users) != code);
            assert!(users > ERR_LASTCODE || code <= STANDARD_LAST);
        }
        // Open MPI does not have all errors.
        assert_eq!(substitutes, if cfg!(feature = "openmpi") { 4 } else { 0 });
        // MPI_ERR_TRUNCATE.
        let truncate = if cfg!(feature = "openmpi") { 15 } else { 14 };
        assert_eq!((from_standard(15), to_standard(truncate)), (truncate, 15));
    }
}
