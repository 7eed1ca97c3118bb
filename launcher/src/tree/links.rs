//! All edges of a process to its children, and what time does to them.
//!
//! States: running -> ending (the children were requested to end their ranks) -> over, once every
//! child is over or lost. What goes wrong with a child is returned as [`Trouble`]: `mpiexec` judges
//! it, and a daemon passes it on. A child has the longer to end, the more levels are below it, so
//! that a host that does not end is named by its own parent.

use std::ffi::OsString;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::agent::{self, shown};
use super::link::{Link, Reach, State};
use super::{Branch, Tree, branches, height};
use crate::dial_in::gather::Arrival;
use crate::dial_in::token;
use crate::frames::{FromHost, ToHost, VERSION};
use crate::heartbeat::{Heartbeat, Tick};
use crate::hosts::is_this_host;
use crate::lost_host::LostHost;
use crate::program;
use crate::settings::Settings;
use crate::share::{Share, sections_of};
use crate::stall::HostStall;

/// Time that a host has to end its ranks.
const END_GRACE: Duration = Duration::from_millis(1200);
/// Further time for each level below it.
const LEVEL_GRACE: Duration = Duration::from_millis(300);
/// Time that an agent has to end after its daemon.
const AGENT_GRACE: Duration = Duration::from_millis(300);

/// The agent of a host that has dialed in, for messages.
const JOIN: &str = "mpiexec --join";

/// What goes wrong with a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its daemon never ran, or its connection is gone.
    Lost(LostHost),
    /// It did not end its ranks in time: a line for the user.
    Stuck(String),
}

/// The children of a process.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
    dead_after: Duration,
    start_timeout: Duration,
    agent: Option<String>,
    /// The host that starts them, in words; empty for the user's own.
    via: String,
    /// When the children were requested to end their ranks.
    ending: Option<Instant>,
    /// Branches that could not be started, until [`Links::take_refused`].
    refused: Vec<(Branch, String)>,
}

/// The parts of a start that are the same for all children.
pub(crate) struct Start<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) share: &'a Share,
    pub(crate) tree: &'a Tree,
    /// This process is the root of the tree.
    pub(crate) is_root: bool,
}

impl Links {
    /// Starts the agents of the children, and sends each child its share. `arrived`: the hosts that
    /// have dialed in, in their order.
    pub(crate) fn start(start: &Start<'_>, arrived: Vec<Arrival>) -> Result<Links, String> {
        let Start { settings, share, tree, is_root } = *start;
        let mut links = Links {
            dead_after: settings.dead_after(),
            start_timeout: settings.start_timeout(),
            agent: tree.agent.clone(),
            via: if is_root { String::new() } else { tree.name.clone() },
            ..Links::default()
        };
        if tree.below.is_empty() {
            return Ok(links);
        }
        let folder = std::env::current_dir()
            .map_err(|error| format!("cannot find the working directory: {error}"))?;
        let variables = std::env::vars_os().filter(|(name, _)| name != token::VARIABLE);
        let variables: Vec<(OsString, OsString)> = variables.collect();
        let mut arrived = arrived.into_iter();
        let is_direct = |name: &str| is_root && tree.agent.is_none() && is_this_host(name);
        let all = branches(tree.below.clone(), tree.width, |host| is_direct(&host.name));
        for branch in all {
            let (folder, variables) = (folder.clone().into_os_string(), variables.clone());
            let environment = ToHost::Environment { version: VERSION, variables, folder };
            let begin = begin(settings, share, tree, &branch);
            let wants_input = branch.ranges().into_iter().flatten();
            let wants_input = wants_input.into_iter().any(|rank| settings.stdin.reaches(rank));
            let levels = height(branch.below.len(), tree.width);
            let dialed = arrived.find(|arrival| arrival.host.name == branch.head.name);
            let reach = match dialed {
                Some(arrival) => Reach::Dialed(arrival.stream),
                None => Reach::Agent(tree.agent.as_deref(), &tree.program),
            };
            match Link::start(branch, levels, reach) {
                Ok(mut link) => {
                    link.wants_input = wants_input;
                    link.send(&environment);
                    link.send(&begin);
                    links.links.push(link);
                }
                Err(refused) => links.refused.push(refused),
            }
        }
        Ok(links)
    }

