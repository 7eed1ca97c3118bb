//! Chooses how a large body is copied: twice, through the segment; once, straight out of the
//! sender's memory (`single_copy`); or once by both ranks, each a half.
//!
//! Two ranks that both copy win where they share a cache. A single copy wins where lines cross
//! slowly, and halves win where the sender has nothing else to do. In a virtual machine that
//! changes while a job runs; therefore the receiver measures it, for each sender and class of
//! sizes.
//!
//! ```text
//!               `interval` bodies                 four bodies copied that way
//!   the fastest -----------------> trial of the -----------------------------> the faster one
//!                                    next way     or `MAX_TRIAL` bodies, if the sender does
//!                                                 not send that way
//! ```
//!
//! A trial ends with one body that takes many times as long: in a virtual machine the system may
//! copy at a tenth of the speed. Trials get rarer while they fail. All messages that are begun in a
//! trial are copied the tried way: ways that alternate would hold each other up, and cost the same.
//!
//! The receiver alone decides about messages that are announced anyway. Of shorter ones it tells
//! the sender which classes it wants to have announced, by a bit for each in a word of the ring.

use std::time::{Duration, Instant};

use crate::copy_cost::{CopyCost, RecentCosts};

/// How a body is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// By the sender into the segment, by the receiver out of it.
    Two,
    /// By the receiver.
    One,
    /// The first half by the receiver, the second by the sender.
    Halves,
}

impl Copies {
    const ALL: [Copies; 3] = [Copies::Two, Copies::One, Copies::Halves];

    /// The way to try after this one.
    fn next(self) -> Copies {
        Copies::ALL[(self as usize + 1) % Copies::ALL.len()]
    }
}

/// Classes of sizes. Each begins at twice the bytes of the one before; the last has no end.
const CLASSES: usize = 7;
/// Binary logarithm of the least bytes of the first class. Below, announcing costs what a copy
/// saves.
const FIRST_CLASS: u32 = 15;
/// Least bytes of the first class.
pub(crate) const LEAST_BYTES: u32 = 1 << FIRST_CLASS;
/// Bodies between two trials.
const INTERVAL: std::ops::RangeInclusive<u32> = 4..=4096;
/// Factor of the interval after a trial that took more than twice as long.
const FAR_FACTOR: u32 = 8;
/// Factor of the cost from which on one body of a trial ends it. An interrupt that makes one so
/// slow only puts the next trial off.
const HOPELESS_FACTOR: u32 = 4;
/// Bodies after which a trial ends in which the sender did not send the other way.
const MAX_TRIAL: u32 = 128;

/// What an announcement and the answer that frees the sender cost a rank, nanoseconds.
const ANNOUNCEMENT_NS: u64 = 600;

/// Least bytes of messages that are announced in an exchange. Of shorter ones two copies take about
/// as long as one, and more than either if the two ranks choose differently.
const EXCHANGE_MIN: u64 = 128 << 10;

/// Returns the class of a body; `None` for one that is too short to be copied once.
#[inline]
pub(crate) fn class_of(bytes: u64) -> Option<usize> {
    let class = bytes.checked_ilog2()?.checked_sub(FIRST_CLASS)?;
    Some((class as usize).min(CLASSES - 1))
}

/// The receiver's time for a body in the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTime {
    copying: Duration,
    waiting: Duration,
}

impl ReadTime {
    /// `all`: from the frame to the last byte. `waiting`: for bytes that were not written yet.
    pub(crate) fn new(all: Duration, waiting: Duration) -> ReadTime {
        ReadTime { copying: all.saturating_sub(waiting), waiting }
    }
}

/// Returns the cost of two copies of `bytes`. `before` of them were written while the receiver had
/// a large message of its own to send, as in an exchange. Then each rank writes as much as it
/// reads, and the two copies do not overlap; therefore the work of both counts for those, however
/// the sender reads meanwhile what this rank sends. Writing takes about as long as reading.
pub(crate) fn cost_of_two(time: ReadTime, before: usize, bytes: usize) -> CopyCost {
    let [copying, waiting] = [time.copying, time.waiting].map(|time| time.as_nanos() as f64);
    let exchanged = before as f64 / bytes as f64;
    let nanoseconds = copying + exchanged * copying + (1.0 - exchanged) * waiting;
    CopyCost::of(nanoseconds as u64, bytes)
}

