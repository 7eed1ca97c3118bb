//! Messages of the hosts, and what the job does about them.

use std::time::Instant;

use bootstrap::{RankState, Snapshot};

use super::remote::State;
use super::state::{MultiHostJob, Phase};
use crate::absent_ranks::Waiter;
use crate::failure_policy::{Event, Exit, Verdict};
use crate::frames::{FromHost, ToHost, VERSION};
use crate::heartbeat::Heartbeat;
use crate::outcome::Judgement;
use crate::output::Which;
use crate::rank_table::RankLine;
use crate::report;
use crate::stall::{self, HostStall};

impl MultiHostJob {
    /// Reads the messages of a host. Returns false if its connection ended.
    pub(super) fn read_host(&mut self, id: usize) -> bool {
        let is_open = self.hosts[id].read();
        loop {
            match self.hosts[id].next_message() {
                Ok(Some(message)) => self.on_message(id, message),
                Ok(None) => break,
                Err(text) => {
                    self.on_foreign_text(id, &text);
                    return true;
                }
            }
        }
        is_open || !self.hosts[id].is_up()
    }

    fn on_foreign_text(&mut self, id: usize, text: &str) {
        let (name, agent) = (self.hosts[id].name.clone(), self.choices.agent.clone());
        self.print(&format!(
            "cannot start on {name}: `{agent}` printed \"{text}\" in place of a message of the \
             daemon; start-up files of the shell on {name} must print nothing"
        ));
        self.hosts[id].give_up();
        self.end(1);
    }

    fn on_message(&mut self, id: usize, message: FromHost) {
        let ranks = self.hosts[id].ranks.clone();
        match message {
            FromHost::Hello { version, host } => self.on_hello(id, version, &host),
            FromHost::Output { rank, error, bytes } if ranks.contains(&rank) => {
                let which = if error { Which::Err } else { Which::Out };
                self.output.on_remote_bytes(rank, which, &bytes, Instant::now());
            }
            FromHost::Put { key, value } => {
                for asker in self.store.put(key.clone(), value.clone()) {
                    self.answer(asker, key.clone(), value.clone());
                }
            }
            FromHost::Get { rank, key } if ranks.contains(&rank) => {
                if let Some(value) = self.store.request(&key, rank).map(<[u8]>::to_vec) {
                    self.answer(rank, key, value);
                }
            }
            FromHost::Happened { event, seen, pid } if ranks.contains(&event.rank()) => {
                self.judge(id, &event, &seen, pid);
            }
            FromHost::WouldWait => self.on_would_wait(),
            FromHost::WaitsForAbsent(waiter) => self.on_wait_for_absent(&waiter),
            FromHost::Stalled(stall) => self.on_stalled(id, stall),
            FromHost::Explained { rank, lines } if ranks.contains(&rank) => {
                if let Some(text) = self.outcome.explanations.add(rank, lines) {
                    self.print(&text);
                }
            }
            FromHost::Table { lines, notes } => {
                (self.hosts[id].lines, self.hosts[id].notes) = (Some(lines), notes);
            }
            FromHost::Line(text) => self.output.print(&text),
            FromHost::ForeignMpi(library) => self.outcome.add_foreign(library),
            FromHost::InputTaken => self.hosts[id].input_pending = false,
            FromHost::Failed(code) => self.end(code),
            FromHost::Over => self.hosts[id].state = State::Over,
            // A message about a rank of another host is ignored.
            FromHost::Output { .. }
            | FromHost::Get { .. }
            | FromHost::Happened { .. }
            | FromHost::Explained { .. } => {}
            // Its arrival was recorded.
            FromHost::Beat => {}
        }
    }

    fn on_hello(&mut self, id: usize, version: u32, host: &str) {
        if version == VERSION {
            self.hosts[id].state = State::Running;
            let dead_after = self.choices.dead_after;
            self.hosts[id].heartbeat = Some(Heartbeat::new(dead_after, Instant::now()));
            return;
        }
        self.print(&format!(
            "the daemon on {host} has version {version}, mpiexec has version {VERSION}: install \
             the same Verbena on all hosts"
        ));
        self.end(1);
    }

    fn on_would_wait(&mut self) {
        if let Some(rank) = self.outcome.missing().filter(|_| self.phase == Phase::Running) {
            self.print(&report::absent_rank(rank, self.size as usize));
            self.end(1);
        }
    }

    fn on_stalled(&mut self, id: usize, stall: HostStall) {
        self.hosts[id].stall = stall;
        let running = || self.hosts.iter().filter(|host| host.is_up()).map(|host| host.stall);
        let is_quiet = running().all(|stall| stall != HostStall::Active);
        if is_quiet && running().any(|stall| stall == HostStall::Waiting) {
            self.print(&stall::report(self.choices.stall_after));
            self.request_table(Instant::now());
        }
    }

    fn answer(&mut self, rank: u32, key: String, value: Vec<u8>) {
        if let Some(host) = self.hosts.iter_mut().find(|host| host.ranks.contains(&rank)) {
            host.send(&ToHost::Value { rank, key, value });
        }
    }

    /// Tells the hosts that a rank has failed, and that the job goes on.
    pub(super) fn announce_failure(&mut self, rank: u32, why: &str) {
        self.send_to_all(|| ToHost::Failed { rank, why: why.to_owned() });
    }

    /// Tells the hosts of a rank that ended without an error and without MPI_Init.
    fn announce_absence(&mut self, event: &Event) {
        if let Event::Died { rank, exit: Exit::Code(0), state: RankState::Starting } = *event {
            self.send_to_all(|| ToHost::Absent(rank));
        }
    }

    fn on_wait_for_absent(&mut self, waiter: &Waiter) {
        if self.phase == Phase::Running {
            self.print(&report::awaited_absent_rank(waiter, self.size as usize));
            self.end(1);
        }
    }

    /// Judges an event of a rank.
    fn judge(&mut self, id: usize, event: &Event, seen: &Snapshot, pid: u32) {
        if let Event::Died { rank, exit, .. } = event {
            self.ended[*rank as usize] = Some(RankLine::new(pid, Some(*exit), *seen));
        }
        let Judgement { verdict, is_reported } =
            self.outcome.judge(event, self.phase == Phase::Running);
        if let (Verdict::Missing(_), Some(rank)) = (verdict, self.outcome.missing()) {
            self.send_to_all(|| ToHost::Missing(rank));
        }
        let ends = matches!(verdict, Verdict::Ends(_));
        if is_reported {
            let host = self.hosts[id].name.clone();
            self.print(&report::failure(event, seen, pid, &host, self.size as usize, ends));
            let last = report::last_output(event, &self.output);
            last.iter().for_each(|text| self.print(text));
        }
        if self.outcome.is_survived(event) && self.phase == Phase::Running {
            let why = report::why_failed(event);
            self.announce_failure(event.rank(), &why);
        }
        match (ends, self.phase) {
            (true, Phase::Stopping { .. }) => self.on_death_while_stopping(),
            (true, _) => self.end(self.outcome.code()),
            (false, _) => self.announce_absence(event),
        }
    }
}
