//! The keeper of the group, seen from the `mpiexec` of a job in it.
//!
//! States: connected -> lost, if the keeper has ended before the job. Then the names of services
//! are kept here; those that processes have asked the keeper for are asked for again.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use bootstrap::control::ToRank;
use bootstrap::service_names::NameRequest;
use bootstrap::spawning::EndedProcesses;

use super::messages::{FromKeeper, ToKeeper};
use crate::nested::event::JobEvent;
use crate::nested::stream::Stream;
use crate::stall::HostStall;
use crate::tree::store::{Party, StoreMessage};

/// The connection to the keeper.
#[derive(Debug)]
pub(crate) struct GroupLink {
    name: String,
    stream: Stream,
    /// What was sent of the progress of the ranks.
    stall: HostStall,
    /// The requests about names that were not answered, by process.
    asked: BTreeMap<u32, NameRequest>,
}

impl GroupLink {
    /// Returns the connection of a job that has joined the group of this name.
    pub(super) fn new(name: &str, stream: Stream) -> GroupLink {
        let (name, asked) = (name.to_owned(), BTreeMap::new());
        GroupLink { name, stream, stall: HostStall::Active, asked }
    }

    /// Returns true once the keeper has ended.
    pub(crate) fn is_lost(&self) -> bool {
        self.stream.readable().is_none()
    }

    pub(crate) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.stream.readable()
    }

    pub(crate) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.stream.writable()
    }

    pub(crate) fn write(&mut self) {
        self.stream.write();
    }

    /// Reads the messages of the keeper.
    pub(crate) fn read(&mut self) -> Vec<JobEvent> {
        if self.is_lost() {
            return Vec::new();
        }
        let (messages, is_open) = self.stream.read();
        let mut events: Vec<JobEvent> =
            messages.into_iter().filter_map(|message| self.on_message(message)).collect();
        if !is_open {
            let line = format!(
                "the keeper of the group {} has ended: this job goes on without the others of it",
                self.name
            );
            let asked = std::mem::take(&mut self.asked).into_iter().collect();
            events.push(JobEvent::GroupLost { line, asked });
        }
        events
    }

    fn on_message(&mut self, message: FromKeeper) -> Option<JobEvent> {
        match message {
            FromKeeper::Store(message) => {
                if let StoreMessage::Reply { asker, message: ToRank::Name(_) } = &message {
                    self.asked.remove(asker);
                }
                Some(JobEvent::Store(Party::Parent, message))
            }
            FromKeeper::Numbers(first) => Some(JobEvent::Numbers(first)),
            FromKeeper::Stall => Some(JobEvent::Stall),
            FromKeeper::OthersEnded(ended) => Some(JobEvent::OthersEnded(ended)),
            // Sent once, before this job began.
            FromKeeper::Welcome { .. } | FromKeeper::Refused(_) => None,
        }
    }

    pub(crate) fn send(&mut self, message: StoreMessage) {
        if let StoreMessage::Name { asker, request } = &message {
            self.asked.insert(*asker, request.clone());
        }
        self.stream.send(&ToKeeper::Store(message));
    }

    /// Requests numbers for the processes of a spawned job.
    pub(crate) fn ask_numbers(&mut self, count: u32) {
        self.stream.send(&ToKeeper::Numbers(count));
    }

    /// Reports processes that have ended, while the job goes on.
    pub(crate) fn report_ended(&mut self, ended: &EndedProcesses) {
        self.stream.send(&ToKeeper::Ended(ended.clone()));
    }

    /// Sends whether the ranks make progress, if that has changed.
    pub(crate) fn set_stall(&mut self, stall: HostStall) {
        if std::mem::replace(&mut self.stall, stall) != stall {
            self.stream.send(&ToKeeper::Stalled(stall));
        }
    }

    /// Reports the end of the job.
    pub(crate) fn finish(&mut self, code: u8) {
        self.stream.send(&ToKeeper::Over { code });
        self.stream.flush();
        self.stream.close();
    }
}