/// Returns the cost of what was announced, by the receiver's time from then to the last byte. In an
/// exchange each rank also announces a message of its own.
pub(crate) fn cost_of_announced(reading: Duration, bytes: u64, is_exchange: bool) -> CopyCost {
    if is_exchange && bytes < EXCHANGE_MIN {
        return CopyCost::MOST;
    }
    let announcements = if is_exchange { 2 } else { 1 };
    let nanoseconds = reading.as_nanos() as u64 + announcements * ANNOUNCEMENT_NS;
    CopyCost::of(nanoseconds, bytes as usize)
}

/// The fastest way for one class, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Class {
    best: Copies,
    /// Costs by [`Copies`].
    costs: [RecentCosts; 3],
    /// The way that is tried, or was last.
    tried: Copies,
    is_trial: bool,
    /// Announced messages that were begun in the trial.
    begun: u32,
    /// Bodies since the last trial, or in this one.
    bodies: u32,
    /// Bodies before the next trial.
    interval: u32,
}

impl Class {
    const NEW: Class = Class {
        best: Copies::Two,
        costs: [RecentCosts::NONE; 3],
        tried: Copies::Two,
        is_trial: false,
        begun: 0,
        bodies: 0,
        interval: *INTERVAL.start(),
    };

    fn next(&self) -> Copies {
        if self.is_trial { self.tried } else { self.best }
    }

    /// As `next`, for an announced message that is begun now. Many may be begun before the first of
    /// them ends. All of these are tried: messages of both ways at once would cost the same.
    fn begin(&mut self, may_halve: bool) -> Copies {
        let copies = self.next();
        if copies == Copies::Halves && !may_halve {
            return Copies::One;
        }
        self.begun += 1;
        copies
    }

    fn record(&mut self, copies: Copies, cost: CopyCost) {
        self.costs[copies as usize].push(cost);
        self.bodies += 1;
        if self.is_trial {
            let least = |copies: Copies| self.costs[copies as usize].least();
            let (now, tried) = (least(self.best), least(self.tried));
            let is_hopeless = |now| copies == self.tried && cost.0 / HOPELESS_FACTOR > now;
            let alone = Some(cost.0).filter(|_| now.is_some_and(is_hopeless));
            self.judge(now, tried.or(alone));
        } else if self.bodies >= self.interval {
            self.tried = self.tried.next();
            if self.tried == self.best {
                self.tried = self.tried.next();
            }
            self.costs[self.tried as usize] = RecentCosts::NONE;
            (self.is_trial, self.begun, self.bodies) = (true, 0, 0);
        }
    }

    /// Ends the trial when enough is known.
    fn judge(&mut self, now: Option<u32>, tried: Option<u32>) {
        match (now, tried) {
            (None, Some(_)) => {}
            // It must be faster by more than what two measurements differ by.
            (Some(now), Some(tried)) if tried < now - now / 16 => {
                self.best = self.tried;
            }
            (_, None) if self.bodies < MAX_TRIAL => return,
            _ => {
                let is_far = now.zip(tried).is_some_and(|(now, tried)| tried / 2 > now);
                let rarer = if is_far { FAR_FACTOR } else { 2 };
                self.interval = (rarer * self.interval).max(self.begun).min(*INTERVAL.end());
            }
        }
        (self.is_trial, self.bodies) = (false, 0);
    }
}

/// The fastest way from one sender, for each class.
#[derive(Debug)]
pub(crate) struct CopyTuner {
    classes: [Class; CLASSES],
}

impl Default for CopyTuner {
    fn default() -> CopyTuner {
        CopyTuner { classes: [Class::NEW; CLASSES] }
    }
}

/// The time that an announced message takes. Others of the same sender come meanwhile; therefore it
/// counts for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Address of the message at the sender.
    pub addr: u64,
    pub class: usize,
    pub copies: Copies,
    pub begun: Instant,
    /// What had come from the sender before.
    pub before: Large,
    /// This rank had announced messages of its own. Then the sender may have to read those, and
    /// what it copies for this one costs as much time as the receiver's part.
    pub is_exchange: bool,
}

impl Timing {
    /// Returns the cost when so much has come.
    pub(crate) fn cost(&self, now: Large) -> CopyCost {
        let (before, is_exchange) = (self.before, self.is_exchange);
        let pushed = now.pushed - before.pushed;
        if is_exchange && self.copies == Copies::Two && pushed > 0 {
            let copied = 2 * (now.copying - before.copying);
            return cost_of_announced(copied, pushed, is_exchange);
        }
        let parts = if is_exchange { 2 } else { 1 };
        cost_of_announced(parts * self.begun.elapsed(), now.bytes - before.bytes, is_exchange)
    }
}

