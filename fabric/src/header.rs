//! The wire header: 32 bytes, little-endian, in front of every frame.
//!
//! `docs/protocol.md` draws it. [`Header::decode`] is the only reader of header bytes that a peer
//! wrote: it never panics, and the kind that it returns is a known one. Other fields may hold
//! anything; protocols check them.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::request_id::ProtocolId;

/// The kind of a frame. The numbers are the wire's and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// An envelope with all of its data in the body.
    Eager = 1,
    /// As `Eager`, but the sender waits for `Done` (synchronous mode). The body is the sender's
    /// request (8 bytes) and the data.
    EagerSync = 2,
    /// An envelope without data ("request to send"). The body is an
    /// encoded [`crate::transport::Rts`].
    Rts = 3,
    /// "Clear to send", receiver to sender: push the data to the named request. With a body (an
    /// encoded [`crate::transport::Region`]) the sender may put the data there instead.
    Cts = 4,
    /// A piece of a rendezvous, pushed by the sender.
    Data = 5,
    /// The end of a message. Receiver to sender: a synchronous eager send was matched, or a
    /// rendezvous was pulled. Sender to receiver: all data was put into the receiver's memory.
    Done = 6,
    /// Sender to receiver: drop the envelope if it is not matched.
    Cancel = 7,
    /// The answer to `Cancel`.
    CancelReply = 8,
    /// Receiver to sender: that many bytes of eager budget are free again.
    Credit = 9,
    /// A member of a collective asks another one about its call, or answers
    /// ([`Header::ANSWER`]).
    Notice = 10,
    /// Two processes agree on verbs or TCP. It ends in the endpoint; the flags have the step.
    Route = 11,
    /// One-sided: write the data into the target's window.
    RmaPut = 16,
    /// One-sided: return data of the target's window.
    RmaGet = 17,
    /// One-sided: combine the data with the target's window.
    RmaAccumulate = 18,
    /// One-sided: combine the data with the target's window, and return what it held.
    RmaFetch = 19,
    /// One-sided: replace an element of the target's window if it has the expected value.
    RmaSwap = 20,
    /// One-sided, target to origin: data that the target's window held.
    RmaReply = 21,
    /// One-sided: synchronisation. The field `collective` names the step.
    RmaSync = 22,
}

/// The collective operation that a frame belongs to, for detecting ranks that call different
/// ones. MPI-5.0 chapter 6; the numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum CollectiveKind {
    Barrier = 1,
    Bcast = 2,
    Gather = 3,
    Gatherv = 4,
    Scatter = 5,
    Scatterv = 6,
    Allgather = 7,
    Allgatherv = 8,
    Alltoall = 9,
    Alltoallv = 10,
    Alltoallw = 11,
    Reduce = 12,
    Allreduce = 13,
    ReduceScatter = 14,
    ReduceScatterBlock = 15,
    Scan = 16,
    Exscan = 17,
    NeighborAllgather = 18,
    NeighborAllgatherv = 19,
    NeighborAlltoall = 20,
    NeighborAlltoallv = 21,
    NeighborAlltoallw = 22,
    /// Agreement on a new communicator's context id and members.
    CommCreate = 23,
    /// The library's own, as in Finalize.
    Internal = 24,
    /// The collective that the receiver is in has failed at the sender; see
    /// [`Collective::given_up`].
    GaveUp = 25,
}

/// The collective part of an envelope: its sequence number is the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The operation.
    pub kind: CollectiveKind,
    /// Root and reduction; see [`Collective::new`].
    pub root: u32,
    /// A digest of the sender's call before this one on the communicator: 0 for none, or
    /// [`Collective::FAILED`].
    pub before: u8,
}

impl Collective {
    /// The root of operations that have none; roots are below.
    pub const NO_ROOT: u32 = (1 << 24) - 1;

    /// The digest of a call that has failed.
    pub const FAILED: u8 = u8::MAX;

    /// A call: the operation, its root, and the handle of its predefined reduction.
    pub const fn new(kind: CollectiveKind, root: Option<u32>, reduction: Option<u8>) -> Collective {
        let root = match root {
            Some(root) if root < Collective::NO_ROOT => root,
            _ => Collective::NO_ROOT,
        };
        let reduction = match reduction {
            Some(handle) => handle as u32,
            None => 0,
        };
        Collective { kind, root: reduction << 24 | root, before: 0 }
    }

