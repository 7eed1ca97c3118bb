//! Agreements on a context id that run as collectives, and the communicators that wait for them.

use collectives::CollectiveId;

/// A running agreement: an allreduce of one word, which lives here. On an intercommunicator both
/// groups take part.
pub(crate) struct Agreement {
    id: CollectiveId,
    word: Box<u64>,
}

impl Agreement {
    /// Returns the agreement that a collective runs on `word`.
    pub(crate) fn new(id: CollectiveId, word: Box<u64>) -> Agreement {
        Agreement { id, word }
    }

    /// Returns the id of its collective.
    pub(crate) fn id(&self) -> CollectiveId {
        self.id
    }

    /// Returns the result, once the collective has ended.
    pub(crate) fn word(&self) -> u64 {
        *self.word
    }
}

/// A communicator of MPI_Comm_idup whose members still agree on its context id.
pub struct NewComm {
    /// The handle that the user already has; the communicator lacks only its context id.
    pub(crate) handle: u64,
    /// The context id that this process has proposed.
    pub(crate) proposal: u64,
    pub(crate) agreement: Agreement,
}