/// What has come from one sender of announced messages, or is sure to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Large {
    pub bytes: u64,
    /// Bytes of those that came through the segment...
    pub pushed: u64,
    /// ... and the time that the receiver has copied them.
    pub copying: Duration,
}

impl Large {
    /// Counts bytes that have come through the segment.
    pub(crate) fn push(&mut self, time: ReadTime, bytes: usize) {
        self.bytes += bytes as u64;
        self.pushed += bytes as u64;
        self.copying += time.copying;
    }
}

impl CopyTuner {
    /// Returns how an announced message of a class, which is begun now, should be copied.
    pub(crate) fn begin(&mut self, class: usize, may_halve: bool) -> Copies {
        self.classes[class].begin(may_halve)
    }

    /// Records the cost of a body, or of a message.
    pub(crate) fn record(&mut self, class: usize, copies: Copies, cost: CopyCost) {
        self.classes[class].record(copies, cost);
    }

    /// Returns the classes that the receiver wants to have announced, a bit for each.
    pub(crate) fn wanted(&self) -> u64 {
        let bit = |(at, class): (usize, &Class)| u64::from(class.next() != Copies::Two) << at;
        self.classes.iter().enumerate().map(bit).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_double() {
        let classes = [(0, None), (32 << 10, Some(0)), (128 << 10, Some(2)), (u64::MAX, Some(6))];
        for (bytes, class) in classes {
            assert_eq!(class_of(bytes), class, "{bytes} bytes");
        }
        assert_eq!([class_of((32 << 10) - 1), class_of((64 << 10) - 1)], [None, Some(0)]);
    }

    #[test]
    fn an_exchange_costs_the_work_of_both_copies_and_no_waiting() {
        let bytes = 64 << 10;
        let [copying, waiting] = [3, 8].map(Duration::from_micros);
        let time = ReadTime::new(copying + waiting, waiting);
        let costs = [0, bytes / 2, bytes].map(|before| cost_of_two(time, before, bytes).0);
        assert_eq!(costs, [11_000, 8_500, 6_000]);
        let mut large = Large::default();
        let before = large;
        large.push(time, bytes);
        let timing = Timing {
            addr: 0,
            class: 3,
            copies: Copies::Two,
            begun: Instant::now(),
            before,
            is_exchange: true,
        };
        large.bytes += 10 << 20;
        let announced = cost_of_announced(2 * copying, bytes as u64, true);
        let long = Timing { copies: Copies::Halves, ..timing };
        assert!(timing.cost(large) == announced && long.cost(large) != announced);
    }

    #[test]
    fn the_fastest_way_is_found_and_left_again() {
        let mut tuner = CopyTuner::default();
        for (costs, expected) in [
            ([2_000, 9_000, 9_000], Copies::Two),
            ([9_000, 2_000, 4_000], Copies::One),
            ([9_000, 2_000, 1_000], Copies::Halves),
            ([800, 2_000, 1_000], Copies::Two),
        ] {
            let mut slow = 0;
            for body in 0..20_000 {
                let copies = tuner.begin(3, true);
                slow += u32::from(copies != expected);
                let interrupted = if body % 21 == 0 { 1_000_000 } else { 0 };
                tuner.record(3, copies, CopyCost(costs[copies as usize] + interrupted));
            }
            assert_eq!(tuner.classes[3].next(), expected);
            assert_eq!(tuner.wanted(), if expected == Copies::Two { 0 } else { 1 << 3 });
            assert!(slow < 9_000, "{slow} bodies were copied a slower way");
        }
    }

    #[test]
    fn a_way_that_takes_far_longer_is_tried_more_seldom() {
        let tried = |cost: u32| {
            let mut tuner = CopyTuner::default();
            let mut bodies = 0;
            for _ in 0..400 {
                let copies = tuner.begin(4, true);
                bodies += u32::from(copies != Copies::Two);
                let cost = if copies == Copies::Two { 1_000 } else { cost };
                tuner.record(4, copies, CopyCost(cost));
            }
            bodies
        };
        assert_eq!([tried(1_500), tried(3_000), tried(9_000)], [24, 12, 3]);
    }

    #[test]
    fn a_sender_that_sends_one_way_is_tried_ever_more_seldom() {
        let mut tuner = CopyTuner::default();
        let mut wanted = 0;
        for _ in 0..100_000 {
            wanted += u32::from(tuner.wanted() != 0);
            tuner.record(0, Copies::Two, CopyCost(5_000));
        }
        assert_eq!(tuner.classes[0].next(), Copies::Two);
        assert!((1..10_000).contains(&wanted), "{wanted} bodies of 100,000 were in trials");
    }
}
