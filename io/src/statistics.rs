//! What was read from and written to an open file, by this member and by all.
//!
//! Each access adds to [`Statistics`], and each call of the system to those of the disk. When the
//! file is closed, the members exchange their [`Counts`] with the agreement that closing makes
//! anyway. Times overlap if threads access the file at once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::access::Direction;

/// The accesses of one member, as they happen.
pub(crate) struct Statistics {
    opened: Instant,
    read: Side,
    written: Side,
}

/// The accesses in one direction.
#[derive(Default)]
struct Side {
    calls: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    /// Of one call, bytes; the complement, so that 0 is the first state.
    smallest: AtomicU64,
    largest: AtomicU64,
    pieces: AtomicU64,
    aggregated: AtomicU64,
}

/// One access.
pub(crate) struct Access {
    pub(crate) bytes: u64,
    /// Pieces of the file that they lie in.
    pub(crate) pieces: u64,
    /// It went through aggregators.
    pub(crate) aggregated: bool,
    pub(crate) time: Duration,
}

/// What one member did in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounts {
    /// Accesses that moved data.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time in them, nanoseconds.
    pub nanos: u64,
    /// Fewest bytes of an access.
    pub smallest: u64,
    /// Most bytes of an access.
    pub largest: u64,
    /// Pieces of the file that the bytes lie in.
    pub pieces: u64,
    /// Bytes that went through aggregators.
    pub aggregated: u64,
    /// Calls of the system, for this member's data and that of others.
    pub system_calls: u64,
}

/// What one member did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How long the file was open, nanoseconds.
    pub open_nanos: u64,
    /// Reads.
    pub read: SideCounts,
    /// Writes.
    pub written: SideCounts,
}

impl Side {
    fn counts(&self, system_calls: u64) -> SideCounts {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let calls = load(&self.calls);
        SideCounts {
            calls,
            bytes: load(&self.bytes),
            nanos: load(&self.nanos),
            smallest: if calls == 0 { 0 } else { !load(&self.smallest) },
            largest: load(&self.largest),
            pieces: load(&self.pieces),
            aggregated: load(&self.aggregated),
            system_calls,
        }
    }
}

impl Statistics {
    /// Returns the statistics of a file that was just opened.
    pub(crate) fn new() -> Statistics {
        Statistics { opened: Instant::now(), read: Side::default(), written: Side::default() }
    }

    /// Adds an access; one without bytes counts for nothing.
    pub(crate) fn add(&self, direction: Direction, access: &Access) {
        if access.bytes == 0 {
            return;
        }
        let side = if direction == Direction::Read { &self.read } else { &self.written };
        side.calls.fetch_add(1, Relaxed);
        side.bytes.fetch_add(access.bytes, Relaxed);
        side.nanos.fetch_add(access.time.as_nanos() as u64, Relaxed);
        side.smallest.fetch_max(!access.bytes, Relaxed);
        side.largest.fetch_max(access.bytes, Relaxed);
        side.pieces.fetch_add(access.pieces, Relaxed);
        side.aggregated.fetch_add(if access.aggregated { access.bytes } else { 0 }, Relaxed);
    }

    /// Returns the sums so far; `calls`: reads and writes of the system.
    pub(crate) fn counts(&self, calls: (u64, u64)) -> Counts {
        let open_nanos = self.opened.elapsed().as_nanos() as u64;
        Counts {
            open_nanos,
            read: self.read.counts(calls.0),
            written: self.written.counts(calls.1),
        }
    }
}

impl Counts {
    /// Number of words of encoded counts.
    const WORDS: usize = 17;
    /// Bytes of encoded counts.
    pub(crate) const SIZE: usize = Counts::WORDS * 8;

    /// Encodes the fields in their order, 8 bytes each.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let side = |side: &SideCounts| {
            [
                side.calls,
                side.bytes,
                side.nanos,
                side.smallest,
                side.largest,
                side.pieces,
                side.aggregated,
                side.system_calls,
            ]
        };
        let sides = side(&self.read).into_iter().chain(side(&self.written));
        [self.open_nanos].into_iter().chain(sides).flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes what [`Counts::encode`] made.
    pub(crate) fn decode(bytes: &[u8]) -> Counts {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at * 8 + i]));
        let side = |at: usize| SideCounts {
            calls: word(at),
            bytes: word(at + 1),
            nanos: word(at + 2),
            smallest: word(at + 3),
            largest: word(at + 4),
            pieces: word(at + 5),
            aggregated: word(at + 6),
            system_calls: word(at + 7),
        };
        Counts { open_nanos: word(0), read: side(1), written: side(9) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sums_and_come_back() {
        let statistics = Statistics::new();
        for bytes in [0, 10, 4, 6] {
            let time = Duration::from_nanos(7);
            let access = Access { bytes, pieces: 2, aggregated: bytes == 4, time };
            statistics.add(Direction::Write, &access);
        }
        let counts = statistics.counts((1, 2));
        let wanted = SideCounts {
            calls: 3,
            bytes: 20,
            nanos: 21,
            smallest: 4,
            largest: 10,
            pieces: 6,
            aggregated: 4,
            system_calls: 2,
        };
        assert_eq!(counts.written, wanted);
        assert_eq!(counts.read, SideCounts { system_calls: 1, ..SideCounts::default() });
        let encoded = counts.encode();
        assert_eq!(encoded.len(), Counts::SIZE);
        assert_eq!(Counts::decode(&encoded), counts);
    }
}
