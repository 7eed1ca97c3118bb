//! Reports the ranks' activity: the table, and stalls.

use std::time::Instant;

use bootstrap::RankState;
use rustix::process::Pid;

use super::state::Job;
use crate::failure_policy::Exit;
use crate::frames::FromHost;
use crate::rank_table::{RankLine, rank_table};
use crate::stall::{self, HostStall};
use crate::{process_state, wait_graph};

impl Job {
    /// Reports a stall, or has `mpiexec` report it, which knows of the other hosts.
    pub(super) fn check_stall(&mut self, now: Instant) {
        let Some(stall) = &mut self.stall else { return };
        let leaders: Vec<(Pid, Option<Exit>)> =
            self.local.ranks.iter().map(|rank| (rank.pid, rank.exit)).collect();
        let Some(state) = stall.tick(&self.local.status_page, &leaders, now) else { return };
        if self.upstream.is_some() {
            self.local.output.send(&FromHost::Stalled(state));
        } else if state == HostStall::Waiting {
            let line = stall::report(stall.after());
            self.print(&line);
            self.print_table();
        }
    }

    /// Looks for another MPI's library in the memory of the first rank.
    pub(super) fn check_foreign(&mut self, now: Instant) {
        if self.foreign.deadline().is_none_or(|next| now < next) {
            return;
        }
        let first = self.local.ranks.first().filter(|rank| rank.exit.is_none());
        let Some(leader) = first.map(|rank| rank.pid).filter(|_| self.no_rank_was_in_mpi()) else {
            return self.foreign.stop();
        };
        if let Some(library) = self.foreign.tick(leader, now) {
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

    /// Prints what each rank is doing, or sends it to `mpiexec`.
    pub(super) fn print_table(&mut self) {
        let lines: Vec<RankLine> = (self.first..)
            .zip(&self.local.ranks)
            .map(|(rank, this)| {
                let (seen, pid) = self.seen(rank);
                RankLine::new(pid, this.exit, seen)
            })
            .collect();
        let idle_for = self.stall.as_ref().and_then(|stall| stall.idle_for(Instant::now()));
        let running = (self.first..).zip(&lines).filter(|(_, line)| line.exit.is_none());
        let notes: Vec<String> = running
            .filter_map(|(rank, line)| {
                process_state::describe(rank, line.pid, &line.seen, idle_for)
            })
            .collect();
        if self.upstream.is_some() {
            return self.local.output.send(&FromHost::Table { lines, notes });
        }
        let table = rank_table(self.first, &lines, &self.host, self.clock.age());
        self.print(&table);
        notes.iter().for_each(|line| self.print(line));
        let all: Vec<_> = lines.into_iter().map(Some).collect();
        wait_graph::conclusions(&all).iter().for_each(|line| self.print(line));
    }
}
