//! The handles of the user's error handlers.
//!
//! A handler has one handle, however often it is asked for: MPI_Comm_get_errhandler returns the
//! handle that was set. Each call that returns the handle takes a reference, which the user gives
//! back by MPI_Errhandler_free. Objects hold the handler itself, so that it outlives its handle.

use objects::errhandler::UserErrhandler;
use objects::{HandleKind, Stale, Table};

/// The handles of a process.
pub struct Errhandlers(Table<Referenced>);

/// A handler whose handle the user holds.
pub struct Referenced {
    handler: UserErrhandler,
    /// How often the user was given the handle, less how often it was freed; at least 1.
    references: u64,
}

impl Errhandlers {
    pub(crate) const fn new() -> Errhandlers {
        Errhandlers(Table::new(HandleKind::Errhandler))
    }

    /// Returns the handle of a handler, with one reference more.
    pub fn handle_of(&mut self, handler: UserErrhandler) -> usize {
        let known =
            self.0.iter().find(|(_, held)| held.handler.is(&handler)).map(|(handle, _)| handle);
        if let Some(held) = known.and_then(|handle| self.0.get_mut(handle).ok()) {
            held.references += 1;
        }
        known.unwrap_or_else(|| self.0.insert(Referenced { handler, references: 1 })) as usize
    }

    /// Returns the handler of a handle.
    pub fn get(&self, handle: usize) -> Result<UserErrhandler, Stale> {
        self.0.get(handle as u64).map(|held| held.handler)
    }

    /// Gives a reference back; the handle is invalid after the last one.
    pub fn free(&mut self, handle: usize) -> Result<(), Stale> {
        let held = self.0.get_mut(handle as u64)?;
        held.references -= 1;
        if held.references == 0 {
            self.0.remove(handle as u64)?;
        }
        Ok(())
    }

    /// Returns the table, for the conversion of handles.
    pub fn table(&self) -> &Table<Referenced> {
        &self.0
    }
}
