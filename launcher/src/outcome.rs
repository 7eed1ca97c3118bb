//! The outcome of a job: its exit code, the failures to report, the closing lines.
//!
//! Used by `mpiexec` on one host and over several. Each failure is judged once
//! ([`Outcome::judge`]); the first failure sets the exit code, later ones are collected for
//! the closing lines. This file ends no process.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::explain::Explanations;
use crate::failure_policy::{Event, Exit, Verdict};
use crate::foreign_mpi;
use crate::outcome_report::OutcomeReport;
use crate::output::Output;
use crate::secondary_failures::SecondaryFailures;
use crate::settings::{OnFailure, Settings};

/// The exit code of a job that reached its time limit, as with timeout(1).
pub(crate) const EXIT_TIMED_OUT: u8 = 124;

/// The exit code of the loader, and of a shell, for what is not found.
const EXIT_NOT_FOUND: i32 = 127;

/// The consequences of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// The consequence for the job.
    pub(crate) verdict: Verdict,
    /// The failure is reported now; otherwise the closing lines may name it.
    pub(crate) is_reported: bool,
}

/// The outcome so far.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Whether the failure of a rank ends the job.
    on_failure: OnFailure,
    code: Option<u8>,
    /// The event that decided the code.
    decisive: Option<Event>,
    missing: Option<u32>,
    /// The first rank that ended before MPI_Init as a program does that cannot be loaded.
    unloaded: Option<u32>,
    /// Another MPI's library, seen in the memory of a rank.
    foreign: Option<PathBuf>,
    secondary: SecondaryFailures,
    /// Standard output cannot be written any more.
    is_output_lost: bool,
    /// The ranks' reports on their transports.
    pub(crate) explanations: Explanations,
}

impl Outcome {
    pub(crate) fn new(explanations: Explanations, on_failure: OnFailure) -> Outcome {
        Outcome {
            on_failure,
            code: None,
            decisive: None,
            missing: None,
            unloaded: None,
            foreign: None,
            secondary: SecondaryFailures::default(),
            is_output_lost: false,
            explanations,
        }
    }

    /// Judges an event. `is_running`: the job was not ending yet.
    pub(crate) fn judge(&mut self, event: &Event, is_running: bool) -> Judgement {
        let verdict = self.verdict(event);
        let (Verdict::Failed(code) | Verdict::Missing(code) | Verdict::Ends(code)) = verdict else {
            return Judgement { verdict, is_reported: false };
        };
        let ends = matches!(verdict, Verdict::Ends(_));
        let is_loss = self.is_survived(event) && is_running;
        let is_reported = self.code.is_none() || (ends && is_running) || is_loss;
        if is_reported {
            self.secondary.exclude(event.rank());
        }
        self.secondary.record(event, is_running);
        if !self.is_decided() {
            self.decisive = Some(event.clone());
        }
        self.set_code(code);
        if matches!(verdict, Verdict::Missing(_)) {
            self.missing.get_or_insert(event.rank());
            if let Event::Died { rank, exit: Exit::Code(EXIT_NOT_FOUND), .. } = event {
                self.unloaded.get_or_insert(*rank);
            }
        }
        Judgement { verdict, is_reported }
    }

    /// Returns the consequence of an event. The others go on if the user wants that.
    fn verdict(&self, event: &Event) -> Verdict {
        match event.verdict() {
            _ if self.is_unjudged() => Verdict::Fine,
            Verdict::Ends(code) if self.is_survived(event) => Verdict::Failed(code),
            verdict => verdict,
        }
    }

    /// Returns true for the death of a rank that the others survive and must be told.
    pub(crate) fn is_survived(&self, event: &Event) -> bool {
        let ends = matches!(event.verdict(), Verdict::Ends(_));
        self.on_failure == OnFailure::Continue && ends && matches!(event, Event::Died { .. })
    }

    /// Returns true if the job goes on when a rank or a host fails.
    pub(crate) fn goes_on(&self) -> bool {
        self.on_failure == OnFailure::Continue
    }

