//! Ranks that a signal has stopped: they are not dead, but the others wait for them.
//!
//! The kernel reports a stop at once. It is told to the user after a moment, since a stop may be
//! short, and once. Stops that the user has asked `mpiexec` for (Ctrl-Z) are expected and not told.
//! A stop by a debugger is reported to the debugger alone. A process behind a wrapper script is no
//! child of ours: the report on a stall names it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time from a stop to its report.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// The ranks of this host that are stopped.
#[derive(Debug, Default)]
pub(crate) struct StoppedRanks {
    ranks: BTreeMap<u32, Stop>,
    /// The user has stopped the job.
    is_expected: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    signal: i32,
    since: Instant,
    is_reported: bool,
}

impl StoppedRanks {
    /// Records that a signal has stopped a rank.
    pub(crate) fn add(&mut self, rank: u32, signal: i32, now: Instant) {
        if !self.is_expected {
            self.ranks.insert(rank, Stop { signal, since: now, is_reported: false });
        }
    }

    /// Records that a rank runs again, or has ended.
    pub(crate) fn remove(&mut self, rank: u32) {
        self.ranks.remove(&rank);
    }

    /// Sets whether the user has stopped the job, so that stops are no news.
    pub(crate) fn expect(&mut self, is_expected: bool) {
        self.is_expected = is_expected;
        self.ranks.clear();
    }

    /// Returns the time of the next [`StoppedRanks::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let unreported = self.ranks.values().filter(|stop| !stop.is_reported);
        unreported.map(|stop| stop.since + REPORT_AFTER).min()
    }

    /// Returns the ranks to report now, with the signals that stopped them.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<(u32, i32)> {
        let is_due = |stop: &Stop| !stop.is_reported && now >= stop.since + REPORT_AFTER;
        let due = self.ranks.iter_mut().filter(|(_, stop)| is_due(stop));
        due.map(|(rank, stop)| {
            stop.is_reported = true;
            (*rank, stop.signal)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_reported_once_and_after_a_moment() {
        let start = Instant::now();
        let mut ranks = StoppedRanks::default();
        ranks.add(3, libc::SIGSTOP, start);
        ranks.add(4, libc::SIGTTIN, start);
        ranks.remove(4);
        assert_eq!(ranks.deadline(), Some(start + REPORT_AFTER));
        assert_eq!(ranks.tick(start + REPORT_AFTER / 2), []);
        assert_eq!(ranks.tick(start + REPORT_AFTER), [(3, libc::SIGSTOP)]);
        assert_eq!((ranks.tick(start + 2 * REPORT_AFTER), ranks.deadline()), (Vec::new(), None));
    }

    #[test]
    fn stops_that_the_user_asked_for_are_no_news() {
        let start = Instant::now();
        let mut ranks = StoppedRanks::default();
        ranks.expect(true);
        ranks.add(0, libc::SIGTSTP, start);
        assert_eq!(ranks.deadline(), None);
        ranks.expect(false);
        ranks.add(0, libc::SIGSTOP, start);
        assert!(ranks.deadline().is_some());
    }
}
