//! Messages of the hosts, and what the job does about them.

use std::time::{Duration, Instant};

use bootstrap::Snapshot;
use bootstrap::spawning::EndedProcesses;

use super::state::{MultiHostJob, Phase};
use crate::absent_ranks::Waiter;
use crate::failure_policy::{Event, Verdict};
use crate::frames::{EndedRank, FromHost, HostTable, ToHost};
use crate::nested::root::Root as _;
use crate::outcome::Judgement;
use crate::output::Which;
use crate::rank_table::RankLine;
use crate::report;
use crate::stall::{self, HostStall};
use crate::tree::store::Party;
use crate::unfinalized::Stage;

/// Time in which each rank that waits looks for what it waits for.
const LOOK_TIME: Duration = Duration::from_millis(2500);

impl MultiHostJob {
    /// Reads the messages of a child, which come from its own host and from those below it.
    pub(super) fn read_link(&mut self, link: usize) {
        let (messages, trouble) = self.links.read(link);
        messages.into_iter().for_each(|message| self.on_message(link, message));
        trouble.into_iter().for_each(|trouble| self.on_trouble(trouble));
    }

    fn on_message(&mut self, link: usize, message: FromHost) {
        let covers = |rank: u32| self.links.get(link).covers(rank);
        match message {
            FromHost::Output { rank, error, bytes } if covers(rank) => {
                let which = if error { Which::Err } else { Which::Out };
                self.output.on_remote_bytes(rank, which, &bytes, Instant::now());
            }
            FromHost::Store(message) => {
                // It puts where it can be reached.
                self.outcome.rank_has_joined();
                let outgoing = self.store.on_message(Party::Child(link), message);
                self.deliver(outgoing);
            }
            FromHost::Happened { event, seen, pid } if covers(event.rank()) => {
                self.on_event(event, &seen, pid);
            }
            FromHost::Ended(list) => {
                self.on_ended(list.into_iter().filter(|ended| covers(ended.rank)).collect());
            }
            FromHost::Lost(lost) if covers(lost.first) => self.on_lost(&lost),
            FromHost::WouldWait => self.on_would_wait(),
            FromHost::WaitsForAbsent(waiter) => self.on_wait_for_absent(&waiter),
            FromHost::Stalled(_) => self.on_stalled(),
            FromHost::Explained { rank, lines } if covers(rank) => {
                if let Some(text) = self.outcome.explanations.add(rank, lines) {
                    self.print(&text);
                }
            }
            FromHost::Tables(tables) => {
                let tables: Vec<HostTable> =
                    tables.into_iter().filter(|table| covers(table.first)).collect();
                for table in tables {
                    if let Some(host) = self.host_of(table.first) {
                        self.hosts[host].answer = Some(table);
                    }
                }
            }
            FromHost::Line(text) => self.print_line(&text),
            FromHost::Started(ranks) => {
                self.started = self.started.saturating_add(ranks);
                // Now: the next message may be about the failure of a rank.
                self.report_start(self.started >= self.size);
            }
            FromHost::Spawn { asker, request }
                if asker.checked_sub(self.base).is_some_and(covers) =>
            {
                self.spawn(asker, request);
            }
            FromHost::ForeignMpi(library) => self.outcome.add_foreign(library),
            FromHost::Failed(code) => self.end(code),
            // A message about a rank of another child is ignored.
            FromHost::Output { .. }
            | FromHost::Happened { .. }
            | FromHost::Explained { .. }
            | FromHost::Spawn { .. }
            | FromHost::Lost(_) => {}
            // The links have recorded these.
            FromHost::Hello { .. } | FromHost::Beat | FromHost::InputTaken | FromHost::Over => {}
        }
    }

    /// Prints a line of a host.
    fn print_line(&mut self, text: &str) {
        if !self.jobs.holds(text.strip_prefix("mpiexec: ").unwrap_or(text)) {
            self.output.print(text);
        }
    }

    fn on_would_wait(&mut self) {
        if let Some(rank) = self.outcome.missing().filter(|_| self.phase == Phase::Running) {
            self.print(&report::absent_rank(rank, self.size as usize));
            self.end(1);
        }
    }

