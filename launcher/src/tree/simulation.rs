//! Jobs of many hosts and ranks in one process, for tests: the tree, the messages, the stores and
//! the batches are the real ones, in place of sockets there is a queue, and ranks are calls of
//! [`Simulation::put`], [`Simulation::ask`] and [`Simulation::exit`].
//!
//! Messages are encoded and decoded. Each takes time: a process handles one after the other. The
//! clock is a count of nanoseconds, so that the times do not depend on the machine.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use bootstrap::control::ToRank;
use bootstrap::service_names::{NameAnswer, NameRequest};
use bootstrap::{RankState, Ranks, Snapshot};
use serde::Serialize;

use super::batch::Batch;
use super::links::begin;
use super::store::{Outgoing, Party, Store, StoreMessage};
use super::{Branch, HostShare, Tree, branches};
use crate::failure_policy::Exit;
use crate::frames::{self, EndedRank, FromHost, HostTable, ToHost, VERSION};
use crate::rank_table::RankLine;
use crate::settings::{Section, Settings};
use crate::share::Share;

/// Time of a process for a message that it sends or receives, in nanoseconds.
const MESSAGE: u64 = 10_000;
/// Time for each byte of it.
const BYTE: u64 = 1;
/// Time from one host to another.
const LATENCY: u64 = 50_000;
/// Time of a process to start an agent, and then of the agent to start a daemon.
const AGENT: (u64, u64) = (1_000_000, 100_000_000);
/// Time to start a rank.
const RANK: u64 = 1_000_000;

/// A process of the tree. The first one is `mpiexec`.
struct Process {
    store: Store,
    batch: Batch,
    tree: Tree,
    ranks: Ranks,
    /// Ranks that have not ended.
    running: u32,
    parent: Option<usize>,
    children: Vec<usize>,
    /// Children that are over.
    over: usize,
    level: u32,
    sent: u32,
    bytes: u64,
    /// When it has handled all that it has got.
    free_at: u64,
}

/// Counts of messages and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// All messages.
    pub(super) messages: u32,
    /// The most that one process has sent.
    pub(super) most: u32,
    /// The most bytes that one process has sent.
    pub(super) most_bytes: u64,
    /// The time until all were handled, in microseconds.
    pub(super) micros: u64,
}

/// A job.
pub(super) struct Simulation {
    processes: Vec<Process>,
    /// The process of each rank.
    homes: Vec<usize>,
    /// What ranks were answered.
    pub(super) answers: HashMap<(u32, String), Vec<u8>>,
    /// Answers about names of services, by rank.
    named: HashMap<u32, NameAnswer>,
    /// Messages under way: receiver, sender, bytes; by the time of their arrival.
    pending: BTreeMap<(u64, u64), (usize, usize, Vec<u8>)>,
    /// The number of messages so far.
    number: u64,
    settings: Settings,
    share: Share,
    hosts: usize,
    began: Instant,
    now: u64,
    /// When the present count began.
    since: u64,
    /// What has reached `mpiexec`.
    daemons: u32,
    ended: Vec<u32>,
    tables: Vec<u32>,
}

impl Simulation {
    /// Starts a job with so many ranks on each host.
    pub(super) fn new(hosts: u32, ranks: u32, width: u32) -> Simulation {
        let mut all = Simulation::unstarted(&blocks(hosts, ranks), width);
        all.start();
        all.count_anew();
        all
    }

