//! What a completed operation came to.

use objects::{Error, Status};

/// The status and the error of a completed operation.
#[derive(Debug)]
pub struct Outcome {
    /// The status; MPI_ERROR in it is set by the calls that return arrays.
    pub status: Status,
    /// What went wrong with this operation, if anything.
    pub error: Option<Error>,
}

impl Outcome {
    /// The outcome of nothing (MPI-5.0 §3.7.3, the empty status).
    pub fn empty() -> Outcome {
        Outcome { status: Status::empty(), error: None }
    }
}
