//! Ranks that exited with code 0 between MPI_Init and MPI_Finalize, or with an open session.
//!
//! MPI forbids that (MPI-5.0 §11.2), and other ranks may wait for such a rank. Therefore the job
//! ends if another rank still runs after [`GRACE`]. If all ranks have ended by then, and no other
//! has failed, the program lacks MPI_Finalize and nothing else: the job has its exit code 0, as
//! under MPICH, and one line names the ranks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::binding::ranges;
use crate::failure_policy::{Event, Exit};

/// Time that the other ranks have to end.
const GRACE: Duration = Duration::from_secs(1);

/// The stages of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Some ranks run.
    Running,
    /// All ranks have ended by themselves.
    Over,
    /// The ranks were signalled, or the job has failed.
    Ending,
}

/// The ends that are not judged yet.
#[derive(Debug, Default)]
pub(crate) struct Unfinalized {
    held: Vec<Event>,
    until: Option<Instant>,
}

impl Unfinalized {
    /// Takes such ends out of `events`.
    pub(crate) fn hold(&mut self, events: &mut Vec<Event>, now: Instant) {
        let is_quiet = |event: &mut Event| {
            matches!(event, Event::Died { exit: Exit::Code(0), .. })
                && missing_call(event).is_some()
        };
        self.held.extend(events.extract_if(.., is_quiet));
        if !self.held.is_empty() {
            self.until.get_or_insert(now + GRACE);
        }
    }

    /// Returns the time at which the other ranks must have ended.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the ends as failures, which they then are.
    pub(crate) fn release(&mut self) -> Vec<Event> {
        self.until = None;
        std::mem::take(&mut self.held)
    }

    /// Decides about the ends if it is time. Returns those that are failures, and the line for a
    /// job without one.
    pub(crate) fn tick(&mut self, stage: Stage, now: Instant) -> (Vec<Event>, Option<String>) {
        let is_late = self.until.is_some_and(|until| now >= until);
        match stage {
            Stage::Over => (Vec::new(), self.report()),
            Stage::Ending => (self.release(), None),
            Stage::Running if is_late => (self.release(), None),
            Stage::Running => (Vec::new(), None),
        }
    }

    /// Returns the line for a job whose ranks have all ended without a failure.
    fn report(&mut self) -> Option<String> {
        let events = self.release();
        let calls: BTreeSet<&str> = events.iter().filter_map(missing_call).collect();
        let calls = calls.into_iter().collect::<Vec<_>>().join(" or ");
        let ranks = events.iter().map(|event| event.rank() as usize).collect();
        let noun = match BTreeSet::len(&ranks) {
            0 => return None,
            1 => "rank",
            _ => "ranks",
        };
        Some(format!(
            "{noun} {} exited with code 0 without calling {calls}, which MPI requires of every rank",
            ranges(&ranks)
        ))
    }
}

/// Returns the call that a rank lacked when it ended.
fn missing_call(event: &Event) -> Option<&'static str> {
    match event {
        Event::Died { state, .. } => state.missing_call(),
        Event::Aborted { .. } | Event::Stopped { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use bootstrap::RankState;

    use super::*;

    #[test]
    fn ends_without_finalize_are_held_and_named() {
        let died = |rank, exit, state| Event::Died { rank, exit: Exit::Code(exit), state };
        let quiet = |rank| died(rank, 0, RankState::Running);
        let mut events =
            vec![quiet(2), died(1, 3, RankState::Running), died(4, 0, RankState::Finalized)];
        let mut held = Unfinalized::default();
        let now = Instant::now();
        held.hold(&mut events, now);
        assert_eq!((events.len(), held.deadline()), (2, Some(now + GRACE)));
        held.hold(&mut vec![quiet(3)], now + GRACE);
        assert_eq!(held.deadline(), Some(now + GRACE));
        assert_eq!(held.tick(Stage::Running, now), (Vec::new(), None));
        let (failures, line) = held.tick(Stage::Over, now + GRACE);
        let text = "ranks 2-3 exited with code 0 without calling MPI_Finalize, which MPI requires \
                    of every rank";
        assert_eq!((failures, line.as_deref()), (Vec::new(), Some(text)));
        held.hold(&mut vec![died(6, 0, RankState::InSession)], now);
        let (_, line) = held.tick(Stage::Over, now);
        assert!(line.unwrap().contains("without calling MPI_Session_finalize, which"));
        assert_eq!(held.deadline(), None);
        assert_eq!(held.tick(Stage::Over, now + GRACE), (Vec::new(), None));
        for (stage, at) in [(Stage::Running, now + GRACE), (Stage::Ending, now)] {
            held.hold(&mut vec![quiet(5)], now);
            assert_eq!(held.tick(stage, at), (vec![quiet(5)], None));
        }
    }
}
