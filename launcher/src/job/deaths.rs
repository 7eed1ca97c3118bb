//! Ranks that end: reaped, judged, reported.

use std::time::Instant;

use bootstrap::spawning::EndedProcesses;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};

use super::state::{Job, Phase};
use crate::failure_policy::{Event, Exit, Verdict};
use crate::frames::FromHost;
use crate::outcome::Judgement;
use crate::report;
use crate::start::LocalRanks;
use crate::unfinalized::Stage;

impl Job {
    /// Reaps all children that have ended, and records those that are stopped or run again.
    pub(super) fn reap(&mut self) {
        let mut dead: Vec<(Pid, Exit)> = Vec::new();
        let changes = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        loop {
            match wait(changes) {
                Ok(Some((pid, status))) => {
                    let exit = status
                        .exit_status()
                        .map(Exit::Code)
                        .or(status.terminating_signal().map(Exit::Signal));
                    let is_other = exit.is_some()
                        && (self.relay.links.on_reaped(pid, status.as_raw())
                            || self.jobs.on_reaped(pid));
                    if is_other {
                        self.processes.reaper.take_back(pid);
                        continue;
                    }
                    dead.extend(exit.map(|exit| (pid, exit)));
                    if exit.is_none() {
                        self.on_stop_or_continue(pid, status.stopping_signal());
                    }
                }
                Ok(None) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.processes.is_childless = true;
                    break;
                }
            }
        }
        for (pid, exit) in dead {
            self.processes.guard.iter().for_each(|guard| guard.remove(pid));
            if let Some(rank) = self.running_rank(pid) {
                self.on_death(rank, exit);
            }
        }
    }

    fn running_rank(&self, pid: Pid) -> Option<usize> {
        self.local.ranks.iter().position(|rank| rank.pid == pid && rank.exit.is_none())
    }

    /// Records that a process was stopped by a signal, or continues.
    fn on_stop_or_continue(&mut self, pid: Pid, signal: Option<i32>) {
        let Some(local) = self.running_rank(pid) else { return };
        let rank = self.ranks.at(local as u32);
        match signal {
            Some(signal) => self.watch.stopped.add(rank, signal, Instant::now()),
            None => self.watch.stopped.remove(rank),
        }
    }

    /// Reports the ranks that have been stopped for a while; `--stall-abort` ends the job then.
    pub(super) fn check_stopped(&mut self, now: Instant) {
        if self.phase != Phase::Running {
            return;
        }
        for (rank, signal) in self.watch.stopped.tick(now) {
            if self.watch.aborts_stalls {
                self.events.push(Event::Stopped { rank, signal });
                continue;
            }
            let (_, pid) = self.seen(rank);
            let line = report::stopped(rank, signal, pid, &self.host);
            self.print(&line);
        }
        self.judge_events();
    }

    fn on_death(&mut self, local: usize, exit: Exit) {
        // Its last messages first: an abort explains an exit, and its output is printed before
        // the report.
        self.read_control(local);
        let rank = self.ranks.at(local as u32);
        self.local.output.read_rank(rank, Instant::now());
        let this = &mut self.local.ranks[local];
        this.exit = Some(exit);
        this.control = None;
        self.watch.stopped.remove(rank);
        let entry = self.local.status_page.entry(local as u32);
        let state = entry.state();
        // Ranks of this host that wait for what it has locked in shared memory go on.
        entry.set_ended();
        if self.upstream.is_none() {
            // Otherwise `mpiexec` tells all hosts.
            self.watch.absent.add(rank, exit, state);
        }
        self.events.push(Event::Died { rank, exit, state });
    }

    /// Judges the events since the last call, or has `mpiexec` judge them.
    pub(super) fn judge_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(Event::order);
        if self.upstream.is_some() {
            return self.send_events(events);
        }
        self.hold_unfinalized(&mut events);
        events.iter().for_each(|event| self.judge(event));
        if let Some(rank) = self.absent_rank() {
            let line = report::absent_rank(rank, self.local.total());
            self.print(&line);
            self.terminate();
        }
    }

    /// Holds back the ends of ranks that may just lack MPI_Finalize.
    fn hold_unfinalized(&mut self, events: &mut Vec<Event>) {
        let now = Instant::now();
        let unfinalized = &mut self.watch.unfinalized;
        unfinalized.hold(events, now);
        if unfinalized.deadline().is_none() {
            return;
        }
        if events.iter().any(|event| !event.is_fine()) {
            return events.extend(unfinalized.release());
        }
        let stage = match self.phase {
            Phase::Running if self.all_ranks_have_ended() => Stage::Over,
            Phase::Running => Stage::Running,
            _ => Stage::Ending,
        };
        let (failures, line) = self.watch.unfinalized.tick(stage, now);
        line.iter().for_each(|line| self.print(line));
        events.extend(failures);
    }

    /// Returns the rank that never called MPI_Init, once ranks in MPI would wait for it.
    fn absent_rank(&self) -> Option<u32> {
        let rank = self.outcome.missing()?;
        (self.phase == Phase::Running && self.some_rank_is_in_mpi()).then_some(rank)
    }

    /// Returns the time of the next [`Job::check_absent`].
    pub(super) fn absent_deadline(&self) -> Option<Instant> {
        let is_needed = self.ends_for_absent() && self.some_rank_is_in_mpi();
        self.watch.absent.deadline(Instant::now()).filter(|_| is_needed)
    }

    /// Ends the job if a rank waits for one that ended without MPI_Init.
    pub(super) fn check_absent(&mut self, now: Instant) {
        if !self.ends_for_absent() {
            return;
        }
        let LocalRanks { ranks, status_page, .. } = &self.local;
        let ends = ranks.iter().map(|rank| rank.exit);
        if let Some(waiter) = self.watch.absent.tick(status_page, &self.ranks, ends, now) {
            let ranks = self.local.total();
            if self.upstream.is_some() {
                return self.local.output.send(&FromHost::WaitsForAbsent(waiter));
            }
            let line = report::awaited_absent_rank(&waiter, ranks);
            self.print(&line);
            self.end(1);
        }
    }

    fn ends_for_absent(&self) -> bool {
        self.phase == Phase::Running
    }

    fn judge(&mut self, event: &Event) {
        let Judgement { verdict, is_reported } =
            self.outcome.judge(event, self.phase == Phase::Running);
        let ends = matches!(verdict, Verdict::Ends(_));
        if is_reported {
            let (seen, pid) = self.seen(event.rank());
            let ranks = self.local.total();
            let line = report::failure(event, &seen, pid, &self.host, ranks, ends);
            self.print(&line);
            let last = report::last_output(event, &self.local.output).filter(|_| ranks > 1);
            last.iter().for_each(|text| self.print(text));
            self.report_memory_limit(event);
        }
        if self.outcome.is_survived(event) && self.phase == Phase::Running {
            let why = report::why_failed(event);
            self.announce_failure(event.rank(), &why);
            self.jobs.report_ended(EndedProcesses::failed(self.base + event.rank(), &why));
        }
        if ends {
            self.end_after(event);
        }
    }

    /// Reports a kill by the out-of-memory killer, where the kernel counts these.
    fn report_memory_limit(&mut self, event: &Event) {
        if let (Event::Died { exit: Exit::Signal(libc::SIGKILL), .. }, Some(line)) =
            (event, self.processes.memory.report())
        {
            self.print(&line);
        }
    }

    /// On one of several hosts: sends events to `mpiexec`, which judges them.
    fn send_events(&mut self, events: Vec<Event>) {
        for event in events {
            self.send_event(event.clone());
            self.report_memory_limit(&event);
        }
        if self.absent_rank().is_some() {
            self.outcome.set_missing(None);
            self.local.output.send(&FromHost::WouldWait);
        }
    }
}
