//! The receiving half of all pairs: the inbound rings and which of them each poll looks at.
//!
//! Up to [`ALWAYS_POLLED`] rings are all active: every poll looks at them. With more, rings that
//! had a frame recently are active; of the idle others each poll looks at [`IDLE_POLLED`], in turn.
//! A frame makes an idle ring active. Cost therefore follows the ranks that communicate. Before a
//! wait, all rings are looked at.

use std::time::Instant;

use fabric::{Peer, UserBuf, valgrind};

use crate::bounce::RemotePool;
use crate::control::{Control, Probe};
use crate::copy_cost::{CopyCost, RecentCosts};
use crate::copy_tuner::{Copies, CopyTuner, Large, Timing};
use crate::event_count::EventCount;
use crate::ring::{Consumer, TransferLock};
use crate::single_copy::Access;

/// Rings that are always active.
const ALWAYS_POLLED: usize = 8;
/// Idle rings that one poll looks at.
const IDLE_POLLED: usize = 4;
/// Polls without a frame after which a ring becomes idle, and between two searches for such rings.
const IDLE_POLLS: u32 = 256;

/// All inbound rings, the active ones first.
#[derive(Debug, Default)]
pub(crate) struct InboundRings {
    pub all: Vec<Inbound>,
    /// How many are active.
    pub active: usize,
    /// The idle ring that was looked at last.
    cursor: usize,
    /// Polls, counted while there are more rings than `ALWAYS_POLLED`.
    pub polls: u32,
    /// Polls of a ring that found frames; wraps.
    pub receipts: u32,
}

/// The ring from a peer.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub consumer: Consumer,
    pub peer: Peer,
    /// The poll that last found a frame.
    pub last_frame: u32,
    /// Frames to take in the next poll: 1 after a pause, doubled while frames keep coming. Looking
    /// for a second frame touches a line that the producer owns, which would delay the first.
    pub burst: u8,
    /// The peer's.
    pub event_count: &'static EventCount,
    /// The peer's local rank.
    pub local: u32,
    /// The peer's range of external bodies, once it has sent one.
    pub pool: Option<RemotePool>,
    /// `ShmTransport::large_posts`, less those for which no body has come from the peer.
    pub large_posts: u32,
    /// The peer's.
    probe: &'static Probe,
    /// Whether the peer's memory can be read, once there was a large body.
    is_readable: Option<bool>,
    /// How large bodies are copied, once there was one and the peer's memory can be read.
    pub tuner: Option<Box<CopyTuner>>,
    /// Announced messages whose time is taken.
    pub timings: Vec<Timing>,
    /// What has come of announced messages.
    pub large: Large,
    /// The number of the last offer of memory that the peer may write.
    offer: u64,
    /// The memory of the open offer.
    offered: Option<UserBuf>,
}

impl Inbound {
    /// Opens an offer, and returns its number; `None` while another one is open.
    pub(crate) fn open_offer(&mut self, memory: UserBuf) -> Option<u64> {
        if self.offered.is_some() {
            return None;
        }
        self.offered = Some(memory);
        self.offer = self.offer % u64::from(u32::MAX) + 1;
        self.consumer.offer(self.offer);
        Some(self.offer)
    }

    /// Returns whether an offer is open.
    pub(crate) fn has_offer(&self) -> bool {
        self.offered.is_some()
    }

    /// Takes the open offer back; false if the peer has taken it.
    pub(crate) fn withdraw_offer(&mut self) -> bool {
        let is_withdrawn = self.consumer.withdraw(self.offer);
        if let Some(memory) = self.offered.filter(|_| !is_withdrawn) {
            valgrind::mark_defined(memory.as_ptr(), memory.len());
            self.count_large(memory.len());
        }
        is_withdrawn
    }

    /// Closes the open offer.
    pub(crate) fn close_offer(&mut self) {
        self.offered = None;
    }

    /// Counts bytes of announced messages that have come, or are sure to.
    pub(crate) fn count_large(&mut self, bytes: usize) {
        self.large.bytes += bytes as u64;
    }

    /// Begins to take the time of an announced message, if there are few others.
    pub(crate) fn begin_message(
        &mut self,
        (addr, class): (u64, usize),
        copies: Copies,
        is_exchange: bool,
    ) {
        if self.timings.len() < RecentCosts::COUNT {
            let (begun, before) = (Instant::now(), self.large);
            self.timings.push(Timing { addr, class, copies, begun, before, is_exchange });
        }
    }