    /// Returns true if another launcher alone reports failures and decides about them.
    pub(crate) fn is_unjudged(&self) -> bool {
        self.on_failure == OnFailure::EndOnceJoined
    }

    /// Takes note that a rank has joined the job.
    pub(crate) fn rank_has_joined(&mut self) {
        if self.is_unjudged() {
            self.on_failure = OnFailure::End;
        }
    }

    /// Judges an error of standard output, once. Returns the exit code with which the job ends. The
    /// line for the user is absent if the reader has gone: then other programs end quietly, too.
    pub(crate) fn on_broken_output(&mut self, errno: Errno) -> Option<(u8, Option<String>)> {
        if std::mem::replace(&mut self.is_output_lost, true) {
            return None;
        }
        if errno == Errno::PIPE {
            return Some((128 + libc::SIGPIPE as u8, None));
        }
        let why = std::io::Error::from(errno);
        Some((1, Some(format!("cannot write the ranks' output: {why}; ending the job"))))
    }

    /// Sets the exit code, unless an earlier reason has set it.
    pub(crate) fn set_code(&mut self, code: u8) {
        self.code.get_or_insert(code);
    }

    /// Returns true once the exit code is decided.
    pub(crate) fn is_decided(&self) -> bool {
        self.code.is_some()
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code.unwrap_or(0)
    }

    /// Writes the file of `--report-outcome`, if it was asked for. `messages`: the lines of
    /// `mpiexec`.
    pub(crate) fn report(&self, settings: &Settings, clock: &Clock, messages: &[String]) {
        let decisive = self.decisive.as_ref();
        OutcomeReport::new(settings, self.code(), clock.age(), decisive, messages).write(settings);
    }

    /// Returns the first rank that failed before MPI_Init: ranks in MPI would wait for it.
    pub(crate) fn missing(&self) -> Option<u32> {
        self.missing
    }

    /// Records another MPI's library in the memory of a rank.
    pub(crate) fn add_foreign(&mut self, library: PathBuf) {
        self.foreign.get_or_insert(library);
    }

    /// Sets or clears the missing rank, as reported by `mpiexec` on another host.
    pub(crate) fn set_missing(&mut self, rank: Option<u32>) {
        self.missing = rank;
    }

    /// Prints the closing lines of a job that is over. `none_in_mpi`: no rank called MPI_Init.
    pub(crate) fn conclude(&mut self, settings: &Settings, none_in_mpi: bool, output: &mut Output) {
        for line in self.closing_lines(settings, none_in_mpi) {
            output.print(&format!("mpiexec: {line}"));
        }
        output.flush();
    }

    fn closing_lines(&mut self, settings: &Settings, none_in_mpi: bool) -> Vec<String> {
        let is_foreign = none_in_mpi && settings.total_ranks() > 1;
        let other_mpi = is_foreign.then(|| foreign_mpi::report(settings, self.foreign.as_deref()));
        let other_mpi = other_mpi.flatten();
        if other_mpi.is_some() {
            // Each rank may have ended well, but the job was not what the user wanted.
            self.set_code(1);
        }
        let unloaded = self.unloaded.and_then(|rank| foreign_mpi::missing_library(settings, rank));
        [other_mpi, unloaded, self.secondary.line(), self.explanations.rest()]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The age of a job, and its time limit.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    limit: Option<Duration>,
    is_reached: bool,
}

impl Clock {
    /// Starts the clock. `limit`: the value of `--timeout`, or of MPIEXEC_TIMEOUT.
    pub(crate) fn start(limit: Option<Duration>, now: Instant) -> Clock {
        Clock { began: now, limit, is_reached: false }
    }

    /// Returns the time since the start.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the time at which the limit is reached, unless it was.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.limit.filter(|_| !self.is_reached).and_then(|limit| self.began.checked_add(limit))
    }

