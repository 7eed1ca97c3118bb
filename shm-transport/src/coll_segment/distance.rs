//! Whether the other members' caches are far from this one's.
//!
//! A slot is written again and again, and its lines are in the caches of those that have read it.
//! Where these are far, a store has to wait for each line; past the cache it has not. In a virtual
//! machine that changes while a job runs. The time of writes into the cache shows it; therefore
//! some rounds are written so in any case, long enough for each slot set to be written twice.
//!
//! A slot that no other member has read since, or whose readers run on this processor, is written
//! fast wherever the others are; therefore a slow write weighs more than a fast one. A write that
//! was interrupted says nothing.
//!
//! Bodies of messages have a tuner for each pair (`store_tuner`), whose reader reports what its
//! reads cost. Slots have many readers, which report nothing.

use std::time::Duration;

use crate::copy_cost::CopyCost;
use crate::sync::{AtomicU64, Ordering};

/// Bytes from which on writes are timed, and go past the cache where the others are far.
pub(crate) const FAR_MIN: usize = 16 << 10;
/// A write that takes more, nanoseconds for 64 KiB, is slow: memory takes as much in that time, a
/// near cache in a quarter of it.
const SLOW_NS: u32 = 8_000;
/// A write that takes more was interrupted.
const INTERRUPTED_NS: u32 = 16 * SLOW_NS;
/// What a slow write adds to the weight; a fast one takes one away.
const SLOW_WEIGHT: u64 = 2;
/// The weight from which on the others are far, and the most.
const FAR_WEIGHT: u64 = 4;
const MAX_WEIGHT: u64 = 8;
/// So many rounds in a row, once in so many, are written into the cache in any case.
const TRIAL_ROUNDS: u64 = 12;
const TRIAL_INTERVAL: u64 = 256;

/// What a member has found.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    weight: AtomicU64,
}

impl Distance {
    /// Returns whether long data is written past the cache in a round.
    pub(crate) fn is_far(&self, round: u64) -> bool {
        // Relaxed, here and below: one thread at a time.
        round % TRIAL_INTERVAL >= TRIAL_ROUNDS && self.weight.load(Ordering::Relaxed) >= FAR_WEIGHT
    }

    /// Records how long it took to write so many bytes into the cache.
    pub(crate) fn record_write(&self, bytes: usize, time: Duration) {
        let CopyCost(cost) = CopyCost::of(time.as_nanos() as u64, bytes);
        if cost > INTERRUPTED_NS {
            return;
        }
        let weight = self.weight.load(Ordering::Relaxed);
        let next = match cost > SLOW_NS {
            true => MAX_WEIGHT.min(weight + SLOW_WEIGHT),
            false => weight.saturating_sub(1),
        };
        self.weight.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_far_after_slow_writes_until_trials_are_fast() {
        let distance = Distance::default();
        let mut round = 0;
        // Returns how many of the rounds were written past the cache.
        let mut write = |slow_of_two: [bool; 2], interrupted: bool| {
            let before = round;
            let mut far = 0;
            while round < before + 10 * TRIAL_INTERVAL {
                let is_far = distance.is_far(round);
                far += u64::from(is_far);
                let cost = match slow_of_two[round as usize % 2] {
                    _ if interrupted && round % 8 == 5 => 1_000,
                    true => 20,
                    false => 3,
                };
                if !is_far {
                    distance.record_write(1 << 16, Duration::from_micros(cost));
                }
                round += 1;
            }
            far
        };
        assert_eq!(write([false, false], true), 0);
        let far = write([true, false], true);
        assert!(far > 9 * TRIAL_INTERVAL, "{far} rounds past the cache");
        let far = write([false, false], false);
        assert!(far <= TRIAL_INTERVAL, "{far} rounds past the cache after the change");
    }
}
