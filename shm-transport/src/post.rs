//! The sending half of the data path.

use std::ops::Range;

use fabric::{Header, Peer, PeerFailed, Post, Slot};

use crate::connect::{Outbound, ShmTransport};
use crate::pool::{self, Place, Reference, Way};
use crate::ring::{self, Room};

/// Bodies from this size on go through the pool when they follow others, bytes.
const POOLED: usize = 1024;
/// Bodies from this size on always do.
const ALWAYS_POOLED: usize = 2048;
/// Bodies from this size on go in a block that goes to and fro, if there is one and they may be answers, bytes.
const ANSWERED: usize = 768;
/// Bodies from this size on wait for the block of a peer that sends, too, bytes.
const SWAPPED: usize = 256 << 10;
/// Frames in a row, with nothing heard in between, that make a stream.
const STREAM: u32 = 3;
/// Bodies of a stream that are written before their frame, bytes: the receiver copies the one before meanwhile. Shorter
/// ones lose by it where lines cross slowly, longer ones gain nothing.
const WHOLE: Range<usize> = 3 << 10..64 << 10;
/// Bodies from this size on may be written past the cache, bytes.
const PAST_CACHE: usize = 2048;

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
        if len >= ANSWERED {
            let is_stream = len >= POOLED && self.is_stream(peer);
            if is_stream || len >= ALWAYS_POOLED || !self.awaits {
                return self.post_pooled(peer, header, (len, is_stream), fill);
            }
        }
        self.post_in_ring(peer, header, len, fill)
    }

    /// Writes a piece of a large message, unless the peer reads messages of ours by itself now.
    #[inline(never)]
    pub(crate) fn post_claimed(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        let claim = self
            .ring_to(peer)?
            .producer
            .claim()
            .map_err(|broken| PeerFailed { peer, why: broken.to_string() })?;
        if claim.is_none() {
            // That is over soon, and nobody wakes us for it: who has found room does not sleep.
            self.note_blocked(peer);
            return Ok(Post::NoRoom);
        }
        self.post_frame(peer, header, len, fill)
    }

    /// Whether frames go to a peer one after the other, rather than to and fro.
    fn is_stream(&mut self, peer: Peer) -> bool {
        let heard = self.inbound.heard();
        let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else { return false };
        outbound.in_a_row =
            if outbound.heard == heard { outbound.in_a_row.saturating_add(1) } else { 1 };
        outbound.heard = heard;
        outbound.in_a_row > STREAM
    }

    #[inline]
    fn post_in_ring(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        let (needed, registered) = (ring::room(len), self.registered);
        let outbound = match self.outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) if outbound.producer.has_room(needed) => outbound,
            _ => {
                if !self.make_room(peer, needed)? {
                    return Ok(Post::NoRoom);
                }
                let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else {
                    return Err(unreachable_peer(peer));
                };
                outbound
            }
        };
        outbound.producer.note_stream(std::mem::replace(&mut self.awaits, true));
        let non_temporal = len >= PAST_CACHE && outbound.pace.best() == Way::Past;
        outbound.producer.publish(header, len, non_temporal, fill);
        outbound.wake(registered);
        Ok(Post::Sent)
    }

    #[inline(never)]
    fn post_pooled(
        &mut self,
        peer: Peer,
        header: &Header,
        (len, is_stream): (usize, bool),
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if !self.has_room(peer, ring::room(Reference::SIZE))? {
            return Ok(Post::NoRoom);
        }
        self.map_pool();
        let ShmTransport {
            pool: Some(Some(pool)),
            shuttles,
            segment,
            outbound,
            inbound,
            overlaps,
            awaits,
            ..
        } = self
        else {
            return self.post_in_ring(peer, header, len, fill);
        };
        let mut shuttle = match outbound.get(peer.0 as usize) {
            Some(Some(outbound)) if len >= ALWAYS_POOLED || !*awaits => {
                let of = |is_own: bool| if is_own { segment.me() } else { outbound.local };
                let take = |is_own, part| segment.allocate_pool(of(is_own), part);
                shuttles.take(outbound.local, len, pool.mapping(), take)
            }
            _ => None,
        };
        if shuttle.is_none()
            && *overlaps
            && len >= SWAPPED
            && let Some(Some(outbound)) = outbound.get(peer.0 as usize)
            && shuttles.is_due(outbound.local)
        {
            // It is here soon, and nobody wakes us for it: who has found room does not sleep.
            self.note_blocked(peer);
            return Ok(Post::NoRoom);
        }
        let room = match shuttle {
            Some(_) => pool::Room::None,
            // An answer that finds no block.
            None if len < ALWAYS_POOLED && !is_stream => pool::Room::None,
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
        let place = match (&mut shuttle, room) {
            (Some(shuttle), _) => shuttle.place(len),
            (None, pool::Room::At(start)) => {
                let Outbound { producer, pace, .. } = &mut **outbound;
                if pace.is_curious() {
                    pace.hear(producer.reader_says());
                }
                let until = producer.behind_reference(Reference::SIZE);
                pool.take(start, len, (peer, until), pace)
            }
            (None, pool::Room::After(position)) => {
                outbound.producer.wait_for_head(position);
                self.note_blocked(peer);
                return Ok(Post::NoRoom);
            }
            (None, pool::Room::None) => return self.post_in_ring(peer, header, len, fill),
        };
        // Nobody waits for the first bytes in the middle of a stream, or while its own is not done.
        let is_awaited =
            !is_stream || !WHOLE.contains(&len) && !inbound.has_more_of(outbound.local);
        let grows = *overlaps && len >= ALWAYS_POOLED && is_awaited;
        outbound.producer.note_stream(std::mem::replace(awaits, true));
        outbound.publish_elsewhere(header, place, (self.registered, grows), fill);
        Ok(Post::Sent)
    }

    /// Room in the ring for a frame of so many grains, now.
    #[inline]
    fn has_room(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        match self.outbound.get(peer.0 as usize) {
            Some(Some(outbound)) if outbound.producer.has_room(needed) => Ok(true),
            _ => self.make_room(peer, needed),
        }
    }

    /// Connects, begins another lap, or makes laps longer; false when the peer has
    /// to consume first.
    #[cold]
    fn make_room(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        assert!(needed <= self.segment.grains() * 3 / 8, "a frame larger than Limits::frame");
        self.ring_to(peer)?;
        let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else {
            return Err(unreachable_peer(peer));
        };
        loop {
            let room = outbound.producer.look_for_room(needed, !outbound.frozen);
            match room.map_err(|broken| PeerFailed { peer, why: broken.to_string() })? {
                Room::Found => return Ok(true),
                Room::None => break,
                Room::Lengthen(end) => {
                    match self.segment.allocate(outbound.local, outbound.producer.end()..end) {
                        Ok(()) => outbound.producer.lengthen(end),
                        // No memory, but the frame will fit when others are consumed.
                        Err(_) if outbound.producer.can_carry(needed) => outbound.frozen = true,
                        Err(error) => return Err(PeerFailed { peer, why: error.to_string() }),
                    }
                }
            }
        }
        self.note_blocked(peer);
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

    fn note_blocked(&mut self, peer: Peer) {
        if !self.blocked.contains(&peer) {
            self.blocked.push(peer);
        }
    }

    /// True when a peer that had no room has some now; forgets those that have.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let (outbound, before) = (&mut self.outbound, self.blocked.len());
        self.blocked.retain(|peer| match outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) => {
                outbound.producer.is_waiting() && !outbound.producer.has_found_room()
            }
            _ => false,
        });
        self.blocked.len() < before
    }

    /// Tells the consumers without room that this rank waits for some.
    pub(crate) fn say_wanted(&mut self) {
        for peer in &self.blocked {
            if let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) {
                outbound.producer.say_wanted();
            }
        }
    }
}

impl Outbound {
    /// Publishes a frame whose body is elsewhere; before that is written, if it `grows`.
    #[inline(always)]
    fn publish_elsewhere(
        &mut self,
        header: &Header,
        place: Place<'_>,
        (registered, grows): (bool, bool),
        fill: impl FnOnce(&mut Slot),
    ) {
        let len = place.len();
        if grows {
            let count = self.producer.count();
            self.producer.publish_reference(header, &place.reference(Some(count.base())).encode());
            self.wake(registered);
            place.fill(Some(count), &mut self.pace, fill);
            self.producer.has_written(len);
        } else {
            let reference = place.reference(None);
            place.fill(None, &mut self.pace, fill);
            self.producer.publish_reference(header, &reference.encode());
            self.wake(registered);
        }
    }

    /// Wakes the peer if it sleeps, after something was published.
    #[inline]
    fn wake(&mut self, registered: bool) {
        self.doorbell.order(registered);
        self.doorbell.ring();
    }
}

#[cold]
fn unreachable_peer(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "there is no ring to it".into() }
}