    /// The call of a rank where it has failed: the kind says so, `before` is the kind of the call.
    pub const fn given_up(self) -> Collective {
        Collective { kind: CollectiveKind::GaveUp, root: self.root, before: self.kind as u8 }
    }

    /// Returns root and handle of the reduction in the word that an envelope carries.
    pub const fn split(word: u32) -> (Option<u32>, Option<u8>) {
        let (root, reduction) = (word & Collective::NO_ROOT, (word >> 24) as u8);
        (
            if root == Collective::NO_ROOT { None } else { Some(root) },
            if reduction == 0 { None } else { Some(reduction) },
        )
    }
}

/// The decoded header. `docs/protocol.md` lists the fields of each kind, and the words of a control
/// frame in `context` and `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the frame.
    pub kind: Kind,
    /// See [`Header::READY`].
    pub flags: u8,
    /// Raw [`CollectiveKind`] in the low byte, 0 for point-to-point; [`Collective::before`] in the
    /// high byte.
    pub collective: u16,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// The tag (non-negative); for a collective its sequence number, for a persistent one -1 - the
    /// number of its initialisation.
    pub tag: i32,
    /// Root and reduction of a collective ([`Collective::new`]); for point-to-point the word of the
    /// type signature, or 0.
    pub root: u32,
    /// The context id; in control frames the request the frame is for.
    pub context: u64,
    /// Bytes of data in the whole message; in control frames see the docs.
    pub length: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Wire {
    kind: u8,
    flags: u8,
    collective: U16,
    source: U32,
    tag: I32,
    root: U32,
    context: U64,
    length: U64,
}

const _: () = assert!(size_of::<Wire>() == Header::SIZE);

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Fewer bytes than a header has.
    #[error("a frame of {0} bytes is too short: its header alone has 32")]
    Short(usize),
    /// A kind of a later version, or garbage.
    #[error("unknown frame kind {0}: must be 1 to 11 or 16 to 22")]
    Kind(u8),
}

impl Header {
    /// Size on the wire, bytes.
    pub const SIZE: usize = 32;
    /// Flag: a ready send, which must find its receive posted.
    pub const READY: u8 = 1;
    /// Flag of a [`Kind::Rts`]: its sender has spent credit, as for an eager message. The receiver
    /// may keep the data until there is a receive. Flag of a [`Kind::Done`]: it does. Flag of a
    /// [`Kind::Cts`] and of a [`Kind::Data`]: it will.
    pub const CREDITED: u8 = 2;
    /// Flag of a [`Kind::Cts`] and of a [`Kind::Data`]: both processes copy a half of the message.
    pub const COOPERATIVE: u8 = 4;
    /// Flag of a [`Kind::Notice`]: the sender has passed the collective, or it has failed there.
    pub const ANSWER: u8 = 2;
    /// Flag of a [`Kind::Notice`]: the sender waits in the collective segment, not for a message.
    pub const IN_SEGMENT: u8 = 4;
    /// Where the number of the sender's round of the segment stands in the flags of a
    /// [`Kind::Notice`]; higher bits of it are cut off.
    pub const ROUND_AT: u32 = 3;

    /// Makes a header of `kind` with all other fields zero.
    #[inline]
    pub const fn new(kind: Kind) -> Header {
        Header { kind, flags: 0, collective: 0, source: 0, tag: 0, root: 0, context: 0, length: 0 }
    }

    /// Returns the bytes on the wire.
    #[inline]
    pub fn encode(&self) -> [u8; Header::SIZE] {
        zerocopy::transmute!(Wire {
            kind: self.kind as u8,
            flags: self.flags,
            collective: self.collective.into(),
            source: self.source.into(),
            tag: self.tag.into(),
            root: self.root.into(),
            context: self.context.into(),
            length: self.length.into(),
        })
    }

