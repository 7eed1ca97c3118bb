//! What the ranks of a job do during a wait, for the report if it never ends: who makes progress,
//! who moves, and who is woken.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

/// The actions of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Actions {
    /// Progress, and progress that moved something.
    progress: u64,
    moved: u64,
    /// Ends of a sleep of all ranks.
    wakes: u64,
}

/// What has happened since a wait began.
#[derive(Debug, Default)]
pub(super) struct Unrest {
    ranks: Vec<Actions>,
    /// Rounds of progress.
    pub(super) rounds: usize,
    since: Option<Instant>,
}

impl Unrest {
    /// Begins a wait.
    pub(super) fn begin(&mut self) {
        *self = Unrest { since: Some(Instant::now()), ..Unrest::default() };
    }

    /// Counts a round.
    pub(super) fn next_round(&mut self) {
        self.rounds += 1;
    }

    /// Returns how long the wait lasts.
    pub(super) fn lasts(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Counts the progress of a rank.
    pub(super) fn progressed(&mut self, rank: usize, has_moved: bool) {
        let actions = self.rank(rank);
        actions.progress += 1;
        actions.moved += u64::from(has_moved);
    }

    /// Counts a rank that has ended a sleep.
    pub(super) fn woke(&mut self, rank: usize) {
        self.rank(rank).wakes += 1;
    }

    /// Returns the actions of a rank.
    pub(super) fn of(&self, rank: usize) -> Actions {
        self.ranks.get(rank).copied().unwrap_or_default()
    }

    fn rank(&mut self, rank: usize) -> &mut Actions {
        if rank >= self.ranks.len() {
            self.ranks.resize(rank + 1, Actions::default());
        }
        &mut self.ranks[rank]
    }
}

impl Display for Unrest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} rounds in {:?}", self.rounds, self.lasts())
    }
}

impl Display for Actions {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Actions { progress, moved, wakes } = self;
        write!(out, "{progress} times progress ({moved} moved), {wakes} wakes")
    }
}
