//! The engine's state of each peer.
//!
//! A peer without messages costs four bytes, in the table of all.

use std::collections::VecDeque;

use fabric::{Header, Peer, PeerFailed, Region, RequestId};

/// A frame that waits for space.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame {
    /// The envelope of a send.
    Envelope(RequestId),
    /// The Cts of a receive.
    ClearToSend(RequestId),
    /// The data of a send that the peer has requested without a receive, and its number there.
    Requested(RequestId, u64),
    /// A control frame: a header alone.
    Control(Header),
}

/// A half of a message that its sender is to write.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) send: RequestId,
    pub(crate) target: u64,
    /// Bytes of the whole message that are wanted.
    pub(crate) wanted: u64,
    pub(crate) offer: Region,
}

#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) peer: Peer,
    /// Is in [`crate::engine::Engine::ready_peers`]: has a queue or data to push.
    pub(crate) is_ready: bool,
    /// The last post found no space.
    pub(crate) blocked: bool,
    /// Credit for sending to it, bytes.
    pub(crate) credit: u64,
    /// Credit to return to it, bytes.
    pub(crate) owed: u64,
    /// Envelopes posted to it.
    pub(crate) sent: u64,
    /// Envelopes received from it.
    pub(crate) arrived: u64,
    /// Frames to post, in order.
    pub(crate) queue: VecDeque<Frame>,
    /// Sends whose data is being pushed, served in turn.
    pub(crate) pushing: VecDeque<RequestId>,
    /// It has failed. Then `credit` is 0 and nothing is queued.
    pub(crate) failure: Option<PeerFailed>,
}

/// All of them; a slot is an index that never changes.
#[derive(Debug)]
pub(crate) struct Peers {
    /// By rank: slot + 1, or 0.
    slots: Vec<u32>,
    states: Vec<PeerState>,
    budget: u64,
}

impl Peers {
    /// `budget`: eager bytes that each peer may have unmatched at another.
    pub(crate) const fn new(budget: u64) -> Peers {
        Peers { slots: Vec::new(), states: Vec::new(), budget }
    }

    /// The slot of a peer, which is made on first use.
    #[inline]
    pub(crate) fn slot(&mut self, peer: Peer) -> usize {
        match self.slots.get(peer.0 as usize) {
            Some(&slot) if slot != 0 => slot as usize - 1,
            _ => self.meet(peer),
        }
    }

    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut PeerState {
        &mut self.states[slot]
    }

    #[inline]
    pub(crate) fn of(&mut self, peer: Peer) -> &mut PeerState {
        let slot = self.slot(peer);
        &mut self.states[slot]
    }

    /// Eager bytes that each peer may have unmatched at another.
    #[inline]
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.states.iter()
    }

    #[cold]
    fn meet(&mut self, peer: Peer) -> usize {
        let rank = peer.0 as usize;
        if self.slots.len() <= rank {
            self.slots.resize(rank + 1, 0);
        }
        self.states.push(PeerState {
            peer,
            is_ready: false,
            blocked: false,
            credit: self.budget,
            owed: 0,
            sent: 0,
            arrived: 0,
            queue: VecDeque::new(),
            pushing: VecDeque::new(),
            failure: None,
        });
        self.slots[rank] = self.states.len() as u32;
        self.states.len() - 1
    }
}