    /// Splits a frame into its header and body.
    #[inline]
    pub fn decode(frame: &[u8]) -> Result<(Header, &[u8]), Malformed> {
        let Ok((wire, body)) = Wire::ref_from_prefix(frame) else {
            return Err(Malformed::Short(frame.len()));
        };
        let kind = Kind::from_wire(wire.kind).ok_or(Malformed::Kind(wire.kind))?;
        let header = Header {
            kind,
            flags: wire.flags,
            collective: wire.collective.get(),
            source: wire.source.get(),
            tag: wire.tag.get(),
            root: wire.root.get(),
            context: wire.context.get(),
            length: wire.length.get(),
        };
        Ok((header, body))
    }
}

impl Kind {
    /// Returns the protocol that frames of this kind belong to.
    #[inline]
    pub fn protocol(self) -> ProtocolId {
        match self {
            Kind::Eager
            | Kind::EagerSync
            | Kind::Rts
            | Kind::Cts
            | Kind::Data
            | Kind::Done
            | Kind::Cancel
            | Kind::CancelReply
            | Kind::Credit
            | Kind::Notice
            | Kind::Route => ProtocolId::Pt2pt,
            Kind::RmaPut
            | Kind::RmaGet
            | Kind::RmaAccumulate
            | Kind::RmaFetch
            | Kind::RmaSwap
            | Kind::RmaReply
            | Kind::RmaSync => ProtocolId::Rma,
        }
    }

    #[inline]
    fn from_wire(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Eager,
            2 => Kind::EagerSync,
            3 => Kind::Rts,
            4 => Kind::Cts,
            5 => Kind::Data,
            6 => Kind::Done,
            7 => Kind::Cancel,
            8 => Kind::CancelReply,
            9 => Kind::Credit,
            10 => Kind::Notice,
            11 => Kind::Route,
            16 => Kind::RmaPut,
            17 => Kind::RmaGet,
            18 => Kind::RmaAccumulate,
            19 => Kind::RmaFetch,
            20 => Kind::RmaSwap,
            21 => Kind::RmaReply,
            22 => Kind::RmaSync,
            _ => return None,
        })
    }
}

impl CollectiveKind {
    /// Returns the name as a user writes it; `None` for an unknown number.
    pub fn name(raw: u8) -> Option<&'static str> {
        const NAMES: [&str; 24] = [
            "MPI_Barrier",
            "MPI_Bcast",
            "MPI_Gather",
            "MPI_Gatherv",
            "MPI_Scatter",
            "MPI_Scatterv",
            "MPI_Allgather",
            "MPI_Allgatherv",
            "MPI_Alltoall",
            "MPI_Alltoallv",
            "MPI_Alltoallw",
            "MPI_Reduce",
            "MPI_Allreduce",
            "MPI_Reduce_scatter",
            "MPI_Reduce_scatter_block",
            "MPI_Scan",
            "MPI_Exscan",
            "MPI_Neighbor_allgather",
            "MPI_Neighbor_allgatherv",
            "MPI_Neighbor_alltoall",
            "MPI_Neighbor_alltoallv",
            "MPI_Neighbor_alltoallw",
            "communicator creation",
            "MPI_Finalize",
        ];
        NAMES.get(usize::from(raw).wrapping_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_wire() {
        let header = Header {
            kind: Kind::Rts,
            flags: Header::READY,
            collective: 7 << 8 | CollectiveKind::Bcast as u16,
            source: 7,
            tag: -5,
            root: 3,
            context: u64::MAX - 1,
            length: 1 << 40,
        };
        let mut frame = header.encode().to_vec();
        frame.extend_from_slice(b"body");
        assert_eq!(Header::decode(&frame), Ok((header, &b"body"[..])));
    }

    #[test]
    fn a_call_survives_the_wire() {
        for (root, reduction) in [(None, None), (Some(7), Some(0x21)), (None, Some(0x3f))] {
            let call = Collective::new(CollectiveKind::Reduce, root, reduction);
            assert_eq!(Collective::split(call.root), (root, reduction));
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        assert_eq!(Header::decode(&[1; 31]), Err(Malformed::Short(31)));
        assert_eq!(Header::decode(&[0; 32]), Err(Malformed::Kind(0)));
        assert_eq!(Header::decode(&[255; 64]), Err(Malformed::Kind(255)));
    }
}
