//! Detects a peer that has fallen silent: the daemon of a host, or `mpiexec`.
//!
//! Time is divided into intervals. [`MAX_SILENT`] intervals in a row without a message mean
//! that the peer is dead. Intervals are counted, not time: a process that was stopped, or
//! whose machine slept, has counted no intervals meanwhile and suspects no peer.

use std::time::{Duration, Instant};

/// Silent intervals in a row after which the peer is dead.
const MAX_SILENT: u32 = 5;

/// The result of one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// The interval is not over.
    Pending,
    /// The interval is over: send a message, so that the peer answers.
    Due,
    /// The peer is dead.
    Dead,
}

/// Watches one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    interval: Duration,
    next: Instant,
    silent: u32,
    /// Silent intervals after which the peer is dead; more before its first message.
    max_silent: u32,
    is_paused: bool,
}

impl Heartbeat {
    /// Watches a peer that is dead after this silence.
    pub(crate) fn new(dead_after: Duration, now: Instant) -> Heartbeat {
        let interval = dead_after / MAX_SILENT;
        let (next, max_silent) = (now + interval, MAX_SILENT);
        Heartbeat { interval, next, silent: 0, max_silent, is_paused: false }
    }

    /// Watches a peer that may be silent for `start_limit` (zero: for ever) before its first
    /// message.
    pub(crate) fn starting(dead_after: Duration, start_limit: Duration, now: Instant) -> Heartbeat {
        let mut heartbeat = Heartbeat::new(dead_after, now);
        let intervals = start_limit.as_secs_f64() / heartbeat.interval.as_secs_f64();
        heartbeat.max_silent = MAX_SILENT.max(intervals as u32);
        heartbeat.is_paused = start_limit.is_zero();
        heartbeat
    }

    /// Returns the silence after which the peer is dead.
    pub(crate) fn dead_after(&self) -> Duration {
        self.interval * MAX_SILENT
    }

    /// Records a message of the peer.
    pub(crate) fn received(&mut self) {
        (self.silent, self.max_silent, self.is_paused) = (0, MAX_SILENT, false);
    }

    /// Pauses until the next message: the peer has announced that it stops.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Ends the interval when its time is over.
    pub(crate) fn tick(&mut self, now: Instant) -> Tick {
        if now < self.next || self.is_paused {
            return Tick::Pending;
        }
        self.next = now + self.interval;
        self.silent += 1;
        if self.silent < self.max_silent { Tick::Due } else { Tick::Dead }
    }

    /// Returns the time of the next [`Heartbeat::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_paused).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_is_death_and_a_message_is_life() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(5 * SECOND, start);
        assert_eq!(heartbeat.tick(start), Tick::Pending);
        for second in 1..=4 {
            assert_eq!(heartbeat.tick(start + second * SECOND), Tick::Due);
            assert_eq!(heartbeat.tick(start + second * SECOND), Tick::Pending);
        }
        let mut other = heartbeat;
        assert_eq!(heartbeat.tick(start + 5 * SECOND), Tick::Dead);
        other.received();
        assert_eq!(other.tick(start + 5 * SECOND), Tick::Due);
    }

    #[test]
    fn a_peer_that_is_starting_may_be_silent_until_its_first_message() {
        let start = Instant::now();
        let ticks = |heartbeat: &mut Heartbeat, seconds: std::ops::RangeInclusive<u32>| {
            seconds.filter(|s| heartbeat.tick(start + *s * SECOND) == Tick::Dead).min()
        };
        let starting = Heartbeat::starting(5 * SECOND, 20 * SECOND, start);
        assert_eq!(ticks(&mut { starting }, 1..=30), Some(20));
        let mut heard = starting;
        assert_eq!(ticks(&mut heard, 1..=10), None);
        heard.received();
        assert_eq!(ticks(&mut heard, 11..=30), Some(15));
        let unlimited = Heartbeat::starting(5 * SECOND, Duration::ZERO, start);
        assert_eq!(ticks(&mut { unlimited }, 1..=1000), None);
    }

    #[test]
    fn a_process_that_slept_suspects_no_peer() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(5 * SECOND, start);
        assert_eq!(heartbeat.tick(start + 3600 * SECOND), Tick::Due);
        assert_eq!(heartbeat.tick(start + 3600 * SECOND), Tick::Pending);
        heartbeat.pause();
        assert_eq!(
            (heartbeat.tick(start + 7200 * SECOND), heartbeat.deadline()),
            (Tick::Pending, None)
        );
        heartbeat.received();
        assert_eq!(heartbeat.tick(start + 7200 * SECOND), Tick::Due);
    }
}
