//! The state of a job over several hosts; sibling files act on it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::remote::Remote;
use crate::frames::ToHost;
use crate::kv_store::KvStore;
use crate::outcome::{Clock, Outcome};
use crate::output::Output;
use crate::poll_set::{self, Interest};
use crate::rank_table::RankLine;
use crate::signals::Signals;

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Signals,
    FromHost(usize),
    ToHost(usize),
    Sink(usize),
    Stdin,
}

/// The phases of a job.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Running,
    /// A signal was passed on; the ranks may end in their own time.
    Stopping {
        /// The end of that time, once a rank has died.
        until: Option<Instant>,
    },
    /// The hosts were requested to end their ranks.
    Ending {
        since: Instant,
    },
}

/// The user's options.
pub(super) struct Choices {
    /// Silence after which a host is lost.
    pub(super) dead_after: Duration,
    /// Ends a job whose ranks wait for ever.
    pub(super) stall_abort: bool,
    /// Time without progress after which a stall is reported.
    pub(super) stall_after: Duration,
    /// Time that a daemon has to send its first message.
    pub(super) start_timeout: Duration,
    /// The command that reaches hosts.
    pub(super) agent: String,
}

/// A running job.
pub(super) struct MultiHostJob {
    pub(super) hosts: Vec<Remote>,
    /// The number of ranks.
    pub(super) size: u32,
    pub(super) signals: Signals,
    pub(super) output: Output,
    /// Standard input, until its end.
    pub(super) input: Option<BorrowedFd<'static>>,
    pub(super) store: KvStore,
    pub(super) outcome: Outcome,
    /// The final state of each rank that has ended.
    pub(super) ended: Vec<Option<RankLine>>,
    pub(super) clock: Clock,
    /// The hosts were requested to send the table and may answer until then.
    pub(super) table_due: Option<Instant>,
    pub(super) phase: Phase,
    pub(super) choices: Choices,
}

impl MultiHostJob {
    /// Sleeps until a descriptor is ready or the deadline has come.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Vec<Source> {
        poll_set::wait(&self.interests(), deadline)
    }

    fn interests(&self) -> Vec<Interest<'_, Source>> {
        let mut all = vec![(Source::Signals, self.signals.as_fd(), PollFlags::IN)];
        for (id, host) in self.hosts.iter().enumerate() {
            let readable = host.readable().filter(|_| !self.output.is_behind());
            all.extend(readable.map(|file| (Source::FromHost(id), file, PollFlags::IN)));
            all.extend(host.writable().map(|file| (Source::ToHost(id), file, PollFlags::OUT)));
        }
        all.extend(
            self.output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)),
        );
        let is_taken = !self.hosts.iter().any(|host| host.input_pending);
        all.extend(
            self.input.filter(|_| is_taken).map(|file| (Source::Stdin, file, PollFlags::IN)),
        );
        all
    }

    /// Prints a line for the user.
    pub(super) fn print(&mut self, text: &str) {
        self.output.print(&format!("mpiexec: {text}"));
    }

    pub(super) fn send_to_all(&mut self, message: impl Fn() -> ToHost) {
        for host in self.hosts.iter_mut().filter(|host| host.is_up()) {
            host.send(&message());
        }
    }

    /// Ends the job with this exit code.
    pub(super) fn end(&mut self, code: u8) {
        self.outcome.set_code(code);
        if !matches!(self.phase, Phase::Ending { .. }) {
            self.phase = Phase::Ending { since: Instant::now() };
            self.send_to_all(|| ToHost::End);
        }
    }
}
