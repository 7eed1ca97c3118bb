//! The receiving half of the data path.
//!
//! Up to `ALWAYS_POLLED` inbound rings are looked at with each poll. With more of them the
//! cost follows the talkers: rings that had a frame lately are looked at with each
//! poll, of the quiet others `IDLE_POLLED` in turn; a frame on a quiet ring makes it
//! an active one. Falling asleep looks at all of them.

use std::sync::atomic::AtomicU32;

use fabric::{Body, Peer, PeerFailed, PipelinedBody, Sink, WaitOn, Watermark};

use crate::bounce::{BouncePool, Descriptor, RemotePool};
use crate::connect::ShmTransport;
use crate::event_count::EventCount;
use crate::recycle::{RecycledBlock, RecycledBlocks};
use crate::ring::{Commit, Consumer, Frame, TransferLock};
use crate::segment::Segment;

/// So many rings are always active.
const ALWAYS_POLLED: usize = 8;
/// Quiet rings looked at in one poll.
const IDLE_POLLED: usize = 4;
/// Polls without a frame after which a ring becomes quiet, and between two looks
/// for such rings.
const IDLE_POLLS: u32 = 256;
/// Bodies that answers come in are copied line by line below this length, bytes: what is longer comes in parts
/// that the C library's memcpy is faster for.
const MEMCPY_MIN: usize = 32 << 10;
/// Most frames taken from a ring in one poll.
const MAX_BURST: u8 = 16;

/// All inbound rings, the active ones in front.
#[derive(Debug, Default)]
pub(crate) struct InboundRings {
    all: Vec<Inbound>,
    active: usize,
    /// The quiet ring that was looked at last.
    cursor: usize,
    /// Counted while there are more than `ALWAYS_POLLED`.
    polls: u32,
    /// Polls that found frames.
    heard: u32,
}

/// What comes from a peer.
#[derive(Debug)]
struct Inbound {
    consumer: Consumer,
    peer: Peer,
    /// The poll that last found a frame.
    heard: u32,
    /// Frames to take in the next poll: 1 after a pause, so that the look for a
    /// second frame (a cache line that the producer owns) is not on the way of the
    /// first; doubled while frames keep coming.
    burst: u8,
    /// The peer's.
    event_count: &'static EventCount,
    /// Its local rank.
    local: u32,
    /// Its pool, once it has sent something large.
    pool: Option<RemotePool>,
}

impl InboundRings {
    pub(crate) fn add(
        &mut self,
        peer: Peer,
        local: u32,
        event_count: &'static EventCount,
        consumer: Consumer,
    ) {
        self.all.push(Inbound {
            consumer,
            peer,
            heard: self.polls,
            burst: 1,
            event_count,
            local,
            pool: None,
        });
        self.activate(self.all.len() - 1);
    }

    fn activate(&mut self, at: usize) {
        self.all.swap(at, self.active);
        self.active += 1;
    }

    /// Looks at some quiet rings, and now and then for rings that have become quiet.
    #[cold]
    fn balance(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        for _ in 0..IDLE_POLLED.min(self.all.len() - self.active) {
            self.cursor =
                if self.cursor + 1 < self.all.len() { self.cursor + 1 } else { self.active };
            self.cursor = self.cursor.max(self.active);
            if self.all[self.cursor].consumer.is_ready() {
                self.all[self.cursor].heard = self.polls;
                self.activate(self.cursor);
            }
        }
        if self.polls.is_multiple_of(IDLE_POLLS) {
            for at in (0..self.active).rev() {
                if self.polls.wrapping_sub(self.all[at].heard) >= IDLE_POLLS {
                    self.active -= 1;
                    self.all.swap(at, self.active);
                }
            }
        }
    }

    /// Out of the active ones.
    #[cold]
    fn remove(&mut self, at: usize) {
        self.active -= 1;
        self.all.swap(at, self.active);
        self.all.swap_remove(self.active);
    }

