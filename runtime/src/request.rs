//! MPI requests that are objects.
//!
//! A plain send or receive has no object here: its handle encodes it (see `request_handle`).
//!
//! States ([`State`]): a persistent request is *inactive* until started. An active request is in
//! the engine or among the running collectives. *Done* holds the outcome until a call takes it.
//! Then a request that is not persistent vanishes, and a persistent one becomes inactive again
//! (MPI-5.0 §3.7.3, §3.9). The transitions are in `completion`.

use std::sync::Arc;

use collectives::{CollectiveId, Plan};
use fabric::Peer;
use objects::{Buffer, Status};
use pt2pt::{Envelope, Mode, Pattern, RequestId};

use crate::agreement::NewComm;
use crate::generalized::Generalized;
pub use crate::outcome::Outcome;
use crate::partitions::{PartitionedReceive, PartitionedSend};

/// An MPI request.
pub struct Request {
    /// The communicator it was made on, or the file or window that it accesses: the error handler
    /// of that is the one to call.
    pub comm: usize,
    /// Its state.
    pub state: State,
    /// How to start it again, for persistent ones.
    pub persistent: Option<Box<Persistent>>,
    /// The communicator that its completion installs (MPI_Comm_idup).
    pub then: Option<Box<NewComm>>,
}

/// The state of a request.
pub enum State {
    /// Persistent and not started.
    Inactive,
    /// A persistent send or receive in the engine. Buffered sends are done at once.
    Message(RequestId),
    /// A send and a receive with one handle (MPI_Isendrecv).
    Exchange(Box<Exchange>),
    /// Complete when the buffered sends of this owner have left.
    Flush(usize),
    /// A running collective.
    Collective(CollectiveId),
    /// A nonblocking access to a file.
    File(Arc<io::Pending>),
    /// An active end of a partitioned transfer; see [`Persistent`].
    Partitioned,
    /// An operation on a window (MPI_Rput and its like).
    Rma(RequestId),
    /// A generalized request (MPI-5.0 §13.2).
    Generalized(Box<Generalized>),
    /// Complete; the outcome waits to be taken.
    Done(Outcome),
}

/// The four modes of sending (MPI-5.0 §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// MPI_Send.
    Standard,
    /// MPI_Bsend: complete once it is copied to the attached buffer.
    Buffered,
    /// MPI_Ssend: complete once it is matched.
    Synchronous,
    /// MPI_Rsend: the receive must be posted.
    Ready,
}

impl SendMode {
    /// Returns the engine's mode; the engine sees a buffered send as a standard one.
    #[inline]
    pub(crate) fn engine_mode(self) -> Mode {
        match self {
            SendMode::Standard | SendMode::Buffered => Mode::Standard,
            SendMode::Synchronous => Mode::Synchronous,
            SendMode::Ready => Mode::Ready,
        }
    }
}

/// The two halves of MPI_Isendrecv. The status is that of the receive.
pub struct Exchange {
    /// The send; `None` when it is done, or went to MPI_PROC_NULL.
    pub send: Option<RequestId>,
    /// The receive; `None` when it is done.
    pub receive: Option<RequestId>,
    /// The outcome of the receive if there is one, otherwise of the send.
    pub outcome: Outcome,
    /// A copy of the outgoing data, if the incoming data replaces it.
    pub copy: Option<Box<[u8]>>,
}

/// What a persistent request starts.
pub enum Persistent {
    /// To MPI_PROC_NULL or from it: complete at once.
    Null(Status),
    /// A send.
    Send {
        /// The mode of the call that made it.
        mode: SendMode,
        /// The receiver.
        to: Peer,
        /// The envelope.
        envelope: Envelope,
        /// The data.
        buffer: Buffer,
    },
    /// A receive.
    Receive {
        /// What to match.
        pattern: Pattern,
        /// The memory to receive into.
        buffer: Buffer,
    },
    /// The sending end of a partitioned transfer.
    PartitionedSend(Box<PartitionedSend>),
    /// The receiving end of a partitioned transfer.
    PartitionedReceive(Box<PartitionedReceive>),
    /// A collective.
    Collective {
        /// What is done.
        plan: Plan,
        /// The number of its initialisation, which all its starts have.
        number: i32,
    },
}

/// A finished request: its outcome, or the callbacks that return it.
pub enum Finished {
    /// Known.
    Outcome(Outcome),
    /// `query` and `free` are to be called outside the lock.
    Generalized(Box<Generalized>),
}

impl Finished {
    /// Returns the outcome; calls the user's functions of a generalized request.
    pub fn into_outcome(self) -> Outcome {
        let calls = match self {
            Finished::Outcome(outcome) => return outcome,
            Finished::Generalized(calls) => calls,
        };
        let outcome = calls.query();
        let freed = calls.free().err();
        Outcome { status: outcome.status, error: outcome.error.or(freed) }
    }
}

impl Request {
    /// Returns a request that is complete from the start.
    pub fn done(comm: usize, status: Status) -> Request {
        Request {
            comm,
            state: State::Done(Outcome { status, error: None }),
            persistent: None,
            then: None,
        }
    }

    /// Returns an inactive persistent request.
    pub fn persistent(comm: usize, start: Persistent) -> Request {
        Request { comm, state: State::Inactive, persistent: Some(Box::new(start)), then: None }
    }

    /// Returns a request that completes when the buffered sends of `owner` have left.
    pub fn flush(comm: usize, owner: usize) -> Request {
        Request { comm, state: State::Flush(owner), persistent: None, then: None }
    }

    /// Returns the request of a running collective.
    pub fn collective(comm: usize, id: CollectiveId) -> Request {
        Request { comm, state: State::Collective(id), persistent: None, then: None }
    }

    /// Returns true for persistent requests that are not started.
    pub fn is_inactive(&self) -> bool {
        matches!(self.state, State::Inactive)
    }
}
