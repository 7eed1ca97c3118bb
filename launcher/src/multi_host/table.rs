//! What all ranks of a job over several hosts do: hosts are asked, and what they answer is put together with what
//! is known of ranks that have ended.
//!
//! States: nobody was asked -> asked (`asked` is the end of the hosts' time) -> told, when all have answered
//! that are there, or the time is up.

use std::time::Instant;

use super::{ANSWER, MultiHostJob};
use crate::frames::ToHost;
use crate::report::{self, Line};
use crate::wait_graph;

impl MultiHostJob {
    /// Has the table printed, soon. Whoever asks before that gets the same one.
    pub(super) fn ask_for_table(&mut self, now: Instant) {
        if self.asked.is_some() {
            return;
        }
        self.asked = Some(now + ANSWER);
        self.hosts.iter_mut().for_each(|host| host.lines = None);
        self.say_to_all(|| ToHost::Table);
    }

    /// False when nobody was asked.
    pub(super) fn have_all_answered(&self) -> bool {
        self.asked.is_some()
            && self.hosts.iter().all(|host| host.lines.is_some() || !host.is_there())
    }

    /// Prints the table that was asked for, one part for each host, and what follows from all of them.
    pub(super) fn print_table(&mut self) {
        if self.asked.take().is_none() {
            return;
        }
        let age = self.began.elapsed();
        let mut all = self.ended.clone();
        for id in 0..self.hosts.len() {
            let host = &mut self.hosts[id];
            let first = host.ranks.start;
            let known = &mut all[first as usize..host.ranks.end as usize];
            for (known, line) in known.iter_mut().zip(host.lines.take().unwrap_or_default()) {
                *known = Some(line);
            }
            let text = match known.iter().copied().collect::<Option<Vec<Line>>>() {
                Some(lines) => report::table(first, &lines, &host.name, age),
                None => {
                    let why = if host.is_there() { "no answer" } else { "not there any more" };
                    format!("{} on {}: {why}", host.ranks_in_words(), host.name)
                }
            };
            self.tell(&text);
        }
        wait_graph::conclusions(&all).iter().for_each(|line| self.tell(line));
    }
}