    /// Returns a job with the host of each rank.
    fn unstarted(host_of: &[u32], width: u32) -> Simulation {
        let size = host_of.len() as u32;
        let section = Section { ranks: size, program: "./a.out".into(), ..Section::default() };
        let program = "/usr/bin/mpiexec".into();
        let shares = Ranks::of_hosts(host_of).into_iter().enumerate();
        let below: Vec<HostShare> =
            shares.map(|(n, ranks)| HostShare { name: format!("host{n}"), ranks }).collect();
        let hosts = below.len();
        let tree = Tree { name: String::new(), below, width, agent: None, program };
        let mut all = Simulation {
            processes: Vec::new(),
            homes: vec![0; size as usize],
            answers: HashMap::new(),
            named: HashMap::new(),
            pending: BTreeMap::new(),
            number: 0,
            settings: Settings { sections: vec![section], ..Settings::default() },
            share: Share::known(size, (1, [0; 32]), 0),
            hosts,
            began: Instant::now(),
            now: 0,
            since: 0,
            daemons: 0,
            ended: Vec::new(),
            tables: Vec::new(),
        };
        all.add(None, tree);
        all
    }

    fn add(&mut self, parent: Option<usize>, tree: Tree) -> usize {
        self.processes.push(Process {
            store: Store::new(0..0, Vec::new()),
            batch: Batch::default(),
            tree,
            ranks: Ranks::default(),
            running: 0,
            parent,
            children: Vec::new(),
            over: 0,
            level: parent.map_or(0, |parent| self.processes[parent].level + 1),
            sent: 0,
            bytes: 0,
            free_at: self.now,
        });
        self.processes.len() - 1
    }

    fn start(&mut self) {
        self.start_children(0);
        self.run();
        assert_eq!(self.daemons as usize, self.processes[0].children.len());
        assert_eq!(self.processes.len(), 1 + self.hosts, "each host is started once");
    }

