//! Meeting a process of another job on this host; see `outsiders`.

use fabric::{Peer, PeerFailed};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::connect::ShmTransport;
use crate::control::Control;
use crate::home::Home;
use crate::layout::OUTSIDERS_END;
use crate::outsiders::outsider_bit;
use crate::ring::Consumer;
use crate::segment::{Segment, SegmentError};
use crate::single_copy::Access;
use crate::sync::Ordering;

impl ShmTransport {
    /// Returns where processes of other jobs find this one; `None` if they cannot.
    pub fn home(&self) -> Option<Home> {
        let (segment, me) = (&self.segment, self.segment.me());
        let number = Some(self.number()).filter(|number| number.0 < OUTSIDERS_END)?;
        let home = Home::of_this_process(self.nonce()?, segment.place(), me, segment.ring_bytes())?;
        // Whether the system allows what other processes are going to do. No process sends on the
        // ring that is used for it.
        let ring = segment.outsider_ring(number, me);
        ring.allocate(0..segment.first_lap_granules()).and_then(|()| ring.map()).ok()?;
        Segment::open(&home).ok().map(|_| home)
    }

    /// Makes a process of another job, which lives at `home`, reachable. Both processes must do so
    /// before one of them waits for the other.
    pub fn meet(&mut self, peer: Peer, home: &Home) -> Result<(), SegmentError> {
        if self.peers.local(peer).is_some() {
            return Ok(());
        }
        let theirs = self.outsiders.open(home)?;
        self.peers.add(peer);
        self.access.push(Access::Unprobed);
        self.outsiders.add(theirs, home.rank);
        let slots = self.outbound.len().max(peer.0 as usize + 1);
        self.outbound.resize_with(slots, || None);
        // It may have connected before.
        self.accept_next_time();
        Ok(())
    }

    /// Maps the rings of the outsiders that were met and have connected.
    pub(crate) fn accept_outsiders(&mut self, failed: &mut Vec<PeerFailed>) {
        let bits = self.own.outsiders.load(Ordering::Relaxed);
        let (me, lap) = (self.segment.me(), 0..self.segment.first_lap_granules());
        for local in self.segment.size()..self.peers.local_ranks() as u32 {
            let Some(peer) = self.peers.world(local) else { continue };
            if bits & outsider_bit(peer) == 0 || !self.outsiders.accept(&self.segment, local) {
                continue;
            }
            let place = self.segment.outsider_ring(peer, me);
            // Another one with the same bit may have connected, and this one not.
            match place.allocate(lap.clone()).and_then(|()| place.map()) {
                Ok(memory) => {
                    let consumer = Consumer::new(memory, peer.0);
                    self.inbound.add(peer, local, self.control(local), consumer);
                }
                Err(error) => failed.push(PeerFailed { peer, why: error.to_string() }),
            }
        }
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
