//! Hosts that are lost: silent, disconnected, or never started.

use std::time::{Duration, Instant};

use super::remote::{Remote, State, ending, shown};
use super::state::{MultiHostJob, Phase};
use crate::frames::ToHost;
use crate::heartbeat::Tick;
use crate::job::STOP_GRACE_AFTER_DEATH;

/// Time that hosts have to end their ranks.
const END_GRACE: Duration = Duration::from_millis(1200);
/// Time that an agent has to end after its daemon.
const AGENT_GRACE: Duration = Duration::from_millis(300);

impl MultiHostJob {
    /// Returns the time of the next check.
    pub(super) fn host_deadline(&self) -> Option<Instant> {
        let ending = match self.phase {
            Phase::Running => None,
            Phase::Stopping { until } => until,
            Phase::Ending { since } => Some(since + END_GRACE),
        };
        let beats = self.hosts.iter().filter_map(|host| host.heartbeat.as_ref()?.deadline());
        let limit = self.choices.start_timeout;
        let starts = self.hosts.iter().filter_map(|host| host.start_deadline(limit));
        let agents = self.hosts.iter().filter_map(Remote::lost_agent_deadline);
        beats.chain(ending).chain(starts).chain(agents).min()
    }

    /// Gives up hosts that are silent, or that do not end in time.
    pub(super) fn check_hosts(&mut self, now: Instant) {
        if let Phase::Ending { since } = self.phase
            && now >= since + END_GRACE
        {
            for id in 0..self.hosts.len() {
                if self.hosts[id].is_up() {
                    let name = self.hosts[id].name.clone();
                    self.print(&format!(
                        "host {name} does not end its ranks; closing the connection"
                    ));
                    self.hosts[id].give_up();
                }
            }
        }
        if let Phase::Stopping { until: Some(until) } = self.phase
            && now >= until
        {
            self.end(1);
        }
        self.check_agents(now);
        (0..self.hosts.len()).for_each(|id| {
            self.check_start(id, now);
            self.check_heartbeat(id, now);
        });
    }

    /// Shortens the time that ranks have after a signal: one of them has died of it.
    pub(super) fn on_death_while_stopping(&mut self) {
        if let Phase::Stopping { until } = &mut self.phase {
            until.get_or_insert_with(|| Instant::now() + STOP_GRACE_AFTER_DEATH);
        }
    }

    /// Gives up a daemon that has not sent its first message in time.
    fn check_start(&mut self, id: usize, now: Instant) {
        let limit = self.choices.start_timeout;
        let host = &mut self.hosts[id];
        if host.start_deadline(limit).is_none_or(|deadline| now < deadline) {
            return;
        }
        host.give_up();
        let (name, ranks, agent) = (&host.name, host.ranks_in_words(), &self.choices.agent);
        let (whole, test) = (shown(agent, name, "..."), shown(agent, name, "true"));
        let text = format!(
            "cannot start {ranks} on {name}: no message from its daemon for {} s \
             (--start-timeout), and `{whole}` still runs; run `{test}` by \
             hand (it must not request a password), or see --agent",
            limit.as_secs_f64()
        );
        self.print(&text);
        self.end(1);
    }

    /// Gives up hosts whose agent has ended while another process holds its output open.
    pub(super) fn check_agents(&mut self, now: Instant) {
        for id in 0..self.hosts.len() {
            if self.hosts[id].has_lost_agent(now) {
                self.on_disconnect(id);
                self.hosts[id].hang_up();
                self.hosts[id].kill_group();
            }
        }
    }

    /// Sends a beat to a host, or gives it up.
    fn check_heartbeat(&mut self, id: usize, now: Instant) {
        // Hosts are not read while the reader of our output is slow.
        let is_behind = self.output.is_behind();
        let host = &mut self.hosts[id];
        let is_running = host.state == State::Running;
        let Some(heartbeat) = host.heartbeat.as_mut().filter(|_| is_running) else {
            host.heartbeat = None;
            return;
        };
        if is_behind {
            heartbeat.received();
        }
        match heartbeat.tick(now) {
            Tick::Pending => {}
            Tick::Due => host.send(&ToHost::Beat),
            Tick::Dead => {
                host.give_up();
                let seconds = self.choices.dead_after.as_secs_f64();
                let why = format!(
                    "no message for {seconds} s (--dead-after), the machine is down or unreachable"
                );
                self.on_lost_host(id, &why);
            }
        }
    }

    /// Reports that the connection to a host ended before its ranks did.
    pub(super) fn on_disconnect(&mut self, id: usize) {
        let end = Instant::now() + AGENT_GRACE;
        let mut status = self.hosts[id].agent_status();
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            status = self.hosts[id].agent_status();
        }
        let host = &mut self.hosts[id];
        let was = std::mem::replace(&mut host.state, State::Lost);
        if self.phase != Phase::Running && was == State::Running {
            return;
        }
        let how = ending(status);
        if was == State::Running {
            return self.on_lost_host(id, &format!("its connection {how}"));
        }
        let (name, ranks, agent) = (&host.name, host.ranks_in_words(), &self.choices.agent);
        let (whole, test) = (shown(agent, name, "..."), shown(agent, name, "true"));
        let text = format!(
            "cannot start {ranks} on {name}: `{whole}` {how}; run `{test}` by hand, or see --agent"
        );
        self.print(&text);
        self.end(1);
    }

    /// Reports that a host is lost. That ends the job, or its ranks have failed and others go on.
    fn on_lost_host(&mut self, id: usize, why: &str) {
        let (host, size) = (&self.hosts[id], self.size);
        let (name, words, ranks) = (host.name.clone(), host.ranks_in_words(), host.ranks.clone());
        let goes_on = self.outcome.goes_on() && self.phase == Phase::Running;
        let end = if goes_on { String::new() } else { format!("; ending the job ({size} ranks)") };
        self.print(&format!("lost host {name} with {words}: {why}{end}"));
        if !goes_on {
            return self.end(1);
        }
        self.outcome.set_code(1);
        let is_running = |rank: &u32| self.ended[*rank as usize].is_none();
        let lost: Vec<u32> = ranks.filter(is_running).collect();
        let why = format!("its host {name} is lost: {why}");
        lost.into_iter().for_each(|rank| self.announce_failure(rank, &why));
    }

    /// Waits for the agents, which end with their daemons, and kills those that do not.
    pub(super) fn end_agents(&mut self) {
        self.hosts.iter_mut().for_each(Remote::hang_up);
        let end = Instant::now() + AGENT_GRACE;
        for host in &mut self.hosts {
            while host.agent_status().is_none() {
                if Instant::now() >= end {
                    host.kill_agent();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
