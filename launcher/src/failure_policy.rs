//! The consequence of a rank's end or abort for the job.
//!
//! | what happened | consequence |
//! |---|---|
//! | killed by a signal | the job ends |
//! | exit between MPI_Init and the end of MPI_Finalize | the job ends (but see `unfinalized`) |
//! | MPI_Abort or a fatal error | the job ends |
//! | exit with a code other than 0 after MPI_Finalize | sets the job's exit code |
//! | the same, never in MPI | the same, and the job ends once another rank is in MPI |
//! | exit with code 0 after MPI_Finalize | none |
//! | exit with code 0, never in MPI | the job ends with code 1 once a rank in MPI waits for it |
//! | stopped by a signal | none; with `--stall-abort` the job ends |
//!
//! The first failure is reported, and the first that ends the job. Later failures are mostly
//! their consequences; see [`crate::secondary_failures`].

use bootstrap::RankState;
use serde::{Deserialize, Serialize};

use crate::signals;

/// The exit code of a job that `--stall-abort` has ended.
pub(crate) const EXIT_DEADLOCKED: u8 = 125;

/// The way a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Exit {
    /// The process exited with this code.
    Code(i32),
    /// This signal killed the process.
    Signal(i32),
}

/// An event at a rank that may end the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The rank's process ended.
    Died {
        /// The rank.
        rank: u32,
        /// The way it ended.
        exit: Exit,
        /// The state of MPI in the process.
        state: RankState,
    },
    /// The rank requested the end of the job.
    Aborted {
        /// The rank.
        rank: u32,
        /// The code that the program gave.
        code: i32,
        /// One sentence for the user.
        message: String,
    },
    /// A signal has stopped the rank's process, and `--stall-abort` ends such jobs.
    Stopped {
        /// The rank.
        rank: u32,
        /// The signal.
        signal: i32,
    },
}

/// The consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None.
    Fine,
    /// This is the job's exit code; the other ranks continue.
    Failed(u8),
    /// This is the job's exit code, and ranks in MPI would wait for this one.
    Missing(u8),
    /// This is the job's exit code, and the job ends.
    Ends(u8),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => {
                write!(f, "killed by signal {signal} ({})", signals::name(signal))
            }
        }
    }
}

impl Exit {
    /// Returns the exit code as a shell reports it: 128 + the number of a signal.
    pub fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code as u8,
            Exit::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }

    /// Returns true for a signal that a fault of the program raises, rather than another process.
    pub fn is_crash(self) -> bool {
        const OWN: [i32; 5] =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
        matches!(self, Exit::Signal(signal) if OWN.contains(&signal))
    }
}

impl Event {
    /// Returns the rank.
    pub fn rank(&self) -> u32 {
        let (Event::Died { rank, .. } | Event::Aborted { rank, .. } | Event::Stopped { rank, .. }) =
            self;
        *rank
    }

    /// Returns the consequence for the job.
    pub fn verdict(&self) -> Verdict {
        match self {
            Event::Aborted { code, .. } => Verdict::Ends(not_zero(*code as u8)),
            Event::Stopped { .. } => Verdict::Ends(EXIT_DEADLOCKED),
            Event::Died { exit: exit @ Exit::Signal(_), .. } => Verdict::Ends(exit.code()),
            Event::Died {
                exit,
                state: RankState::Running | RankState::InSession | RankState::Finalizing,
                ..
            } => Verdict::Ends(not_zero(exit.code())),
            Event::Died { exit: Exit::Code(0), .. } => Verdict::Fine,
            Event::Died { exit, state: RankState::Starting, .. } => Verdict::Missing(exit.code()),
            Event::Died { exit, state: RankState::Finalized, .. } => Verdict::Failed(exit.code()),
        }
    }

    /// Returns true for the end of a rank that did not fail.
    pub(crate) fn is_fine(&self) -> bool {
        self.verdict() == Verdict::Fine
    }

    /// Returns the sort key of events found at the same time: the likelier cause comes first, a
    /// crash before an abort, an abort before an exit.
    pub fn order(&self) -> u8 {
        match self {
            Event::Died { exit: Exit::Signal(_), .. } => 0,
            Event::Aborted { .. } => 1,
            Event::Died { .. } | Event::Stopped { .. } => 2,
        }
    }
}

/// Replaces 0: the low 8 bits of a failure's code must not look like success.
fn not_zero(code: u8) -> u8 {
    if code == 0 { 1 } else { code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died(exit: Exit, state: RankState) -> Verdict {
        Event::Died { rank: 0, exit, state }.verdict()
    }

    #[test]
    fn a_death_inside_mpi_ends_the_job_and_one_outside_may_not() {
        assert_eq!(died(Exit::Code(0), RankState::Starting), Verdict::Fine);
        assert_eq!(died(Exit::Code(0), RankState::Finalized), Verdict::Fine);
        assert_eq!(died(Exit::Code(0), RankState::Running), Verdict::Ends(1));
        assert_eq!(died(Exit::Code(7), RankState::Finalizing), Verdict::Ends(7));
        assert_eq!(died(Exit::Code(3), RankState::Starting), Verdict::Missing(3));
        assert_eq!(died(Exit::Code(3), RankState::Finalized), Verdict::Failed(3));
        assert_eq!(died(Exit::Signal(11), RankState::Starting), Verdict::Ends(139));
    }

    #[test]
    fn an_abort_never_looks_like_success() {
        for (code, exit) in [(3, 3), (0, 1), (256, 1), (-1, 255)] {
            assert_eq!(
                Event::Aborted { rank: 1, code, message: String::new() }.verdict(),
                Verdict::Ends(exit)
            );
        }
    }
}