    fn ring_from(&self, local: u32) -> Option<&Inbound> {
        self.all.iter().find(|inbound| inbound.local == local)
    }

    /// The right to read what that local rank has not sent yet, if all that it has sent was taken.
    pub(crate) fn lock_transfers(&self, local: u32) -> Option<TransferLock> {
        self.ring_from(local)?.consumer.lock_transfers()
    }

    /// Whether that local rank has sent something that nobody has taken yet. To look costs a line that it will
    /// want back.
    pub(crate) fn has_unread_from(&self, local: u32) -> bool {
        self.ring_from(local).is_some_and(|inbound| inbound.consumer.is_ready())
    }

    /// How often frames were found; wraps.
    #[inline]
    pub(crate) fn heard(&self) -> u32 {
        self.heard
    }

    fn is_any_ready(&self) -> bool {
        self.all.iter().any(|inbound| inbound.consumer.is_ready())
    }
}

impl ShmTransport {
    /// Hands over what has arrived, up to `MAX_BURST` frames of each ring; true if there
    /// was anything.
    #[inline]
    pub(crate) fn poll_rings(&mut self, sink: &mut impl Sink) -> bool {
        if self.has_new_peers() {
            self.accept().into_iter().for_each(|lost| sink.peer_failed(lost));
        }
        if self.inbound.all.len() > ALWAYS_POLLED {
            self.inbound.balance();
        }
        let (mut moved, mut at) = (false, 0);
        while at < self.inbound.active {
            let inbound = &mut self.inbound.all[at];
            if !inbound.consumer.is_ready() {
                if self.expects_reply && inbound.burst == 1 {
                    inbound.consumer.prefetch_next();
                }
                inbound.burst = 1;
                // The sender may wait for room in its pool, and nothing else comes.
                if inbound.consumer.has_external() {
                    release(&mut inbound.consumer, inbound.event_count, self.has_membarrier);
                }
            } else {
                moved = true;
                self.expects_reply = false;
                inbound.heard = self.inbound.polls;
                self.inbound.heard = self.inbound.heard.wrapping_add(1);
                if let Err(lost) = inbound.take(
                    self.has_membarrier,
                    &mut BodySources {
                        segment: &self.segment,
                        recycled: &mut self.recycled,
                        own: &self.pool,
                    },
                    sink,
                ) {
                    self.inbound.remove(at);
                    sink.peer_failed(lost);
                    continue;
                }
            }
            at += 1;
        }
        moved
    }

    /// What to sleep on; `None` when there is something to do.
    pub(crate) fn prepare_wait(&mut self) -> Option<WaitOn<'_>> {
        self.set_waiting();
        // In front of the barrier: our word and our wishes. Behind it: everything
        // that others might have stored without seeing these.
        let may_sleep = self.own.event_count.prepare_wait();
        if !may_sleep || self.has_new_peers() || self.inbound.is_any_ready() || self.any_unblocked()
        {
            self.own.event_count.cancel_wait();
            return None;
        }
        Some(WaitOn::Futex { word: self.own.event_count.word(), value: 1 })
    }
}

impl Inbound {
    /// Takes up to a burst of frames. An error is the end of the ring: where the
    /// next frame would start is not known, or not to be believed.
    #[inline]
    fn take(
        &mut self,
        has_membarrier: bool,
        bodies: &mut BodySources<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), PeerFailed> {
        for taken in 0..self.burst {
            let word = match self.consumer.next_commit() {
                Ok(Some(word)) => word,
                Ok(None) => {
                    self.burst = 1;
                    return Ok(());
                }
                Err(corrupted) => return Err(lost(self.peer, &corrupted)),
            };
            if word.is_external() {
                if !self.take_external(word, taken > 0, bodies, sink)? {
                    return Ok(());
                }
            } else {
                let frame =
                    self.consumer.frame(word).map_err(|corrupted| lost(self.peer, &corrupted))?;
                sink.frame(self.peer, &frame.header, frame.body);
            }
            self.consumer.advance();
            if self.consumer.is_release_due() {
                release(&mut self.consumer, self.event_count, has_membarrier);
            }
        }
        self.burst = (2 * self.burst).min(MAX_BURST);
        Ok(())
    }

