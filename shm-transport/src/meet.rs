//! Meeting a process of another job on this host; see `outsiders`.

use fabric::{Caps, Peer};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::connect::ShmTransport;
use crate::control::Control;
use crate::home::Home;
use crate::layout::OUTSIDERS_END;
use crate::outbound::Outbound;
use crate::ring::{Consumer, Producer};
use crate::segment::{Segment, SegmentError};
use crate::single_copy::Access;
use crate::sync::Ordering;

impl ShmTransport {
    /// Returns where processes of other jobs find this one; `None` if they cannot.
    pub fn home(&self) -> Option<Home> {
        let (segment, me) = (&self.segment, self.segment.me());
        let number = self.peers.world(me).filter(|number| number.0 < OUTSIDERS_END)?;
        let home = Home::of_this_process(self.nonce()?, segment.place(), me)?;
        // Whether the system allows what others are going to do. The ring that is used for it is
        // nobody's.
        let ring = segment.outsider_ring(number, me);
        ring.allocate(0..segment.first_lap_granules()).and_then(|()| ring.map()).ok()?;
        Segment::open(&home).ok().map(|_| home)
    }

    /// Makes the rings to and from a process of another job, which lives at `home`. Both processes
    /// must do so before one of them waits for the other.
    pub fn meet(&mut self, peer: Peer, home: &Home) -> Result<(), SegmentError> {
        let (me, lap) = (self.segment.me(), 0..self.segment.first_lap_granules());
        let Some(own) = self.peers.world(me).filter(|_| self.peers.local(peer).is_none()) else {
            return Ok(());
        };
        let theirs = self.outsiders.open(home)?;
        let (incoming, place) =
            (self.segment.outsider_ring(peer, me), theirs.outsider_ring(own, home.rank));
        incoming.allocate(lap.clone())?;
        place.allocate(lap.clone())?;
        let consumer = Consumer::new(incoming.map()?, peer.0);
        let producer = Producer::new(place.map()?, lap.end, own.0);
        let frame = self.caps.frame.min(Producer::max_body(theirs.ring_lines()));
        let caps = Caps { frame, eager: self.caps.eager.min(frame - 8), ..self.caps };

        let local = self.peers.add(peer);
        self.access.push(Access::Unprobed);
        let control = theirs.control(home.rank);
        self.outsiders.add(theirs, home.rank);
        let outbound = Outbound::new((producer, place), &control.event_count, caps, local);
        let slots = self.outbound.len().max(peer.0 as usize + 1);
        self.outbound.resize_with(slots, || None);
        self.outbound[peer.0 as usize] = Some(Box::new(outbound));
        self.inbound.add(peer, local, control, consumer);
        Ok(())
    }

    /// Returns the control block of a local rank.
    pub(crate) fn control(&self, local: u32) -> &'static Control {
        let (segment, rank) = self.outsiders.find(&self.segment, local);
        segment.control(rank)
    }

    /// Returns the number by which the segment is known, which the first one to ask makes.
    fn nonce(&self) -> Option<u64> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty()).ok()?;
        let (ours, nonce) = (u64::from_ne_bytes(random) | 1, &self.segment.shared().nonce);
        // Relaxed: the word orders nothing else.
        Some(match nonce.compare_exchange(0, ours, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => ours,
            Err(theirs) => theirs,
        })
    }
}
