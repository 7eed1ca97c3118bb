//! The receiving half of the data path: hands over the frames that have arrived, returns their
//! space, and prepares the wait when there are none.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use fabric::{Body, Kind, Peer, PeerFailed, Sink, WaitOn};

use crate::blocks::BodyBlocks;
use crate::body::Descriptor;
use crate::bounce::RemotePool;
use crate::connect::ShmTransport;
use crate::copy_tuner::{self, Copies, ReadTime};
use crate::event_count::{EventCount, WAITING};
use crate::inbound::Inbound;
use crate::method;
use crate::outsiders::Outsiders;
use crate::pipeline::{PipelinedBody, Watermark};
use crate::recycle::RecycledBlock;
use crate::ring::{Commit, Consumer, Frame};
use crate::segment::Segment;

/// Most frames taken from a ring in one poll.
const MAX_BURST: u8 = 16;

impl ShmTransport {
    /// Hands over what has arrived, up to [`MAX_BURST`] frames of each ring; returns whether there
    /// was anything.
    #[inline]
    pub(crate) fn poll_rings(&mut self, sink: &mut impl Sink) -> bool {
        if self.has_new_peers() {
            self.accept().into_iter().for_each(|failed| sink.peer_failed(failed));
        }
        self.inbound.begin_poll();
        let (mut moved, mut at) = (false, 0);
        while at < self.inbound.active {
            let inbound = &mut self.inbound.all[at];
            if !inbound.consumer.is_ready() {
                if self.expects_reply && inbound.burst == 1 {
                    inbound.consumer.prefetch_next();
                }
                inbound.burst = 1;
                // The sender may wait for space in its bounce pool, and nothing else comes.
                if inbound.consumer.has_external() {
                    release(&mut inbound.consumer, inbound.event_count, self.has_membarrier);
                }
            } else {
                moved = true;
                self.expects_reply = false;
                inbound.last_frame = self.inbound.polls;
                self.inbound.receipts = self.inbound.receipts.wrapping_add(1);
                let mut bodies = Bodies {
                    segment: &self.segment,
                    outsiders: &self.outsiders,
                    blocks: &mut self.blocks,
                    large_posts: self.large_posts,
                    ended: &self.peers.ended,
                };
                if let Err(failed) = inbound.take(self.has_membarrier, &mut bodies, sink) {
                    self.inbound.remove(at);
                    sink.peer_failed(failed);
                    continue;
                }
            }
            at += 1;
        }
        moved
    }

    /// Prepares a wait and returns what to wait on; `None` if there is something to do.
    pub(crate) fn prepare_wait(&mut self) -> Option<WaitOn<'_>> {
        self.set_waiting();
        // Before the fence: this rank's event count and producer-waiting words. After it: all that
        // others may have stored without seeing these.
        let may_wait = self.own.event_count.prepare_wait();
        // Also where it must not wait: the peers that have space are not to end the next wait too.
        let has_news = self.has_new_peers() || self.inbound.is_any_ready() || self.any_unblocked();
        if !may_wait || has_news {
            self.own.event_count.cancel_wait();
            return None;
        }
        Some(WaitOn::Futex { word: self.own.event_count.word(), value: WAITING })
    }
}

/// Where external bodies are found.
struct Bodies<'a> {
    segment: &'a Segment,
    outsiders: &'a Outsiders,
    blocks: &'a mut BodyBlocks,
    /// See [`ShmTransport::large_posts`].
    large_posts: u32,
    /// See [`ShmTransport::watch_ends`].
    ended: &'a [&'static AtomicU32],
}

