//! Failures of ranks besides the reported ones, for one line at the end of the job.
//!
//! The first failure is reported at once, and most later ones are its consequences. Two kinds
//! are not and are recorded: a failure while the job was still running, and a crash at any
//! time, since no other process sends such a signal.

use std::collections::{BTreeMap, BTreeSet};

use crate::binding::ranges;
use crate::failure_policy::{Event, Exit, Verdict};

/// The largest number of different exits that the line lists.
const MAX_GROUPS: usize = 8;

/// The failures recorded so far.
#[derive(Debug, Default)]
pub(crate) struct SecondaryFailures {
    /// The ranks that were reported.
    reported: BTreeSet<u32>,
    failed: BTreeMap<Exit, BTreeSet<usize>>,
}

impl SecondaryFailures {
    /// Marks a rank as reported.
    pub(crate) fn exclude(&mut self, rank: u32) {
        self.reported.insert(rank);
    }

    /// Records an event. `is_running`: the job was not ending yet.
    pub(crate) fn record(&mut self, event: &Event, is_running: bool) {
        let Event::Died { rank, exit, .. } = event else { return };
        let counts = event.verdict() != Verdict::Fine && (is_running || exit.is_crash());
        if counts && !self.reported.contains(rank) {
            self.failed.entry(*exit).or_default().insert(*rank as usize);
        }
    }

    /// Returns the line for the user, if a failure was recorded.
    pub(crate) fn line(&self) -> Option<String> {
        // Without a reported failure the user ended the job.
        if self.failed.is_empty() || self.reported.is_empty() {
            return None;
        }
        let mut groups: Vec<String> =
            self.failed.iter().take(MAX_GROUPS).map(|(exit, ranks)| group(*exit, ranks)).collect();
        let rest: usize = self.failed.values().skip(MAX_GROUPS).map(BTreeSet::len).sum();
        groups.extend((rest > 0).then(|| format!("{rest} more with other exits")));
        Some(format!("also failed: {}", groups.join("; ")))
    }
}

fn group(exit: Exit, ranks: &BTreeSet<usize>) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {} ({exit})", ranges(ranks))
}

#[cfg(test)]
mod tests {
    use bootstrap::RankState;

    use super::*;

    fn died(rank: u32, exit: Exit) -> Event {
        Event::Died { rank, exit, state: RankState::Running }
    }

    #[test]
    fn crashes_count_at_any_time_and_other_ends_while_the_job_ran() {
        let mut failures = SecondaryFailures::default();
        failures.exclude(1);
        for (event, runs) in [
            (died(1, Exit::Signal(11)), true),
            (died(2, Exit::Code(3)), true),
            (died(0, Exit::Signal(11)), false),
            (died(3, Exit::Signal(11)), false),
            // Consequences: SIGTERM, and an exit because of it.
            (died(4, Exit::Signal(15)), false),
            (died(5, Exit::Code(3)), false),
            (Event::Died { rank: 6, exit: Exit::Code(0), state: RankState::Finalized }, true),
        ] {
            failures.record(&event, runs);
        }
        let expected = "also failed: rank 2 (exited with code 3); ranks 0,3 (killed by signal 11 \
                        (Segmentation fault))";
        assert_eq!(failures.line().unwrap(), expected);
    }

    #[test]
    fn a_job_without_a_failure_has_no_line_and_a_line_has_few_groups() {
        let mut failures = SecondaryFailures::default();
        (0..20).for_each(|rank| failures.record(&died(rank, Exit::Code(rank as i32 + 1)), true));
        assert_eq!(failures.line(), None, "the user ended the job");
        failures.exclude(20);
        assert!(
            failures
                .line()
                .unwrap()
                .ends_with("rank 7 (exited with code 8); 12 more with other exits")
        );
    }
}