    /// Starts the daemons below a process, by the rule of all.
    fn start_children(&mut self, id: usize) {
        let tree = self.processes[id].tree.clone();
        let split: Vec<Branch> = branches(tree.below.clone(), tree.width, |_| false);
        let routes = split.iter().enumerate();
        let routes = routes.flat_map(|(id, b)| b.ranges().into_iter().map(move |r| (r, id)));
        self.processes[id].store = Store::new(self.processes[id].ranks.clone(), routes.collect());
        if id == 0 {
            self.processes[id].store.keep_names();
        }
        for branch in split {
            let child = self.add(Some(id), tree.clone());
            self.processes[id].children.push(child);
            self.processes[id].free_at += AGENT.0;
            self.processes[child].free_at = self.processes[id].free_at + AGENT.1;
            let variables: Vec<(OsString, OsString)> = vec![("PATH".into(), "/usr/bin".into())];
            let environment =
                ToHost::Environment { version: VERSION, variables, folder: "/home".into() };
            self.send(id, child, &environment);
            self.send(id, child, &begin(&self.settings, &self.share, &tree, &branch));
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &impl Serialize) {
        let bytes = frames::encode(message).expect("a message");
        let process = &mut self.processes[from];
        process.sent += 1;
        process.bytes += bytes.len() as u64;
        process.free_at = process.free_at.max(self.now) + MESSAGE + BYTE * bytes.len() as u64;
        self.number += 1;
        self.pending.insert((process.free_at + LATENCY, self.number), (to, from, bytes));
    }

    /// Delivers messages until none is under way.
    pub(super) fn run(&mut self) {
        while let Some(((at, _), (to, from, bytes))) = self.pending.pop_first() {
            self.now = at;
            let process = &mut self.processes[to];
            process.free_at = process.free_at.max(at) + MESSAGE;
            if process.parent == Some(from) {
                self.on_parent(to, frames::decode_to_host(&bytes).unwrap().unwrap().0);
            } else {
                let child = process.children.iter().position(|child| *child == from);
                self.on_child(
                    to,
                    child.unwrap(),
                    frames::decode_from_host(&bytes).unwrap().unwrap().0,
                );
            }
            if self.processes[to].batch.is_due(self.clock(to)) {
                self.send_batch(to);
            }
        }
        self.now = self.processes.iter().map(|process| process.free_at).max().unwrap_or(0);
    }

    fn clock(&self, id: usize) -> Instant {
        self.began + Duration::from_nanos(self.processes[id].free_at)
    }

    fn on_parent(&mut self, id: usize, message: ToHost) {
        match message {
            ToHost::Begin { share, tree, .. } => {
                let process = &mut self.processes[id];
                process.ranks = share.ranks;
                process.running = process.ranks.count();
                process.tree = *tree;
                process.ranks.iter().for_each(|rank| self.homes[rank as usize] = id);
                self.start_children(id);
                self.send_up(id, &FromHost::Hello { version: VERSION, host: "host".into() });
                let process = &mut self.processes[id];
                process.free_at += RANK * u64::from(process.running);
            }
            ToHost::Beat => self.send_up(id, &FromHost::Beat),
            ToHost::Store(message) => {
                let outgoing = self.processes[id].store.on_message(Party::Parent, message);
                self.deliver(id, outgoing);
            }
            ToHost::Table => {
                self.send_down(id, &ToHost::Table);
                let ranks = &self.processes[id].ranks;
                let (first, lines) = (ranks.first(), ranks.iter().map(|_| line()).collect());
                self.add_tables(id, vec![HostTable { first, lines, notes: Vec::new() }]);
            }
            _ => {}
        }
    }

    fn on_child(&mut self, id: usize, child: usize, message: FromHost) {
        let now = self.clock(id);
        match message {
            FromHost::Hello { .. } => {
                self.daemons += u32::from(id == 0);
                let child = self.processes[id].children[child];
                self.send(id, child, &ToHost::Beat);
            }
            FromHost::Beat => {}
            FromHost::Store(message) => {
                let outgoing = self.processes[id].store.on_message(Party::Child(child), message);
                self.deliver(id, outgoing);
            }
            FromHost::Ended(list) if id == 0 => {
                self.ended.extend(list.into_iter().map(|ended| ended.rank));
            }
            FromHost::Ended(list) => {
                let batch = &mut self.processes[id].batch;
                list.into_iter().for_each(|ended| batch.add_ended(ended, now));
            }
            FromHost::Tables(tables) if id == 0 => {
                self.tables.extend(tables.into_iter().map(|table| table.first));
            }
            FromHost::Tables(tables) => self.add_tables(id, tables),
            FromHost::Over => {
                self.processes[id].over += 1;
                self.finish(id);
            }
            other => panic!("{other:?}"),
        }
    }

    fn add_tables(&mut self, id: usize, tables: Vec<HostTable>) {
        let (now, process) = (self.clock(id), &mut self.processes[id]);
        process.batch.add_tables(tables, 1 + process.tree.below.len(), now);
    }

    fn send_batch(&mut self, id: usize) {
        let messages: Vec<FromHost> = self.processes[id].batch.take().collect();
        messages.iter().for_each(|message| self.send_up(id, message));
    }

    fn send_up(&mut self, id: usize, message: &FromHost) {
        let parent = self.processes[id].parent.expect("mpiexec has no parent");
        self.send(id, parent, message);
    }

    fn send_down(&mut self, id: usize, message: &ToHost) {
        for child in self.processes[id].children.clone() {
            self.send(id, child, message);
        }
    }

    /// Ends a daemon whose ranks and whose children have ended.
    fn finish(&mut self, id: usize) {
        let process = &self.processes[id];
        if id != 0 && process.running == 0 && process.over == process.children.len() {
            self.send_batch(id);
            self.send_up(id, &FromHost::Over);
        }
    }

    fn deliver(&mut self, id: usize, outgoing: Outgoing) {
        for (party, message) in outgoing {
            match (party, message) {
                (Party::Local(local), StoreMessage::Values(values)) => {
                    let rank = self.processes[id].ranks.at(local);
                    let answers = values.into_iter().map(|(key, value)| ((rank, key), value));
                    self.answers.extend(answers);
                }
                (Party::Local(local), StoreMessage::Reply { asker, message }) => {
                    assert_eq!(self.processes[id].ranks.at(local), asker);
                    let ToRank::Name(answer) = message else { panic!("{message:?}") };
                    self.named.insert(asker, answer);
                }
                (Party::Local(_), message) => panic!("a rank is sent {message:?}"),
                (Party::Child(child), message) => {
                    let child = self.processes[id].children[child];
                    self.send(id, child, &ToHost::Store(message));
                }
                (Party::Job(_), message) => panic!("no job was spawned: {message:?}"),
                (Party::Parent, message) => self.send_up(id, &FromHost::Store(message)),
            }
        }
    }

    /// A rank publishes a value.
    pub(super) fn put(&mut self, rank: u32, key: &str, value: &[u8]) {
        let home = self.homes[rank as usize];
        let outgoing = self.processes[home].store.put(key.into(), value.into());
        self.deliver(home, outgoing);
    }

    /// A rank asks for a value.
    pub(super) fn ask(&mut self, rank: u32, key: &str) {
        let home = self.homes[rank as usize];
        let local = self.processes[home].ranks.index_of(rank).expect("its home");
        let outgoing = self.processes[home].store.ask(key.into(), local);
        self.deliver(home, outgoing);
    }

    /// A rank sends a request about the name of a service.
    pub(super) fn ask_name(&mut self, rank: u32, request: NameRequest) {
        let home = self.homes[rank as usize];
        let outgoing = self.processes[home].store.ask_name(rank, request);
        self.deliver(home, outgoing);
    }

    /// Takes the answer to it.
    pub(super) fn take_named(&mut self, rank: u32) -> Option<NameAnswer> {
        self.named.remove(&rank)
    }

    /// A rank ends well.
    fn exit(&mut self, rank: u32) {
        let home = self.homes[rank as usize];
        let now = self.clock(home);
        let process = &mut self.processes[home];
        process.running -= 1;
        process.batch.add_ended(EndedRank { rank, line: line() }, now);
        self.finish(home);
    }

    /// Returns the answer to a rank.
    pub(super) fn answer(&self, rank: u32, key: &str) -> Option<&[u8]> {
        self.answers.get(&(rank, key.to_owned())).map(Vec::as_slice)
    }

    /// Returns the messages that a rank's host has sent.
    pub(super) fn sent_by_host_of(&self, rank: u32) -> u32 {
        self.processes[self.homes[rank as usize]].sent
    }

    /// Returns what has happened since the job was started, or since the last count.
    pub(super) fn load(&self) -> Load {
        Load {
            messages: self.processes.iter().map(|process| process.sent).sum(),
            most: self.processes.iter().map(|process| process.sent).max().unwrap_or(0),
            most_bytes: self.processes.iter().map(|process| process.bytes).max().unwrap_or(0),
            micros: (self.now - self.since) / 1000,
        }
    }

    fn count_anew(&mut self) -> Load {
        let load = self.load();
        self.since = self.now;
        for process in &mut self.processes {
            (process.sent, process.bytes, process.free_at) = (0, 0, self.now);
        }
        load
    }

    fn depth(&self) -> u32 {
        self.processes.iter().map(|process| process.level).max().unwrap_or(0)
    }
}

pub(super) fn line() -> RankLine {
    let seen = Snapshot { pid: 1000, state: RankState::Finalized, call: 0, blocked: None };
    let exit = Some(Exit::Code(0));
    RankLine::of_page(1000, exit, seen)
}

/// The parts of a job, each counted by itself.
#[derive(Debug)]
struct Job {
    depth: u32,
    start: Load,
    /// All ranks ask for the address of rank 0.
    to_one: Load,
    /// Each rank asks for the address of the rank with its number on the next host.
    to_next: Load,
    /// The user asks what all ranks are doing.
    table: Load,
    end: Load,
}

/// Returns the host of each rank: so many ranks on each host, one after the other.
fn blocks(hosts: u32, ranks: u32) -> Vec<u32> {
    (0..hosts * ranks).map(|rank| rank / ranks).collect()
}

/// Returns the host of each rank where hosts get ranks in turn.
fn turns(hosts: u32, ranks: u32) -> Vec<u32> {
    (0..hosts * ranks).map(|rank| rank % hosts).collect()
}

/// Runs a job from its start to its end. A rank's partner is `distance` ranks further on.
fn run_job(host_of: &[u32], distance: u32, width: u32) -> Job {
    let size = host_of.len() as u32;
    let mut all = Simulation::unstarted(host_of, width);
    all.start();
    assert!(all.processes.iter().all(|process| process.children.len() <= width as usize));
    let start = all.count_anew();
    let address = |rank: u32| [&rank.to_le_bytes()[..], &[7; 36]].concat();
    (0..size).for_each(|rank| all.put(rank, &format!("tcp/{rank}"), &address(rank)));
    assert_eq!(all.load().messages, 0, "nothing is sent before it is asked for");
    let mut look_up = |partner: &dyn Fn(u32) -> u32| {
        (0..size).for_each(|rank| all.ask(rank, &format!("tcp/{}", partner(rank))));
        all.run();
        for rank in 0..size {
            let key = format!("tcp/{}", partner(rank));
            assert_eq!(all.answer(rank, &key), Some(&address(partner(rank))[..]));
        }
        all.count_anew()
    };
    let to_one = look_up(&|_| 0);
    let to_next = look_up(&|rank| (rank + distance) % size);
    all.send_down(0, &ToHost::Table);
    all.run();
    all.tables.sort_unstable();
    assert!(all.tables.iter().copied().eq(Ranks::of_hosts(host_of).iter().map(Ranks::first)));
    let table = all.count_anew();
    (0..size).for_each(|rank| all.exit(rank));
    all.run();
    all.ended.sort_unstable();
    assert!(all.ended.iter().copied().eq(0..size) && all.processes[0].over > 0);
    Job { depth: all.depth(), start, to_one, to_next, table, end: all.count_anew() }
}

/// Ten thousand ranks on a hundred hosts load no process more than a hundred on ten do, but for the
/// addresses that others ask for, and take longer by the levels of the tree alone.
#[test]
fn messages_of_a_process_depend_on_the_width_and_times_on_the_levels() {
    for width in [2, 8, 32] {
        for (hosts, ranks) in [(10, 10), (100, 10), (100, 100), (1000, 10)] {
            for (placement, host_of, distance) in
                [("in blocks", blocks(hosts, ranks), ranks), ("in turn", turns(hosts, ranks), 1)]
            {
                let job = run_job(&host_of, distance, width);
                let Job { depth, start, to_one, to_next, table, end } = job;
                let case = format!("{hosts} hosts with {ranks} ranks {placement} by {width}");
                println!("{case}: {job:?}");
                let levels = (1 + hosts).ilog(width) + 1;
                assert!(depth <= levels, "{case}: {depth} levels");
                assert!(start.most <= 3 * width + 2, "{case}: start {start:?}");
                assert!(to_one.most <= width + 1, "{case}: one address {to_one:?}");
                assert!(table.most <= width + 1, "{case}: table {table:?}");
                assert!(end.most <= 2, "{case}: end {end:?}");
                let level = |load: &Load| {
                    let messages = u64::from(width + 2) * MESSAGE + load.most_bytes * BYTE;
                    2 * (LATENCY + messages) / 1000 * u64::from(depth)
                };
                for load in [&to_one, &table, &end] {
                    assert!(
                        load.micros <= level(load),
                        "{case}: {load:?}, {} expected",
                        level(load)
                    );
                }
                let agents = (AGENT.1 + AGENT.0 * u64::from(width)) / 1000 * u64::from(depth);
                let limit = agents + level(&start) + u64::from(ranks) * RANK / 1000;
                assert!(start.micros <= limit, "{case}: {start:?}, {limit} expected");
                // A request and an answer on each edge of the way up and down.
                let look_ups = hosts * ranks;
                assert!(to_next.messages <= look_ups * 4 * depth, "{case}: {to_next:?}");
            }
        }
    }
}
