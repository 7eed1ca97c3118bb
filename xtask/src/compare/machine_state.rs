//! The state of the machine: the time of a cache line from core to core.
//!
//! The cores of a virtual machine move over those of its host. A line takes four times as long
//! while they share no cache. The fastest library in one state may lose in the other. States last
//! from tenths of a second to minutes. Therefore the line is measured right before and right after
//! each run. The libraries of a round wait for the state in which the first of them ran; a run in
//! which the state changed is repeated.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::figures::Reading;
use super::parse;
use crate::command::capture;

/// The smallest factor between line times of different states.
const STATE_FACTOR: f64 = 1.5;
/// Runs of a figure at most; the last one counts in any state.
const MAX_RUNS: u32 = 4;
/// The longest wait for the state of the round.
const MAX_STATE_WAIT: Duration = Duration::from_secs(2);
/// Time between two measurements of the line.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The runs of a figure in one round, all in the same state.
pub(super) struct SteadyRuns<'a> {
    /// Returns the line time now, in us; `None` if the figure does not depend on it.
    line_time: Box<dyn FnMut() -> Option<f64> + 'a>,
    /// The line time at the first steady run of the round, in us.
    wanted: Option<f64>,
}

impl<'a> SteadyRuns<'a> {
    /// `limits` is the program that measures the line; `None` if the figure does not depend on it.
    pub(super) fn new(limits: Option<&'a Path>) -> SteadyRuns<'a> {
        SteadyRuns { line_time: Box::new(move || line_time(limits?)), wanted: None }
    }

    /// Runs until the machine is throughout in the state of the round, the run fails, or
    /// [`MAX_RUNS`]. Returns the result of the last run, and the line times before and after it.
    pub(super) fn run<T>(
        &mut self,
        mut run: impl FnMut() -> Result<T>,
    ) -> (Result<T>, Option<(f64, f64)>) {
        let mut tries = 1;
        loop {
            let before = self.wait_for_state();
            let ran = run();
            let Some(line) = before.zip((self.line_time)()) else { return (ran, None) };
            let is_steady =
                is_same(line.0, line.1) && self.wanted.is_none_or(|wanted| is_same(wanted, line.1));
            if is_steady {
                self.wanted.get_or_insert(line.1);
            }
            if is_steady || ran.is_err() || tries == MAX_RUNS {
                return (ran, Some(line));
            }
            tries += 1;
        }
    }

    /// Waits for the state of the round, at most [`MAX_STATE_WAIT`]; returns the line time.
    fn wait_for_state(&mut self) -> Option<f64> {
        let start = Instant::now();
        loop {
            let line = (self.line_time)()?;
            if self.wanted.is_none_or(|wanted| is_same(wanted, line))
                || start.elapsed() > MAX_STATE_WAIT
            {
                return Some(line);
            }
            sleep(POLL_INTERVAL);
        }
    }
}

fn line_time(limits: &Path) -> Option<f64> {
    let ran = capture(Command::new(limits).arg("-l"), None, MAX_STATE_WAIT).ok()?;
    let rows = parse::read(&ran.stdout, Reading::After("cache line(us): "), 0.0).ok()?;
    rows.first().map(|row| row.1)
}

fn is_same(one: f64, other: f64) -> bool {
    one.max(other) <= one.min(other) * STATE_FACTOR
}

/// The state of the machine during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CacheState {
    /// The machine has one state, or the figure does not depend on it.
    Any,
    Fast,
    Slow,
    /// Fast before the run and slow after it, or the reverse: the run does not count.
    Changed,
}

/// The machine's states in a record of runs.
pub(super) struct CacheStates {
    /// The longest line time of the fast state, in us; infinite if there is one state.
    pub(super) border: f64,
}

