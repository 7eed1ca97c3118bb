//! The encoding of request handles.
//!
//! ```text
//! 63  60 59        36 35             0
//! [  5  ][ see `objects::handle`      ]   an object in the table of requests
//! [ 12  ][ id of the engine's request ]   a message that is under way
//! [ 13  ][ peer      ][ sequence      ]   a send that was complete when it was made
//! ```
//!
//! Most requests of most programs are of the last two kinds and need no object here. A completed
//! send keeps its receiver and its sequence number, so that MPI_Cancel can recall the message. The
//! handle stays, since there may be copies of it: a map leads from it to the recall.
//!
//! As an `int` an object is its index + 0x1000, a message 2^30 + the engine's slot, and every
//! completed send 2^29: from its `int` it cannot be cancelled.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabric::Peer;
use objects::{HandleKind, Result};
use pt2pt::RequestId;

use crate::fault;
use crate::lock::with;
use crate::outcome::Outcome;
use crate::process::{Process, predefined as pre};
use crate::request::Finished;
use crate::wait_target::WaitTarget;

/// The meaning of a request handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// MPI_REQUEST_NULL.
    Null,
    /// A send that is complete.
    Sent,
    /// A message in the engine.
    Message(RequestId),
    /// An object of the table, or an invalid handle.
    Object,
}

const KIND_SHIFT: u32 = 60;
const PEER_SHIFT: u32 = 36;
/// In place of a peer: the message cannot be recalled.
const NO_PEER: u64 = (1 << (KIND_SHIFT - PEER_SHIFT)) - 1;
const MESSAGE_INT: i32 = 1 << 30;
const SENT_INT: i32 = 1 << 29;

/// Whether this process has recalled a message. Relaxed: a program that passes a request to another
/// thread orders the calls on it.
static HAS_RECALLED: AtomicBool = AtomicBool::new(false);

impl Decoded {
    /// Decodes a handle; does not check whether the request exists.
    #[inline]
    pub(crate) fn decode(handle: usize) -> Decoded {
        if handle == pre::REQUEST_NULL {
            return Decoded::Null;
        }
        match HandleKind::of(handle as u64) {
            Some(HandleKind::Transfer) => {
                Decoded::Message(RequestId::from_bits(handle as u64 & ((1 << KIND_SHIFT) - 1)))
            }
            Some(HandleKind::Sent) => Decoded::Sent,
            _ => Decoded::Object,
        }
    }
}

/// Returns true for a completed send, if this process has never recalled a message. Needs no lock.
#[inline]
pub(crate) fn is_sent_for_good(handle: usize) -> bool {
    Decoded::decode(handle) == Decoded::Sent && !HAS_RECALLED.load(Relaxed)
}

/// Returns the handle of a message in the engine.
#[inline]
pub(crate) fn message(id: RequestId) -> usize {
    ((HandleKind::Transfer as u64) << KIND_SHIFT | id.to_bits()) as usize
}

/// Returns the handle of a completed send: message `sequence` to `to`.
#[inline]
pub(crate) fn sent(to: Peer, sequence: u64) -> usize {
    let peer = u64::from(to.0).min(NO_PEER);
    ((HandleKind::Sent as u64) << KIND_SHIFT
        | peer << PEER_SHIFT
        | sequence & ((1 << PEER_SHIFT) - 1)) as usize
}

/// Returns the handle of a completed send that cannot be cancelled.
#[inline]
pub(crate) fn sent_uncancellable() -> usize {
    sent(Peer(u32::MAX), 0)
}

/// Returns a request handle as an `int`. Needs no lock.
#[inline]
pub fn request_to_int(handle: usize) -> i32 {
    match Decoded::decode(handle) {
        Decoded::Sent => SENT_INT,
        Decoded::Message(id) => MESSAGE_INT | id.to_bits() as i32,
        Decoded::Null => handle as i32,
        Decoded::Object if handle < pre::END => handle as i32,
        Decoded::Object => objects::handle::to_int(handle as u64),
    }
}

/// Returns the request handle of an `int`; `None` if it names none. A completed send, as most
/// requests of short messages are, needs no lock.
#[inline]
pub fn request_from_int(int: i32) -> Option<usize> {
    if int == SENT_INT {
        return Some(sent_uncancellable());
    }
    with(|p| p.request_from_int(int))
}

impl Process {
    /// Recalls the message of a completed send, whose request is active again until the receiver
    /// has answered.
    pub(crate) fn recall(&mut self, handle: usize) -> Result<()> {
        let (peer, sequence) = (handle as u64 >> PEER_SHIFT & NO_PEER, handle as u64);
        if peer != NO_PEER {
            HAS_RECALLED.store(true, Relaxed);
            let id = self.core()?.stack.recall_sent(Peer(peer as u32), sequence, PEER_SHIFT);
            self.recalls.insert(handle, id);
        }
        Ok(())
    }

    /// Decodes a handle; a completed send that was recalled is the message of its recall.
    #[inline]
    pub(crate) fn decode(&self, handle: usize) -> Decoded {
        match Decoded::decode(handle) {
            Decoded::Sent if !self.recalls.is_empty() => self.decode_recalled(handle),
            decoded => decoded,
        }
    }

    #[cold]
    fn decode_recalled(&self, handle: usize) -> Decoded {
        self.recalls.get(&handle).copied().map_or(Decoded::Sent, Decoded::Message)
    }

    /// Takes the outcome of a completed send, as [`Process::take`]; `None` while it is being
    /// recalled.
    #[cold]
    pub(crate) fn take_sent(&mut self, handle: &mut usize) -> Result<Option<Finished>> {
        let outcome = match self.recalls.get(handle).copied() {
            None => Outcome::empty(),
            Some(id) => match self.core()?.stack.pt2pt().finish(id) {
                Some(completion) => fault::outcome(self, completion),
                None => {
                    self.wait_target = WaitTarget::Request(*handle);
                    return Ok(None);
                }
            },
        };
        self.recalls.remove(handle);
        *handle = pre::REQUEST_NULL;
        Ok(Some(Finished::Outcome(outcome)))
    }

    /// Returns the request handle of an `int`, which is not that of a completed send; `None` if it
    /// names none.
    fn request_from_int(&self, int: i32) -> Option<usize> {
        match int {
            MESSAGE_INT.. => self
                .core
                .as_ref()?
                .stack
                .protocols
                .pt2pt
                .request_at((int - MESSAGE_INT) as u32)
                .map(message),
            _ if (0..pre::END as i32).contains(&int) => Some(int as usize),
            _ => self.requests.from_int(int).map(|handle| handle as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_decoded_to_what_they_encode() {
        let id = RequestId::from_bits((1 << 60) - 7);
        assert_eq!(Decoded::decode(message(id)), Decoded::Message(id));
        assert_eq!(Decoded::decode(sent(Peer(5), 1 << 40)), Decoded::Sent);
        assert_eq!(sent(Peer(u32::MAX), 0), sent_uncancellable());
        assert_eq!(sent(Peer(3), 9) as u64 >> PEER_SHIFT & NO_PEER, 3);
        assert_eq!(Decoded::decode(pre::REQUEST_NULL), Decoded::Null);
        assert_eq!(Decoded::decode(0), Decoded::Object);
    }
}
