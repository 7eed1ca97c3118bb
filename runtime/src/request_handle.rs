//! The encoding of request handles.
//!
//! ```text
//! 63  60 59        36 35             0
//! [  5  ][ as `objects::handle` draws ]   an object in the table of requests
//! [ 12  ][ id of the engine's request ]   a message that is under way
//! [ 13  ][ peer      ][ sequence      ]   a send that was complete when it was made
//! ```
//!
//! Most requests of most programs are of the last two kinds and cost no object
//! beside the engine's. A completed send keeps where its message went and its
//! number among those, so that MPI_Cancel can ask for it back.
//!
//! As an `int` an object is its index + 0x1000, a message 2^30 + the engine's slot,
//! and every completed send 2^29: that one can't be cancelled any more.

use fabric::Peer;
use objects::{HandleKind, Result};
use pt2pt::RequestId;

use crate::process::{Process, predefined as pre};

/// What a request handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// MPI_REQUEST_NULL.
    Null,
    /// A send that is complete.
    Sent,
    /// A message in the engine.
    Message(RequestId),
    /// Something else: an object of the table, or nothing at all.
    Object,
}

const KIND: u32 = 60;
const SEQUENCE: u32 = 36;
/// In place of a peer: nothing to be asked back.
const NOBODY: u64 = (1 << (KIND - SEQUENCE)) - 1;
const MESSAGES: i32 = 1 << 30;
const SENT: i32 = 1 << 29;

impl Decoded {
    #[inline]
    pub(crate) fn decode(handle: usize) -> Decoded {
        if handle == pre::REQUEST_NULL {
            return Decoded::Null;
        }
        match HandleKind::of(handle as u64) {
            Some(HandleKind::Transfer) => {
                Decoded::Message(RequestId::from_bits(handle as u64 & ((1 << KIND) - 1)))
            }
            Some(HandleKind::Sent) => Decoded::Sent,
            _ => Decoded::Object,
        }
    }
}

/// The handle of a message in the engine.
#[inline]
pub(crate) fn message(id: RequestId) -> usize {
    ((HandleKind::Transfer as u64) << KIND | id.to_bits()) as usize
}

/// The handle of a send that is complete, and was that peer's message `sequence`.
#[inline]
pub(crate) fn sent(to: Peer, sequence: u64) -> usize {
    let peer = u64::from(to.0).min(NOBODY);
    ((HandleKind::Sent as u64) << KIND | peer << SEQUENCE | sequence & ((1 << SEQUENCE) - 1))
        as usize
}

/// The handle of a send that is complete and can't be asked back.
#[inline]
pub(crate) fn sent_uncancellable() -> usize {
    sent(Peer(u32::MAX), 0)
}

impl Process {
    /// Asks for a completed send back: the handle then names the question.
    pub(crate) fn recall(&mut self, handle: &mut usize) -> Result<()> {
        let (peer, sequence) = (*handle as u64 >> SEQUENCE & NOBODY, *handle as u64);
        if peer != NOBODY {
            *handle =
                message(self.core()?.stack.recall_sent(Peer(peer as u32), sequence, SEQUENCE));
        }
        Ok(())
    }

    /// A request handle as an `int`.
    pub fn request_to_int(&self, handle: usize) -> i32 {
        match Decoded::decode(handle) {
            Decoded::Sent => SENT,
            Decoded::Message(id) => MESSAGES | id.to_bits() as i32,
            Decoded::Null => handle as i32,
            Decoded::Object if handle < pre::END => handle as i32,
            Decoded::Object => self.requests.to_int(handle as u64),
        }
    }

    /// The request handle of an `int`; `None` when it names none.
    pub fn request_from_int(&self, int: i32) -> Option<usize> {
        match int {
            SENT => Some(sent_uncancellable()),
            MESSAGES.. => self
                .core
                .as_ref()?
                .stack
                .protocols
                .pt2pt
                .request_at((int - MESSAGES) as u32)
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
    fn a_handle_says_what_it_was_made_of() {
        let id = RequestId::from_bits((1 << 60) - 7);
        assert_eq!(Decoded::decode(message(id)), Decoded::Message(id));
        assert_eq!(Decoded::decode(sent(Peer(5), 1 << 40)), Decoded::Sent);
        assert_eq!(sent(Peer(u32::MAX), 0), sent_uncancellable());
        assert_eq!(sent(Peer(3), 9) as u64 >> SEQUENCE & NOBODY, 3);
        assert_eq!(Decoded::decode(pre::REQUEST_NULL), Decoded::Null);
        assert_eq!(Decoded::decode(0), Decoded::Object);
    }
}
