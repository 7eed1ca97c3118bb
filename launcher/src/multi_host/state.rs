//! The state of a job over several hosts; sibling files act on it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::frames::{HostTable, ToHost};
use crate::input::StandardInput;
use crate::nested::links::JobLinks;
use crate::outcome::{Clock, Outcome};
use crate::output::Output;
use crate::poll_set::{self, Interest};
use crate::rank_table::RankLine;
use crate::signals::Signals;
use crate::tree::HostShare;
use crate::tree::links::Links;
use crate::tree::store::{Outgoing, Party, Store};
use crate::unfinalized::Unfinalized;

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Signals,
    FromLink(usize),
    ToLink(usize),
    FromJob(usize),
    ToJob(usize),
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
    Ending,
}

/// The user's options.
pub(super) struct Choices {
    /// Ends a job whose ranks wait for ever.
    pub(super) stall_abort: bool,
    /// Unless `--stall-timeout 0`.
    pub(super) reports_stalls: bool,
    /// Time without progress that makes a stall.
    pub(super) stall_after: Duration,
}

/// A host of the job.
pub(super) struct HostState {
    pub(super) share: HostShare,
    /// The connection to it, or to one that it was reached through, has ended.
    pub(super) is_lost: bool,
    /// The answer to the last question for the table.
    pub(super) answer: Option<HostTable>,
}

/// A running job.
pub(super) struct MultiHostJob {
    /// The hosts in the order of their lowest ranks.
    pub(super) hosts: Vec<HostState>,
    /// The host of each rank, by its index there.
    pub(super) host_of: Vec<u32>,
    /// The daemons that this process has started.
    pub(super) links: Links,
    /// The jobs that were spawned, or the one that has spawned this one.
    pub(super) jobs: JobLinks,
    /// The number of ranks.
    pub(super) size: u32,
    /// The process number of rank 0.
    pub(super) base: u32,
    /// The number of ranks that were started, if this is a spawned job.
    pub(super) started: u32,
    pub(super) signals: Signals,
    pub(super) output: Output,
    /// Standard input, until its end.
    pub(super) input: Option<StandardInput>,
    pub(super) store: Store,
    pub(super) outcome: Outcome,
    /// The final state of each rank that has ended.
    pub(super) ended: Vec<Option<RankLine>>,
    /// Ends that may just lack MPI_Finalize.
    pub(super) unfinalized: Unfinalized,
    pub(super) clock: Clock,
    /// The hosts were requested to send the table and may answer until then.
    pub(super) table_due: Option<Instant>,
    /// When a stall is reported that lasts until then.
    pub(super) stall_due: Option<Instant>,
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
        let readable = self.links.readable().filter(|_| !self.output.is_behind());
        all.extend(readable.map(|(id, file)| (Source::FromLink(id), file, PollFlags::IN)));
        let writable = self.links.writable();
        all.extend(writable.map(|(id, file)| (Source::ToLink(id), file, PollFlags::OUT)));
        let (from_jobs, to_jobs) = (self.jobs.readable(), self.jobs.writable());
        all.extend(from_jobs.into_iter().map(|(id, f)| (Source::FromJob(id), f, PollFlags::IN)));
        all.extend(to_jobs.into_iter().map(|(id, f)| (Source::ToJob(id), f, PollFlags::OUT)));
        all.extend(
            self.output.writable().map(|(id, file)| (Source::Sink(id), file, PollFlags::OUT)),
        );
        let input = self.input.filter(|_| !self.links.is_input_pending());
        let input = input.and_then(|input| input.readable());
        all.extend(input.map(|file| (Source::Stdin, file, PollFlags::IN)));
        all
    }

    /// Prints a line for the user.
    pub(super) fn print(&mut self, text: &str) {
        if !self.jobs.holds(text) {
            self.output.print(&format!("mpiexec: {text}"));
        }
    }

    /// Returns the host of a rank.
    pub(super) fn host_of(&self, rank: u32) -> Option<usize> {
        self.host_of.get(rank as usize).map(|host| *host as usize)
    }

    /// Returns true once all ranks of a host have ended.
    pub(super) fn has_ended(&self, host: usize) -> bool {
        self.hosts[host].share.ranks.iter().all(|rank| self.ended[rank as usize].is_some())
    }

    /// Sends messages about the store.
    pub(super) fn deliver(&mut self, outgoing: Outgoing) {
        for (party, message) in outgoing {
            match party {
                Party::Child(link) => self.links.send(link, &ToHost::Store(message)),
                other => self.jobs.send(other, message),
            }
        }
    }

    /// Ends the job with this exit code, and the jobs that it has spawned.
    pub(super) fn end(&mut self, code: u8) {
        self.outcome.set_code(code);
        self.phase = Phase::Ending;
        self.links.end(Instant::now());
        self.jobs.end(Instant::now());
    }
}
