//! The frames of one-sided communication.
//!
//! | kind | source | tag | root | collective | context | length | body |
//! |---|---|---|---|---|---|---|---|
//! | RmaPut | origin | 0 | segments | 0 | window | 0 | segments, data |
//! | RmaGet | origin | 0 | segments | 0 | window | operation | offset (8), segments |
//! | RmaAccumulate | origin | type | segments | operation code | window | 0 | segments, data |
//! | RmaFetch | origin | type | segments | code | window | operation | offset, segments, data |
//! | RmaSwap | origin | type | 0 | 0 | window | operation | displacement, expected, new |
//! | RmaReply | 0 | 0 | refusal | 0 | operation | offset | data |
//! | RmaSync | sender | 0 | refusal | step | window | 0; of an offer, its number | region, if
//! described |
//! | RmaSync | sender | type | segments | 12, flags | window | call, fences | segments |
//!
//! `origin` and `sender` are ranks in the window, `window` is its id, `operation` the origin's
//! request id, `refusal` 0 or the reason (`target::Refusal`), `offset` the packed offset of the
//! piece in the operation. Numbers are little-endian, data is packed. A segment has 24 bytes
//! (`segment`). All bodies fit the smallest frame of any transport, 64 bytes, with one segment and
//! one element. A frame of an unknown window, of a rank that the sender is not, or with a body that
//! is none is dropped.

use fabric::{Header, Kind};

/// A step of synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Origin to target: requests a shared lock.
    LockShared = 1,
    /// Origin to target: requests an exclusive lock.
    LockExclusive = 2,
    /// Target to origin: the lock is granted.
    Granted = 3,
    /// Origin to target: returns the lock; answered by `Ack`.
    Unlock = 4,
    /// Origin to target: answered by `Ack` when all frames before it are done.
    Flush = 5,
    /// Target to origin.
    Ack = 6,
    /// Target to origin: MPI_Win_post.
    Post = 7,
    /// Origin to target: MPI_Win_complete.
    Complete = 8,
    /// Target to origin: a write or an accumulate was refused.
    Refused = 9,
    /// Origin to target: requests the description of its memory; answered by `Described`.
    Describe = 10,
    /// Target to origin: its memory for a device, or an empty body if there is none.
    Described = 11,
    /// Origin to target: an access that is about to begin (`check`).
    Announce = 12,
    /// Origin to target: its accesses that return data are over; answered by `Ack`.
    FlushLocal = 13,
    /// Origin to target: accesses in the origin's mailbox (`mailbox`).
    Offer = 14,
}

impl Step {
    /// Returns the step of a number on the wire.
    pub(crate) fn from_wire(byte: u8) -> Option<Step> {
        use Step::*;
        let all = [
            LockShared,
            LockExclusive,
            Granted,
            Unlock,
            Flush,
            Ack,
            Post,
            Complete,
            Refused,
            Describe,
            Described,
            Announce,
            FlushLocal,
            Offer,
        ];
        all.into_iter().find(|&step| step as u8 == byte)
    }

    /// Returns the frame of this step.
    pub(crate) fn header(self, window: u64, rank: u32) -> Header {
        Header {
            collective: self as u16,
            source: rank,
            context: window,
            ..Header::new(Kind::RmaSync)
        }
    }
}
