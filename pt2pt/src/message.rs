//! The words of the engine's interface: sends, receives and their results.

use fabric::{Collective, CollectiveKind, Header, Kind, Peer};
use objects::SignatureWord;

use crate::fault::{CollectiveCall, Fault};
use crate::key::Key;

/// How a send completes (MPI-5.0 §3.4). A buffered send is a standard one from a
/// copy, which the caller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the data is out of the user's buffer.
    Standard,
    /// As `Standard`; the data is announced, however short it is, and not copied before the receive
    /// is posted. For a sender with so many long messages at once that their copies would not fit
    /// a cache.
    Announced,
    /// When the message is matched.
    Synchronous,
    /// As `Standard`; if the receive is not yet posted, that is reported.
    Ready,
}

/// The properties of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The context id on the wire: even for point-to-point, odd for collectives.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub source: u32,
    /// The tag, not negative; for a collective its sequence number, which is negative if it is a
    /// persistent one.
    pub tag: i32,
    /// The collective that the message belongs to.
    pub collective: Option<Collective>,
}

/// The arguments of a receive or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The context id on the wire.
    pub context: u64,
    /// The sender's rank in the communicator; `None` is MPI_ANY_SOURCE.
    pub source: Option<u32>,
    /// The tag; `None` is MPI_ANY_TAG.
    pub tag: Option<i32>,
    /// The collective that the message should belong to. Not part of matching: a
    /// message of another one ends the receive with [`Fault::Mismatched`].
    pub collective: Option<Collective>,
}

/// A message seen by a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sender's rank in the communicator.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its packed size.
    pub bytes: u64,
}

/// A message taken by a matched probe, for one [`crate::Engine::receive_taken`].
#[derive(Debug, PartialEq, Eq)]
pub struct MessageId(pub(crate) u32);

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The context id that the message travelled on.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// Bytes of packed data sent, or stored in the receive's buffer.
    pub bytes: u64,
    /// The operation was cancelled and had no effect.
    pub cancelled: bool,
    /// The kind of failure.
    pub fault: Option<Box<Fault>>,
}

/// A question about a collective, or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The context id on the wire.
    pub context: u64,
    /// The sender's number as the source of the collective's messages.
    pub source: u32,
    /// Which collective of the communicator it is.
    pub sequence: i32,
    /// The call of the sender.
    pub call: CollectiveCall,
    /// The sender has passed the collective, or it has failed there. Otherwise the sender waits.
    pub is_answer: bool,
    /// The sender waits in its collective segment: the number of its round, of which
    /// [`Notice::ROUND_BITS`] travel. In an answer: it has been there with another amount, which
    /// the call may not tell.
    pub round: Option<u64>,
}

impl Notice {
    /// Bits of the round that travel.
    pub const ROUND_BITS: u32 = u8::BITS - Header::ROUND_AT;
}

/// The event that an unfinished request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageWait {
    /// If true, its message is taken; otherwise it waits for a message.
    pub is_send: bool,
    /// The other process, as far as it is known.
    pub peer: Option<Peer>,
    /// The sender's rank in the communicator; `None` for any.
    pub source: Option<u32>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
    /// The context id on the wire.
    pub context: u64,
}

/// A request that its user has not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// It is a send.
    pub is_send: bool,
    /// The operation is over; the user has not taken its outcome.
    pub is_done: bool,
    /// The peer of a send, or the source that a receive names.
    pub rank: Option<u32>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
    /// The context id on the wire.
    pub context: u64,
}

/// A message for which no receive was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreceived {
    /// The source in its communicator.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// The number of bytes.
    pub bytes: u64,
    /// The context id on the wire.
    pub context: u64,
}

/// The part of an envelope that a receive looks at, for every protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) key: Key,
    /// Bytes of data.
    pub(crate) bytes: u64,
    pub(crate) part_of: PartOf,
}

/// The collective a message belongs to as the wire has it: number and root. In point-to-point
/// traffic the number is zero, and the root is the sender's [`SignatureWord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartOf {
    /// [`fabric::Header::collective`].
    pub(crate) collective: u16,
    pub(crate) root: u32,
}

impl PartOf {
    /// The signature that the sender of a point-to-point message gave.
    pub(crate) fn signature(self) -> SignatureWord {
        SignatureWord::from_wire(self.root)
    }

    /// Raw [`fabric::CollectiveKind`].
    pub(crate) fn kind(self) -> u8 {
        self.collective as u8
    }

    /// [`Collective::before`].
    pub(crate) fn before(self) -> u8 {
        (self.collective >> 8) as u8
    }

    /// The sender's call, also where it has failed; see [`Collective::given_up`]. Its kind is that
    /// of a failure if the call was refused before it started.
    pub(crate) fn call(self) -> CollectiveCall {
        let has_failed = self.kind() == CollectiveKind::GaveUp as u8 && self.before() != 0;
        let kind = if has_failed { self.before() } else { self.kind() };
        CollectiveCall { kind, root: self.root, bytes: None }
    }

    #[inline]
    pub(crate) fn new(collective: Option<Collective>) -> PartOf {
        match collective {
            None => PartOf { collective: 0, root: 0 },
            Some(Collective { kind, root, before }) => {
                PartOf { collective: u16::from(before) << 8 | kind as u16, root }
            }
        }
    }
}

impl Envelope {
    /// As long as no receive names a wildcard: see [`Key::is_exact`].
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key { context: self.context, source: self.source, tag: self.tag }
    }

    #[inline]
    pub(crate) fn head(&self, bytes: u64) -> Head {
        Head { key: self.key(), bytes, part_of: PartOf::new(self.collective) }
    }

    /// The head of a message whose signature travels with it.
    #[inline]
    pub(crate) fn signed_head(&self, bytes: u64, signature: SignatureWord) -> Head {
        let mut head = self.head(bytes);
        if self.collective.is_none() {
            head.part_of.root = signature.to_wire();
        }
        head
    }
}

impl Pattern {
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key {
            context: self.context,
            source: self.source.unwrap_or(Key::ANY_SOURCE),
            tag: self.tag.unwrap_or(Key::ANY_TAG),
        }
    }
}

impl Head {
    /// The contents of an arrived envelope. `bytes` is left to the frame's kind.
    #[inline]
    pub(crate) fn of(header: &Header, bytes: u64) -> Head {
        Head {
            key: Key { context: header.context, source: header.source, tag: header.tag },
            bytes,
            part_of: PartOf { collective: header.collective, root: header.root },
        }
    }

    /// The header of the envelope frame.
    #[inline]
    pub(crate) fn header(&self, kind: Kind, mode: Mode) -> Header {
        Header {
            kind,
            flags: if mode == Mode::Ready { Header::READY } else { 0 },
            collective: self.part_of.collective,
            source: self.key.source,
            tag: self.key.tag,
            root: self.part_of.root,
            context: self.key.context,
            length: self.bytes,
        }
    }
}

impl From<PartOf> for CollectiveCall {
    fn from(part_of: PartOf) -> CollectiveCall {
        CollectiveCall { kind: part_of.kind(), root: part_of.root, bytes: None }
    }
}
