//! The side of `mpiexec`: listens on one address until so many agents have dialed in.
//!
//! States of a connection: unproven (TLS handshake, then the greeting), for at most [`PROOF_TIME`]
//! -> arrived, until the job begins. A connection without the token costs itself alone: it is
//! closed, and of more than [`MAX_UNPROVEN`] at once the oldest. Nothing of it is decoded before
//! the token is proved.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use bootstrap::control::Decoder;
use rustix::event::PollFlags;
use tcp_transport::key_pair::KeyPair;

use super::greeting::{Greeting, decoder};
use super::secure_stream::{End, SecureStream};
use crate::descriptors::{Users, raise_limit};
use crate::hosts::Host;
use crate::poll_set::{self, Interest};
use crate::settings::DialIn;

/// Time in which a connection must prove the token.
const PROOF_TIME: Duration = Duration::from_secs(10);
/// The most connections that have not.
const MAX_UNPROVEN: usize = 128;
/// Time after which the user is told which agents are missing.
const NOTICE_AFTER: Duration = Duration::from_secs(5);
/// The names that a message lists at most.
const MAX_NAMES: usize = 8;

/// The use of the key pair of a token, which no other has.
pub(super) const KEY_CONTEXT: &str = "Verbena 2026-11 TLS key pair of agents that dial in";

/// A host that has dialed in.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Its name, which no other arrival has.
    pub(crate) host: Host,
    pub(crate) stream: SecureStream,
}

/// The meaning of a descriptor in the poll set.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Unproven(usize),
    Arrived(usize),
}

/// A connection that has not proved the token.
struct Unproven {
    stream: SecureStream,
    decoder: Decoder,
    since: Instant,
}

/// What a look at a connection has found.
enum Look {
    Pending,
    Proven(Greeting),
    Refused,
    /// It knows the token and cannot take part: a line for the user.
    Unfit(String),
}

struct Gathering {
    listener: TcpListener,
    keys: KeyPair,
    unproven: Vec<Unproven>,
    arrived: Vec<(Greeting, SecureStream)>,
    /// Connections that were closed without a proof.
    refused: u64,
}

/// Waits until all agents are there. Returns them in the order of their names. The error is one
/// line for the user.
pub(crate) fn gather(
    dial_in: &DialIn,
    secret: &[u8; 32],
    limit: Duration,
) -> Result<Vec<Arrival>, String> {
    let agents = dial_in.agents as usize;
    raise_limit(Users { children: agents + MAX_UNPROVEN, ..Users::default() })
        .map_err(|error| format!("{agents} agents need {error}"))?;
    let keys = KeyPair::derive(KEY_CONTEXT, secret)
        .map_err(|error| format!("cannot make a key of the token: {error}"))?;
    let listener = listen(&dial_in.listen)?;
    let (unproven, arrived) = (Vec::new(), Vec::new());
    let mut all = Gathering { listener, keys, unproven, arrived, refused: 0 };
    let began = Instant::now();
    let end = began.checked_add(limit).filter(|_| !limit.is_zero());
    let mut notice_at = Some(began + NOTICE_AFTER);
    while all.arrived.len() < agents {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            return Err(all.missing(dial_in, limit));
        }
        if notice_at.is_some_and(|at| now >= at) {
            notice_at = None;
            let (names, listen) = (all.names(), &dial_in.listen);
            eprintln!(
                "mpiexec: {} of {agents} agents have dialed in to {listen}{names}; waiting for the \
                 others",
                all.arrived.len()
            );
        }
        let proofs = all.unproven.iter().map(|one| one.since + PROOF_TIME);
        let deadline = proofs.chain(end).chain(notice_at).min();
        all.step(deadline);
    }
    all.arrived.sort_by_cached_key(|(greeting, _)| natural(&greeting.name));
    Ok(with_own_names(all.arrived))
}