    /// Returns the line to print, once, when the limit is reached.
    pub(crate) fn limit_reached(&mut self, now: Instant) -> Option<String> {
        self.deadline().filter(|end| now >= *end)?;
        self.is_reached = true;
        let limit = self.limit.unwrap_or_default().as_secs_f64();
        Some(format!(
            "the time limit of {limit} s is reached (--timeout or MPIEXEC_TIMEOUT); ending the job"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bootstrap::RankState;

    use crate::failure_policy::Exit;

    fn died(rank: u32, code: i32, state: RankState) -> Event {
        Event::Died { rank, exit: Exit::Code(code), state }
    }

    #[test]
    fn the_first_failure_decides_and_the_first_that_ends_the_job_is_reported_too() {
        let mut outcome = Outcome::new(Explanations::new(4, false), OnFailure::End);
        let judge = |outcome: &mut Outcome, event, running| outcome.judge(&event, running);
        let fine = judge(&mut outcome, died(0, 0, RankState::Finalized), true);
        assert_eq!((fine.verdict, fine.is_reported), (Verdict::Fine, false));
        let absent = judge(&mut outcome, died(1, 3, RankState::Starting), true);
        assert_eq!((absent.is_reported, outcome.missing(), outcome.code()), (true, Some(1), 3));
        let later = judge(&mut outcome, died(2, 4, RankState::Finalized), true);
        assert!(!later.is_reported, "it neither decides nor ends the job");
        let ends = judge(&mut outcome, died(3, 5, RankState::Running), true);
        assert_eq!((ends.verdict, ends.is_reported), (Verdict::Ends(5), true));
        assert_eq!(outcome.code(), 3);
        let lines = outcome.closing_lines(&Settings::default(), false);
        assert_eq!(lines, ["also failed: rank 2 (exited with code 4)"]);
    }

    #[test]
    fn others_survive_a_death_if_the_user_wants_that_but_no_abort() {
        let mut outcome = Outcome::new(Explanations::new(4, false), OnFailure::Continue);
        let killed = |rank| {
            let (exit, state) = (Exit::Signal(9), RankState::Running);
            Event::Died { rank, exit, state }
        };
        for rank in [1, 2] {
            let judged = outcome.judge(&killed(rank), true);
            assert_eq!((judged.verdict, judged.is_reported), (Verdict::Failed(137), true));
        }
        assert!(outcome.is_survived(&killed(1)));
        assert!(!outcome.is_survived(&died(3, 0, RankState::Finalized)));
        let abort = Event::Aborted { rank: 0, code: 4, message: String::new() };
        assert_eq!(outcome.judge(&abort, true).verdict, Verdict::Ends(4));
        assert_eq!(outcome.code(), 137);
    }

    #[test]
    fn output_that_cannot_be_written_ends_the_job_once() {
        let mut outcome = Outcome::new(Explanations::new(1, false), OnFailure::End);
        let line = "cannot write the ranks' output: No space left on device (os error 28); ending \
                    the job";
        assert_eq!(outcome.on_broken_output(Errno::NOSPC), Some((1, Some(line.into()))));
        assert_eq!(outcome.on_broken_output(Errno::NOSPC), None);
        let mut outcome = Outcome::new(Explanations::new(1, false), OnFailure::End);
        assert_eq!(outcome.on_broken_output(Errno::PIPE), Some((141, None)));
    }

    #[test]
    fn the_time_limit_is_reached_once() {
        let now = Instant::now();
        let mut clock = Clock::start(Some(Duration::from_secs(3)), now);
        assert_eq!(clock.limit_reached(now + Duration::from_secs(2)), None);
        let line = clock.limit_reached(now + Duration::from_secs(3)).unwrap();
        assert_eq!(
            line,
            "the time limit of 3 s is reached (--timeout or MPIEXEC_TIMEOUT); ending the job"
        );
        assert_eq!(
            (clock.limit_reached(now + Duration::from_secs(9)), clock.deadline()),
            (None, None)
        );
        assert_eq!(Clock::start(Some(Duration::MAX), now).deadline(), None);
    }
}
