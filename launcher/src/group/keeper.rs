//! `mpiexec --group-keeper`: the process that all jobs of a group are connected to. It runs no rank
//! and prints nothing: it has no terminal, and no stream of the `mpiexec` that has started it.
//!
//! States of a connection: unproven, for at most [`PROOF_TIME`], until the secret is proved and
//! `Join` has arrived -> member -> gone. A connection without the secret costs itself alone. States
//! of the keeper: waiting for its first member, at most [`FIRST_MEMBER`] -> serving -> over, once
//! the last member is gone; then it removes the file. A job that would join then starts the next
//! one.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use bootstrap::spawning::{EndedProcesses, MAX_PROCESSES};
use bootstrap::store_key::putter;
use rustix::event::PollFlags;
use tcp_transport::key_pair::KeyPair;

use super::messages::{Found, Founded, FromKeeper, ToKeeper};
use super::place::{self, Entry, Published};
use crate::dial_in::secure_stream::SecureStream;
use crate::hosts::host_name;
use crate::nested::stream::Stream;
use crate::poll_set::{self, Interest};
use crate::settings::EXIT_USAGE;
use crate::signals;
use crate::stall::HostStall;
use crate::tree::store::{Outgoing, Party, Store, StoreMessage};

/// The option that starts a keeper.
pub const OPTION: &str = "--group-keeper";

/// Time in which a connection must prove the secret and join.
const PROOF_TIME: Duration = Duration::from_secs(10);
/// The most connections that have not.
const MAX_UNPROVEN: usize = 128;
/// Time in which the first job must join.
const FIRST_MEMBER: Duration = Duration::from_secs(30);

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    From(usize),
    To(usize),
}

/// A job of the group.
#[derive(Debug)]
struct Member {
    /// In words that follow "its job".
    name: String,
    /// The numbers of its processes, and of those that it has spawned.
    numbers: Vec<Range<u32>>,
    /// Whether its ranks make progress.
    stall: HostStall,
}

/// The state of a connection.
#[derive(Debug)]
enum State {
    Unproven { since: Instant },
    Member(Member),
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    state: State,
}

struct Keeper {
    file: Published,
    listener: TcpListener,
    keys: KeyPair,
    /// What all processes of the group have in place of their job's.
    job: u64,
    secret: [u8; 32],
    store: Store,
    connections: BTreeMap<usize, Connection>,
    next_connection: usize,
    /// The next process number.
    next: u32,
    began: Instant,
    has_had_members: bool,
    /// The ranks of all members wait.
    is_stalled: bool,
}

/// Runs a keeper. Returns the exit code.
pub fn run() -> u8 {
    signals::unblock_inherited();
    let _ = std::env::set_current_dir("/");
    let stream = Stream::of_stdin().ok();
    let first = stream.map(|mut stream| (stream.receive(), stream));
    let Some((Some(found), mut stream)) = first else {
        eprintln!("mpiexec: {OPTION} is used by mpiexec itself");
        return EXIT_USAGE;
    };
    let (keeper, answer) = match Keeper::publish(&found) {
        Ok(Some(keeper)) => (Some(keeper), Founded::Published),
        Ok(None) => (None, Founded::Exists),
        Err(why) => (None, Founded::Failed(why)),
    };
    stream.send(&answer);
    stream.flush();
    drop(stream);
    keeper.into_iter().for_each(Keeper::serve);
    0
}

impl Keeper {
    /// Listens, and publishes where; `None` if another keeper was faster.
    fn publish(found: &Found) -> Result<Option<Keeper>, String> {
        let settings = tcp_transport::Settings {
            interfaces: found.interfaces.clone(),
            ports: found.ports.map(|(first, last)| first..=last),
            ..tcp_transport::Settings::default()
        };
        let (listener, addresses) = tcp_transport::open_listener(&settings)?;
        let random = || bootstrap::Secret::random().map_err(|error| error.to_string());
        let (own, of_processes) = (*random()?.bytes(), *random()?.bytes());
        let keys = KeyPair::derive(super::KEY_CONTEXT, &own).map_err(|error| error.to_string())?;
        let entry = entry(addresses, own);
        let file = place::publish(&found.path, &entry, found.replaces.as_deref())?;
        // Number 0 is no process: all keys that name none are owned here.
        let mut store = Store::new(0..1, Vec::new());
        store.keep_names();
        let job = bootstrap::random().map_err(|error| error.to_string())?;
        Ok(file.map(|file| Keeper {
            file,
            listener,
            keys,
            job,
            secret: of_processes,
            store,
            connections: BTreeMap::new(),
            next_connection: 0,
            next: 1,
            began: Instant::now(),
            has_had_members: false,
            is_stalled: false,
        }))
    }

