//! Reports the ranks' activity: the table, and stalls.

use std::time::{Duration, Instant};

use bootstrap::{RankState, Snapshot};
use rustix::process::Pid;

use super::state::{Job, Phase};
use crate::failure_policy::EXIT_DEADLOCKED;
use crate::failure_policy::Exit;
use crate::frames::{FromHost, HostTable};
use crate::rank_table::{RankLine, rank_table};
use crate::stall::{self, DeadlockDetector};
use crate::wait_graph::{Conclusions, Readings};
use crate::{process_state, wait_graph};

impl Job {
    /// Reports a stall, or has `mpiexec` report it, which knows of the other hosts.
    pub(super) fn check_stall(&mut self, now: Instant) {
        let Some(stall) = &mut self.watch.stall else { return };
        let leaders: Vec<(Pid, Option<Exit>)> =
            self.local.ranks.iter().map(|rank| (rank.pid, rank.exit)).collect();
        let Some(state) = stall.tick(&self.local.status_page, &leaders, now) else { return };
        if self.upstream.is_some() {
            self.set_stall(state);
        } else {
            self.judge_stall();
        }
    }

    /// Reports a stall of this job and of those that it has spawned.
    pub(super) fn judge_stall(&mut self) {
        let Some(stall) = &self.watch.stall else { return };
        let state = stall.state();
        if self.jobs.are_stalled_with(state) {
            self.report_all_wait();
        }
    }

    /// Reports that the ranks of all jobs wait, if the user wants that.
    pub(super) fn report_all_wait(&mut self) {
        let Some(stall) = self.watch.stall.as_ref().filter(|_| self.watch.reports_stalls) else {
            return;
        };
        let line = stall::report(stall.after());
        self.print(&line);
        self.jobs.request_tables();
        self.print_table();
    }

    /// Looks for another MPI's library in the memory of the first rank.
    pub(super) fn check_foreign(&mut self, now: Instant) {
        if self.watch.foreign.deadline().is_none_or(|next| now < next) {
            return;
        }
        let first = self.local.ranks.first().filter(|rank| rank.exit.is_none());
        let Some(leader) = first.map(|rank| rank.pid).filter(|_| self.no_rank_was_in_mpi()) else {
            return self.watch.foreign.stop();
        };
        if let Some(library) = self.watch.foreign.tick(leader, now) {
            if self.upstream.is_some() {
                return self.local.output.send(&FromHost::ForeignMpi(library));
            }
            self.outcome.add_foreign(library);
        }
    }

    /// Returns true if no rank of this host has called MPI_Init.
    pub(super) fn no_rank_was_in_mpi(&self) -> bool {
        self.states().all(|(state, _)| state == RankState::Starting)
    }

    /// Reports ranks that wait for each other; `--stall-abort` ends the job for them, and in a
    /// stall for ranks that wait in vain.
    pub(super) fn check_deadlock(&mut self, now: Instant) {
        let Some(mut deadlock) = self.watch.deadlock.take() else { return };
        let lines = || self.lines(RankLine::of_page).into_iter().map(Some).collect();
        let cycles = deadlock.tick(lines, now);
        self.watch.deadlock = Some(deadlock);
        let Some(cycles) = cycles else { return };
        for cycle in &cycles {
            self.print(&format!("deadlock: {}", cycle.line()));
        }
        if !cycles.is_empty() {
            self.print_table();
        }
        let may_end = self.watch.aborts_stalls && self.phase == Phase::Running;
        if may_end && (!cycles.is_empty() || self.is_stalled_for_ever()) {
            self.print("ending the job (--stall-abort)");
            self.end(EXIT_DEADLOCKED);
        }
    }

    fn is_stalled_for_ever(&self) -> bool {
        if self.idle_for().is_none() {
            return false;
        }
        let began = Instant::now();
        let lines = self.lines(RankLine::new);
        self.conclusions(&lines, began).is_proved
    }

    /// Returns for how long no rank was active, in a stall.
    fn idle_for(&self) -> Option<Duration> {
        self.watch.stall.as_ref().and_then(|stall| stall.idle_for(Instant::now()))
    }

    /// Returns what follows from the lines of all ranks, which were read from `began` on.
    fn conclusions(&self, lines: &[RankLine], began: Instant) -> Conclusions {
        let all: Vec<_> = lines.iter().copied().map(Some).collect();
        let spread = began.elapsed();
        // The stall is as old as its last check, and a rank may have sent and left since.
        let settled = self.watch.deadlock.as_ref().map(DeadlockDetector::settled_for);
        let idle_for = self.idle_for().unwrap_or_default().min(settled.unwrap_or_default());
        wait_graph::conclusions(Readings { lines: &all, spread, idle_for })
    }

    fn lines(&self, line: fn(u32, Option<Exit>, Snapshot) -> RankLine) -> Vec<RankLine> {
        let exits = self.local.ranks.iter().map(|rank| rank.exit);
        let unstarted = std::iter::repeat_n(None, self.local.unstarted);
        (0..)
            .zip(exits.chain(unstarted))
            .map(|(local, exit)| {
                let (seen, pid) = self.seen_local(local);
                line(pid, exit, seen)
            })
            .collect()
    }

    /// Prints what each rank is doing, or sends it to `mpiexec`.
    pub(super) fn print_table(&mut self) {
        let began = Instant::now();
        let lines = self.lines(RankLine::new);
        let idle_for = self.idle_for();
        let running = self.ranks.iter().zip(&lines).filter(|(_, line)| line.exit.is_none());
        let notes: Vec<String> = running
            .filter_map(|(rank, line)| {
                process_state::describe(rank, line.pid, &line.seen, idle_for)
            })
            .collect();
        self.request_stacks(&lines);
        if self.upstream.is_some() {
            return self.add_tables(vec![HostTable { first: self.ranks.first(), lines, notes }]);
        }
        let table = rank_table(&self.ranks, &lines, &self.host, self.clock.age());
        self.print(&table);
        notes.iter().for_each(|line| self.print(line));
        let conclusions = self.conclusions(&lines, began);
        conclusions.lines.iter().for_each(|line| self.print(line));
    }
}