fn listen(address: &str) -> Result<TcpListener, String> {
    let refused = |error: std::io::Error| format!("--listen {address}: {error}");
    let listener = address
        .to_socket_addrs()
        .and_then(|mut all| all.next().ok_or(ErrorKind::AddrNotAvailable.into()))
        .and_then(TcpListener::bind)
        .map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

impl Gathering {
    /// Waits for what arrives next, and takes it.
    fn step(&mut self, deadline: Option<Instant>) {
        let mut gone = Vec::new();
        let mut proven = Vec::new();
        let mut is_called = false;
        for source in poll_set::wait(&self.interests(), deadline) {
            match source {
                Source::Listener => is_called = true,
                Source::Unproven(id) => match self.unproven[id].look() {
                    Look::Pending => {}
                    Look::Proven(greeting) => proven.push((id, greeting)),
                    Look::Refused => {
                        self.refused += 1;
                        gone.push(id);
                    }
                    Look::Unfit(line) => {
                        eprintln!("mpiexec: {line}");
                        gone.push(id);
                    }
                },
                Source::Arrived(id) => self.check_arrived(id),
            }
        }
        // From the end on, and before others come: the numbers stay valid.
        let mut done: Vec<(usize, Option<Greeting>)> =
            proven.into_iter().map(|(id, greeting)| (id, Some(greeting))).collect();
        done.extend(gone.into_iter().map(|id| (id, None)));
        done.sort_by_key(|(id, _)| *id);
        for (id, greeting) in done.into_iter().rev() {
            let Unproven { stream, .. } = self.unproven.remove(id);
            self.arrived.extend(greeting.map(|greeting| (greeting, stream)));
        }
        self.arrived.retain(|(greeting, _)| !greeting.name.is_empty());
        if is_called {
            self.accept();
        }
        let before = self.unproven.len();
        self.unproven.retain(|one| one.since.elapsed() < PROOF_TIME);
        self.refused += (before - self.unproven.len()) as u64;
    }

    fn interests(&self) -> Vec<Interest<'_, Source>> {
        let mut all = vec![(Source::Listener, self.listener.as_fd(), PollFlags::IN)];
        all.extend(self.unproven.iter().enumerate().map(|(id, one)| {
            let out = if one.stream.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
            (Source::Unproven(id), one.stream.as_fd(), PollFlags::IN | out)
        }));
        let arrived = self.arrived.iter().enumerate();
        all.extend(
            arrived.map(|(id, (_, stream))| (Source::Arrived(id), stream.as_fd(), PollFlags::IN)),
        );
        all
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => self.begin(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptor is free, or the connection has ended. A stranger makes room.
                    if !self.unproven.is_empty() {
                        self.drop_oldest();
                    }
                    return;
                }
            }
        }
    }

    fn begin(&mut self, socket: TcpStream) {
        if self.unproven.len() >= MAX_UNPROVEN {
            self.drop_oldest();
        }
        match SecureStream::new(socket, &self.keys, false) {
            Ok(stream) => {
                let since = Instant::now();
                self.unproven.push(Unproven { stream, decoder: decoder(), since });
            }
            Err(_) => self.refused += 1,
        }
    }

    fn drop_oldest(&mut self) {
        self.unproven.remove(0);
        self.refused += 1;
    }

    /// Drops an agent that has left before the job began: nothing is sent by it before.
    fn check_arrived(&mut self, id: usize) {
        let (greeting, stream) = &mut self.arrived[id];
        let mut bytes = Vec::new();
        if !matches!(stream.read(&mut bytes), Ok(End::Open)) || !bytes.is_empty() {
            eprintln!("mpiexec: the agent on {} has left before the job", greeting.name);
            // Removed once all descriptors were looked at.
            greeting.name.clear();
        }
    }

    /// Returns the line about agents that are missing.
    fn missing(&self, dial_in: &DialIn, limit: Duration) -> String {
        let DialIn { agents, listen, .. } = dial_in;
        let strangers = match self.refused {
            0 => String::new(),
            count => format!("; {count} connections without the token were closed"),
        };
        format!(
            "{} of {agents} agents have dialed in to {listen} within {} s (--start-timeout){}\
             {strangers}; start `mpiexec --join {listen}` with the same token on each host",
            self.arrived.len(),
            limit.as_secs_f64(),
            self.names()
        )
    }

    /// Returns the hosts that have arrived, in words.
    fn names(&self) -> String {
        if self.arrived.is_empty() {
            return String::new();
        }
        let names = self.arrived.iter().take(MAX_NAMES).map(|(it, _)| it.name.as_str());
        let dots = if self.arrived.len() > MAX_NAMES { ", ..." } else { "" };
        format!(" ({}{dots})", names.collect::<Vec<&str>>().join(", "))
    }
}

impl Unproven {
    /// Takes what has arrived.
    fn look(&mut self) -> Look {
        let mut bytes = Vec::new();
        let flushed = self.stream.flush();
        let Ok(End::Open) = self.stream.read(&mut bytes) else { return Look::Refused };
        if flushed.is_err() {
            return Look::Refused;
        }
        self.decoder.push(&bytes);
        match self.decoder.next_message::<Greeting>() {
            Ok(None) => Look::Pending,
            Ok(Some(greeting)) => match greeting.fault() {
                None => Look::Proven(greeting),
                Some(fault) => Look::Unfit(format!("an agent {fault}")),
            },
            Err(_) => Look::Unfit("an agent of another version was refused".into()),
        }
    }
}

/// Returns the arrivals; of several with one name, the later ones get a number.
pub(crate) fn with_own_names(arrived: Vec<(Greeting, SecureStream)>) -> Vec<Arrival> {
    let mut all: Vec<Arrival> = Vec::new();
    for (greeting, stream) in arrived {
        let is_taken = |name: &str| all.iter().any(|other| other.host.name == name);
        let mut name = greeting.name.clone();
        for number in 2.. {
            if !is_taken(&name) {
                break;
            }
            name = format!("{}~{number}", greeting.name);
        }
        all.push(Arrival { host: Host::new(name, greeting.slots), stream });
    }
    all
}

/// Returns the sort key of a name in which numbers count as numbers: w-9 comes before w-10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0u64)];
    let mut was_digit = false;
    for letter in name.chars() {
        let digit = letter.to_digit(10);
        if was_digit && digit.is_none() {
            parts.push((String::new(), 0));
        }
        was_digit = digit.is_some();
        if let Some((text, number)) = parts.last_mut() {
            match digit {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                None => text.push(letter),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["w-10", "w-9", "a", "w-9b", "w-1-2", "w-1-10"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a", "w-1-2", "w-1-10", "w-9", "w-9b", "w-10"]);
    }
}
