//! The receiving half of the data path.
//!
//! Up to `FEW` inbound rings are looked at with each poll. With more of them the
//! cost follows the talkers: rings that had a frame lately are looked at with each
//! poll, of the quiet others `WINDOW` in turn; a frame on a quiet ring makes it
//! an active one. Falling asleep looks at all of them.

use std::sync::atomic::AtomicU32;

use fabric::{Body, Peer, PeerFailed, PipelinedBody, Sink, WaitOn, Watermark};

use crate::connect::ShmTransport;
use crate::pool::{Pool, Reference, Source};
use crate::ring::{Claim, Consumer, Frame, Word};
use crate::segment::Segment;
use crate::shuttle::{Shuttle, Shuttles};
use crate::wake::Doorbell;

/// So many rings are always active.
const FEW: usize = 8;
/// Quiet rings looked at in one poll.
const WINDOW: usize = 4;
/// Polls without a frame after which a ring becomes quiet, and between two looks
/// for such rings.
const PATIENCE: u32 = 256;
/// Bodies that answers come in are copied line by line below this length, bytes: what is longer comes in parts
/// that the C library's memcpy is faster for.
const LONG: usize = 32 << 10;
/// Most frames taken from a ring in one poll.
const BATCH: u8 = 16;

/// All inbound rings, the active ones in front.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    all: Vec<Inbound>,
    active: usize,
    /// The quiet ring that was looked at last.
    cursor: usize,
    /// Counted while there are more than `FEW`.
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
    doorbell: &'static Doorbell,
    /// Its local rank.
    local: u32,
    /// Its pool, once it has sent something large.
    pool: Option<Source>,
}

