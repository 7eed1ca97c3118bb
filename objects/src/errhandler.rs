//! Error handlers: what happens when a call fails (MPI-5.0 §9.3).
//!
//! Plain data. The runtime decides which handler is called, and calls a user's function with no
//! lock held.

use std::os::raw::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Class, callback};

/// The user's function: the address of the handle, the address of the error code, and arguments of
/// the implementation's choice (Verbena passes none). Handles of all classes have pointer size in
/// the ABI; therefore one type serves MPI_Comm_errhandler_function, _Win_, _File_ and _Session_.
pub type ErrhandlerFunction = extern "C" fn(*mut usize, *mut c_int, ...);

/// The class of objects that a user's error handler can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Raiser {
    Comm,
    Win,
    File,
    Session,
}

/// An error handler.
#[derive(Clone, Copy, Debug)]
pub enum Errhandler {
    /// MPI_ERRORS_ARE_FATAL: ends all connected processes.
    Fatal,
    /// MPI_ERRORS_ABORT: ends the processes of the communicator.
    Abort,
    /// MPI_ERRORS_RETURN: the call returns the code.
    Return,
    /// The user's function.
    User(UserErrhandler),
}

/// A user function that handles errors.
#[derive(Clone, Copy, Debug)]
pub struct UserErrhandler {
    /// Tells it from all others, also of the same function.
    serial: u64,
    raiser: Raiser,
    function: ErrhandlerFunction,
}

impl Errhandler {
    /// Makes a user's handler for one class of objects.
    pub fn user(raiser: Raiser, function: ErrhandlerFunction) -> Errhandler {
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        let serial = SERIALS.fetch_add(1, Relaxed);
        Errhandler::User(UserErrhandler { serial, raiser, function })
    }

    /// Returns true if the handler may be attached to such an object: predefined handlers to any, a
    /// user's handler to the class that it was created for.
    pub fn suits(&self, raiser: Raiser) -> bool {
        match self {
            Errhandler::User(handler) => handler.raiser == raiser,
            Errhandler::Fatal | Errhandler::Abort | Errhandler::Return => true,
        }
    }
}

impl UserErrhandler {
    /// Returns true if both come from one call of MPI_Comm_create_errhandler or its like.
    pub fn is(&self, other: &UserErrhandler) -> bool {
        self.serial == other.serial
    }

    /// Returns the class of objects that the handler can be attached to.
    pub fn raiser(&self) -> Raiser {
        self.raiser
    }

    /// Calls the function for the object `handle`. The caller holds no lock: the function may call
    /// MPI.
    pub fn call(&self, handle: usize, code: c_int) {
        // Copies: the function gets addresses, but its writes have no effect.
        let (mut handle, mut code) = (handle, code);
        callback::user(|| (self.function)(&mut handle, &mut code));
    }
}

impl Raiser {
    /// Returns the error class of an invalid handle of such an object.
    pub fn class(self) -> Class {
        match self {
            Raiser::Comm => Class::Comm,
            Raiser::Win => Class::Win,
            Raiser::File => Class::File,
            Raiser::Session => Class::Session,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_it_was_made_for() {
        for handler in [Errhandler::Fatal, Errhandler::Abort, Errhandler::Return] {
            assert!(handler.suits(Raiser::Comm) && handler.suits(Raiser::File));
        }
    }
}
