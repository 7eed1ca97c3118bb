//! The three forms of a collective call, which one body serves.

use objects::Result;

use crate::abi::{MPI_Info, MPI_Request};
use crate::args::{null_argument, put};

/// The form of a collective call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallForm {
    /// `MPI_Bcast`: complete on return.
    Blocking,
    /// `MPI_Ibcast`: started; the request is stored here.
    Nonblocking(*mut MPI_Request),
    /// `MPI_Bcast_init`: planned, with these hints; the request is stored here.
    Persistent(MPI_Info, *mut MPI_Request),
}

impl CallForm {
    fn request(self) -> Option<*mut MPI_Request> {
        match self {
            CallForm::Blocking => None,
            CallForm::Nonblocking(request) | CallForm::Persistent(_, request) => Some(request),
        }
    }

    pub(crate) fn is_blocking(self) -> bool {
        matches!(self, CallForm::Blocking)
    }

    /// Checks request pointer and hints before anything is started.
    pub(crate) fn check(self) -> Result<()> {
        if let CallForm::Persistent(info, _) = self {
            crate::info::optional(info)?;
        }
        match self.request() {
            Some(request) if request.is_null() => Err(null_argument("request")),
            _ => Ok(()),
        }
    }

    /// Stores the handle of the request.
    pub(crate) fn store(self, handle: usize) -> Result<()> {
        match self.request() {
            // SAFETY: null is refused; any other pointer is valid by the user's promise.
            Some(request) => unsafe { put(request, MPI_Request(handle), "request") },
            None => Ok(()),
        }
    }
}
