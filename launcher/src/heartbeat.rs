//! Whether somebody who says nothing is still there.
//!
//! Time is cut into turns. A turn in which nothing was heard counts; after [`TURNS`] of them in
//! a row the other is dead. Turns are counted, not time: one who was stopped, or
//! whose machine slept, has had no turns meanwhile and suspects nobody.

use std::time::{Duration, Instant};

/// Silent turns of one who is dead.
const TURNS: u32 = 5;

/// What a turn comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is not over.
    Goes,
    /// Something should be said, so that the other answers.
    Over,
    /// The other is dead.
    Dead,
}

/// Listens to one other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    each: Duration,
    next: Instant,
    silent: u32,
    paused: bool,
}

impl Heartbeat {
    /// Dead is who says nothing for so long.
    pub(crate) fn new(dead_after: Duration, now: Instant) -> Heartbeat {
        let each = dead_after / TURNS;
        Heartbeat { each, next: now + each, silent: 0, paused: false }
    }

    /// The other has said something.
    pub(crate) fn heard(&mut self) {
        (self.silent, self.paused) = (0, false);
    }

    /// The other has announced that it will not say anything until it says something.
    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    /// Ends the turn when its time is over.
    pub(crate) fn tick(&mut self, now: Instant) -> Turn {
        if now < self.next || self.paused {
            return Turn::Goes;
        }
        self.next = now + self.each;
        self.silent += 1;
        if self.silent < TURNS { Turn::Over } else { Turn::Dead }
    }

    /// When [`Heartbeat::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.paused).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_is_death_and_a_word_is_life() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(5 * SECOND, start);
        assert_eq!(heartbeat.tick(start), Turn::Goes);
        for second in 1..=4 {
            assert_eq!(heartbeat.tick(start + second * SECOND), Turn::Over);
            assert_eq!(heartbeat.tick(start + second * SECOND), Turn::Goes);
        }
        let mut other = heartbeat;
        assert_eq!(heartbeat.tick(start + 5 * SECOND), Turn::Dead);
        other.heard();
        assert_eq!(other.tick(start + 5 * SECOND), Turn::Over);
    }

    #[test]
    fn who_slept_suspects_nobody() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(5 * SECOND, start);
        assert_eq!(heartbeat.tick(start + 3600 * SECOND), Turn::Over);
        assert_eq!(heartbeat.tick(start + 3600 * SECOND), Turn::Goes);
        heartbeat.pause();
        assert_eq!(
            (heartbeat.tick(start + 7200 * SECOND), heartbeat.deadline()),
            (Turn::Goes, None)
        );
        heartbeat.heard();
        assert_eq!(heartbeat.tick(start + 7200 * SECOND), Turn::Over);
    }
}
