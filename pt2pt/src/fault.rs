//! Faults of one operation, with texts for the user. The runtime adds the communicator's name.

use std::fmt;

use fabric::{CollectiveKind, PeerFailed};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The message was longer than the receive's buffer (MPI-5.0 §3.2.4). The
    /// buffer holds its beginning.
    Truncated {
        /// The sender's rank in the communicator.
        source: u32,
        /// The tag.
        tag: i32,
        /// The context id on the wire.
        context: u64,
        /// Bytes of the message.
        sent: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// The other process is gone.
    PeerFailed(PeerFailed),
    /// The sender is in another collective than the receiver. Nothing was stored.
    Mismatched {
        /// The call of the receiver.
        ours: CollectiveCall,
        /// The call of the sender.
        theirs: CollectiveCall,
        /// The sender's rank in the communicator.
        source: u32,
        /// Which collective of the communicator it is.
        sequence: i32,
        /// The context id on the wire.
        context: u64,
    },
    /// The collective has failed at the sender, which can't go on with it.
    GaveUp {
        /// The call of the receiver.
        call: CollectiveCall,
        /// The sender's rank in the communicator.
        source: u32,
        /// Which collective of the communicator it is.
        sequence: i32,
        /// The context id on the wire.
        context: u64,
    },
    /// The sender is in the same collective as the receiver, but without data.
    Empty {
        /// The call of both.
        call: CollectiveCall,
        /// The sender's rank in the communicator.
        source: u32,
        /// Which collective of the communicator it is.
        sequence: i32,
        /// The context id on the wire.
        context: u64,
        /// Bytes that were expected of it.
        capacity: u64,
    },
}

/// A collective call as the wire carries it: operation and root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Raw [`CollectiveKind`], 0 for none.
    pub kind: u8,
    /// Root rank, `u32::MAX` for none.
    pub root: u32,
}

/// A ready send that found no posted receive; an error of the sending program
/// (MPI-5.0 §3.4). The message is received all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateReady {
    /// The sender's rank in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// The context id on the wire.
    pub context: u64,
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CollectiveKind::name(self.kind) {
            Some(name) => f.write_str(name)?,
            None => f.write_str("an unknown operation")?,
        }
        if self.root == u32::MAX { Ok(()) } else { write!(f, " with root {}", self.root) }
    }
}

/// Which message it is, by its tag.
#[derive(Clone, Copy, Debug)]
struct TagName(i32);

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            tag @ 0.. => write!(f, "with tag {tag}"),
            sequence => write!(f, "of {}", SequenceName(sequence)),
        }
    }
}

/// Shows the number of a collective. The numbers of persistent ones are negative.
#[derive(Clone, Copy, Debug)]
pub struct SequenceName(pub i32);

impl fmt::Display for SequenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number @ 0.. => write!(f, "collective number {number}"),
            number => write!(f, "persistent collective number {}", -1 - number),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Truncated { source, tag, sent, capacity, .. } => write!(
                f,
                "the message from rank {source} {} has {sent} bytes, \
                 but the receive has room for {capacity}",
                TagName(*tag)
            ),
            Fault::PeerFailed(lost) => lost.fmt(f),
            Fault::Mismatched { ours, theirs, source, sequence, .. } => write!(
                f,
                "{} is {ours} here, but rank {source} called {theirs}: \
                 all ranks must call the same collectives in the same order",
                SequenceName(*sequence)
            ),
            Fault::GaveUp { call, source, sequence, .. } => {
                write!(
                    f,
                    "{}, {call}, has failed at rank {source}, which gave it up",
                    SequenceName(*sequence)
                )
            }
            Fault::Empty { call, source, sequence, capacity, .. } => write!(
                f,
                "{}, {call}, is to get {capacity} bytes from rank {source}, which called it \
                 without data: all ranks must give the same amount",
                SequenceName(*sequence)
            ),
        }
    }
}

impl std::error::Error for Fault {}
