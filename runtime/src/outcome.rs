//! The outcome of a completed operation.

use objects::{Error, Status};

/// The status and the error of a completed operation.
#[derive(Debug)]
pub struct Outcome {
    /// The status; MPI_ERROR in it is set by the calls that return arrays.
    pub status: Status,
    /// The error of this operation, if it failed.
    pub error: Option<Error>,
}

impl Outcome {
    /// Returns the outcome of a null or inactive request: the empty status (MPI-5.0 §3.7.3).
    pub fn empty() -> Outcome {
        Outcome { status: Status::empty(), error: None }
    }
}
