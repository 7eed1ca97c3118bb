//! What is known of a peer that was talked to: its queue pair, the numbers of both
//! directions, and what is under way.
//!
//! Invariants: `retained` holds the frames `acked .. next`, in order, and of its first message perhaps some before; `used` requests are
//! in the send queue and `signaled` has one entry for each that will complete by itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use fabric::{OneSided, Peer};

use crate::eager_rdma::wire::{Inbound, Outbound};
use crate::handshake::{Handshake, Phase};
use crate::ibv::{Ah, Mr, Qp};
use crate::memory::Exposed;
use crate::wireup_msg::Address;

/// Requests that the send queue has room for beside frames: notes, gates, one-sided ones, and
/// those that wait for a signaled one behind them.
pub(crate) const EXTRA: u32 = 11 + AT_ONCE as u32 + SIGNAL_EVERY;
/// Every so many requests one completes by itself.
pub(crate) const SIGNAL_EVERY: u32 = 16;
/// One-sided requests under way to one peer.
pub(crate) const AT_ONCE: usize = 16;
/// Receives for each peer beside those for its frames: notes.
pub(crate) const SPARE: u32 = 7;

/// A message of a frame or several that was sent, and is not consumed to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacked {
    pub(crate) slot: u32,
    pub(crate) bytes: u32,
    /// Number of its first frame, and how many it has.
    pub(crate) first: u32,
    pub(crate) frames: u32,
}

/// A request that completes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    /// Requests that are over with it.
    pub(crate) requests: u32,
    /// Bytes of a piece of one-sided work, 0 for anything else.
    pub(crate) piece: u32,
    /// The slot of a note, which is free then.
    pub(crate) slot: Option<u32>,
}

/// A one-sided transfer.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) token: u64,
    /// Of the peer's memory.
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    pub(crate) what: OneSided,
    /// Of ours.
    pub(crate) mr: Arc<Mr>,
    /// Bytes that were asked for on this connection or are finished.
    pub(crate) asked: usize,
    /// Bytes that are where they belong.
    pub(crate) finished: usize,
    /// Of these, those of the piece that this connection has completed last: in doubt until the next one or the end.
    pub(crate) doubted: usize,
}

/// A peer that was talked to.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) peer: Peer,
    pub(crate) shake: Handshake,
    pub(crate) qp: Option<Qp>,
    /// Number of the next frame to it.
    pub(crate) next: u32,
    /// Frames to it that it has consumed.
    pub(crate) acked: u32,
    /// Frames to it that may be under way; 0 while not ready.
    pub(crate) window: u32,
    /// What it will be then.
    pub(crate) granted: u32,
    /// Frames from it that we have handed up; the number of the next one.
    pub(crate) consumed: u32,
    /// What of that we have told it.
    pub(crate) told: u32,
    pub(crate) retained: VecDeque<Unacked>,
    /// Requests in the send queue.
    pub(crate) used: u32,
    /// Of these, those behind the last signaled one.
    pub(crate) silent: u32,
    pub(crate) signaled: VecDeque<Signal>,
    pub(crate) works: VecDeque<Work>,
    /// One-sided requests under way.
    pub(crate) pieces: usize,
    /// Of these, those that are answered with data: reads and atomics.
    pub(crate) answers: usize,
    /// Most of them that the two devices manage at once.
    pub(crate) answers_at_once: usize,
    /// Where our packets' numbers begin.
    pub(crate) psn: u32,
    /// The poll in which it was last used.
    pub(crate) used_at: u64,
    pub(crate) door: Option<Address>,
    pub(crate) ah: Option<Ah>,
    /// When its queue pair was made.
    pub(crate) since: Instant,
    /// When to ring again, and the pause after that.
    pub(crate) ring_at: Instant,
    pub(crate) pause: u32,
    /// When a connection that had worked broke.
    pub(crate) broke_at: Option<Instant>,
    /// Breaks in a row without a frame consumed.
    pub(crate) breaks: u32,
    /// Nothing more need be said of calls that nobody answers: it has answered, or it was said.
    pub(crate) noticed: bool,
    /// Somebody waits for room.
    pub(crate) starved: bool,
    /// It was asked to tell what it has consumed.
    pub(crate) asked_for_credit: bool,
    /// It has asked us, or may not have heard.
    pub(crate) owes_credit: bool,
    /// Its ring for us: what we know of it; our gate; whether we have yet to say that we
    /// have stopped to write.
    pub(crate) out: Outbound,
    pub(crate) gate: Option<Exposed>,
    pub(crate) owes_stop: bool,
    /// Our ring for it, and its gate: address and key, or 0.
    pub(crate) inbound: Inbound,
    pub(crate) ring: Option<Exposed>,
    pub(crate) their_gate: (u64, u32),
    /// How often that was closed.
    pub(crate) closings: u32,
    /// Short frames from it in that period.
    pub(crate) lately: u32,
    pub(crate) period: u64,
    pub(crate) lost: Option<String>,
}