    /// Returns the branches that could not be started, once.
    pub(crate) fn take_refused(&mut self) -> Vec<LostHost> {
        let refused = std::mem::take(&mut self.refused);
        let lost = |(branch, why): (Branch, String)| {
            let why = format!("{why}{}{}", self.via(" from "), self.remedy());
            branch.lost(why, false)
        };
        refused.into_iter().map(lost).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    pub(crate) fn get(&self, link: usize) -> &Link {
        &self.links[link]
    }

    /// Returns which child leads to which processes; rank 0 has the number `base`.
    pub(crate) fn routes(&self, base: u32) -> Vec<(Range<u32>, usize)> {
        let routes = self.links.iter().enumerate();
        let number = move |ranks: Range<u32>| base + ranks.start..base + ranks.end;
        routes
            .flat_map(|(id, link)| link.branch.ranges().into_iter().map(move |r| (number(r), id)))
            .collect()
    }

    /// Returns true if no child is starting or running.
    pub(crate) fn are_over(&self) -> bool {
        !self.links.iter().any(Link::is_up)
    }

    /// Returns the number of hosts of children that are starting or running.
    pub(crate) fn hosts_up(&self) -> usize {
        self.links.iter().filter(|link| link.is_up()).map(|link| link.branch.hosts().count()).sum()
    }

    /// Returns true if a daemon has not sent its first message.
    pub(crate) fn is_one_starting(&self) -> bool {
        self.links.iter().any(|link| link.state == State::Starting)
    }

    /// Returns the descriptors to read from, by child.
    pub(crate) fn readable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let links = self.links.iter().enumerate();
        links.filter_map(|(id, link)| Some((id, link.readable()?)))
    }

