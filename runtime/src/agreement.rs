//! Agreements on a context id that run as collectives, and the communicators that wait for them.
//!
//! An agreement takes the largest proposal of each host on which the parent has members. The
//! largest of all is the context id; that of a host names the collective segment there.

use collectives::CollectiveId;

/// What the members of a new communicator have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The context id.
    pub(crate) context: u64,
    /// The largest proposal of this host, by which its members find their collective segment; 0 if
    /// there is none. The context id itself in a job on one host.
    pub(crate) on_host: u64,
}

impl Agreed {
    /// Returns an agreement on a context alone.
    pub(crate) fn without_segment(context: u64) -> Agreed {
        Agreed { context, on_host: 0 }
    }
}

/// A running agreement: an allreduce of a word for each host, which live here. On an
/// intercommunicator both groups take part.
pub(crate) struct Agreement {
    id: CollectiveId,
    words: Box<[u64]>,
    /// The number of this process's host among them.
    host: usize,
}

impl Agreement {
    /// Returns the agreement that a collective runs on `words`.
    pub(crate) fn new(id: CollectiveId, words: Box<[u64]>, host: usize) -> Agreement {
        Agreement { id, words, host }
    }

    /// Returns the id of its collective.
    pub(crate) fn id(&self) -> CollectiveId {
        self.id
    }

    /// Returns the result, once the collective has ended.
    pub(crate) fn agreed(&self) -> Agreed {
        let context = self.words.iter().copied().max().unwrap_or_default();
        Agreed { context, on_host: self.words[self.host] }
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
