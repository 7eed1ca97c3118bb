//! The sending half of the data path: reserve, switch on the method, write, publish, notify.

use fabric::{Header, Peer, PeerFailed, Post, Slot};

use crate::blocks::Reservation;
use crate::body::{BodySlot, Descriptor};
use crate::connect::ShmTransport;
use crate::method::{
    self, Method, Pipelining, REPLY_RECYCLE_MIN, Route, STREAM_BOUNCE_MIN, Traffic,
};
use crate::outbound::{Outbound, not_connected, outbound_to};
use crate::ring::{self, Space};

impl ShmTransport {
    /// Posts a frame to `peer` and wakes the peer if it waits.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if len >= REPLY_RECYCLE_MIN {
            return self.post_chosen(peer, header, len, fill);
        }
        self.post_in_ring(peer, header, len, fill)
    }

    /// Posts a frame by the table of methods. Out of line, so that small messages have no cost.
    #[inline(never)]
    fn post_chosen(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if self.peers.is_forgotten(peer) {
            return Ok(Post::Sent);
        }
        let traffic = self.traffic(peer, len);
        let route = Route { pipelines: self.pipelines, is_of_other_job: self.is_outsider(peer) };
        let method = method::choose(len, traffic, route);
        if method.is_ring() {
            return self.post_in_ring(peer, header, len, fill);
        }
        self.post_external(peer, header, (len, method), fill)
    }

    /// Posts a piece of a large message, unless the peer reads the rest of this rank's messages by
    /// single copy now.
    #[inline(never)]
    pub(crate) fn post_piece(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if self.peers.is_forgotten(peer) {
            return Ok(Post::Sent);
        }
        let lock = self
            .ring_to(peer)?
            .producer
            .lock_transfers()
            .map_err(|corrupted| PeerFailed { peer, why: corrupted.to_string() })?;
        if lock.is_none() {
            // The lock is held briefly and its release wakes no rank. A peer marked blocked without
            // waiting for space makes `arm` refuse to sleep; therefore the post is retried.
            self.mark_blocked(peer);
            return Ok(Post::NoSpace);
        }
        self.post_frame(peer, header, len, fill)
    }

    /// Returns what a frame of that size is among those to and from `peer`.
    #[inline(always)]
    fn traffic(&mut self, peer: Peer, len: usize) -> Traffic {
        let is_stream = len >= STREAM_BOUNCE_MIN
            && outbound_to(&mut self.outbound, peer)
                .is_some_and(|outbound| outbound.is_stream(self.inbound.receipts));
        match (is_stream, self.expects_reply) {
            (true, _) => Traffic::Stream,
            (false, true) => Traffic::Request,
            (false, false) => Traffic::Reply,
        }
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
            _ if self.peers.is_forgotten(peer) => return Ok(Post::Sent),
            _ => {
                if !self.make_space(peer, needed)? {
                    return Ok(Post::NoSpace);
                }
                let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) else {
                    return Err(not_connected(peer));
                };
                outbound
            }
        };
        outbound.producer.set_streaming(std::mem::replace(&mut self.expects_reply, true));
        let non_temporal = method::is_ring_non_temporal(len, outbound.tuner.best());
        outbound.producer.publish(header, len, non_temporal, fill);
        outbound.notify(has_membarrier);
        Ok(Post::Sent)
    }

    #[inline]
    fn post_external(
        &mut self,
        peer: Peer,
        header: &Header,
        (len, method): (usize, Method),
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if !self.has_space(peer, ring::max_granules(Descriptor::SIZE))? {
            return Ok(Post::NoSpace);
        }
        let reservation =
            self.blocks.reserve(&self.segment, &mut self.outbound, (peer, len), method);
        let Some(outbound) = outbound_to(&mut self.outbound, peer) else {
            return Err(not_connected(peer));
        };
        let slot = match reservation {
            Reservation::Slot(slot) => slot,
            Reservation::AfterHead(position) => {
                outbound.producer.wait_for_head(position);
                self.mark_blocked(peer);
                return Ok(Post::NoSpace);
            }
            // As in `post_piece`: retried, as no wake comes for it.
            Reservation::Soon => {
                self.mark_blocked(peer);
                return Ok(Post::NoSpace);
            }
            Reservation::None => return self.post_in_ring(peer, header, len, fill),
        };
        let pipelined = match method.pipelining {
            Pipelining::Never => false,
            Pipelining::Always => true,
            Pipelining::UnlessUnread => !self.inbound.has_unread_from(outbound.local),
        };
        outbound.producer.set_streaming(std::mem::replace(&mut self.expects_reply, true));
        self.large_posts = self.large_posts.wrapping_add(1);
        outbound.publish_external(header, slot, (self.has_membarrier, pipelined), fill);
        Ok(Post::Sent)
    }

    /// Returns whether the ring has space for a frame of `needed` granules now.
    #[inline]
    fn has_space(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        match self.outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) if outbound.producer.has_space(needed) => Ok(true),
            _ => self.make_space(peer, needed),
        }
    }

    /// Connects, begins another lap, or extends laps; returns false if the peer has to consume
    /// first.
    #[cold]
    fn make_space(&mut self, peer: Peer, needed: u64) -> Result<bool, PeerFailed> {
        assert!(needed <= self.segment.ring_granules() * 3 / 8, "a frame larger than Caps::frame");
        self.ring_to(peer)?;
        let Some(outbound) = outbound_to(&mut self.outbound, peer) else {
            return Err(not_connected(peer));
        };
        loop {
            let space = outbound.producer.find_space(needed, !outbound.frozen);
            match space.map_err(|corrupted| PeerFailed { peer, why: corrupted.to_string() })? {
                Space::Found => return Ok(true),
                Space::None => break,
                Space::Extend(end) => {
                    match outbound.place.allocate(outbound.producer.end()..end) {
                        Ok(()) => outbound.producer.extend_lap(end),
                        // No memory, but the frame will fit once others are consumed.
                        Err(_) if outbound.producer.fits_eventually(needed) => {
                            outbound.frozen = true;
                        }
                        Err(error) => return Err(PeerFailed { peer, why: error.to_string() }),
                    }
                }
            }
        }
        self.mark_blocked(peer);
        Ok(false)
    }

    /// Returns what leads to a peer; connects on first use.
    fn ring_to(&mut self, peer: Peer) -> Result<&mut Outbound, PeerFailed> {
        if outbound_to(&mut self.outbound, peer).is_none() {
            self.connect(peer)?;
        }
        outbound_to(&mut self.outbound, peer).ok_or_else(|| not_connected(peer))
    }

    fn mark_blocked(&mut self, peer: Peer) {
        if !self.blocked.contains(&peer) {
            self.blocked.push(peer);
        }
    }

    /// Returns whether a blocked peer has space now, and forgets those that have.
    pub(crate) fn any_unblocked(&mut self) -> bool {
        let (outbound, before) = (&mut self.outbound, self.blocked.len());
        self.blocked.retain(|peer| match outbound_to(outbound, *peer) {
            Some(outbound) => {
                outbound.producer.is_waiting() && !outbound.producer.has_space_again()
            }
            None => false,
        });
        self.blocked.len() < before
    }

    /// Notifies the blocked peers that this rank waits for space.
    pub(crate) fn set_waiting(&mut self) {
        for &peer in &self.blocked {
            if let Some(outbound) = outbound_to(&mut self.outbound, peer) {
                outbound.producer.set_waiting();
            }
        }
    }
}

impl Outbound {
    /// Writes an external body and publishes its frame: the frame first if it is `pipelined`.
    #[inline(always)]
    fn publish_external(
        &mut self,
        header: &Header,
        slot: BodySlot<'_>,
        (has_membarrier, pipelined): (bool, bool),
        fill: impl FnOnce(&mut Slot),
    ) {
        let len = slot.len();
        if pipelined {
            let watermark = self.producer.watermark();
            let descriptor = slot.descriptor(Some(watermark.base()));
            self.producer.publish_descriptor(header, &descriptor.encode());
            self.notify(has_membarrier);
            slot.fill(Some(watermark), &mut self.tuner, fill);
            self.producer.finish_body(len);
        } else {
            let descriptor = slot.descriptor(None);
            slot.fill(None, &mut self.tuner, fill);
            self.producer.publish_descriptor(header, &descriptor.encode());
            self.notify(has_membarrier);
        }
    }
}
