//! Hosts that are lost: silent, disconnected, or never started. Some are children in the tree of
//! daemons, others are reported by a daemon.

use std::time::Instant;

use super::state::{MultiHostJob, Phase};
use crate::job::STOP_GRACE_AFTER_DEATH;
use crate::lost_host::LostHost;
use crate::tree::links::Trouble;

/// The hosts reached through a lost one that its report names.
const MAX_NAMES: usize = 4;

impl MultiHostJob {
    /// Returns the time of the next check.
    pub(super) fn host_deadline(&self) -> Option<Instant> {
        let ending = match self.phase {
            Phase::Stopping { until } => until,
            Phase::Running | Phase::Ending => None,
        };
        ending.into_iter().chain(self.links.deadline()).min()
    }

    /// Gives up children that are silent, or that do not start or end in time.
    pub(super) fn check_hosts(&mut self, now: Instant) {
        if let Phase::Stopping { until: Some(until) } = self.phase
            && now >= until
        {
            self.end(1);
        }
        // Hosts are not read while the reader of our output is slow.
        let is_behind = self.output.is_behind();
        let troubles = self.links.check(now, is_behind);
        troubles.into_iter().for_each(|trouble| self.on_trouble(trouble));
    }

    /// Shortens the time that ranks have after a signal: one of them has died of it.
    pub(super) fn on_death_while_stopping(&mut self) {
        if let Phase::Stopping { until } = &mut self.phase {
            until.get_or_insert_with(|| Instant::now() + STOP_GRACE_AFTER_DEATH);
        }
    }

    /// Gives up children whose agents have ended.
    pub(super) fn check_agents(&mut self) {
        for link in 0..self.links.iter().count() {
            let trouble = self.links.check_agent(link, Instant::now());
            trouble.into_iter().for_each(|trouble| self.on_trouble(trouble));
        }
    }

    /// Acts on what went wrong with a child.
    pub(super) fn on_trouble(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Stuck(line) => self.print(&line),
            Trouble::Lost(lost) => self.on_lost(&lost),
        }
    }

    /// Reports that a host is lost. That ends the job, or its ranks have failed and others go on.
    pub(super) fn on_lost(&mut self, lost: &LostHost) {
        let Some(host) = self.host_of(lost.first) else { return };
        if self.hosts[host].is_lost {
            // It has reported its own loss, and then fallen silent, or the other way round.
            return;
        }
        let below: Vec<usize> =
            lost.below.iter().filter_map(|first| self.host_of(*first)).collect();
        below.iter().chain([&host]).for_each(|host| self.hosts[*host].is_lost = true);
        if !lost.was_running {
            self.print(&lost.why);
            return self.end(1);
        }
        if self.phase != Phase::Running || self.outcome.is_unjudged() {
            return;
        }
        let (share, size, why) = (&self.hosts[host].share, self.size, &lost.why);
        let (name, words) = (share.name.clone(), share.ranks.in_words());
        let through = self.names(&below);
        let goes_on = self.outcome.goes_on();
        let end = if goes_on { String::new() } else { format!("; ending the job ({size} ranks)") };
        self.print(&format!("lost host {name} with {words}{through}: {why}{end}"));
        if !goes_on {
            return self.end(1);
        }
        self.outcome.set_code(1);
        self.announce_lost_ranks(host, &format!("its host {name} is lost: {why}"));
        for id in below {
            let own = &self.hosts[id].share.name;
            let why = format!("its host {own} was reached through {name}, which is lost: {why}");
            self.announce_lost_ranks(id, &why);
        }
    }

    fn announce_lost_ranks(&mut self, host: usize, why: &str) {
        let is_running = |rank: &u32| self.ended[*rank as usize].is_none();
        let lost: Vec<u32> = self.hosts[host].share.ranks.iter().filter(is_running).collect();
        lost.into_iter().for_each(|rank| self.announce_failure(rank, why));
    }

    /// Returns the hosts that were reached through a lost one, in words.
    fn names(&self, hosts: &[usize]) -> String {
        if hosts.is_empty() {
            return String::new();
        }
        let names = hosts.iter().take(MAX_NAMES).map(|host| self.hosts[*host].share.name.as_str());
        let names = names.collect::<Vec<&str>>().join(", ");
        match hosts.len().saturating_sub(MAX_NAMES) {
            0 => format!(" (and {names}, reached through it)"),
            rest => format!(" (and {names} and {rest} more hosts, reached through it)"),
        }
    }
}