impl CacheStates {
    /// Finds the states from the line times before and after each run. The border lies in the
    /// widest gap between these times; a single time on either side of it is no state.
    pub(super) fn of(lines: impl Iterator<Item = (f64, f64)>) -> CacheStates {
        let mut times: Vec<f64> = lines.flat_map(|(before, after)| [before, after]).collect();
        times.sort_by(f64::total_cmp);
        let inner = times.get(1..times.len().saturating_sub(1)).unwrap_or_default();
        let gaps = inner.windows(2).filter(|pair| !is_same(pair[0], pair[1]));
        let widest = gaps.max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])));
        CacheStates { border: widest.map_or(f64::INFINITY, |pair| (pair[0] * pair[1]).sqrt()) }
    }

    /// Returns the state of a run.
    pub(super) fn lines(&self, line: Option<(f64, f64)>) -> CacheState {
        match line {
            Some((before, after)) if self.border.is_finite() => {
                match (before < self.border, after < self.border) {
                    (true, true) => CacheState::Fast,
                    (false, false) => CacheState::Slow,
                    _ => CacheState::Changed,
                }
            }
            _ => CacheState::Any,
        }
    }
}

impl CacheState {
    /// Returns the text of a table column.
    pub(super) fn name(self) -> &'static str {
        match self {
            CacheState::Any => "",
            CacheState::Fast => "fast",
            CacheState::Slow => "slow",
            CacheState::Changed => "changed",
        }
    }

    /// Returns the word in a sentence.
    pub(super) fn adverb(self) -> &'static str {
        if self == CacheState::Slow { "slowly" } else { self.name() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often a run takes place while the line has these times, and the last times.
    fn kept(steady: &mut SteadyRuns) -> (u32, Option<(f64, f64)>) {
        let mut runs = 0;
        let (_, line) = steady.run(|| {
            runs += 1;
            Ok(())
        });
        (runs, line)
    }

    fn showing(times: &[f64]) -> SteadyRuns<'_> {
        let mut times = times.iter().copied();
        SteadyRuns { line_time: Box::new(move || times.next()), wanted: None }
    }

    #[test]
    fn a_run_is_done_again_until_the_state_lasts() {
        let mut steady = showing(&[0.05, 0.2, 0.2, 0.21, 0.05, 0.05, 0.2, 0.2]);
        assert_eq!(
            kept(&mut steady),
            (2, Some((0.2, 0.21))),
            "the state changed during the first run"
        );
        assert_eq!(
            kept(&mut steady),
            (1, Some((0.2, 0.2))),
            "the next waits for the state of the first"
        );
    }

    #[test]
    fn one_that_fails_is_not_done_again_and_what_cannot_be_seen_runs_once() {
        let failed =
            showing(&[0.05, 0.2, 0.05, 0.2]).run(|| Err::<(), _>(anyhow::anyhow!("broken")));
        assert_eq!((failed.0.is_err(), failed.1), (true, Some((0.05, 0.2))));
        assert_eq!(kept(&mut SteadyRuns::new(None)), (1, None));
        assert_eq!(
            kept(&mut showing(&[0.05, 0.2].repeat(9))).0,
            MAX_RUNS,
            "a machine that never stays"
        );
    }

    #[test]
    fn two_states_are_distinguished_and_one_is_one() {
        let one = CacheStates::of([(0.045, 0.05), (0.048, 0.046), (0.05, 0.047)].into_iter());
        assert_eq!(one.lines(Some((0.045, 0.05))), CacheState::Any);
        let two = CacheStates::of(
            [(0.045, 0.05), (0.21, 0.215), (0.05, 0.22), (0.046, 0.045)].into_iter(),
        );
        let lines = [(0.045, 0.05), (0.21, 0.215), (0.05, 0.22)].map(|line| two.lines(Some(line)));
        assert_eq!(lines, [CacheState::Fast, CacheState::Slow, CacheState::Changed]);
        assert_eq!(two.lines(None), CacheState::Any, "a figure that no line was measured for");
        let disturbed = CacheStates::of([(0.045, 0.05), (0.046, 0.9), (0.05, 0.047)].into_iter());
        assert!(disturbed.border.is_infinite(), "one look that was disturbed");
    }
}
