//! Meeting a process of another job on this host, and forgetting it; see `outsiders`.
//!
//! States of an outsider: met -> accepted, once it has connected -> forgotten, once it has ended
//! and its frames are read. A frame to a forgotten one is dropped, as nobody would read it.

#![allow(unsafe_code)]

use std::ops::Range;

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
        let local = self.peers.add(peer);
        self.outsiders.add(&self.segment, local, theirs, home.rank);
        self.access.resize_with(self.peers.local_ranks(), || Access::Unprobed);
        let slots = self.outbound.len().max(peer.0 as usize + 1);
        self.outbound.resize_with(slots, || None);
        // It may have connected before.
        self.accept_next_time();
        Ok(())
    }

    /// Forgets the processes of other jobs with these numbers, which have ended, and closes what
    /// was opened for them. Returns false if frames of theirs wait to be polled: then none is
    /// forgotten.
    pub fn forget(&mut self, numbers: &Range<u32>) -> bool {
        let of_outsiders = self.segment.size()..self.peers.local_ranks() as u32;
        let ended: Vec<(Peer, u32)> = of_outsiders
            .filter_map(|local| Some((self.peers.world(local)?, local)))
            .filter(|(peer, _)| numbers.contains(&peer.0))
            .collect();
        let is_read = |&(_, local): &(Peer, u32)| !self.inbound.has_unread_from(local);
        // A frame may wait in a ring that is not mapped yet.
        if !ended.is_empty() && (self.has_new_peers() || !ended.iter().all(is_read)) {
            return false;
        }
        ended.into_iter().for_each(|(peer, local)| self.forget_one(peer, local));
        true
    }

    fn forget_one(&mut self, peer: Peer, local: u32) {
        self.peers.forget(local);
        self.blocked.retain(|other| *other != peer);
        self.access[local as usize] = Access::Unprobed;
        let inbound = self.inbound.remove_from(local);
        let outbound = self.outbound[peer.0 as usize].take();
        let segment = self.outsiders.forget(&self.segment, local);
        let pool = inbound.as_ref().and_then(|inbound| inbound.pool.as_ref());
        let bodies = pool.map(|pool| pool.memory());
        let rings = [
            inbound.map(|inbound| inbound.consumer.into_memory()),
            outbound.map(|outbound| outbound.producer.into_memory()),
        ];
        // SAFETY: the two sides of the pair alone used the rings and bodies; all sides of pairs
        // with processes of a segment that is no longer known are gone, and with them their
        // references to its control blocks. Nothing is lent to outsiders or borrowed from them.
        unsafe {
            rings.into_iter().flatten().for_each(|ring| ring.unmap());
            bodies.into_iter().for_each(|bodies| bodies.unmap());
            segment.into_iter().for_each(|segment| segment.close());
        }
        self.segment.outsider_ring(peer, self.segment.me()).give_back();
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
