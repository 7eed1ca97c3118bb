//! The daemons below this one: their messages go up, those of `mpiexec` go down.
//!
//! What all hosts send alike is joined on the way: the ends of ranks that did not fail and the
//! tables ([`crate::tree::batch`]), whether ranks make progress, and the end of the job. Other
//! messages pass as they are.

use std::time::Instant;

use super::state::{Job, Phase};
use crate::failure_policy::Event;
use crate::frames::{EndedRank, FromHost, HostTable, ToHost};
use crate::rank_table::RankLine;
use crate::stall::HostStall;
use crate::tree::links::Trouble;
use crate::tree::store::{Outgoing, Party, StoreMessage};
use bootstrap::control::ToRank;

impl Job {
    /// Reads the messages of a child.
    pub(super) fn read_link(&mut self, link: usize) {
        let (messages, trouble) = self.relay.links.read(link);
        messages.into_iter().for_each(|message| self.on_link(link, message));
        trouble.into_iter().for_each(|trouble| self.on_trouble(trouble));
    }

    fn on_link(&mut self, link: usize, message: FromHost) {
        let covers = |rank: u32| self.relay.links.get(link).covers(rank);
        match message {
            FromHost::Store(message) => {
                let outgoing = self.store.on_message(Party::Child(link), message);
                self.deliver(outgoing);
            }
            FromHost::Stalled(_) | FromHost::Over => self.report_stall(),
            FromHost::InputTaken => self.request_input(),
            FromHost::Ended(list) => {
                let own = list.into_iter().filter(|ended| covers(ended.rank));
                let own: Vec<EndedRank> = own.collect();
                own.into_iter().for_each(|ended| self.add_ended(ended));
            }
            FromHost::Tables(tables) => {
                self.add_tables(tables.into_iter().filter(|table| covers(table.first)).collect());
            }
            FromHost::Output { rank, .. } | FromHost::Explained { rank, .. } if !covers(rank) => {}
            FromHost::Happened { event, .. } if !covers(event.rank()) => {}
            other => self.local.output.send(&other),
        }
    }

    /// Reports what went wrong with a child.
    pub(super) fn on_trouble(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Stuck(line) => self.print(&line),
            Trouble::Lost(lost) if !self.relay.links.are_ending() => {
                self.local.output.send(&FromHost::Lost(lost));
                self.report_stall();
            }
            Trouble::Lost(_) => {}
        }
    }

    /// Reports the children whose agents could not be run.
    pub(super) fn report_refused(&mut self) {
        for lost in self.relay.links.take_refused() {
            self.local.output.send(&FromHost::Lost(lost));
        }
    }

    /// Looks at the children, and sends what has waited for long enough.
    pub(super) fn check_relay(&mut self, now: Instant) {
        let is_behind = self.local.output.is_behind();
        let troubles = self.relay.links.check(now, is_behind);
        troubles.into_iter().for_each(|trouble| self.on_trouble(trouble));
        if self.relay.batch.is_due(now) {
            self.send_batch();
        }
    }

    /// Sends an event to `mpiexec`, now if it matters there.
    pub(super) fn send_event(&mut self, event: Event) {
        let (seen, pid) = self.seen(event.rank());
        let is_ending = matches!(self.phase, Phase::Terminating { .. } | Phase::Killing { .. });
        match event {
            Event::Died { rank, exit, .. }
                if event.is_fine() || (is_ending && !exit.is_crash()) =>
            {
                let line = RankLine::new(pid, Some(exit), seen);
                self.add_ended(EndedRank { rank, line });
            }
            event => self.local.output.send(&FromHost::Happened { event, seen, pid }),
        }
    }

    fn add_ended(&mut self, ended: EndedRank) {
        self.relay.batch.add_ended(ended, Instant::now());
    }

    /// Adds answers to `Table`, of this host or of some below it.
    pub(super) fn add_tables(&mut self, tables: Vec<HostTable>) {
        let answering = 1 + self.relay.links.hosts_up();
        self.relay.batch.add_tables(tables, answering, Instant::now());
    }

    /// Sends what was joined.
    pub(super) fn send_batch(&mut self) {
        self.relay.batch.take().for_each(|message| self.local.output.send(&message));
    }

    /// Records whether the ranks of this host make progress.
    pub(super) fn set_stall(&mut self, stall: HostStall) {
        self.relay.own_stall = stall;
        self.report_stall();
    }

    /// Sends whether the ranks of this host and of those below make progress, if that has changed.
    fn report_stall(&mut self) {
        let own = Some(self.relay.own_stall).filter(|_| !self.all_ranks_have_ended());
        let Some(all) = own.into_iter().chain(self.relay.links.stall()).reduce(HostStall::join)
        else {
            return;
        };
        if std::mem::replace(&mut self.relay.sent_stall, all) != all {
            self.local.output.send(&FromHost::Stalled(all));
        }
    }

    /// Sends messages about the store to ranks of this host and to neighbours in the tree.
    pub(super) fn deliver(&mut self, outgoing: Outgoing) {
        for (party, message) in outgoing {
            match (party, message) {
                (Party::Local(rank), StoreMessage::Values(values)) => {
                    for (key, value) in values {
                        self.send_to_rank(rank as usize, &ToRank::Value { key, value });
                    }
                }
                (Party::Local(rank), StoreMessage::Reply { message, .. }) => {
                    self.send_to_rank(rank as usize, &message);
                }
                (Party::Local(_), _) => {}
                (Party::Child(link), message) => {
                    self.relay.links.send(link, &ToHost::Store(message));
                }
                (Party::Parent, message) if self.upstream.is_some() => {
                    self.local.output.send(&FromHost::Store(message));
                }
                (other @ (Party::Parent | Party::Job(_)), message) => {
                    self.jobs.send(other, message);
                }
            }
        }
    }
}
