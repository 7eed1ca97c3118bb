//! The sending half of the data path.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use fabric::{Header, Peer, PeerFailed, Post, Slot};

use crate::coalesce::Bundle;
use crate::connect::{FRONT, PREFIX, VerbsTransport, mark};
use crate::eager_rdma::wire as ring;
use crate::eager_rdma::wire::LEAD;
use crate::endpoint::{Endpoint, SIGNAL_EVERY, Signal, Unacked};
use crate::ibv::layout::send_flags;
use crate::ibv::{Destination, Sge, Work};
use crate::memory::Pool;

/// How long a peer is called that has not got everything when the process ends.
const CALL_AT_THE_END: Duration = Duration::from_secs(5);
/// Marks a slot of the pool of long ones.
pub(crate) const LONG: u32 = 1 << 31;

/// What a message of the prefix alone says in place of its number.
pub(crate) mod note {
    /// "So much I have consumed."
    pub(crate) const CREDIT: u32 = 0;
    /// The same, "and I want to know how much you have."
    pub(crate) const ASK: u32 = 1;
    /// The same, "and I write no more into your ring."
    pub(crate) const STOPPED: u32 = 2;
}

/// Gives a send slot back.
#[inline]
pub(crate) fn put(long: &mut Pool, short: &mut Pool, slot: u32) {
    if slot & LONG != 0 { long.put(slot & !LONG) } else { short.put(slot) }
}

impl VerbsTransport {
    /// Sends one frame, if the peer is connected and has room for it.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        debug_assert!(len <= self.caps.frame, "a body larger than a frame");
        let Some(at) = self.place(peer).filter(|&at| self.pairs[at].has_room(self.depth)) else {
            return self.no_room(peer);
        };
        if self.bundle != Bundle::Closed {
            if self.has_place_in_bundle(at, len) {
                self.put_into_bundle(at, header, len, fill);
                return Ok(Post::Sent);
            }
            // The last one may have found the connection broken.
            if !self.pairs[at].is_ready() {
                return self.no_room(peer);
            }
        }
        let bytes = FRONT + len;
        let Some(slot) = self.take_slot(bytes) else { return self.no_slot(at) };
        let is_written = slot & LONG == 0 && self.may_write(at);
        let (all, place) = match slot & LONG {
            0 => self.short.filled(slot, ring::taken(bytes)),
            _ => self.long.filled(slot & !LONG, LEAD + bytes),
        };
        let pair = &mut self.pairs[at];
        let number = pair.next;
        let Some((front, body)) = all[LEAD..LEAD + bytes].split_first_chunk_mut::<FRONT>() else {
            unreachable!("it has room for a header")
        };
        front[..4].copy_from_slice(&number.to_le_bytes());
        front[4..PREFIX].copy_from_slice(&pair.consumed.to_le_bytes());
        front[PREFIX..].copy_from_slice(&header.encode());
        fill(&mut Slot::new(body, false));
        pair.told = pair.consumed;
        pair.next = number.wrapping_add(1);
        (pair.used_at, pair.starved) = (self.polls, false);
        pair.retained.push_back(Unacked { slot, bytes: bytes as u32, first: number, frames: 1 });
        let (place, to) = match is_written {
            true => {
                ring::seal(all, bytes);
                let (addr, rkey) = pair.out.place(number);
                (place, Destination::write(addr, rkey))
            }
            false => (frame_in(place, bytes as u32), Destination::RECEIVE),
        };
        if pair.submit(place, to, Signal::NONE).is_err() {
            // It is kept, and goes with the next connection.
            self.break_pair(at, "a send was refused");
        } else if is_written {
            self.has_written(at);
        }
        Ok(Post::Sent)
    }

    #[inline(always)]
    fn take_slot(&mut self, bytes: usize) -> Option<u32> {
        if LEAD + bytes <= self.short.slot_bytes()
            && let Ok(Some(slot)) = self.short.take()
        {
            return Some(slot);
        }
        // A refusal of the system is no room like any other: slots come back.
        self.long.take().ok().flatten().map(|slot| slot | LONG)
    }

    #[cold]
    fn no_room(&mut self, peer: Peer) -> Result<Post, PeerFailed> {
        let at = self.meet(peer)?;
        if let Some(why) = &self.pairs[at].lost {
            return Err(PeerFailed { peer, why: why.clone() });
        }
        self.starve(at);
        self.want(at);
        Ok(Post::NoRoom)
    }

    /// All slots hold frames that were not said to be consumed: asks.
    #[cold]
    fn no_slot(&mut self, at: usize) -> Result<Post, PeerFailed> {
        self.starve(at);
        for place in 0..self.pairs.len() {
            let pair = &mut self.pairs[place];
            if pair.is_ready() && !pair.asked_for_credit && !pair.retained.is_empty() {
                pair.asked_for_credit = true;
                self.note(place, note::ASK);
            }
        }
        Ok(Post::NoRoom)
    }

    fn starve(&mut self, at: usize) {
        self.pairs[at].starved = true;
        if !self.starved.contains(&(at as u32)) {
            self.starved.push(at as u32);
        }
    }

    /// True when a peer that had no room has some now; forgets those that have.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let before = self.starved.len();
        let (pairs, depth, slots) = (&mut self.pairs, self.depth, self.long.has_free());
        self.starved.retain(|&at| {
            let pair = &mut pairs[at as usize];
            pair.starved &= pair.lost.is_none() && !(slots && pair.has_room(depth));
            pair.starved
        });
        self.starved.len() < before
    }

    /// Sends a message of the prefix alone. False when it has to be tried again.
    pub(crate) fn note(&mut self, at: usize, what: u32) -> bool {
        let Self { pairs, notes, .. } = self;
        let pair = &mut pairs[at];
        if !pair.is_ready() {
            // The next handshake tells.
            return true;
        }
        if pair.used >= self.depth {
            return false;
        }
        let Ok(Some(slot)) = notes.take() else { return false };
        let bytes = notes.bytes_mut(slot, PREFIX);
        bytes[..4].copy_from_slice(&what.to_le_bytes());
        bytes[4..].copy_from_slice(&pair.consumed.to_le_bytes());
        pair.told = pair.consumed;
        let signal = Signal { slot: Some(slot), ..Signal::NONE };
        if pair.submit(notes.sge(slot, PREFIX), Destination::RECEIVE, signal).is_err() {
            self.notes.put(slot);
            self.break_pair(at, "a send was refused");
        }
        true
    }

    /// True when the peers' devices have everything: only then may the queue pairs go with
    /// the process. A peer whose connection has broken in the meantime may have ended as
    /// well, so it is called for a while only.
    pub(crate) fn flush_all(&mut self) -> bool {
        let since = *self.flushing_since.get_or_insert_with(Instant::now);
        let in_time = since.elapsed() < CALL_AT_THE_END;
        let mut is_flushed = true;
        for at in 0..self.pairs.len() {
            // What completes by itself says that those before it have completed.
            if self.pairs[at].is_ready() && self.pairs[at].silent > 0 {
                self.note(at, note::CREDIT);
            }
            let pair = &self.pairs[at];
            // Nobody waits for the last notes.
            let has_said_all = pair.retained.is_empty() && pair.works.is_empty();
            is_flushed &= match pair.is_ready() {
                true => pair.used == 0 || (has_said_all && !in_time),
                false => pair.retained.is_empty() || pair.lost.is_some() || !in_time,
            };
        }
        if is_flushed {
            // A session may begin later, and end.
            self.flushing_since = None;
            // Others may still wait for an acknowledgement that was lost: Close says it.
            for at in 0..self.pairs.len() {
                if self.pairs[at].is_ready() {
                    self.close(at);
                }
            }
        }
        is_flushed
    }

    /// Sends again what the peer has not consumed.
    pub(crate) fn replay(&mut self, at: usize) {
        let Self { pairs, long, short, .. } = self;
        let pair = &mut pairs[at];
        for index in 0..pair.retained.len() {
            let held = pair.retained[index];
            let bytes = match held.slot & LONG {
                0 => short.bytes_mut(held.slot, LEAD + PREFIX),
                _ => long.bytes_mut(held.slot & !LONG, LEAD + PREFIX),
            };
            bytes[LEAD + 4..].copy_from_slice(&pair.consumed.to_le_bytes());
            if pair.submit(sge(long, short, &held), Destination::RECEIVE, Signal::NONE).is_err() {
                return self.break_pair(at, "a send was refused");
            }
        }
    }
}