    /// Returns the descriptors to write to, by child.
    pub(crate) fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let links = self.links.iter().enumerate();
        links.filter_map(|(id, link)| Some((id, link.writable()?)))
    }

    /// Writes as much to a child as its pipe takes.
    pub(crate) fn write(&mut self, link: usize) {
        self.links[link].write();
    }

    /// Reads from a child. Returns its messages and what went wrong with it.
    pub(crate) fn read(&mut self, link: usize) -> (Vec<FromHost>, Option<Trouble>) {
        let is_open = self.links[link].read();
        let mut messages = Vec::new();
        loop {
            match self.links[link].next_message() {
                Ok(Some(FromHost::Hello { version, host })) => {
                    if let Some(trouble) = self.on_hello(link, version, &host) {
                        return (messages, Some(trouble));
                    }
                }
                // Its arrival was recorded.
                Ok(Some(FromHost::Beat)) => {}
                Ok(Some(FromHost::Stalled(stall))) => {
                    self.links[link].stall = stall;
                    messages.push(FromHost::Stalled(stall));
                }
                Ok(Some(FromHost::InputTaken)) => {
                    self.links[link].input_pending = false;
                    messages.push(FromHost::InputTaken);
                }
                Ok(Some(FromHost::Over)) => {
                    self.links[link].state = State::Over;
                    messages.push(FromHost::Over);
                }
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(text) => return (messages, Some(self.on_foreign_text(link, &text))),
            }
        }
        let is_lost = !is_open && self.links[link].is_up();
        let trouble = is_lost.then(|| self.on_disconnect(link));
        (messages, trouble)
    }

    fn on_hello(&mut self, link: usize, version: u32, host: &str) -> Option<Trouble> {
        let this = &mut self.links[link];
        if version == VERSION {
            this.state = State::Running;
            this.heartbeat = Some(Heartbeat::new(self.dead_after, Instant::now()));
            // The child listens for beats from the first one on: all children were started.
            this.send(&ToHost::Beat);
            return None;
        }
        this.give_up();
        let line = format!(
            "the daemon on {host} has version {version}, mpiexec has version {VERSION}: install \
             the same Verbena on all hosts"
        );
        Some(self.not_started(link, line))
    }

    fn on_foreign_text(&mut self, link: usize, text: &str) -> Trouble {
        let this = &mut self.links[link];
        let name = &this.branch.head.name;
        let agent = match this.has_dialed_in() {
            true => JOIN,
            false => self.agent.as_deref().unwrap_or(crate::settings::DEFAULT_AGENT),
        };
        let line = format!(
            "cannot start on {name}: `{agent}` printed \"{text}\" in place of a message of the \
             daemon; start-up files of the shell on {name} must print nothing"
        );
        this.give_up();
        self.not_started(link, line)
    }

    fn not_started(&self, link: usize, line: String) -> Trouble {
        Trouble::Lost(self.links[link].branch.lost(line, false))
    }

    fn disconnected(&self, link: usize, why: String) -> Trouble {
        Trouble::Lost(self.links[link].branch.lost(why, true))
    }

    /// Returns what the end of a connection before the child was over means.
    fn on_disconnect(&mut self, link: usize) -> Trouble {
        let end = Instant::now() + AGENT_GRACE;
        let this = &mut self.links[link];
        let mut status = this.agent_status();
        while status.is_none() && !this.has_dialed_in() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            status = this.agent_status();
        }
        let was = std::mem::replace(&mut this.state, State::Lost);
        let how = agent::ending(status);
        if was == State::Running {
            return self.disconnected(link, format!("its connection {how}"));
        }
        let head = &self.links[link].branch.head;
        let (ranks, name) = (head.ranks.in_words(), &head.name);
        if self.links[link].has_dialed_in() {
            let line = format!(
                "cannot start {ranks} on {name}: the connection of its agent (`{JOIN}`) {how}; its \
                 own messages have the reason"
            );
            return self.not_started(link, line);
        }
        let (whole, test) = self.commands(name);
        let line = format!(
            "cannot start {ranks} on {name}{}: `{whole}` {how}; run `{test}` by hand{}, or see \
             --agent{}",
            self.via(" from "),
            self.via(" on "),
            self.remedy()
        );
        self.not_started(link, line)
    }

    /// Returns an agent's command for a host as it is run, and one to try by hand.
    fn commands(&self, host: &str) -> (String, String) {
        let agent = self.agent.as_deref();
        (shown(agent, host, "..."), shown(agent, host, "true"))
    }

    /// Returns the host that starts the children, after a preposition; nothing for the user's own.
    fn via(&self, preposition: &str) -> String {
        if self.via.is_empty() { String::new() } else { format!("{preposition}{}", self.via) }
    }

    fn remedy(&self) -> &'static str {
        if self.via.is_empty() {
            return "";
        }
        "; with --tree-width 65536 the host of mpiexec starts all daemons itself"
    }

    /// Returns the time of the next [`Links::check`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let ending = self.ending.into_iter().flat_map(|since| {
            let up = self.links.iter().filter(|link| link.is_up());
            up.map(move |link| since + grace(link))
        });
        let beats = self.links.iter().filter_map(|link| link.heartbeat.as_ref()?.deadline());
        let starts = self.links.iter().filter_map(|link| link.start_deadline(self.start_timeout));
        let agents = self.links.iter().filter_map(Link::lost_agent_deadline);
        beats.chain(ending).chain(starts).chain(agents).min()
    }

    /// Gives up children that are silent, or that do not start or end in time. `is_behind`: their
    /// messages were not read, since our own output waits.
    pub(crate) fn check(&mut self, now: Instant, is_behind: bool) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for link in 0..self.links.len() {
            troubles.extend(self.check_end(link, now));
            troubles.extend(self.check_agent(link, now));
            troubles.extend(self.check_start(link, now));
            troubles.extend(self.check_heartbeat(link, now, is_behind));
        }
        troubles
    }

    fn check_end(&mut self, link: usize, now: Instant) -> Option<Trouble> {
        let since = self.ending?;
        let this = &mut self.links[link];
        if !this.is_up() || now < since + grace(this) {
            return None;
        }
        let name = &this.branch.head.name;
        let line = format!("host {name} does not end its ranks; closing the connection");
        this.give_up();
        Some(Trouble::Stuck(line))
    }

    /// Gives up a child whose agent has ended while another process holds its output open.
    pub(crate) fn check_agent(&mut self, link: usize, now: Instant) -> Option<Trouble> {
        if !self.links[link].has_lost_agent(now) {
            return None;
        }
        let trouble = self.on_disconnect(link);
        self.links[link].hang_up();
        self.links[link].kill_group();
        Some(trouble)
    }

    /// Gives up a daemon that has not sent its first message in time.
    fn check_start(&mut self, link: usize, now: Instant) -> Option<Trouble> {
        let limit = self.start_timeout;
        let this = &mut self.links[link];
        if this.start_deadline(limit).is_none_or(|deadline| now < deadline) {
            return None;
        }
        this.give_up();
        let this = &self.links[link];
        let (ranks, name) = (this.branch.head.ranks.in_words(), &this.branch.head.name);
        if this.has_dialed_in() {
            let line = format!(
                "cannot start {ranks} on {name}: its agent (`{JOIN}`) has sent no message for {} s \
                 (--start-timeout)",
                limit.as_secs_f64()
            );
            return Some(self.not_started(link, line));
        }
        let (whole, test) = self.commands(name);
        let line = format!(
            "cannot start {ranks} on {name}{}: no message from its daemon for {} s \
             (--start-timeout), and `{whole}` still runs; run `{test}` by hand{} (it must not \
             request a password), or see --agent{}",
            self.via(" from "),
            limit.as_secs_f64(),
            self.via(" on "),
            self.remedy()
        );
        Some(self.not_started(link, line))
    }

    /// Sends a beat to a child, or gives it up.
    fn check_heartbeat(&mut self, link: usize, now: Instant, is_behind: bool) -> Option<Trouble> {
        let this = &mut self.links[link];
        let is_running = this.state == State::Running;
        let Some(heartbeat) = this.heartbeat.as_mut().filter(|_| is_running) else {
            this.heartbeat = None;
            return None;
        };
        if is_behind {
            heartbeat.received();
        }
        match heartbeat.tick(now) {
            Tick::Pending => None,
            Tick::Due => {
                this.send(&ToHost::Beat);
                None
            }
            Tick::Dead => {
                this.give_up();
                let seconds = self.dead_after.as_secs_f64();
                let why = format!(
                    "no message for {seconds} s (--dead-after), the machine is down or unreachable"
                );
                Some(self.disconnected(link, why))
            }
        }
    }

    /// Sends a message to all children.
    pub(crate) fn send_to_all(&mut self, message: &ToHost) {
        let up = self.links.iter_mut().filter(|link| link.is_up());
        up.for_each(|link| link.send(message));
    }

    /// Sends a message to one child.
    pub(crate) fn send(&mut self, link: usize, message: &ToHost) {
        if self.links[link].is_up() {
            self.links[link].send(message);
        }
    }

    /// Passes on a piece of standard input, or its end, to the children that read it.
    pub(crate) fn send_input(&mut self, piece: &[u8]) {
        for link in self.links.iter_mut().filter(|link| link.wants_input && link.is_up()) {
            link.input_pending = !piece.is_empty();
            link.send(&ToHost::Input(piece.to_vec()));
        }
    }

    /// Returns true if a child reads standard input.
    pub(crate) fn want_input(&self) -> bool {
        self.links.iter().any(|link| link.wants_input)
    }

    /// Returns true while a child has not taken the last piece of input.
    pub(crate) fn is_input_pending(&self) -> bool {
        self.links.iter().any(|link| link.input_pending && link.is_up())
    }

    /// Requests the children to end their ranks. Returns false if they were before.
    pub(crate) fn end(&mut self, now: Instant) -> bool {
        if self.ending.is_some() {
            return false;
        }
        self.ending = Some(now);
        self.send_to_all(&ToHost::End);
        true
    }

    /// Returns true once the children were requested to end their ranks.
    pub(crate) fn are_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns whether ranks below make progress; `None` if no child is up.
    pub(crate) fn stall(&self) -> Option<HostStall> {
        let up = self.links.iter().filter(|link| link.is_up());
        up.map(|link| link.stall).reduce(HostStall::join)
    }

    /// Records the end of a process that a wait for all children has found. Returns true if it was
    /// an agent.
    pub(crate) fn on_reaped(&mut self, pid: Pid, status: i32) -> bool {
        self.links.iter_mut().any(|link| link.on_reaped(pid, status))
    }

    /// Closes the connections and waits for the agents, which end with their daemons; kills those
    /// that do not.
    pub(crate) fn end_agents(&mut self) {
        self.links.iter_mut().for_each(Link::hang_up);
        let end = Instant::now() + AGENT_GRACE;
        for link in self.links.iter_mut().filter(|link| !link.has_dialed_in()) {
            while link.agent_status().is_none() {
                if Instant::now() >= end {
                    link.kill_agent();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Returns the time that a child has to end.
fn grace(link: &Link) -> Duration {
    END_GRACE + LEVEL_GRACE * link.height
}

/// Returns the message that starts the ranks of a branch.
pub(super) fn begin(settings: &Settings, share: &Share, tree: &Tree, branch: &Branch) -> ToHost {
    let Branch { head, below } = branch;
    // A daemon without hosts below needs the sections of its own ranks alone.
    let sections = match below.is_empty() {
        true => sections_of(&settings.sections, &head.ranks),
        false => settings.sections.clone(),
    };
    let (name, below) = (head.name.clone(), below.clone());
    ToHost::Begin {
        share: Box::new(Share { ranks: head.ranks.clone(), ..share.clone() }),
        settings: Box::new(Settings { sections, ..settings.clone() }),
        tree: Box::new(Tree { name, below, ..tree.clone() }),
    }
}

/// Returns the tree as the root knows it.
pub(crate) fn root(settings: &Settings, below: Vec<super::HostShare>) -> Result<Tree, String> {
    let program = program::own_path()?;
    let agent = settings.agent.clone();
    Ok(Tree { name: String::new(), below, width: settings.tree_width, agent, program })
}
