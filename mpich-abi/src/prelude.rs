//! What entry points and bodies use.

pub(crate) use std::os::raw::{c_char, c_int, c_void};

pub(crate) use crate::abi::*;
pub(crate) use crate::array::{Neighbors, address, handles, interned, peers, values};
pub(crate) use crate::code;
pub(crate) use crate::code::SUCCESS;
pub(crate) use crate::generated::values::*;
pub(crate) use crate::handle::{Handle, given, read};
pub(crate) use crate::library::library;
pub(crate) use crate::sentinel::buffer;
pub(crate) use crate::status::{StatusOut, given_status, is_ignored, status_in};

/// Exports another name of an entry point. The function is naked, so that any number of arguments
/// arrives as it was passed.
macro_rules! jump {
    ($name:ident to $target:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {}", sym $target);
        }
    };
}
pub(crate) use jump;