    /// Records the time of the message from that address, if it was taken.
    pub(crate) fn end_message(&mut self, addr: u64) {
        if let Some(at) = self.timings.iter().position(|timing| timing.addr == addr) {
            let timing = self.timings.swap_remove(at);
            self.record_copies(timing.class, timing.copies, timing.cost(self.large));
        }
    }

    /// Records the cost of a body; tells the peer which classes should be announced now.
    pub(crate) fn record_copies(&mut self, class: usize, copies: Copies, cost: CopyCost) {
        let probe = self.probe;
        if !*self.is_readable.get_or_insert_with(|| Access::probe(probe).is_open()) {
            return;
        }
        let tuner = self.tuner.get_or_insert_default();
        let before = tuner.wanted();
        tuner.record(class, copies, cost);
        let wanted = tuner.wanted();
        if wanted != before {
            self.consumer.want_classes(wanted);
        }
    }

    /// The peer's memory can no longer be read: the peer announces only what it would anyway.
    pub(crate) fn end_gets(&mut self) {
        (self.is_readable, self.tuner) = (Some(false), None);
        self.consumer.want_classes(0);
    }
}

impl InboundRings {
    pub(crate) fn add(
        &mut self,
        peer: Peer,
        local: u32,
        control: &'static Control,
        consumer: Consumer,
    ) {
        let last_frame = self.polls;
        self.all.push(Inbound {
            consumer,
            peer,
            last_frame,
            burst: 1,
            event_count: &control.event_count,
            local,
            pool: None,
            large_posts: 0,
            probe: &control.probe,
            is_readable: None,
            tuner: None,
            timings: Vec::new(),
            large: Large::default(),
            offer: 0,
            offered: None,
        });
        self.activate(self.all.len() - 1);
    }

    /// Counts a poll and, with many rings, chooses the active ones.
    #[inline]
    pub(crate) fn begin_poll(&mut self) {
        if self.all.len() > ALWAYS_POLLED {
            self.balance();
        }
    }

    /// Removes the ring at this index. Those that were active stay so; the others become it if so
    /// few are left that all are.
    #[cold]
    pub(crate) fn remove(&mut self, mut at: usize) -> Inbound {
        if at < self.active {
            self.active -= 1;
            self.all.swap(at, self.active);
            at = self.active;
        }
        let removed = self.all.swap_remove(at);
        if self.all.len() <= ALWAYS_POLLED {
            self.active = self.all.len();
        }
        removed
    }

    /// Removes the ring from a local rank.
    pub(crate) fn remove_from(&mut self, local: u32) -> Option<Inbound> {
        let at = self.all.iter().position(|inbound| inbound.local == local)?;
        Some(self.remove(at))
    }

    /// Takes the right to read what a local rank has not posted yet; `None` while that rank holds
    /// it or a frame of its waits.
    pub(crate) fn lock_transfers(&self, local: u32) -> Option<TransferLock> {
        self.ring_from(local)?.consumer.lock_transfers()
    }

    /// Returns whether a frame from that local rank waits. Looking costs a line that the rank will
    /// want back.
    pub(crate) fn has_unread_from(&self, local: u32) -> bool {
        self.ring_from(local).is_some_and(|inbound| inbound.consumer.is_ready())
    }

    /// Returns whether a frame waits in any ring.
    pub(crate) fn is_any_ready(&self) -> bool {
        self.all.iter().any(|inbound| inbound.consumer.is_ready())
    }

    /// Returns the ring from a local rank.
    pub(crate) fn ring_from_mut(&mut self, local: u32) -> Option<&mut Inbound> {
        self.all.iter_mut().find(|inbound| inbound.local == local)
    }

    fn ring_from(&self, local: u32) -> Option<&Inbound> {
        self.all.iter().find(|inbound| inbound.local == local)
    }

    fn activate(&mut self, at: usize) {
        self.all.swap(at, self.active);
        self.active += 1;
    }

    /// Looks at some idle rings and, now and then, for rings that have become idle.
    #[cold]
    fn balance(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        for _ in 0..IDLE_POLLED.min(self.all.len() - self.active) {
            self.cursor =
                if self.cursor + 1 < self.all.len() { self.cursor + 1 } else { self.active };
            self.cursor = self.cursor.max(self.active);
            if self.all[self.cursor].consumer.is_ready() {
                self.all[self.cursor].last_frame = self.polls;
                self.activate(self.cursor);
            }
        }
        if self.polls.is_multiple_of(IDLE_POLLS) {
            for at in (0..self.active).rev() {
                if self.polls.wrapping_sub(self.all[at].last_frame) >= IDLE_POLLS {
                    self.active -= 1;
                    self.all.swap(at, self.active);
                }
            }
        }
    }
}