impl Inbound {
    /// Takes up to a burst of frames. After an error the ring is of no use: the position of the
    /// next frame is unknown.
    #[inline]
    fn take(
        &mut self,
        has_membarrier: bool,
        bodies: &mut Bodies<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), PeerFailed> {
        for taken in 0..self.burst {
            let commit = match self.consumer.next_commit() {
                Ok(Some(commit)) => commit,
                Ok(None) => {
                    self.burst = 1;
                    return Ok(());
                }
                Err(corrupted) => return Err(failed(self.peer, &corrupted)),
            };
            if commit.is_external() {
                if !self.take_external(commit, taken > 0, bodies, sink)? {
                    return Ok(());
                }
            } else {
                let frame = self
                    .consumer
                    .frame(commit)
                    .map_err(|corrupted| failed(self.peer, &corrupted))?;
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

    /// Takes a frame whose body is external. Returns false if it is left in the ring: the program
    /// has waited for the frames before, and may post the receive of this one next. Out of line, so
    /// that frames of small messages are kept in registers.
    #[inline(never)]
    fn take_external(
        &mut self,
        commit: Commit,
        follows_others: bool,
        bodies: &mut Bodies<'_>,
        sink: &mut impl Sink,
    ) -> Result<bool, PeerFailed> {
        let watermark = self.consumer.watermark_word();
        let Inbound { peer, local, pool, consumer, large_posts, timings, .. } = self;
        let frame = consumer.frame(commit).map_err(|corrupted| failed(*peer, &corrupted))?;
        if follows_others && !sink.expects(*peer, &frame.header) {
            return Ok(false);
        }
        let descriptor = Descriptor::decode(frame.body).ok_or_else(|| out_of_bounds(*peer))?;
        let len = descriptor.len as usize;
        let mut reading = if descriptor.len < copy_tuner::LEAST_BYTES {
            None
        } else if frame.header.kind == Kind::Data {
            Some(Reading::begin_part(len, timings.iter().any(|timing| timing.is_exchange)))
        } else {
            let written = |base| Watermark::new(watermark, base).written().min(len);
            let posts = (large_posts, bodies.large_posts);
            Some(Reading::begin(len, descriptor.base.map_or(len, written), posts))
        };
        let at = (&frame, descriptor, watermark);
        let (len, read_cost) = deliver((*peer, *local), at, pool, bodies, sink, &mut reading)?;
        consumer.has_read(len, read_cost);
        if let Some(reading) = reading {
            reading.end(self);
        }
        Ok(true)
    }
}

/// Large posts of this rank that may wait for a body that is exchanged for them.
const MAX_EXCHANGE: u32 = 64;

/// The reading of a body that is long enough for the copy tuner.
struct Reading {
    bytes: usize,
    /// Bytes that were written while this rank had a large message of its own to send; `None` for
    /// a part of an announced message.
    before: Option<usize>,
    begun: Instant,
    /// Time of waiting for the sender; `None`: it is not taken.
    waited: Option<Duration>,
}

impl Reading {
    /// `written`: bytes that are written. `accounted`: the large posts of this rank for which a
    /// body has come from the peer; `posts`: all of them.
    #[inline(never)]
    fn begin(bytes: usize, written: usize, (accounted, posts): (&mut u32, u32)) -> Reading {
        let left = posts.wrapping_sub(*accounted).min(MAX_EXCHANGE);
        *accounted = posts.wrapping_sub(left.saturating_sub(1));
        let before = if left > 0 { written } else { 0 };
        let waited = (before > 0).then_some(Duration::ZERO);
        Reading { bytes, before: Some(before), begun: Instant::now(), waited }
    }

    /// As `begin`, for a part of an announced message.
    fn begin_part(bytes: usize, is_exchange: bool) -> Reading {
        let waited = is_exchange.then_some(Duration::ZERO);
        Reading { bytes, before: None, begun: Instant::now(), waited }
    }

    #[inline(never)]
    fn end(self, from: &mut Inbound) {
        let (all, bytes) = (self.begun.elapsed(), self.bytes);
        let time = ReadTime::new(all, self.waited.unwrap_or_default());
        let Some(before) = self.before else { return from.large.push(time, bytes) };
        if let Some(class) = copy_tuner::class_of(bytes as u64) {
            from.record_copies(class, Copies::Two, copy_tuner::cost_of_two(time, before, bytes));
        }
    }
}

/// Hands over a frame whose body is external. Returns the bytes of the sender's bounce pool that
/// are free after it, and the read cost to report. Records in `reading` how long it has waited.
#[inline(always)]
fn deliver(
    (peer, local): (Peer, u32),
    (frame, descriptor, watermark): (&Frame<'_>, Descriptor, &AtomicU32),
    pool: &mut Option<RemotePool>,
    bodies: &mut Bodies<'_>,
    sink: &mut impl Sink,
    reading: &mut Option<Reading>,
) -> Result<(u32, Option<u64>), PeerFailed> {
    let remote = match pool {
        Some(remote) => remote,
        None => {
            let (segment, rank) = bodies.outsiders.find(bodies.segment, local);
            let memory = segment.bodies(rank).map_err(|error| failed(peer, &error))?;
            pool.insert(RemotePool::new(memory))
        }
    };
    let mut is_cut = false;
    let mut hand_over = |body: &[u8]| match descriptor.base {
        None => sink.frame(peer, &frame.header, body),
        Some(base) => {
            let by_lines = method::copies_by_lines(body.len(), descriptor.tag.is_some());
            let watermark = Watermark::new(watermark, base);
            let waited = reading.as_ref().and_then(|reading| reading.waited);
            let ended = bodies.ended.get(local as usize).copied();
            let pipelined = PipelinedBody::new(body, watermark, by_lines, waited).until(ended);
            sink.frame(peer, &frame.header, &pipelined);
            if let Some(reading) = reading {
                reading.waited = pipelined.waited();
            }
            if descriptor.tag.is_some() {
                // The receive may be shorter than the body: wait for the sender to finish before
                // the block is reused.
                let _ = pipelined.wait_all();
            }
            is_cut = pipelined.is_cut();
        }
    };
    let Some(tag) = descriptor.tag else {
        let cost = remote.read(descriptor, &mut hand_over).ok_or_else(|| out_of_bounds(peer))?;
        return if is_cut { Err(PeerFailed::cut(peer)) } else { Ok((descriptor.len, cost)) };
    };
    let own = bodies.blocks.own_memory();
    let block = RecycledBlock::arrived(tag, descriptor, remote.memory(), own)
        .ok_or_else(|| out_of_bounds(peer))?;
    hand_over(block.body(descriptor.len as usize));
    if is_cut {
        return Err(PeerFailed::cut(peer));
    }
    bodies.blocks.adopt(local, block);
    Ok((0, None))
}

#[cold]
fn out_of_bounds(peer: Peer) -> PeerFailed {
    let why = "a descriptor leads out of its memory: a process has overwritten memory";
    PeerFailed { peer, why: why.into() }
}

/// Returns space to the producer, and wakes it if it waits for that.
#[cold]
fn release(consumer: &mut Consumer, event_count: &EventCount, has_membarrier: bool) {
    consumer.release();
    event_count.publish_fence(has_membarrier);
    if consumer.is_producer_waiting() {
        event_count.notify();
    }
}

#[cold]
fn failed(peer: Peer, why: &dyn std::error::Error) -> PeerFailed {
    PeerFailed { peer, why: why.to_string() }
}