    /// Takes a frame whose body is elsewhere; false if it stays where it is: the program has waited for what came
    /// before, and may post the receive of this one next. Out of line, so that the frames of
    /// small messages stay in registers.
    #[inline(never)]
    fn take_external(
        &mut self,
        word: Commit,
        is_behind_others: bool,
        bodies: &mut BodySources<'_>,
        sink: &mut impl Sink,
    ) -> Result<bool, PeerFailed> {
        let watermark = self.consumer.watermark_word();
        let Inbound { peer, local, pool, consumer, .. } = self;
        let frame = consumer.frame(word).map_err(|corrupted| lost(*peer, &corrupted))?;
        if is_behind_others && !sink.expects(*peer, &frame.header) {
            return Ok(false);
        }
        let (len, said) = deliver_external((*peer, *local), &frame, watermark, pool, bodies, sink)?;
        consumer.has_read(len, said);
        Ok(true)
    }
}

/// Where bodies are that are not in a ring.
struct BodySources<'a> {
    segment: &'a Segment,
    recycled: &'a mut RecycledBlocks,
    /// This rank's pool, if it has one.
    own: &'a Option<Option<BouncePool>>,
}

/// A frame whose body is elsewhere; how much of the sender's pool is free after it, and what is to be said of it.
fn deliver_external(
    (peer, local): (Peer, u32),
    frame: &Frame<'_>,
    written: &AtomicU32,
    pool: &mut Option<RemotePool>,
    bodies: &mut BodySources<'_>,
    sink: &mut impl Sink,
) -> Result<(u32, Option<u64>), PeerFailed> {
    let source = match pool {
        Some(source) => source,
        None => pool.insert(RemotePool::new(
            bodies.segment.pool(local).map_err(|error| lost(peer, &error))?,
        )),
    };
    let descriptor = Descriptor::decode(frame.body).ok_or_else(|| out_of_bounds(peer))?;
    let mut take = |body: &[u8]| match descriptor.base {
        None => sink.frame(peer, &frame.header, body),
        Some(base) => {
            // Who reads a stream this way overtakes its sender, and then both wait for lines.
            let by_lines = descriptor.tag.is_some() && body.len() < MEMCPY_MIN;
            let pipelined = PipelinedBody::new(body, Watermark::new(written, base), by_lines);
            sink.pipelined(peer, &frame.header, &pipelined);
            if descriptor.tag.is_some() {
                // Who wants less of it than there is must not write where the sender still does.
                pipelined.wait_all();
            }
        }
    };
    let Some(tag) = descriptor.tag else {
        let said = source.read(descriptor, &mut take).ok_or_else(|| out_of_bounds(peer))?;
        return Ok((descriptor.len, said));
    };
    let own = bodies.own.as_ref().and_then(|pool| pool.as_ref()).map(BouncePool::mapping);
    let block = RecycledBlock::arrived(tag, descriptor, source.mapping(), own)
        .ok_or_else(|| out_of_bounds(peer))?;
    take(block.body(descriptor.len as usize));
    bodies.recycled.adopt(local, block);
    Ok((0, None))
}

#[cold]
fn out_of_bounds(peer: Peer) -> PeerFailed {
    PeerFailed {
        peer,
        why: "it points outside of its pool: one of the two has overwritten memory".into(),
    }
}

/// Gives back room, and wakes the producer if it sleeps for want of it.
#[cold]
fn release(consumer: &mut Consumer, event_count: &EventCount, has_membarrier: bool) {
    consumer.release();
    event_count.publish_fence(has_membarrier);
    if consumer.is_producer_waiting() {
        event_count.notify();
    }
}

#[cold]
fn lost(peer: Peer, why: &dyn std::error::Error) -> PeerFailed {
    PeerFailed { peer, why: why.to_string() }
}
