//! The outermost `mpiexec`, seen from the one of a spawned job.
//!
//! States: starting -> started, or refused. Lines for the user are held until it is known which:
//! they are the reason if the ranks cannot be started. The spawning process gets that reason, and
//! the user no line.

use std::mem::take;

use bootstrap::spawning::{EndedProcesses, SpawnRequest};

use super::event::JobEvent;
use super::messages::{FromNested, ToNested};
use super::stream::Stream;
use crate::stall::HostStall;
use crate::tree::store::{Party, StoreMessage};

/// What was reported of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Nothing yet.
    Starting,
    /// All ranks were started.
    Started,
    /// They were not.
    Refused,
}

/// The connection to the outermost `mpiexec`.
#[derive(Debug)]
pub(crate) struct Outer {
    stream: Stream,
    start: Start,
    /// What was sent of the progress of the ranks.
    stall: HostStall,
    /// Lines for the user.
    held: Vec<String>,
}

impl Outer {
    pub(crate) fn new(stream: Stream) -> Outer {
        let (start, stall) = (Start::Starting, HostStall::Active);
        Outer { stream, start, stall, held: Vec::new() }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn write(&mut self) {
        self.stream.write();
    }

    /// Reads the messages of the outermost `mpiexec`. Its end ends the ranks.
    pub(super) fn read(&mut self) -> Vec<JobEvent> {
        let (messages, is_open) = self.stream.read();
        let events = messages.into_iter().filter_map(|message| match message {
            ToNested::Store(message) => Some(JobEvent::Store(Party::Parent, message)),
            ToNested::Stop(signal) => Some(JobEvent::Stop(signal)),
            ToNested::Table => Some(JobEvent::Table),
            ToNested::OthersEnded(ended) => Some(JobEvent::OthersEnded(ended)),
            ToNested::End => Some(JobEvent::End),
            // Sent once, before this job began.
            ToNested::Begin(_) => None,
        });
        events.chain((!is_open).then_some(JobEvent::End)).collect()
    }

    pub(super) fn send(&mut self, message: StoreMessage) {
        self.stream.send(&FromNested::Store(message));
    }

    pub(super) fn spawn(&mut self, asker: u32, request: SpawnRequest) {
        self.stream.send(&FromNested::Spawn { asker, request });
    }

    /// Reports processes that have failed, while the job goes on.
    pub(super) fn report_ended(&mut self, ended: EndedProcesses) {
        self.stream.send(&FromNested::Ended(ended));
    }

    /// Sends whether the ranks make progress, if that has changed.
    pub(super) fn set_stall(&mut self, stall: HostStall) {
        if std::mem::replace(&mut self.stall, stall) != stall {
            self.stream.send(&FromNested::Stalled(stall));
        }
    }

    /// Holds a line for the user. Returns false if it is to be printed now.
    pub(super) fn holds(&mut self, line: &str) -> bool {
        if self.start == Start::Starting {
            self.held.push(line.to_owned());
        }
        self.start != Start::Started
    }

    /// Reports once that the ranks were started. Returns the lines that were held.
    pub(super) fn report_started(&mut self) -> Vec<String> {
        if self.start == Start::Starting {
            self.start = Start::Started;
            self.stream.send(&FromNested::Started);
        }
        take(&mut self.held)
    }

    /// Reports once that the ranks were not started, with the lines that were held.
    pub(super) fn report_refused(&mut self) {
        if self.start == Start::Starting {
            self.start = Start::Refused;
            let why = take(&mut self.held).join("\n");
            let why = if why.is_empty() { "the job is ending".into() } else { why };
            self.stream.send(&FromNested::Refused(why));
        }
    }

    /// Reports the end of the job.
    pub(super) fn finish(&mut self, code: u8, none_in_mpi: bool) {
        self.stream.send(&FromNested::Over { code, none_in_mpi });
        self.stream.flush();
    }
}
