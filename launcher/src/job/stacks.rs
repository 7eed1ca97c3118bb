//! The stacks of ranks in reports: the job's side of [`crate::user_stack`].

use std::time::Instant;

use rustix::process::Pid;

use super::state::{Job, Phase};
use crate::proc_tree;
use crate::rank_table::RankLine;
use crate::user_stack::Taken;

impl Job {
    /// Asks for the stacks of the ranks in a report. A rank that is not in MPI may run behind a
    /// script: the youngest process is looked at.
    pub(super) fn request_stacks(&mut self, lines: &[RankLine]) {
        let running = self.ranks.iter().zip(lines).filter(|(_, line)| line.exit.is_none());
        let ranks = running.filter_map(|(rank, line)| {
            let pid = Pid::from_raw(i32::try_from(line.pid).ok()?)?;
            let is_known = line.seen.pid == line.pid;
            let youngest = || proc_tree::descendants(pid).pop().unwrap_or(pid);
            Some((rank, if is_known { pid } else { youngest() }))
        });
        self.watch.stacks.request(ranks);
    }

    /// Starts the tool for the next stack, and ends one that takes too long.
    pub(super) fn check_stacks(&mut self, now: Instant) {
        let taken = match self.phase {
            Phase::Running if !self.all_ranks_have_ended() => self.watch.stacks.expire(now),
            _ => self.watch.stacks.end(),
        };
        self.print_stack(taken);
        match self.watch.stacks.start_next(now) {
            Some(Ok(tool)) => self.processes.reaper.spare(tool),
            Some(Err(why)) => self.print(&why),
            None => {}
        }
    }

    pub(super) fn print_stack(&mut self, taken: Option<Taken>) {
        let Some(Taken { lines, tool }) = taken else { return };
        self.processes.reaper.take_back(tool);
        self.print(&lines.join("\n"));
    }
}
