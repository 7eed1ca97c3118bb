//! The sending half of the data path.

use std::ops::Range;

use fabric::{Header, Peer, PeerFailed, Post, Slot};

use crate::bounce::{self, BodySlot, Descriptor, StoreKind};
use crate::connect::{Outbound, ShmTransport};
use crate::ring::{self, Space};

/// Bodies from this size on go through the pool when they follow others, bytes.
const STREAM_BOUNCE_MIN: usize = 1024;
/// Bodies from this size on always do.
const BOUNCE_MIN: usize = 2048;
/// Bodies from this size on go in a block that goes to and fro, if there is one and they may be answers, bytes.
const REPLY_RECYCLE_MIN: usize = 768;
/// Bodies from this size on wait for the block of a peer that sends, too, bytes.
const SWAP_MIN: usize = 256 << 10;
/// Frames in a row, with nothing heard in between, that make a stream.
const STREAM_LEN: u32 = 3;
/// Bodies of a stream that are written before their frame, bytes: the receiver copies the one before meanwhile. Shorter
/// ones lose by it where lines cross slowly, longer ones gain nothing.
const UNPIPELINED_RANGE: Range<usize> = 3 << 10..64 << 10;
/// Bodies from this size on may be written past the cache, bytes.
const NON_TEMPORAL_MIN: usize = 2048;

