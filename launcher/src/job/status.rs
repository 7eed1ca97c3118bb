//! Reports the ranks' activity: the table, and stalls.

use std::time::Instant;

use bootstrap::RankState;
use rustix::process::Pid;

use super::state::{Job, Phase};
use crate::failure_policy::EXIT_DEADLOCKED;
use crate::failure_policy::Exit;
use crate::frames::{FromHost, HostTable};
use crate::rank_table::{RankLine, rank_table};
use crate::stall::{self, HostStall};
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
        } else if state == HostStall::Waiting {
            let line = stall::report(stall.after());
            self.print(&line);
            if self.print_conclusions() && self.watch.aborts_stalls {
                self.abort_stall();
            }
        }
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

    /// Reports ranks that wait for each other. With several hosts that is each host's own ranks.
    pub(super) fn check_deadlock(&mut self, now: Instant) {
        let Some(mut deadlock) = self.watch.deadlock.take() else { return };
        let first = self.first as usize;
        let lines = || {
            let missing = std::iter::repeat_n(None, first);
            missing.chain(self.lines().into_iter().map(Some)).collect()
        };
        let cycles = deadlock.tick(lines, now);
        self.watch.deadlock = Some(deadlock);
        for cycle in &cycles {
            self.print(&format!("deadlock: {}", cycle.line()));
        }
        if !cycles.is_empty() {
            self.print_table();
        }
        if !cycles.is_empty() && self.watch.aborts_stalls && self.phase == Phase::Running {
            self.abort_stall();
        }
    }

    fn abort_stall(&mut self) {
        self.print("ending the job (--stall-abort)");
        self.end(EXIT_DEADLOCKED);
    }

    fn lines(&self) -> Vec<RankLine> {
        let exits = self.local.ranks.iter().map(|rank| rank.exit);
        let unstarted = std::iter::repeat_n(None, self.local.unstarted);
        (self.first..)
            .zip(exits.chain(unstarted))
            .map(|(rank, exit)| {
                let (seen, pid) = self.seen(rank);
                RankLine::new(pid, exit, seen)
            })
            .collect()
    }

    /// Prints what each rank is doing, or sends it to `mpiexec`.
    pub(super) fn print_table(&mut self) {
        self.print_conclusions();
    }

    /// Prints the table; returns true if some ranks wait for ever.
    fn print_conclusions(&mut self) -> bool {
        let lines = self.lines();
        let idle_for = self.watch.stall.as_ref().and_then(|stall| stall.idle_for(Instant::now()));
        let running = (self.first..).zip(&lines).filter(|(_, line)| line.exit.is_none());
        let notes: Vec<String> = running
            .filter_map(|(rank, line)| {
                process_state::describe(rank, line.pid, &line.seen, idle_for)
            })
            .collect();
        self.request_stacks(&lines);
        if self.upstream.is_some() {
            self.add_tables(vec![HostTable { first: self.first, lines, notes }]);
            return false;
        }
        let table = rank_table(self.first, &lines, &self.host, self.clock.age());
        self.print(&table);
        notes.iter().for_each(|line| self.print(line));
        let all: Vec<_> = lines.into_iter().map(Some).collect();
        let conclusions = wait_graph::conclusions(&all);
        conclusions.iter().for_each(|line| self.print(line));
        !conclusions.is_empty()
    }
}
