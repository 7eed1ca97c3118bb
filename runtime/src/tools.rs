//! The tool information interface (MPI-5.0 §15.3) without its C form: knobs as control variables,
//! the state of this process as performance variables, sections of knobs as categories.
//!
//! Tools may call it before MPI_Init and after MPI_Finalize, from any thread. Therefore it has a
//! lock of its own, and takes the process lock only to read a performance variable.
//!
//! What it does not do: events. There are none, and no sources of them.

mod category;
mod cvar;
mod pvar;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use category::{Category, categories};
pub(crate) use cvar::load_knobs;
pub use cvar::{
    CvarKind, CvarValue, cvar, cvar_count, cvar_kind, cvar_named, cvar_words, read_cvar, write_cvar,
};
pub use pvar::{Pvar, PvarSessions, SessionId, VariableId, pvar, pvar_named, pvars};

/// Why a call of the interface failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the error code MPI_T_ERR_ of that name")]
pub enum ToolError {
    NotInitialized,
    Invalid,
    InvalidIndex,
    InvalidItem,
    InvalidSession,
    InvalidHandle,
    InvalidName,
    CvarSetNotNow,
    PvarNoWrite,
    PvarNoStartstop,
}

/// The state of the interface.
#[derive(Debug)]
pub struct Tools {
    initializations: u32,
    /// The sessions of performance variables.
    pub sessions: PvarSessions,
}

static TOOLS: Mutex<Tools> =
    Mutex::new(Tools { initializations: 0, sessions: PvarSessions::new() });

fn lock() -> MutexGuard<'static, Tools> {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initialises the interface, any number of times.
pub fn initialize() {
    lock().initializations += 1;
}

/// Takes one initialisation back. The last one ends all sessions.
pub fn finalize() -> Result<(), ToolError> {
    with_tools(|tools| {
        tools.initializations -= 1;
        if tools.initializations == 0 {
            tools.sessions = PvarSessions::new();
        }
        Ok(())
    })
}

/// Runs a call of the interface, if it is initialised.
pub fn with_tools<R>(
    call: impl FnOnce(&mut Tools) -> Result<R, ToolError>,
) -> Result<R, ToolError> {
    let mut tools = lock();
    if tools.initializations == 0 {
        return Err(ToolError::NotInitialized);
    }
    call(&mut tools)
}
