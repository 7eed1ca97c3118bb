//! Agreements on a context id that run as collectives, and what is to be done after them.

use collectives::CollectiveId;

/// An agreement under way: an allreduce of one word, which lives here. On an intercommunicator both
/// groups agree.
pub(crate) struct Agreement {
    id: CollectiveId,
    word: Box<u64>,
}

impl Agreement {
    /// Returns the agreement that a collective runs on `word`.
    pub(crate) fn new(id: CollectiveId, word: Box<u64>) -> Agreement {
        Agreement { id, word }
    }

    pub(crate) fn id(&self) -> CollectiveId {
        self.id
    }

    /// Returns the result, once the collective has ended.
    pub(crate) fn word(&self) -> u64 {
        *self.word
    }
}

/// A communicator whose nonblocking creation still agrees on its context.
pub struct NewComm {
    /// The handle that the user already has; complete but for its context.
    pub(crate) handle: u64,
    /// What this process has proposed.
    pub(crate) proposal: u64,
    pub(crate) agreement: Agreement,
}