    fn serve(mut self) {
        while !self.is_over(Instant::now()) {
            for source in poll_set::wait(&self.interests(), self.deadline()) {
                match source {
                    Source::Listener => self.accept(),
                    Source::From(id) => self.read(id),
                    Source::To(id) => self
                        .connections
                        .get_mut(&id)
                        .into_iter()
                        .for_each(|it| _ = it.stream.write()),
                }
            }
            self.connections.retain(|_, connection| !connection.is_late(Instant::now()));
        }
        self.file.remove();
    }

    fn is_over(&self, now: Instant) -> bool {
        let is_empty = !self.connections.values().any(Connection::is_member);
        is_empty && (self.has_had_members || now >= self.began + FIRST_MEMBER)
    }

    fn deadline(&self) -> Option<Instant> {
        let proofs = self.connections.values().filter_map(Connection::deadline);
        let first = (!self.has_had_members).then_some(self.began + FIRST_MEMBER);
        proofs.chain(first).min()
    }

    fn interests(&self) -> Vec<Interest<'_, Source>> {
        let mut all = vec![(Source::Listener, self.listener.as_fd(), PollFlags::IN)];
        for (id, Connection { stream, .. }) in &self.connections {
            all.extend(stream.readable().map(|file| (Source::From(*id), file, PollFlags::IN)));
            all.extend(stream.writable().map(|file| (Source::To(*id), file, PollFlags::OUT)));
        }
        all
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => self.begin(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // No descriptor is free, or the connection has ended. A stranger makes room.
                Err(_) => return self.drop_oldest(),
            }
        }
    }

    fn begin(&mut self, socket: TcpStream) {
        if self.connections.values().filter(|it| !it.is_member()).count() >= MAX_UNPROVEN {
            self.drop_oldest();
        }
        super::notice_lost_host(&socket);
        if let Ok(stream) = SecureStream::new(socket, &self.keys, false) {
            let (stream, since) = (Stream::secure(stream), Instant::now());
            let connection = Connection { stream, state: State::Unproven { since } };
            self.connections.insert(self.next_connection, connection);
            self.next_connection += 1;
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.connections.iter().find(|(_, connection)| !connection.is_member());
        if let Some(id) = oldest.map(|(id, _)| *id) {
            self.connections.remove(&id);
        }
    }

    fn read(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (messages, is_open) = connection.stream.read();
        messages.into_iter().for_each(|message| self.on_message(id, message));
        if !is_open {
            self.remove(id, Some("the connection to its mpiexec has ended"));
        }
    }

    fn on_message(&mut self, id: usize, message: ToKeeper) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match (message, &mut connection.state) {
            (ToKeeper::Join { size, name }, State::Unproven { .. }) => self.join(id, size, name),
            (_, State::Unproven { .. }) => drop(self.connections.remove(&id)),
            (ToKeeper::Join { .. }, State::Member(_)) => {}
            (ToKeeper::Store(message), State::Member(_)) => {
                if let StoreMessage::Get { key, .. } = &message
                    && let Some(owner) = putter(key).filter(|owner| self.is_gone(*owner))
                {
                    return self.send_ended(id, owner);
                }
                let outgoing = self.store.on_message(Party::Job(id), message);
                self.deliver(outgoing);
            }
            (ToKeeper::Numbers(count), State::Member(member)) => {
                let numbers = numbers(&mut self.next, count);
                member.numbers.extend(numbers.clone());
                let first = numbers.as_ref().map(|numbers| numbers.start);
                connection.stream.send(&FromKeeper::Numbers(first));
                self.add(id, numbers);
            }
            (ToKeeper::Stalled(stall), State::Member(member)) => {
                member.stall = stall;
                self.judge_stall();
            }
            (ToKeeper::Ended(ended), State::Member(member)) if member.has(&ended.numbers) => {
                self.send_to_others(id, &FromKeeper::OthersEnded(ended));
            }
            (ToKeeper::Ended(_), State::Member(_)) => {}
            (ToKeeper::Over { code: 0 }, State::Member(_)) => self.remove(id, None),
            (ToKeeper::Over { code }, State::Member(_)) => {
                self.remove(id, Some(&format!("it has ended with exit code {code}")));
            }
        }
    }

    fn join(&mut self, id: usize, size: u32, name: String) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(own) = numbers(&mut self.next, size).filter(|_| size > 0) else {
            let why = format!(
                "{size} processes are too many: its jobs have had {} of {MAX_PROCESSES}; begin \
                 another group",
                self.next - 1
            );
            return connection.stream.send(&FromKeeper::Refused(why));
        };
        let (job, secret, first) = (self.job, self.secret, own.start);
        connection.stream.send(&FromKeeper::Welcome { job, secret, first });
        let (numbers, stall) = (vec![own.clone()], HostStall::Active);
        connection.state = State::Member(Member { name, numbers, stall });
        self.has_had_members = true;
        self.judge_stall();
        self.add(id, Some(own));
    }

    /// Has the store ask a job for the values of these processes.
    fn add(&mut self, id: usize, numbers: Option<Range<u32>>) {
        if let Some(numbers) = numbers {
            let outgoing = self.store.add_job(numbers, id);
            self.deliver(outgoing);
        }
    }

    fn deliver(&mut self, outgoing: Outgoing) {
        for (party, message) in outgoing {
            // Nobody else puts, asks or keeps anything.
            if let Party::Job(id) = party
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.stream.send(&FromKeeper::Store(message));
            }
        }
    }

    fn judge_stall(&mut self) {
        let states = self.connections.values().filter_map(|connection| match &connection.state {
            State::Member(member) => Some(member.stall),
            State::Unproven { .. } => None,
        });
        let is_stalled = states.reduce(HostStall::join) == Some(HostStall::Waiting);
        let was_stalled = std::mem::replace(&mut self.is_stalled, is_stalled);
        if is_stalled && !was_stalled {
            self.send_to_all(&FromKeeper::Stall);
        }
    }

    /// Removes a connection, and tells the others that a job has ended, and why if it has failed.
    fn remove(&mut self, id: usize, why: Option<&str>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let State::Member(Member { name, numbers, .. }) = connection.state else { return };
        for (party, owner) in self.store.remove_job(id) {
            if let Party::Job(asker) = party {
                self.send_ended(asker, owner);
            }
        }
        for numbers in numbers {
            let failure = why.map(|why| format!("its job {name} has failed: {why}"));
            self.send_to_all(&FromKeeper::OthersEnded(EndedProcesses { numbers, failure }));
        }
        self.judge_stall();
    }

    /// Returns true for a process whose job has left.
    fn is_gone(&self, number: u32) -> bool {
        let has = |connection: &Connection| match &connection.state {
            State::Member(member) => member.numbers.iter().any(|it| it.contains(&number)),
            State::Unproven { .. } => false,
        };
        (1..self.next).contains(&number) && !self.connections.values().any(has)
    }

    /// Tells a job that has asked for the address of a process that there is none any more.
    fn send_ended(&mut self, asker: usize, owner: u32) {
        let (numbers, failure) = (owner..owner + 1, Some("its job has ended".to_owned()));
        if let Some(connection) = self.connections.get_mut(&asker) {
            connection.stream.send(&FromKeeper::OthersEnded(EndedProcesses { numbers, failure }));
        }
    }

    fn send_to_all(&mut self, message: &FromKeeper) {
        let members = self.connections.values_mut().filter(|connection| connection.is_member());
        members.for_each(|connection| connection.stream.send(message));
    }

    fn send_to_others(&mut self, sender: usize, message: &FromKeeper) {
        let others =
            self.connections.iter_mut().filter(|(id, it)| **id != sender && it.is_member());
        others.for_each(|(_, connection)| connection.stream.send(message));
    }
}

impl Member {
    /// Returns true if all of these are numbers of the job.
    fn has(&self, numbers: &Range<u32>) -> bool {
        self.numbers.iter().any(|own| own.start <= numbers.start && numbers.end <= own.end)
    }
}

impl Connection {
    fn is_member(&self) -> bool {
        matches!(self.state, State::Member(_))
    }

    /// Returns the time at which the connection is closed unless a job joins on it.
    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Unproven { since } => Some(since + PROOF_TIME),
            State::Member(_) => None,
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|end| now >= end)
    }
}

/// Takes the next numbers; `None` if so many are not left.
fn numbers(next: &mut u32, count: u32) -> Option<Range<u32>> {
    let first = *next;
    *next = first.checked_add(count).filter(|end| *end <= MAX_PROCESSES)?;
    Some(first..*next)
}

fn entry(addresses: Vec<SocketAddr>, secret: [u8; 32]) -> Entry {
    Entry {
        verbena: super::version(),
        host: host_name(),
        boot: place::boot(),
        process: std::process::id(),
        addresses,
        secret,
    }
}
