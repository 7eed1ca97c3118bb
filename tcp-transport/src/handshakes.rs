//! Connections on which not both sides have proved the job's secret yet, and what each waits for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::socket::Socket;
use crate::sys::Part;
use crate::wire::{CHALLENGE, Hello, PROOF, Transcript};

/// Longest time of a handshake. A dialer waits longer for a process that computes: as long as it
/// has dialed already, since each attempt takes a place in the queue of the listener.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a handshake waits for.
#[derive(Debug)]
pub(crate) enum State {
    /// Dialer: that the connection is made.
    Connecting,
    /// Dialer: the listener's proof.
    Challenge,
    /// Dialer: the acceptance; our position was told.
    Accept(Transcript, u64),
    /// Listener: the first message.
    Hello,
    /// Listener: the dialer's proof.
    Proof(Hello, Transcript),
}

/// A connection before its proofs.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) fd: Socket,
    generation: u32,
    /// Dialer: the peer's index, its address and our Hello.
    pub(crate) dial: Option<(usize, SocketAddr, Hello)>,
    pub(crate) state: State,
    bytes: [u8; CHALLENGE],
    have: usize,
    deadline: Instant,
}

/// All handshakes of a process.
#[derive(Debug)]
pub(crate) struct Handshakes {
    entries: Vec<Option<Handshake>>,
    /// Most handshakes in each role: those of strangers leave space for ours.
    max: usize,
}

impl Handshake {
    /// Returns the handshake of a connection that is being made to `address`.
    pub(crate) fn dialer(
        fd: Socket,
        at: usize,
        address: SocketAddr,
        hello: Hello,
        (generation, now): (u32, Instant),
    ) -> Handshake {
        let dial = Some((at, address, hello));
        Handshake { dial, ..Handshake::listener(fd, generation, now) }.waiting(State::Connecting)
    }

    /// Returns the handshake of a connection that was accepted.
    pub(crate) fn listener(fd: Socket, generation: u32, now: Instant) -> Handshake {
        let (dial, state, bytes) = (None, State::Hello, [0; CHALLENGE]);
        Handshake { fd, generation, dial, state, bytes, have: 0, deadline: now + TIMEOUT }
    }

    fn waiting(mut self, state: State) -> Handshake {
        self.state = state;
        self
    }

    /// Gives a dialer's handshake more time, since the connection is made.
    pub(crate) fn extend(&mut self, now: Instant, dialed_for: Duration) {
        self.deadline = now + dialed_for.max(TIMEOUT);
    }

    /// Reads until the message that is waited for is there. Returns false if it is not.
    pub(crate) fn read(&mut self) -> Result<bool, Errno> {
        let wanted = match self.state {
            State::Connecting => {
                // The event says that the connection is made, or has failed.
                sockopt::socket_error(&self.fd)??;
                return Ok(rustix::net::getpeername(&self.fd).is_ok());
            }
            State::Challenge => CHALLENGE,
            State::Hello => Hello::SIZE,
            State::Accept(..) | State::Proof(..) => PROOF,
        };
        while self.have < wanted {
            let rest = &mut self.bytes[self.have..wanted];
            match self.fd.receive(fabric::UserBuf::EMPTY, rest) {
                Ok(0) => return Err(Errno::CONNRESET),
                Ok(count) => self.have += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.have = 0;
        Ok(true)
    }

    /// Returns the first `N` bytes of the message.
    pub(crate) fn message<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[i])
    }

    /// Sends a message, for which a new connection has space.
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), Errno> {
        let sent = self.fd.send(&[Part::Own(message)])?;
        if sent == message.len() { Ok(()) } else { Err(Errno::NOBUFS) }
    }
}

impl Handshakes {
    /// Returns no handshakes, of which there will be at most `max` in each role.
    pub(crate) fn new(max: usize) -> Handshakes {
        Handshakes { entries: Vec::new(), max }
    }

    fn count(&self, is_dialer: bool) -> usize {
        self.entries.iter().flatten().filter(|it| it.dial.is_some() == is_dialer).count()
    }

    /// Returns true if another peer may be dialed.
    pub(crate) fn can_dial(&self) -> bool {
        self.count(true) < self.max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }

    /// Adds a handshake; returns its index.
    pub(crate) fn add(&mut self, handshake: Handshake) -> u32 {
        let free = self.entries.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(handshake);
        at as u32
    }

    /// Returns a handshake, if it is still the one of that generation.
    pub(crate) fn get(&mut self, at: u32, generation: u32) -> Option<&mut Handshake> {
        let entry = self.entries.get_mut(at as usize)?.as_mut();
        entry.filter(|handshake| handshake.generation == generation)
    }

    /// Removes a handshake.
    pub(crate) fn remove(&mut self, at: u32) -> Option<Handshake> {
        self.entries.get_mut(at as usize)?.take()
    }

    /// Ends the handshakes by which a peer is dialed, but for one generation.
    pub(crate) fn remove_dials(&mut self, peer: usize, except: Option<u32>) {
        self.remove_if(|it| {
            it.dial.as_ref().is_some_and(|(at, ..)| *at == peer) && Some(it.generation) != except
        });
    }

    /// Makes room for another accepted connection: the one that has waited longest ends.
    pub(crate) fn make_room(&mut self) {
        if self.count(false) < self.max {
            return;
        }
        let accepted = self.entries.iter().flatten().filter(|it| it.dial.is_none());
        if let Some(oldest) = accepted.min_by_key(|it| it.deadline).map(|it| it.generation) {
            self.remove_if(|it| it.generation == oldest);
        }
    }

    /// Ends handshakes that take too long; returns the peers that were dialed, whether the peer's
    /// system had taken the connection, and the reason.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(usize, bool, String)> {
        let late = self.remove_if(|it| it.deadline <= now);
        let expired = |it: Handshake| {
            let (at, address, _) = it.dial?;
            let reason = text(Errno::TIMEDOUT, address);
            Some(match it.state {
                State::Connecting => (at, false, reason),
                _ => (at, true, format!("{address}: connected, but the process does not answer")),
            })
        };
        late.into_iter().filter_map(expired).collect()
    }

    fn remove_if(&mut self, mut is_over: impl FnMut(&Handshake) -> bool) -> Vec<Handshake> {
        let mut removed = Vec::new();
        for entry in &mut self.entries {
            removed.extend(entry.take_if(|handshake| is_over(handshake)));
        }
        removed
    }

    /// Returns true if a connection to the peer is made that has not failed.
    pub(crate) fn is_connected_to(&self, peer: usize) -> bool {
        self.entries.iter().flatten().any(|it| {
            !matches!(it.state, State::Connecting)
                && it.dial.as_ref().is_some_and(|(at, ..)| *at == peer)
        })
    }
}

/// Describes the failure of an attempt.
pub(crate) fn text(errno: Errno, address: SocketAddr) -> String {
    format!("{address}: {}", std::io::Error::from(errno))
}

/// Fills bytes with random ones from the system.
pub(crate) fn fill_random(bytes: &mut [u8; 32]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => panic!("the system has no random bytes: {errno}"),
        }
    }
}