impl Endpoint {
    pub(crate) fn new(peer: Peer, now: Instant) -> Endpoint {
        Endpoint {
            peer,
            shake: Handshake::new(),
            qp: None,
            next: 0,
            acked: 0,
            window: 0,
            granted: 0,
            consumed: 0,
            told: 0,
            retained: VecDeque::new(),
            used: 0,
            silent: 0,
            signaled: VecDeque::new(),
            works: VecDeque::new(),
            pieces: 0,
            answers: 0,
            answers_at_once: 1,
            psn: 0,
            used_at: 0,
            door: None,
            ah: None,
            since: now,
            ring_at: now,
            pause: 0,
            broke_at: None,
            breaks: 0,
            noticed: false,
            starved: false,
            asked_for_credit: false,
            owes_credit: false,
            out: Outbound::default(),
            gate: None,
            owes_stop: false,
            inbound: Inbound::Absent,
            ring: None,
            their_gate: (0, 0),
            closings: 0,
            lately: 0,
            period: 0,
            lost: None,
        }
    }

    /// Room for one more frame.
    #[inline]
    pub(crate) fn has_room(&self, depth: u32) -> bool {
        self.next.wrapping_sub(self.acked) < self.window
            && self.used + EXTRA - SIGNAL_EVERY <= depth
    }

    /// The peer has consumed frames up to that number; `free` gets their slots. An error says what is wrong with that.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        consumed: u32,
        mut free: impl FnMut(u32),
    ) -> Result<(), &'static str> {
        let more = consumed.wrapping_sub(self.acked);
        if more == 0 {
            return Ok(());
        }
        if more > self.next.wrapping_sub(self.acked) {
            // Told again, by a message that was overtaken; or nonsense.
            return if (more as i32) < 0 {
                Ok(())
            } else {
                Err("it acknowledges what was never sent")
            };
        }
        let is_over = |held: &Unacked| {
            consumed.wrapping_sub(held.first.wrapping_add(held.frames)) as i32 >= 0
        };
        while let Some(held) = self.retained.front().filter(|held| is_over(held)) {
            free(held.slot);
            self.retained.pop_front();
        }
        (self.acked, self.asked_for_credit, self.breaks, self.broke_at) =
            (consumed, false, 0, None);
        Ok(())
    }

    /// True when something has to go to the peer.
    pub(crate) fn needs_connection(&self) -> bool {
        self.starved || self.owes_credit || !self.retained.is_empty() || !self.works.is_empty()
    }

    /// True while its handshake goes on.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.shake.phase, Phase::Calling | Phase::Confirming)
    }

    /// True when requests may be posted.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.shake.phase == Phase::Ready
    }

    /// Gives the queue pair up; what was under way on it starts over.
    pub(crate) fn disconnect(&mut self, mut free: impl FnMut(u32)) -> Option<Qp> {
        self.signaled.drain(..).filter_map(|signal| signal.slot).for_each(&mut free);
        (self.window, self.used, self.silent) = (0, 0, 0);
        (self.pieces, self.answers) = (0, 0);
        self.asked_for_credit = false;
        self.works.iter_mut().for_each(Work::start_over);
        self.qp.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(acked: u32, under_way: u32) -> Endpoint {
        let mut pair = Endpoint::new(Peer(1), Instant::now());
        (pair.acked, pair.next) = (acked, acked.wrapping_add(under_way));
        let held = |slot| Unacked { slot, bytes: 48, first: acked.wrapping_add(slot), frames: 1 };
        pair.retained = (0..under_way).map(held).collect();
        pair
    }

    #[test]
    fn consumed_frames_give_their_slots_back_in_order() {
        // Numbers pass the end of 32 bits.
        let mut pair = pair(u32::MAX - 1, 5);
        let mut freed = Vec::new();
        pair.acknowledge(1, |slot| freed.push(slot)).unwrap();
        assert_eq!(
            (freed.as_slice(), pair.acked, pair.retained.len()),
            ([0, 1, 2].as_slice(), 1, 2)
        );
        pair.acknowledge(u32::MAX, |_| panic!("freed twice")).unwrap();
        assert_eq!(pair.acked, 1);
        assert!(pair.acknowledge(4, |_| ()).is_err());
        pair.acknowledge(3, |_| ()).unwrap();
        assert!(pair.retained.is_empty());
    }

    #[test]
    fn a_message_of_several_frames_is_kept_until_the_last_is_consumed() {
        let mut pair = pair(u32::MAX, 1);
        pair.retained.push_back(Unacked { slot: 1, bytes: 200, first: 0, frames: 3 });
        pair.retained.push_back(Unacked { slot: 2, bytes: 48, first: 3, frames: 1 });
        pair.next = 4;
        let mut freed = Vec::new();
        pair.acknowledge(2, |slot| freed.push(slot)).unwrap();
        assert_eq!((freed.as_slice(), pair.acked), ([0].as_slice(), 2));
        assert!(pair.acknowledge(5, |_| ()).is_err());
        pair.acknowledge(3, |slot| freed.push(slot)).unwrap();
        assert_eq!(freed, [0, 1]);
        pair.acknowledge(4, |slot| freed.push(slot)).unwrap();
        assert_eq!((freed.as_slice(), pair.retained.len()), ([0, 1, 2].as_slice(), 0));
    }

    #[test]
    fn room_ends_with_the_window_and_with_the_queue() {
        let mut pair = pair(0, 3);
        let depth = 8 + EXTRA;
        assert!(!pair.has_room(depth));
        pair.window = 4;
        assert!(pair.has_room(depth));
        pair.used = depth;
        assert!(!pair.has_room(depth));
        pair.used = 0;
        pair.window = 3;
        assert!(!pair.has_room(depth));
    }
}