impl ShmTransport {
    /// Writes a frame into the ring to `peer`, a large body into the pool, and wakes
    /// the peer if it sleeps.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if len >= REPLY_RECYCLE_MIN {
            let is_stream = len >= STREAM_BOUNCE_MIN && self.is_stream(peer);
            if is_stream || len >= BOUNCE_MIN || !self.expects_reply {
                return self.post_external(peer, header, (len, is_stream), fill);
            }
        }
        self.post_in_ring(peer, header, len, fill)
    }

    /// Writes a piece of a large message, unless the peer reads messages of ours by itself now.
    #[inline(never)]
    pub(crate) fn post_piece(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        let lock_transfers = self
            .ring_to(peer)?
            .producer
            .lock_transfers()
            .map_err(|corrupted| PeerFailed { peer, why: corrupted.to_string() })?;
        if lock_transfers.is_none() {
            // That is over soon, and nobody wakes us for it: who has found room does not sleep.
            self.mark_blocked(peer);
            return Ok(Post::NoRoom);
        }
        self.post_frame(peer, header, len, fill)
    }

    /// Whether frames go to a peer one after the other, rather than to and fro.
    fn is_stream(&mut self, peer: Peer) -> bool {
        let heard = self.inbound.heard();
        let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else { return false };
        outbound.streak =
            if outbound.heard == heard { outbound.streak.saturating_add(1) } else { 1 };
        outbound.heard = heard;
        outbound.streak > STREAM_LEN
    }

    #[inline]
    fn post_in_ring(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        let (needed, has_membarrier) = (ring::max_granules(len), self.has_membarrier);
        let outbound = match self.outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) if outbound.producer.has_space(needed) => outbound,
            _ => {
                if !self.make_space(peer, needed)? {
                    return Ok(Post::NoRoom);
                }
                let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else {
                    return Err(unreachable_peer(peer));
                };
                outbound
            }
        };
        outbound.producer.set_streaming(std::mem::replace(&mut self.expects_reply, true));
        let non_temporal =
            len >= NON_TEMPORAL_MIN && outbound.tuner.best() == StoreKind::NonTemporal;
        outbound.producer.publish(header, len, non_temporal, fill);
        outbound.wake(has_membarrier);
        Ok(Post::Sent)
    }

    #[inline(never)]
    fn post_external(
        &mut self,
        peer: Peer,
        header: &Header,
        (len, is_stream): (usize, bool),
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if !self.has_space(peer, ring::max_granules(Descriptor::SIZE))? {
            return Ok(Post::NoRoom);
        }
        self.map_pool();
        let ShmTransport {
            pool: Some(Some(pool)),
            recycled,
            segment,
            outbound,
            inbound,
            pipelines,
            expects_reply,
            ..
        } = self
        else {
            return self.post_in_ring(peer, header, len, fill);
        };
        let mut block = match outbound.get(peer.0 as usize) {
            Some(Some(outbound)) if len >= BOUNCE_MIN || !*expects_reply => {
                let of = |is_own: bool| if is_own { segment.me() } else { outbound.local };
                let take = |is_own, part| segment.allocate_pool(of(is_own), part);
                recycled.take(outbound.local, len, pool.mapping(), take)
            }
            _ => None,
        };
        if block.is_none()
            && *pipelines
            && len >= SWAP_MIN
            && let Some(Some(outbound)) = outbound.get(peer.0 as usize)
            && recycled.should_wait(outbound.local)
        {
            // It is here soon, and nobody wakes us for it: who has found room does not sleep.
            self.mark_blocked(peer);
            return Ok(Post::NoRoom);
        }
        let room = match block {
            Some(_) => bounce::Room::None,
            // An answer that finds no block.
            None if len < BOUNCE_MIN && !is_stream => bounce::Room::None,
            None => pool.room(
                peer,
                len,
                |part| segment.allocate_pool(segment.me(), part),
                |block| match outbound.get_mut(block.to.0 as usize) {
                    Some(Some(outbound)) => outbound.producer.has_passed(block.until),
                    _ => true,
                },
            ),
        };
        let Some(Some(outbound)) = outbound.get_mut(peer.0 as usize) else {
            return Err(unreachable_peer(peer));
        };
        let place = match (&mut block, room) {
            (Some(block), _) => block.slot(len),
            (None, bounce::Room::At(start)) => {
                let Outbound { producer, tuner, .. } = &mut **outbound;
                if tuner.due_for_feedback() {
                    tuner.record_read_cost(producer.poll_read_cost());
                }
                let until = producer.head_after_descriptor(Descriptor::SIZE);
                pool.take(start, len, (peer, until), tuner)
            }
            (None, bounce::Room::After(position)) => {
                outbound.producer.wait_for_head(position);
                self.mark_blocked(peer);
                return Ok(Post::NoRoom);
            }
            (None, bounce::Room::None) => return self.post_in_ring(peer, header, len, fill),
        };
        // Nobody waits for the first bytes in the middle of a stream, or while its own is not done.
        let is_awaited = !is_stream
            || !UNPIPELINED_RANGE.contains(&len) && !inbound.has_unread_from(outbound.local);
        let pipelined = *pipelines && len >= BOUNCE_MIN && is_awaited;
        outbound.producer.set_streaming(std::mem::replace(expects_reply, true));
        outbound.publish_external(header, place, (self.has_membarrier, pipelined), fill);
        Ok(Post::Sent)
    }

    /// Room in the ring for a frame of so many grains, now.
    #[inline]
    fn has_space(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        match self.outbound.get(peer.0 as usize) {
            Some(Some(outbound)) if outbound.producer.has_space(needed) => Ok(true),
            _ => self.make_space(peer, needed),
        }
    }

    /// Connects, begins another lap, or makes laps longer; false when the peer has
    /// to consume first.
    #[cold]
    fn make_space(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        assert!(needed <= self.segment.grains() * 3 / 8, "a frame larger than Limits::frame");
        self.ring_to(peer)?;
        let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else {
            return Err(unreachable_peer(peer));
        };
        loop {
            let room = outbound.producer.find_space(needed, !outbound.frozen);
            match room.map_err(|corrupted| PeerFailed { peer, why: corrupted.to_string() })? {
                Space::Found => return Ok(true),
                Space::None => break,
                Space::Extend(end) => {
                    match self.segment.allocate(outbound.local, outbound.producer.end()..end) {
                        Ok(()) => outbound.producer.extend_lap(end),
                        // No memory, but the frame will fit when others are consumed.
                        Err(_) if outbound.producer.fits_eventually(needed) => {
                            outbound.frozen = true
                        }
                        Err(error) => return Err(PeerFailed { peer, why: error.to_string() }),
                    }
                }
            }
        }
        self.mark_blocked(peer);
        Ok(false)
    }

    /// What there is to a peer; opened when it is first asked for.
    fn ring_to(&mut self, peer: Peer) -> Result<&mut Outbound, PeerFailed> {
        if !matches!(self.outbound.get(peer.0 as usize), Some(Some(_))) {
            self.connect(peer)?;
        }
        match self.outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) => Ok(outbound),
            _ => Err(unreachable_peer(peer)),
        }
    }

    fn mark_blocked(&mut self, peer: Peer) {
        if !self.blocked.contains(&peer) {
            self.blocked.push(peer);
        }
    }

    /// True when a peer that had no room has some now; forgets those that have.
    pub(crate) fn any_unblocked(&mut self) -> bool {
        let (outbound, before) = (&mut self.outbound, self.blocked.len());
        self.blocked.retain(|peer| match outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) => {
                outbound.producer.is_waiting() && !outbound.producer.has_space_again()
            }
            _ => false,
        });
        self.blocked.len() < before
    }

    /// Tells the consumers without room that this rank waits for some.
    pub(crate) fn set_waiting(&mut self) {
        for peer in &self.blocked {
            if let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) {
                outbound.producer.set_waiting();
            }
        }
    }
}

impl Outbound {
    /// Publishes a frame whose body is elsewhere; before that is written, if it `pipelined`.
    #[inline(always)]
    fn publish_external(
        &mut self,
        header: &Header,
        place: BodySlot<'_>,
        (has_membarrier, pipelined): (bool, bool),
        fill: impl FnOnce(&mut Slot),
    ) {
        let len = place.len();
        if pipelined {
            let count = self.producer.watermark();
            self.producer
                .publish_descriptor(header, &place.descriptor(Some(count.base())).encode());
            self.wake(has_membarrier);
            place.fill(Some(count), &mut self.tuner, fill);
            self.producer.finish_body(len);
        } else {
            let descriptor = place.descriptor(None);
            place.fill(None, &mut self.tuner, fill);
            self.producer.publish_descriptor(header, &descriptor.encode());
            self.wake(has_membarrier);
        }
    }

    /// Wakes the peer if it sleeps, after something was published.
    #[inline]
    fn wake(&mut self, has_membarrier: bool) {
        self.event_count.publish_fence(has_membarrier);
        self.event_count.notify();
    }
}

#[cold]
fn unreachable_peer(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "there is no ring to it".into() }
}
