//! Chooses how bodies are stored: into the cache or past it.
//!
//! Stores into the cache win where sender and receiver share one; stores past it (non-temporal)
//! win where they do not. In a virtual machine that changes while a job runs; therefore each pair
//! measures it. The sender times some of its writes, the receiver the reads of the same bodies
//! ([`CopyCost`], returned through a word of the ring).
//!
//! A cost depends on how the lines were written the time before. A trial of the other kind
//! therefore lasts two laps of the bounce pool, and the second decides unless the difference is
//! twofold at once. Trials get rarer while they fail, up to [`MAX_TRIAL_INTERVAL`].

use crate::copy_cost::{CopyCost, RecentCosts};

/// How a body is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// Into the cache.
    Temporal,
    /// Past the cache.
    NonTemporal,
}

impl StoreKind {
    fn other(self) -> StoreKind {
        match self {
            StoreKind::Temporal => StoreKind::NonTemporal,
            StoreKind::NonTemporal => StoreKind::Temporal,
        }
    }
}

/// Write plus read below this, nanoseconds for 64 KiB, means a shared cache.
const SHARED_CACHE_NS: u64 = 3_500;
/// Longest interval between two trials, laps of the bounce pool.
const MAX_TRIAL_INTERVAL: u32 = 256;
/// Bodies of which one is timed.
const TIMED_EVERY: u32 = 8;

impl CopyCost {
    /// Returns the word in which the reader reports a cost; never 0.
    pub(crate) fn encode(self, kind: StoreKind) -> u64 {
        u64::from(self.0) << 2 | (kind as u64) << 1 | 1
    }

    fn decode(word: u64) -> Option<(StoreKind, CopyCost)> {
        let kind = if word & 2 == 0 { StoreKind::Temporal } else { StoreKind::NonTemporal };
        (word & 1 != 0).then_some((kind, CopyCost((word >> 2) as u32)))
    }
}

/// The faster kind of stores between two ranks, as far as is known.
#[derive(Debug)]
pub(crate) struct StoreTuner {
    kind: StoreKind,
    /// Lap in which the trial of the other kind began.
    trial: Option<u32>,
    /// Lap of the next trial.
    next_trial: u32,
    /// Laps between the last two trials.
    interval: u32,
    /// Costs of writes, by kind.
    written: [RecentCosts; 2],
    /// Costs of reads, by kind.
    read: [RecentCosts; 2],
    /// The reader's last report.
    last_report: u64,
    bodies: u32,
}

impl Default for StoreTuner {
    fn default() -> StoreTuner {
        StoreTuner {
            kind: StoreKind::Temporal,
            trial: None,
            next_trial: 2,
            interval: 2,
            written: Default::default(),
            read: Default::default(),
            last_report: 0,
            bodies: 0,
        }
    }
}

impl StoreTuner {
    /// Returns the kind for the next body, in that lap of the pool, and whether it is timed.
    pub(crate) fn next(&mut self, lap: u32) -> (StoreKind, bool) {
        self.bodies = self.bodies.wrapping_add(1);
        match self.trial {
            Some(began) => self.judge(lap, began),
            None if lap >= self.next_trial && self.should_try_other() => {
                let other = self.kind.other() as usize;
                (self.written[other], self.read[other]) = Default::default();
                self.trial = Some(lap);
            }
            None => {}
        }
        let kind = if self.trial.is_some() { self.kind.other() } else { self.kind };
        (kind, self.bodies.is_multiple_of(TIMED_EVERY))
    }

    /// Records the cost of a timed write.
    pub(crate) fn record_write_cost(&mut self, kind: StoreKind, cost: CopyCost) {
        self.written[kind as usize].push(cost);
    }

    /// Returns whether it is time to look for the reader's report.
    pub(crate) fn due_for_feedback(&self) -> bool {
        self.bodies % TIMED_EVERY == TIMED_EVERY - 1
    }

    /// Records the reader's report.
    pub(crate) fn record_read_cost(&mut self, report: u64) {
        if report != self.last_report
            && let Some((kind, cost)) = CopyCost::decode(report)
        {
            self.last_report = report;
            self.read[kind as usize].push(cost);
        }
    }

    /// Returns the faster kind, as far as is known.
    pub(crate) fn best(&self) -> StoreKind {
        self.kind
    }

    /// Returns false while the cost shows that both ranks share a cache.
    fn should_try_other(&self) -> bool {
        let least = if self.kind == StoreKind::Temporal { SHARED_CACHE_NS } else { 0 };
        self.cost(self.kind).is_some_and(|cost| cost > least)
    }

    /// Ends the trial when enough is known.
    fn judge(&mut self, lap: u32, began: u32) {
        let (Some(now), Some(tried)) = (self.cost(self.kind), self.cost(self.kind.other())) else {
            return;
        };
        let is_fair = lap > began + 1;
        if tried < now && (is_fair || 2 * tried < now) {
            self.kind = self.kind.other();
            self.interval = 2;
        } else if is_fair || tried > 2 * now {
            self.interval = (2 * self.interval).min(MAX_TRIAL_INTERVAL);
        } else {
            return;
        }
        self.trial = None;
        self.next_trial = lap + self.interval;
    }

    fn cost(&self, kind: StoreKind) -> Option<u64> {
        let (written, read) = (&self.written[kind as usize], &self.read[kind as usize]);
        Some(u64::from(written.least()?) + u64::from(read.least()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_kind_is_found_and_left_again() {
        let (mut tuner, mut lap) = (StoreTuner::default(), 0);
        let (temporal, past) = (StoreKind::Temporal, StoreKind::NonTemporal);
        let rare = MAX_TRIAL_INTERVAL * 64 * 5 / 4;
        // A cost below SHARED_CACHE_NS starts no trial, a higher one a trial now and then.
        for (costs, expected, most) in [
            ([1_000, 2_000], temporal, 0),
            ([30_000, 2_000], past, rare),
            ([10_000, 20_000], temporal, rare),
            ([1_000, 2_000], temporal, 256),
        ] {
            let mut slow = 0;
            for _ in 0..2 * MAX_TRIAL_INTERVAL + 16 {
                lap += 1;
                for body in 0..64 {
                    let (kind, timed) = tuner.next(lap);
                    slow += u32::from(kind != expected);
                    let interrupted = if body == 21 { 1_000_000 } else { 0 };
                    if timed {
                        let cost = costs[kind as usize];
                        tuner.record_write_cost(kind, CopyCost(cost + interrupted));
                        tuner.record_read_cost(CopyCost(cost + body / 8 % 2).encode(kind));
                    }
                }
            }
            assert_eq!(tuner.best(), expected);
            assert!(slow <= most, "{slow} bodies were stored the slower way");
        }
    }
}
