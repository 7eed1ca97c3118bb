//! The data path: post, poll, get, and what to sleep on.

use fabric::{Header, Limits, Lost, Memory, Peer, Post, Region, Sink, Transfer, Transport, WaitOn};

use crate::connect::ShmTransport;
use crate::single_copy::{self, Read};
use crate::sync::Ordering;
use crate::wake;

/// Frames taken from one ring before the next one has its turn.
const BATCH: usize = 16;

impl Transport for ShmTransport {
    #[inline]
    fn limits(&self, peer: Peer) -> &Limits {
        self.limits_of(peer)
    }

    #[inline]
    fn post(&mut self, peer: Peer, header: &Header, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Post, Lost> {
        let local = match self.local(peer) {
            Some(local) if self.is_connected(local) => local,
            _ => self.connect(peer)?,
        };
        let Some(producer) = self.outbound[local as usize].as_mut().and_then(|outbound| outbound.producer.as_mut())
        else {
            return Err(Lost { peer, why: "its ring is gone".into() });
        };
        match producer.push(header, len, fill) {
            Ok(true) => {
                wake::ring_doorbell(self.segment.control(local), self.registered);
                Ok(Post::Sent)
            }
            Ok(false) => {
                if !self.blocked.contains(&local) {
                    self.blocked.push(local);
                }
                Ok(Post::NoRoom)
            }
            Err(broken) => Err(Lost { peer, why: broken.to_string() }),
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.has_newcomers()
            && let Err(lost) = self.welcome()
        {
            sink.lost(lost);
        }
        let (mut moved, mut at) = (false, 0);
        while let Some(inbound) = self.inbound.get_mut(at) {
            let mut taken = 0;
            let outcome = loop {
                let peer = inbound.peer;
                let popped = inbound.consumer.pop(|frame| deliver(peer, frame, sink));
                match popped {
                    Ok(true) if taken + 1 < BATCH => taken += 1,
                    Ok(true) => break Ok(true),
                    Ok(false) => break Ok(taken > 0),
                    Err(broken) => break Err(broken),
                }
            };
            if inbound.consumer.has_returned_room() {
                wake::ring_doorbell(self.segment.control(inbound.local), self.registered);
            }
            match outcome {
                Ok(any) => moved |= any,
                Err(broken) => {
                    let inbound = self.inbound.swap_remove(at);
                    sink.lost(Lost { peer: inbound.peer, why: broken.to_string() });
                    continue;
                }
            }
            at += 1;
        }
        moved
    }

    fn register(&mut self, peer: Peer, memory: Memory) -> Option<Region> {
        (self.limits_of(peer).get_from != u64::MAX).then(|| Region { addr: memory.addr(), keys: [0; 4] })
    }

    fn release(&mut self, _peer: Peer, _region: Region) {}

    fn get(&mut self, peer: Peer, region: &Region, from: u64, into: Memory, _token: u64) -> Result<Transfer, Lost> {
        let Some(local) = self.local(peer) else { return Ok(Transfer::Refused) };
        let pid = self.segment.control(local).pid.load(Ordering::Acquire);
        if pid == 0 || self.limits_of(peer).get_from == u64::MAX {
            return Ok(Transfer::Refused);
        }
        match single_copy::read(pid, region.addr.wrapping_add(from), into) {
            Read::Done => Ok(Transfer::Done),
            Read::Failed => Ok(Transfer::Refused),
            Read::Forbidden => {
                self.forbid_single_copy(local);
                Ok(Transfer::Refused)
            }
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        for inbound in &mut self.inbound {
            // A sender that waits for room must not wait for our next message.
            inbound.consumer.return_room();
            if inbound.consumer.has_returned_room() {
                wake::ring_doorbell(self.segment.control(inbound.local), self.registered);
            }
        }
        let own = self.segment.control(self.segment.me());
        wake::announce(own);
        let arrived = self.has_newcomers() || self.inbound.iter().any(|inbound| inbound.consumer.is_ready());
        if arrived || self.has_room_again() {
            wake::awake(own);
            return None;
        }
        Some(WaitOn::Futex { word: word_of(&own.sleeping), value: 1 })
    }

    #[inline]
    fn disarm(&mut self) {
        wake::awake(self.segment.control(self.segment.me()));
    }
}

impl ShmTransport {
    /// True when somebody who had no room has some now; forgets who it was.
    fn has_room_again(&mut self) -> bool {
        let outbound = &mut self.outbound;
        let has_room = |&local: &u32| {
            let producer = outbound[local as usize].as_mut().and_then(|outbound| outbound.producer.as_mut());
            producer.is_none_or(|producer| producer.has_found_room())
        };
        let found = self.blocked.iter().any(has_room);
        if found {
            self.blocked.clear();
        }
        found
    }

    #[inline]
    fn is_connected(&self, local: u32) -> bool {
        matches!(self.outbound.get(local as usize), Some(Some(outbound)) if outbound.producer.is_some())
    }
}

/// Hands a frame up; what is no frame loses the peer.
#[inline]
fn deliver(peer: Peer, frame: &[u8], sink: &mut impl Sink) {
    match Header::decode(frame) {
        Ok((header, body)) => sink.frame(peer, &header, body),
        Err(malformed) => sink.lost(Lost { peer, why: malformed.to_string() }),
    }
}

#[cfg(not(loom))]
fn word_of(word: &crate::sync::AtomicU32) -> &std::sync::atomic::AtomicU32 {
    word
}

#[cfg(loom)]
fn word_of(_: &crate::sync::AtomicU32) -> &std::sync::atomic::AtomicU32 {
    unreachable!("no process sleeps under loom")
}
