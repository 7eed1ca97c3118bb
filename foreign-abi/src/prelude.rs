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
pub(crate) use crate::target::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op,
    MPI_Request, MPI_Session, MPI_Status, MPI_Win, graph_weights, pvar_handle,
};

/// Exports another name of an entry point. The function is naked, so that any number of arguments
/// arrives as it was passed.
macro_rules! jump {
    ($name:ident to $target:path) => {
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
