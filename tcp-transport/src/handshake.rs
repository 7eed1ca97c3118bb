//! Handshakes: connections on which not both sides have proved the job's secret.
//!
//! The dialer sends Hello, the listener a challenge with its proof, the dialer its proof with the
//! position of its stream, the listener its acceptance with its own position. Before a side tells
//! its position it drops the link that it has, so that the position stays true.
//!
//! Two processes may dial each other at once. Each connection has an epoch, which is higher than
//! that of those before it. Of two with the same epoch the one that the lower rank dials wins. The
//! listener decides by this order when it has checked the proof, and closes the loser.

use std::time::Instant;

use rustix::io::Errno;

use crate::handshakes::{State, fill_random, text};
use crate::transport::TcpTransport;
use crate::wire::{Hello, Transcript};

/// What follows from the bytes that have arrived.
enum Step {
    /// More must arrive.
    Wait,
    /// The connection is not one of this job, or was lost: the reason, and whether it was refused.
    Failed(bool, String),
    /// It is proven: the peer's index, and what the peer has received.
    Done(usize, u64),
}

impl TcpTransport {
    /// Advances a handshake whose socket has an event.
    #[cold]
    pub(crate) fn progress_handshake(&mut self, at: u32, generation: u32) {
        loop {
            let Some(handshake) = self.handshakes.get(at, generation) else { return };
            let step = match handshake.read() {
                Ok(false) => return,
                Ok(true) => self.advance(at, generation),
                Err(errno) => {
                    let address = handshake.dial.as_ref().map(|dial| dial.1);
                    let why = address.map_or_else(String::new, |it| text(errno, it));
                    Step::Failed(errno == Errno::CONNREFUSED, why)
                }
            };
            match step {
                Step::Wait => {}
                Step::Failed(is_refused, why) => {
                    let removed = self.handshakes.remove(at);
                    if let Some((peer, ..)) = removed.and_then(|it| it.dial) {
                        self.attempt_failed(peer, is_refused, &why);
                    }
                    return;
                }
                Step::Done(peer, received) => {
                    if let Some(handshake) = self.handshakes.remove(at) {
                        self.establish(peer, handshake.fd, received);
                    }
                    return;
                }
            }
        }
    }

    /// Handles the message that has arrived.
    fn advance(&mut self, at: u32, generation: u32) -> Step {
        let foreign = |what: &str| Step::Failed(false, format!("{what} is not of this job"));
        let secret = self.own.secret;
        let Some(handshake) = self.handshakes.get(at, generation) else {
            return foreign("the connection");
        };
        match std::mem::replace(&mut handshake.state, State::Connecting) {
            State::Connecting => {
                handshake.state = State::Challenge;
                if let Some((peer, ..)) = handshake.dial
                    && let Some(dial) = &mut self.peers[peer].dial
                {
                    let now = Instant::now();
                    dial.taken_at = now;
                    handshake.extend(now, now - dial.began);
                }
                let hello = handshake.dial.as_ref().map(|dial| dial.2.encode());
                outcome(handshake.send(&hello.unwrap_or([0; Hello::SIZE])))
            }
            State::Challenge => self.check_challenge(at, generation),
            State::Accept(transcript, received) => {
                let message = handshake.message();
                match (transcript.check_accept(&message, &secret, received), &handshake.dial) {
                    (Some(position), Some((peer, ..))) => Step::Done(*peer, position),
                    _ => foreign("the answer"),
                }
            }
            State::Hello => {
                let hello = Hello::decode(&handshake.message());
                let Some(hello) = hello.filter(|hello| hello.to == self.own.me.0) else {
                    return foreign("the first message");
                };
                let mut nonce = [0; 32];
                fill_random(&mut nonce);
                let transcript = Transcript::new(&hello, nonce);
                let challenge = transcript.challenge(&secret);
                handshake.state = State::Proof(hello, transcript);
                outcome(handshake.send(&challenge))
            }
            State::Proof(hello, transcript) => {
                match transcript.check_proof(&handshake.message(), &secret) {
                    Some(received) => self.decide(at, generation, (&hello, &transcript), received),
                    None => foreign("the proof"),
                }
            }
        }
    }

    /// Dialer: checks the listener's proof, and answers with ours.
    fn check_challenge(&mut self, at: u32, generation: u32) -> Step {
        let secret = self.own.secret;
        let foreign = || Step::Failed(false, "another program answers there".into());
        let Some(handshake) = self.handshakes.get(at, generation) else { return foreign() };
        let Some((peer, address, hello)) = handshake.dial else { return foreign() };
        let Some(transcript) = Transcript::check_challenge(&hello, &handshake.message(), &secret)
        else {
            return Step::Failed(false, format!("{address}: another program answers there"));
        };
        // From here on no other connection may win, and no link may receive.
        self.handshakes.remove_dials(peer, Some(generation));
        self.only_attempt(peer);
        self.drop_link(peer);
        let received = self.peers[peer].rx.position;
        let proof = transcript.proof(&secret, received);
        let Some(handshake) = self.handshakes.get(at, generation) else { return foreign() };
        handshake.state = State::Accept(transcript, received);
        outcome(handshake.send(&proof))
    }

    /// Listener: accepts a proven connection, unless another one of the two processes wins.
    fn decide(
        &mut self,
        at: u32,
        generation: u32,
        (hello, transcript): (&Hello, &Transcript),
        dialer_received: u64,
    ) -> Step {
        let lost = || Step::Failed(false, "another connection has won".into());
        let Some(peer) = self.stream_index(fabric::Peer(hello.from), hello.lane) else {
            return lost();
        };
        let state = &self.peers[peer];
        let is_lower = hello.from < self.own.me.0;
        let is_first = !self.handshakes.is_connected_to(peer) && state.link.is_none();
        let wins = hello.epoch > state.epoch || (hello.epoch == state.epoch && is_lower);
        if self.peers[state.main].failed.is_some()
            || hello.from == self.own.me.0
            || !(is_first || wins)
        {
            return lost();
        }
        self.stop_dialing(peer);
        self.drop_link(peer);
        let state = &mut self.peers[peer];
        state.epoch = state.epoch.max(hello.epoch);
        let received = state.rx.position;
        let accept = transcript.accept(&self.own.secret, dialer_received, received);
        let Some(handshake) = self.handshakes.get(at, generation) else { return lost() };
        match handshake.send(&accept) {
            Ok(()) => Step::Done(peer, dialer_received),
            Err(errno) => {
                self.start_dialing(peer, "its connection ended in the handshake");
                Step::Failed(false, errno.to_string())
            }
        }
    }
}

fn outcome(sent: Result<(), Errno>) -> Step {
    match sent {
        Ok(()) => Step::Wait,
        Err(errno) => Step::Failed(false, std::io::Error::from(errno).to_string()),
    }
}
