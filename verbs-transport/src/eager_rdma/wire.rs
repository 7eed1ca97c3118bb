//! Frames that the sender writes into the receiver's memory, where the receiver looks for them:
//! their bytes, and the states of both ends. `docs/verbs.md` draws them.
//!
//! Pure: no device, no clock. [`written`](crate::eager_rdma::channel) does what is decided here.
//!
//! A ring has a place for each number that the window permits, so a place is free whenever its
//! frame may be sent, and frames of both ways, written and sent, keep one order by their numbers.
//! Bytes of a write may be placed in any order: a frame is there when its check says so of all
//! that was read. The receiver opens and closes its ring by writing to a *gate* in the sender's
//! memory, which the sender looks at before and after it writes a frame.
//!
//! Invariants: nothing is written where the gate was never open; a ring's memory goes to another
//! peer only when the sender has said that it has stopped, or its queue pair is gone.

use std::time::{Duration, Instant};

/// Bytes of a place in a ring.
pub(crate) const PLACE: usize = 256;
/// In front of a frame in its place, and in a send slot: check (8), length (8).
pub(crate) const LEAD: usize = 16;
/// Bytes of a gate's contents.
pub(crate) const GATE: usize = 24;
/// The first look of one who sleeps at a ring that is closing.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// Whether the receiver finds frames in a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// There is none.
    #[default]
    Absent,
    /// The peer may write.
    Open,
    /// The peer is told to stop: what it writes before it knows still comes.
    Closing { since: Instant },
    /// The connection is over; what has arrived is still taken.
    Draining,
}

/// What a sender knows of the ring that it may write to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outbound {
    /// The check of the gate's contents; 0 until there are any.
    seen: u64,
    way: Way,
}

/// What a gate says: where a ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// 0: it is closed.
    pub(crate) addr: u64,
    /// Closed, how often it was: so each closing shows, also to who did not see it open.
    pub(crate) rkey: u32,
    /// Places, a power of two, less one.
    pub(crate) mask: u32,
}

impl Inbound {
    /// When a sleeper is to look for what its peer wrote before it knew: after 1, 2, 4 .. ms,
    /// as long as anything can be under way.
    pub(crate) fn next_look(&self, now: Instant, longest: Duration) -> Option<Instant> {
        let Inbound::Closing { since } = *self else { return None };
        let elapsed = now.saturating_duration_since(since);
        let mut look = FIRST_LOOK;
        while look <= elapsed {
            look *= 2;
        }
        (elapsed <= longest).then(|| since + look)
    }
}

impl Outbound {
    /// True when `check`, the gate's first word, says nothing new.
    #[inline]
    pub(crate) fn has_seen(&self, check: u64) -> bool {
        self.seen == check
    }

    /// True when frames may be written.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.way.addr != 0
    }

    /// The gate's contents have changed; true if it was closed, so that the sender has to say that
    /// it has stopped. Contents that are not whole yet are looked at again.
    pub(crate) fn look(&mut self, gate: [u64; 3]) -> bool {
        let Some(way) = Way::decode(gate) else { return false };
        *self = Outbound { seen: gate[0], way };
        !self.is_open()
    }

    /// Address and key for a frame.
    #[inline]
    pub(crate) fn place(&self, number: u32) -> (u64, u32) {
        (
            self.way.addr.wrapping_add(u64::from(number & self.way.mask) * PLACE as u64),
            self.way.rkey,
        )
    }
}

impl Way {
    /// Closed for so many times.
    pub(crate) fn closed(times: u32) -> Way {
        Way { addr: 0, rkey: times, mask: 0 }
    }

    /// What is written to a gate.
    pub(crate) fn encode(&self) -> [u8; GATE] {
        let mut out = [0; GATE];
        out[8..16].copy_from_slice(&self.addr.to_le_bytes());
        out[16..20].copy_from_slice(&self.rkey.to_le_bytes());
        out[20..].copy_from_slice(&self.mask.to_le_bytes());
        let sum = check(GATE, &out[8..]);
        out[..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The reverse; `None` until everything has arrived.
    fn decode([sum, addr, rest]: [u64; 3]) -> Option<Way> {
        let way = Way { addr, rkey: rest as u32, mask: (rest >> 32) as u32 };
        (way.encode()[..8] == sum.to_le_bytes()).then_some(way)
    }
}

/// Bytes of a ring for so many frames under way.
pub(crate) fn bytes(window: u32) -> usize {
    window.next_power_of_two() as usize * PLACE
}

/// Bytes of a place that a frame of `len` bytes takes.
#[inline]
pub(crate) fn taken(len: usize) -> usize {
    LEAD + len.next_multiple_of(16)
}

/// Makes a send slot's contents, of which the frame of `len` bytes is written, those of a place:
/// `slot` has as many bytes as [`taken`] says. What they are behind the frame does not matter.
#[inline]
pub(crate) fn seal(slot: &mut [u8], len: usize) {
    let Some((lead, frame)) = slot.split_first_chunk_mut::<LEAD>() else { return };
    lead[..8].copy_from_slice(&check(len, frame).to_le_bytes());
    lead[8..].copy_from_slice(&(len as u64).to_le_bytes());
}

/// Copies frame `number` out of its place and says how long it is, if it is there as it was
/// sent. `word` reads the place's words, which may change meanwhile.
#[inline]
pub(crate) fn take(
    word: impl Fn(usize) -> u64,
    number: u32,
    frame: &mut [u8; PLACE],
) -> Option<usize> {
    if !is_there(&word, number) {
        return None;
    }
    let len = usize::try_from(word(1)).ok().filter(|&len| len > 8 && len <= PLACE - LEAD)?;
    let mut sum = Sum::new(len);
    for (at, bytes) in frame[..len.next_multiple_of(16)].chunks_exact_mut(16).enumerate() {
        let pair = [word(LEAD / 8 + 2 * at), word(LEAD / 8 + 2 * at + 1)];
        bytes[..8].copy_from_slice(&pair[0].to_le_bytes());
        bytes[8..].copy_from_slice(&pair[1].to_le_bytes());
        sum = sum.and(pair);
    }
    (sum.check() == word(0)).then_some(len)
}

/// False when frame `number` is not in its place; one look that nearly always suffices.
#[inline]
pub(crate) fn is_there(word: impl Fn(usize) -> u64, number: u32) -> bool {
    word(LEAD / 8) as u32 == number
}

/// The check of `bytes`, whole pairs of words, of which the first `len` matter.
#[inline]
fn check(len: usize, bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
    let pairs = bytes.chunks_exact(16).map(|pair| pair.split_at(8));
    pairs.fold(Sum::new(len), |sum, (first, second)| sum.and([word(first), word(second)])).check()
}

/// A sum over pairs of words. Anything missing changes it, also what differs in
/// the highest bits alone, or has changed places: so it is not linear.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    /// None that is likely to be sent.
    const OTHER: u64 = 0x6c8e_9cf5_7093_2bd5;

    #[inline]
    fn new(len: usize) -> Sum {
        Sum(Sum::fold(len as u64 ^ Sum::FACTOR, Sum::FACTOR))
    }

    #[inline]
    fn and(self, [first, second]: [u64; 2]) -> Sum {
        Sum(Sum::fold(first ^ self.0, second ^ Sum::OTHER))
    }

    /// Never 0.
    #[inline]
    fn check(self) -> u64 {
        Sum::fold(self.0 ^ Sum::FACTOR, Sum::FACTOR).max(1)
    }

    #[inline]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
