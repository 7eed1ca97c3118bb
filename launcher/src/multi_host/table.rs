//! The table of what all ranks are doing: hosts send their tables, which are joined with the states
//! of ranks that have ended.
//!
//! States: not requested -> requested, until `table_due` -> printed, once every host that is up has
//! answered or the time is over.

use std::time::{Duration, Instant};

use super::state::{HostState, MultiHostJob};
use crate::failure_policy::EXIT_DEADLOCKED;
use crate::frames::ToHost;
use crate::rank_table::{RankLine, rank_table};
use crate::stall::HostStall;
use crate::wait_graph::{self, Readings};

/// Time that hosts have to answer before the table is printed without them.
const ANSWER_TIME: Duration = Duration::from_secs(2);

impl MultiHostJob {
    /// Requests the table from the hosts. Further requests before it is printed get the same one.
    pub(super) fn request_table(&mut self, now: Instant) {
        if self.table_due.is_some() {
            return;
        }
        self.table_due = Some(now + ANSWER_TIME);
        self.hosts.iter_mut().for_each(|host| host.answer = None);
        self.links.send_to_all(&ToHost::Table);
    }

    /// Prints the table if it is due.
    pub(super) fn check_table(&mut self, now: Instant) {
        let Some(due) = self.table_due else { return };
        let has_answered = |(id, host): (usize, &HostState)| {
            host.answer.is_some() || host.is_lost || self.has_ended(id)
        };
        if now >= due || self.hosts.iter().enumerate().all(has_answered) {
            self.print_table();
        }
    }

    /// Prints the table that was requested, one part for each host, and the conclusions.
    pub(super) fn print_table(&mut self) {
        let Some(due) = self.table_due.take() else { return };
        let age = self.clock.age();
        let mut all = self.ended.clone();
        for id in 0..self.hosts.len() {
            let HostState { share, is_lost, answer } = &mut self.hosts[id];
            let (lines, notes) =
                answer.take().map_or_else(Default::default, |answer| (answer.lines, answer.notes));
            for (rank, line) in share.ranks.iter().zip(lines) {
                all[rank as usize] = Some(line);
            }
            let known = share.ranks.iter().map(|rank| all[rank as usize]);
            let text = match known.collect::<Option<Vec<RankLine>>>() {
                Some(lines) => rank_table(&share.ranks, &lines, &share.name, age),
                None => {
                    let why = if *is_lost { "host lost" } else { "no answer" };
                    format!("{} on {}: {why}", share.ranks.in_words(), share.name)
                }
            };
            self.print(&text);
            notes.iter().for_each(|line| self.print(line));
        }
        let is_stalled = self.links.stall() == Some(HostStall::Waiting);
        let idle_for = if is_stalled { self.choices.stall_after / 2 } else { Duration::ZERO };
        // The hosts have answered since the request.
        let spread = (Instant::now() + ANSWER_TIME).saturating_duration_since(due);
        let conclusions = wait_graph::conclusions(Readings { lines: &all, spread, idle_for });
        conclusions.lines.iter().for_each(|line| self.print(line));
        if self.choices.stall_abort && is_stalled && conclusions.is_proved {
            self.print("ending the job (--stall-abort)");
            self.end(EXIT_DEADLOCKED);
        }
    }
}