/// The memory of a frame that is sent.
#[inline]
pub(crate) fn sge(long: &Pool, short: &Pool, held: &Unacked) -> Sge {
    let place = match held.slot & LONG {
        0 => short.sge(held.slot, LEAD),
        _ => long.sge(held.slot & !LONG, LEAD),
    };
    frame_in(place, held.bytes)
}

/// The same, of `length` bytes, in this slot.
#[inline]
fn frame_in(place: Sge, length: u32) -> Sge {
    Sge { addr: place.addr + LEAD as u64, length, ..place }
}

impl Signal {
    /// Completes by itself only if its turn has come.
    pub(crate) const NONE: Signal = Signal { requests: 0, piece: 0, slot: None };
}

impl Endpoint {
    /// Posts a request. One that is one-sided, or that has a slot to give back, completes
    /// by itself; of the others every so many.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        memory: Sge,
        to: Destination,
        signal: Signal,
    ) -> std::io::Result<()> {
        let Some(qp) = &self.qp else {
            return Err(std::io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        let requests = self.silent + 1;
        let is_signaled = requests >= SIGNAL_EVERY || signal.piece != 0 || signal.slot.is_some();
        let mut flags = if is_signaled { send_flags::SIGNALED } else { 0 };
        if memory.length <= qp.inline() && signal.piece == 0 {
            flags |= send_flags::INLINE;
        }
        // SAFETY: what is sent inline is a slot of a pool, mapped as long as the transport
        // lives and held by this request.
        unsafe { qp.post(&Work { id: mark::SEND, flags, memory, to }) }?;
        self.used += 1;
        self.silent = requests;
        if is_signaled {
            self.silent = 0;
            self.signaled.push_back(Signal { requests, ..signal });
        }
        Ok(())
    }
}
