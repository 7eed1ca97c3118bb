//! Faults of one operation, with texts for the user. The runtime adds the communicator's name.

use std::fmt;

use fabric::{Collective, CollectiveKind, PeerFailed};
use objects::{Op, SignatureWord};

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
    /// The type signatures of message and receive differ. The data was stored all the same.
    Signature {
        /// The sender's rank in the communicator.
        source: u32,
        /// The tag.
        tag: i32,
        /// The context id on the wire.
        context: u64,
        /// What was sent, and what the receive is for.
        types: Box<Types>,
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
    /// The sender is in the same collective as the receiver, but with another amount of data.
    Sizes {
        /// The call of the receiver.
        call: CollectiveCall,
        /// The sender's rank in the communicator.
        source: u32,
        /// Which collective of the communicator it is.
        sequence: i32,
        /// The context id on the wire.
        context: u64,
        /// Bytes that the sender gave, if that is known.
        sent: Option<u64>,
        /// Bytes that were expected of it.
        expected: u64,
    },
    /// A collective before this one was another one at a member. This one has done its work.
    Earlier {
        /// The call of this rank then, if it is still known.
        ours: Option<CollectiveCall>,
        /// The call of the member then, if it is still known.
        theirs: Option<CollectiveCall>,
        /// The member's rank in the communicator.
        source: u32,
        /// Which collective of the communicator this one is.
        sequence: i32,
        /// The context id on the wire.
        context: u64,
    },
}

/// The two sides of a message whose type signatures differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// The signature of the message.
    pub theirs: SignatureWord,
    /// Bytes of the message.
    pub sent: u64,
    /// The signature of the receive's buffer.
    pub ours: SignatureWord,
    /// Bytes of the buffer.
    pub capacity: u64,
}

/// A collective call as the wire carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Raw [`CollectiveKind`], 0 for none.
    pub kind: u8,
    /// Root and reduction; see [`fabric::Collective::new`].
    pub root: u32,
    /// Bytes of data, as all ranks must give them, if they are known.
    pub bytes: Option<u64>,
}

impl CollectiveCall {
    /// The call of a rank that has given up.
    pub const GAVE_UP: CollectiveCall = CollectiveCall {
        kind: CollectiveKind::GaveUp as u8,
        root: Collective::NO_ROOT,
        bytes: None,
    };

    /// Returns true if the calls may belong together, as far as both are known.
    pub fn agrees(&self, other: &CollectiveCall) -> bool {
        let sizes = self.bytes.zip(other.bytes);
        self.kind == other.kind
            && self.root == other.root
            && sizes.is_none_or(|(one, other)| one == other)
    }

    /// Returns true for a collective of the library's own, whose root, reduction and bytes are
    /// none of the program's.
    fn is_inner(&self) -> bool {
        [CollectiveKind::CommCreate as u8, CollectiveKind::Internal as u8].contains(&self.kind)
    }
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
            None => f.write_str("another operation")?,
        }
        if self.is_inner() {
            return Ok(());
        }
        let (root, reduction) = Collective::split(self.root);
        if let Some(bytes) = self.bytes.filter(|_| self.kind != CollectiveKind::Barrier as u8) {
            write!(f, " of {bytes} bytes")?;
        }
        if let Some(root) = root {
            write!(f, " with root {root}")?;
        }
        match reduction {
            None => Ok(()),
            Some(handle) => {
                let name = Op::predefined(handle.into()).map_or("a function", |op| op.name());
                write!(f, " by {name}")
            }
        }
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

/// In the source of a collective's message: its rank is one of the remote group of an
/// intercommunicator, whose ranks share the communicator's context with those of the own group.
pub const REMOTE_SOURCE: u32 = 1 << 31;

/// Shows the source of a collective's message.
#[derive(Clone, Copy, Debug)]
pub struct SourceName(pub u32);

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & REMOTE_SOURCE {
            0 => write!(f, "rank {}", self.0),
            _ => write!(f, "rank {} of the remote group", self.0 & !REMOTE_SOURCE),
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
            Fault::Signature { source, tag, types, .. } => write!(
                f,
                "the message from rank {source} {} has {}, but the receive is for {}",
                TagName(*tag),
                types.theirs.describe(types.sent),
                types.ours.describe(types.capacity)
            ),
            Fault::PeerFailed(lost) => lost.fmt(f),
            Fault::Mismatched { ours, theirs, source, sequence, .. } => {
                let (number, source) = (SequenceName(*sequence), SourceName(*source));
                write!(f, "{number} is {ours} here, but {source} called {theirs}")?;
                if ours.is_inner() && ours.kind == theirs.kind {
                    f.write_str(" of another kind")?;
                }
                f.write_str(": all ranks must call the same collectives in the same order")
            }
            Fault::GaveUp { call, source, sequence, .. } => {
                write!(
                    f,
                    "{}, {call}, has failed at {}, which gave it up",
                    SequenceName(*sequence),
                    SourceName(*source)
                )
            }
            Fault::Sizes { call, source, sequence, sent, expected, .. } => {
                let (number, source) = (SequenceName(*sequence), SourceName(*source));
                write!(f, "{number}, {call}, is to get {expected} bytes from {source}, which ")?;
                match sent {
                    None => f.write_str("gave another amount")?,
                    Some(0) => f.write_str("called it without data")?,
                    Some(sent) => write!(f, "gave {sent}")?,
                }
                f.write_str(": all ranks must give the same amount")
            }
            Fault::Earlier { ours, theirs, source, sequence, .. } => {
                let (number, source) = (SequenceName(*sequence), SourceName(*source));
                write!(f, "before {number}, {source} ")?;
                match theirs {
                    Some(call) if call.kind == CollectiveKind::GaveUp as u8 => {
                        f.write_str("gave up a collective that had failed there")?;
                    }
                    Some(call) => write!(f, "called {call}")?,
                    None => f.write_str("called another collective")?,
                }
                if let Some(call) = ours {
                    write!(f, ", and this rank {call}")?;
                }
                f.write_str(": all ranks must call the same collectives in the same order")
            }
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn mismatch(theirs: CollectiveKind) -> String {
        let call =
            |kind, root, bytes| CollectiveCall { kind: kind as u8, root, bytes: Some(bytes) };
        let (source, sequence, context) = (1, 0, 0);
        let ours = call(CollectiveKind::CommCreate, Collective::NO_ROOT, 8);
        let theirs = call(theirs, 2, 12);
        Fault::Mismatched { ours, theirs, source, sequence, context }.to_string()
    }

    #[test]
    fn a_creation_is_described_without_what_it_exchanges() {
        let order = "all ranks must call the same collectives in the same order";
        assert_eq!(
            mismatch(CollectiveKind::Bcast),
            format!(
                "collective number 0 is communicator creation here, \
                 but rank 1 called MPI_Bcast of 12 bytes with root 2: {order}"
            )
        );
        assert_eq!(
            mismatch(CollectiveKind::CommCreate),
            format!(
                "collective number 0 is communicator creation here, \
                 but rank 1 called communicator creation of another kind: {order}"
            )
        );
    }
}
