//! What a death or an abort means for the job.
//!
//! - Killed by a signal: the job ends.
//! - Gone between MPI_Init and the end of MPI_Finalize: the job ends.
//! - MPI_Abort or a fatal error: the job ends.
//! - An exit code that is not 0, after MPI_Finalize: it becomes the job's.
//! - The same without ever being in MPI: in addition the job ends if a rank that
//!   still runs is in MPI, now or later, since it would wait for this one.
//! - Exit code 0 without ever being in MPI: fine.
//!
//! The first failure counts, and the first that ends the job, if that is another one; what follows is mostly
//! their consequence (see [`crate::secondary_failures`]).

use bootstrap::RankState;
use serde::{Deserialize, Serialize};

use crate::signals;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Something happened to a rank that may end the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It ended.
    Died {
        /// Whose rank.
        rank: u32,
        /// How.
        exit: Exit,
        /// How far it was in MPI.
        state: RankState,
    },
    /// It asked to end the job.
    Aborted {
        /// Who asks.
        rank: u32,
        /// The code the user gave.
        code: i32,
        /// One sentence.
        message: String,
    },
}

/// What follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// The job's exit code is this one; the other ranks may go on.
    Failed(u8),
    /// The same, but ranks that are or come into MPI would wait for this one.
    Missing(u8),
    /// The same, and the job ends.
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
    /// As a shell would say it: 128 + the signal for a signal.
    pub fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code as u8,
            Exit::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }

    /// By a fault of its own, and not by a signal that somebody sends.
    pub fn is_crash(self) -> bool {
        const OWN: [i32; 5] =
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
        matches!(self, Exit::Signal(signal) if OWN.contains(&signal))
    }
}

impl Event {
    /// Whose it is.
    pub fn rank(&self) -> u32 {
        let (Event::Died { rank, .. } | Event::Aborted { rank, .. }) = self;
        *rank
    }

    /// What it means for the job.
    pub fn verdict(&self) -> Verdict {
        match self {
            Event::Aborted { code, .. } => Verdict::Ends(not_zero(*code as u8)),
            Event::Died { exit: exit @ Exit::Signal(_), .. } => Verdict::Ends(exit.code()),
            Event::Died { exit, state: RankState::Running | RankState::Finalizing, .. } => {
                Verdict::Ends(not_zero(exit.code()))
            }
            Event::Died { exit: Exit::Code(0), .. } => Verdict::Fine,
            Event::Died { exit, state: RankState::Starting, .. } => Verdict::Missing(exit.code()),
            Event::Died { exit, state: RankState::Finalized, .. } => Verdict::Failed(exit.code()),
        }
    }

    /// Of what is noticed at one moment, the likelier cause comes first: a
    /// crash before an abort, an abort before an exit.
    pub fn order(&self) -> u8 {
        match self {
            Event::Died { exit: Exit::Signal(_), .. } => 0,
            Event::Aborted { .. } => 1,
            Event::Died { .. } => 2,
        }
    }
}

/// An exit code has 8 bits, and 0 would look like success.
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
