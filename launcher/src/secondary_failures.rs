//! Ranks that failed beside those that were named at once, for one line at the end of the job.
//!
//! The first failure is told when it happens, and what follows from it is mostly its consequence. What is not: a
//! failure while the job still ran, and a crash at any time, as nobody else sends such a signal.

use std::collections::{BTreeMap, BTreeSet};

use crate::binding::ranges;
use crate::failure_policy::{Event, Exit, Verdict};

/// Ways to end that are told apart in one line.
const TOLD: usize = 8;

/// What is kept until the end.
#[derive(Debug, Default)]
pub(crate) struct SecondaryFailures {
    /// Ranks of which the user knows.
    named: BTreeSet<u32>,
    failed: BTreeMap<Exit, BTreeSet<usize>>,
}

impl SecondaryFailures {
    /// A rank's failure is told now.
    pub(crate) fn named(&mut self, rank: u32) {
        self.named.insert(rank);
    }

    /// Something happened to a rank, while the job ran or when it was to end already.
    pub(crate) fn happened(&mut self, event: &Event, runs: bool) {
        let Event::Died { rank, exit, .. } = event else { return };
        let counts = event.verdict() != Verdict::Fine && (runs || exit.is_crash());
        if counts && !self.named.contains(rank) {
            self.failed.entry(*exit).or_default().insert(*rank as usize);
        }
    }

    /// The line for the user, if there is something to say.
    pub(crate) fn text(&self) -> Option<String> {
        // Without a failure that was named the user has ended the job, and knows.
        if self.failed.is_empty() || self.named.is_empty() {
            return None;
        }
        let mut words: Vec<String> =
            self.failed.iter().take(TOLD).map(|(exit, ranks)| group(*exit, ranks)).collect();
        let rest: usize = self.failed.values().skip(TOLD).map(BTreeSet::len).sum();
        words.extend((rest > 0).then(|| format!("{rest} more in other ways")));
        Some(format!("failed as well: {}", words.join("; ")))
    }
}

fn group(exit: Exit, ranks: &BTreeSet<usize>) -> String {
    let of = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{of} {} ({exit})", ranges(ranks))
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
        let mut secondary_failures = SecondaryFailures::default();
        secondary_failures.named(1);
        for (event, runs) in [
            (died(1, Exit::Signal(11)), true),
            (died(2, Exit::Code(3)), true),
            (died(0, Exit::Signal(11)), false),
            (died(3, Exit::Signal(11)), false),
            // Consequences: told to end, and what a program makes of that.
            (died(4, Exit::Signal(15)), false),
            (died(5, Exit::Code(3)), false),
            (Event::Died { rank: 6, exit: Exit::Code(0), state: RankState::Finalized }, true),
        ] {
            secondary_failures.happened(&event, runs);
        }
        let expected = "failed as well: rank 2 (exited with code 3); ranks 0,3 (killed by signal 11 (Segmentation fault))";
        assert_eq!(secondary_failures.text().unwrap(), expected);
    }

    #[test]
    fn nothing_is_said_of_jobs_that_did_not_fail_and_not_too_much_of_others() {
        let mut secondary_failures = SecondaryFailures::default();
        (0..20).for_each(|rank| {
            secondary_failures.happened(&died(rank, Exit::Code(rank as i32 + 1)), true)
        });
        assert_eq!(secondary_failures.text(), None, "the user ended it");
        secondary_failures.named(20);
        assert!(
            secondary_failures
                .text()
                .unwrap()
                .ends_with("rank 7 (exited with code 8); 12 more in other ways")
        );
    }
}
