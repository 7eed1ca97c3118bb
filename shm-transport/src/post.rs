//! The sending half of the data path.

use fabric::{Header, Lost, Peer, Post};

use crate::connect::{Outbound, ShmTransport};
use crate::ring::{self, Room};

impl ShmTransport {
    /// Writes a frame into the ring to `peer`, and wakes it if it sleeps.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Post, Lost> {
        let (at, needed) = (peer.0 as usize, ring::lines(len));
        let registered = self.registered;
        if let Some(Some(outbound)) = self.outbound.get_mut(at)
            && outbound.producer.has_room(needed)
        {
            outbound.send(header, len, fill, registered);
            return Ok(Post::Sent);
        }
        if !self.make_room(peer, needed)? {
            return Ok(Post::NoRoom);
        }
        let Some(Some(outbound)) = self.outbound.get_mut(at) else { return Err(unreachable_peer(peer)) };
        outbound.send(header, len, fill, registered);
        Ok(Post::Sent)
    }

    /// Connects, begins another lap, or makes laps longer; false when the peer has
    /// to consume first.
    #[cold]
    fn make_room(&mut self, peer: Peer, needed: u64) -> Result<bool, Lost> {
        assert!(needed <= self.segment.lines() / 4, "a frame larger than Limits::frame");
        let at = peer.0 as usize;
        if !matches!(self.outbound.get(at), Some(Some(_))) {
            self.connect(peer)?;
        }
        let Some(Some(outbound)) = self.outbound.get_mut(at) else { return Err(unreachable_peer(peer)) };
        loop {
            let room = outbound.producer.look_for_room(needed, !outbound.frozen);
            match room.map_err(|broken| Lost { peer, why: broken.to_string() })? {
                Room::Found => return Ok(true),
                Room::None => break,
                Room::Lengthen(end) => match self.segment.allocate(outbound.local, outbound.producer.end()..end) {
                    Ok(()) => outbound.producer.lengthen(end),
                    // No memory, but the frame will fit when others are consumed.
                    Err(_) if outbound.producer.can_carry(needed) => outbound.frozen = true,
                    Err(error) => return Err(Lost { peer, why: error.to_string() }),
                },
            }
        }
        if !self.blocked.contains(&peer) {
            self.blocked.push(peer);
        }
        Ok(false)
    }

    /// True when a peer that had no room has some now; forgets those that have.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let (outbound, before) = (&mut self.outbound, self.blocked.len());
        self.blocked.retain(|peer| match outbound.get_mut(peer.0 as usize) {
            Some(Some(outbound)) => outbound.producer.is_waiting() && !outbound.producer.has_found_room(),
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
    /// Publishes a frame for which there is room, and wakes the peer if it sleeps.
    #[inline]
    fn send(&mut self, header: &Header, len: usize, fill: impl FnOnce(&mut [u8]), registered: bool) {
        self.producer.publish(header, len, fill);
        self.doorbell.order(registered);
        self.doorbell.ring();
    }
}

#[cold]
fn unreachable_peer(peer: Peer) -> Lost {
    Lost { peer, why: "there is no ring to it".into() }
}
