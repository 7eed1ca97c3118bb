//! Reports the ranks' activity: the table, and stalls.

use std::time::Instant;

use super::state::Job;
use crate::failure_policy::Exit;
use crate::frames::FromHost;
use crate::rank_table::{RankLine, rank_table};
use crate::{stall, wait_graph};

impl Job {
    /// Reports a stall, or has `mpiexec` report it, which knows of the other hosts.
    pub(super) fn check_stall(&mut self, now: Instant) {
        let Some(stall) = &mut self.stall else { return };
        let ends: Vec<Option<Exit>> = self.local.ranks.iter().map(|rank| rank.exit).collect();
        let Some(is_stalled) = stall.tick(&self.local.status_page, &ends, now) else { return };
        if self.upstream.is_some() {
            self.local.output.send(&FromHost::Stalled(is_stalled));
        } else if is_stalled {
            let line = stall::report(stall.after());
            self.print(&line);
            self.print_table();
        }
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
        if self.upstream.is_some() {
            return self.local.output.send(&FromHost::Table(lines));
        }
        let table = rank_table(self.first, &lines, &self.host, self.clock.age());
        self.print(&table);
        let all: Vec<_> = lines.into_iter().map(Some).collect();
        wait_graph::conclusions(&all).iter().for_each(|line| self.print(line));
    }
}