impl Rings {
    pub(crate) fn add(
        &mut self,
        peer: Peer,
        local: u32,
        doorbell: &'static Doorbell,
        consumer: Consumer,
    ) {
        self.all.push(Inbound {
            consumer,
            peer,
            heard: self.polls,
            burst: 1,
            doorbell,
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
        for _ in 0..WINDOW.min(self.all.len() - self.active) {
            self.cursor =
                if self.cursor + 1 < self.all.len() { self.cursor + 1 } else { self.active };
            self.cursor = self.cursor.max(self.active);
            if self.all[self.cursor].consumer.is_ready() {
                self.all[self.cursor].heard = self.polls;
                self.activate(self.cursor);
            }
        }
        if self.polls.is_multiple_of(PATIENCE) {
            for at in (0..self.active).rev() {
                if self.polls.wrapping_sub(self.all[at].heard) >= PATIENCE {
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

    fn of(&self, local: u32) -> Option<&Inbound> {
        self.all.iter().find(|inbound| inbound.local == local)
    }

    /// The right to read what that local rank has not sent yet, if all that it has sent was taken.
    pub(crate) fn claim(&self, local: u32) -> Option<Claim> {
        self.of(local)?.consumer.claim()
    }

    /// Whether that local rank has sent something that nobody has taken yet. To look costs a line that it will
    /// want back.
    pub(crate) fn has_more_of(&self, local: u32) -> bool {
        self.of(local).is_some_and(|inbound| inbound.consumer.is_ready())
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
    /// Hands over what has arrived, up to `BATCH` frames of each ring; true if there
    /// was anything.
    #[inline]
    pub(crate) fn poll_rings(&mut self, sink: &mut impl Sink) -> bool {
        if self.has_newcomers() {
            self.welcome().into_iter().for_each(|lost| sink.peer_failed(lost));
        }
        if self.inbound.all.len() > FEW {
            self.inbound.balance();
        }
        let (mut moved, mut at) = (false, 0);
        while at < self.inbound.active {
            let inbound = &mut self.inbound.all[at];
            if !inbound.consumer.is_ready() {
                if self.awaits && inbound.burst == 1 {
                    inbound.consumer.expect();
                }
                inbound.burst = 1;
                // The sender may wait for room in its pool, and nothing else comes.
                if inbound.consumer.has_references() {
                    give_back(&mut inbound.consumer, inbound.doorbell, self.registered);
                }
            } else {
                moved = true;
                self.awaits = false;
                inbound.heard = self.inbound.polls;
                self.inbound.heard = self.inbound.heard.wrapping_add(1);
                if let Err(lost) = inbound.take(
                    self.registered,
                    &mut Bodies {
                        segment: &self.segment,
                        shuttles: &mut self.shuttles,
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
    pub(crate) fn fall_asleep(&mut self) -> Option<WaitOn<'_>> {
        self.say_wanted();
        // In front of the barrier: our word and our wishes. Behind it: everything
        // that others might have stored without seeing these.
        let may_sleep = self.own.doorbell.announce();
        if !may_sleep
            || self.has_newcomers()
            || self.inbound.is_any_ready()
            || self.has_room_again()
        {
            self.own.doorbell.awake();
            return None;
        }
        Some(WaitOn::Futex { word: self.own.doorbell.word(), value: 1 })
    }
}

impl Inbound {
    /// Takes up to a burst of frames. An error is the end of the ring: where the
    /// next frame would start is not known, or not to be believed.
    #[inline]
    fn take(
        &mut self,
        registered: bool,
        bodies: &mut Bodies<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), PeerFailed> {
        for taken in 0..self.burst {
            let word = match self.consumer.next_word() {
                Ok(Some(word)) => word,
                Ok(None) => {
                    self.burst = 1;
                    return Ok(());
                }
                Err(broken) => return Err(lost(self.peer, &broken)),
            };
            if word.is_reference() {
                if !self.take_large(word, taken > 0, bodies, sink)? {
                    return Ok(());
                }
            } else {
                let frame = self.consumer.frame(word).map_err(|broken| lost(self.peer, &broken))?;
                sink.frame(self.peer, &frame.header, frame.body);
            }
            self.consumer.advance();
            if self.consumer.is_due() {
                give_back(&mut self.consumer, self.doorbell, registered);
            }
        }
        self.burst = (2 * self.burst).min(BATCH);
        Ok(())
    }

    /// Takes a frame whose body is elsewhere; false if it stays where it is: the program has waited for what came
    /// before, and may post the receive of this one next. Out of line, so that the frames of
    /// small messages stay in registers.
    #[inline(never)]
    fn take_large(
        &mut self,
        word: Word,
        is_behind_others: bool,
        bodies: &mut Bodies<'_>,
        sink: &mut impl Sink,
    ) -> Result<bool, PeerFailed> {
        let written = self.consumer.written();
        let Inbound { peer, local, pool, consumer, .. } = self;
        let frame = consumer.frame(word).map_err(|broken| lost(*peer, &broken))?;
        if is_behind_others && !sink.expects(*peer, &frame.header) {
            return Ok(false);
        }
        let (len, said) = large((*peer, *local), &frame, written, pool, bodies, sink)?;
        consumer.has_read(len, said);
        Ok(true)
    }
}

/// Where bodies are that are not in a ring.
struct Bodies<'a> {
    segment: &'a Segment,
    shuttles: &'a mut Shuttles,
    /// This rank's pool, if it has one.
    own: &'a Option<Option<Pool>>,
}

/// A frame whose body is elsewhere; how much of the sender's pool is free after it, and what is to be said of it.
fn large(
    (peer, local): (Peer, u32),
    frame: &Frame<'_>,
    written: &AtomicU32,
    pool: &mut Option<Source>,
    bodies: &mut Bodies<'_>,
    sink: &mut impl Sink,
) -> Result<(u32, Option<u64>), PeerFailed> {
    let source = match pool {
        Some(source) => source,
        None => pool
            .insert(Source::new(bodies.segment.pool(local).map_err(|error| lost(peer, &error))?)),
    };
    let reference = Reference::decode(frame.body).ok_or_else(|| astray(peer))?;
    let mut take = |body: &[u8]| match reference.base {
        None => sink.frame(peer, &frame.header, body),
        Some(base) => {
            // Who reads a stream this way overtakes its sender, and then both wait for lines.
            let by_lines = reference.shuttle.is_some() && body.len() < LONG;
            let growing = PipelinedBody::new(body, Watermark::new(written, base), by_lines);
            sink.growing(peer, &frame.header, &growing);
            if reference.shuttle.is_some() {
                // Who wants less of it than there is must not write where the sender still does.
                growing.whole();
            }
        }
    };
    let Some(mark) = reference.shuttle else {
        let said = source.read(reference, &mut take).ok_or_else(|| astray(peer))?;
        return Ok((reference.len, said));
    };
    let own = bodies.own.as_ref().and_then(|pool| pool.as_ref()).map(Pool::mapping);
    let shuttle =
        Shuttle::arrived(mark, reference, source.mapping(), own).ok_or_else(|| astray(peer))?;
    take(shuttle.body(reference.len as usize));
    bodies.shuttles.keep(local, shuttle);
    Ok((0, None))
}

#[cold]
fn astray(peer: Peer) -> PeerFailed {
    PeerFailed {
        peer,
        why: "it points outside of its pool: one of the two has overwritten memory".into(),
    }
}

/// Gives back room, and wakes the producer if it sleeps for want of it.
#[cold]
fn give_back(consumer: &mut Consumer, doorbell: &Doorbell, registered: bool) {
    consumer.give_back();
    doorbell.order(registered);
    if consumer.is_wanted() {
        doorbell.ring();
    }
}

#[cold]
fn lost(peer: Peer, why: &dyn std::error::Error) -> PeerFailed {
    PeerFailed { peer, why: why.to_string() }
}