    /// A host whose last rank has just ended was active, and others may not have looked since.
    /// Therefore a stall must last for some of their looks; and for one of each rank, where only a
    /// proof ends the job.
    pub(super) fn on_stalled(&mut self) {
        if self.are_all_stalled() {
            let looks = if self.choices.stall_abort { LOOK_TIME } else { Duration::ZERO };
            let due = Instant::now() + looks.max(self.choices.stall_after / 2);
            self.stall_due.get_or_insert(due);
        } else {
            self.stall_due = None;
        }
    }

    /// Returns true if no rank of this job and of those that it has spawned makes progress.
    fn are_all_stalled(&mut self) -> bool {
        let own = self.links.stall().unwrap_or(HostStall::Idle);
        self.jobs.are_stalled_with(own)
    }

    /// Reports a stall that has lasted.
    pub(super) fn check_stall(&mut self, now: Instant) {
        if self.stall_due.is_none_or(|due| now < due) {
            return;
        }
        self.stall_due = None;
        if self.are_all_stalled() {
            self.report_all_wait(now);
        }
    }

    /// Reports that the ranks of all jobs wait, if the user wants that.
    pub(super) fn report_all_wait(&mut self, now: Instant) {
        if !self.choices.reports_stalls {
            return;
        }
        self.jobs.request_tables();
        self.print(&stall::report(self.choices.stall_after));
        self.request_table(now);
    }

    /// Tells the hosts that a rank has failed, and that the job goes on.
    pub(super) fn announce_failure(&mut self, rank: u32, why: &str) {
        self.links.send_to_all(&ToHost::Failed { rank, why: why.to_owned() });
        self.jobs.report_ended(EndedProcesses::failed(self.base + rank, why));
    }

    /// Records ranks that did not fail, and tells the hosts of those that never called MPI_Init.
    fn on_ended(&mut self, list: Vec<EndedRank>) {
        let mut absent = Vec::new();
        for ended in list {
            absent.extend(ended.is_absent().then_some(ended.rank));
            self.ended[ended.rank as usize] = Some(ended.line);
        }
        if !absent.is_empty() && self.phase == Phase::Running {
            self.links.send_to_all(&ToHost::Absent(absent));
        }
    }

    fn on_wait_for_absent(&mut self, waiter: &Waiter) {
        if self.phase == Phase::Running {
            self.print(&report::awaited_absent_rank(waiter, self.size as usize));
            self.end(1);
        }
    }

    /// Judges an event of a rank, unless it is an end that may just lack MPI_Finalize. After a
    /// failure those ends are failures, too.
    fn on_event(&mut self, event: Event, seen: &Snapshot, pid: u32) {
        if let Event::Died { rank, exit, .. } = event {
            self.ended[rank as usize] = Some(RankLine::new(pid, Some(exit), *seen));
        }
        let mut events = vec![event];
        self.unfinalized.hold(&mut events, Instant::now());
        let Some(event) = events.pop() else { return };
        self.judge(&event, seen, pid);
        let held = self.unfinalized.release();
        self.judge_ends(&held);
    }

    /// Decides about ends that were held back.
    pub(super) fn check_unfinalized(&mut self, now: Instant) {
        if self.unfinalized.deadline().is_none() {
            return;
        }
        let stage = match self.phase {
            Phase::Running if self.ended.iter().all(Option::is_some) => Stage::Over,
            Phase::Running => Stage::Running,
            Phase::Stopping { .. } | Phase::Ending => Stage::Ending,
        };
        let (failures, line) = self.unfinalized.tick(stage, now);
        line.iter().for_each(|line| self.print(line));
        self.judge_ends(&failures);
    }

    /// Judges ends that were recorded before.
    fn judge_ends(&mut self, ends: &[Event]) {
        for event in ends {
            if let Some(RankLine { seen, pid, .. }) = self.ended[event.rank() as usize] {
                self.judge(event, &seen, pid);
            }
        }
    }

    fn judge(&mut self, event: &Event, seen: &Snapshot, pid: u32) {
        let Judgement { verdict, is_reported } =
            self.outcome.judge(event, self.phase == Phase::Running);
        if let (Verdict::Missing(_), Some(rank)) = (verdict, self.outcome.missing()) {
            self.links.send_to_all(&ToHost::Missing(rank));
        }
        let ends = matches!(verdict, Verdict::Ends(_));
        if is_reported {
            let host = self.host_of(event.rank()).map(|host| self.hosts[host].share.name.clone());
            let host = host.unwrap_or_default();
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
            (false, _) => {}
        }
    }
}
