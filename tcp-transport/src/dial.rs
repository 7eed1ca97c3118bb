//! Dialing: the addresses of a peer are tried in turn until one answers with the job's secret.
//!
//! An attempt begins [`STAGGER`] after the one before it, or once that has failed; the first that
//! completes its handshake wins. After a round without success the next one begins, later each
//! time. Time is looked at only here and while a dial is under way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric::world::ProcessName;
use rustix::io::Errno;
use rustix::net::connect;

use crate::candidates;
use crate::handshakes::{Handshake, fill_random, text};
use crate::listener::new_socket;
use crate::transport::{TcpTransport, key};
use crate::wait_set::Source;
use crate::wire::Hello;

/// Time between the begins of two attempts.
const STAGGER: Duration = Duration::from_millis(100);
/// Time between two looks at dials while the process sleeps.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

impl TcpTransport {
    /// Advances all dials and ends handshakes that take too long.
    #[cold]
    pub(crate) fn progress_dials(&mut self) {
        let now = Instant::now();
        for (at, was_taken, why) in self.handshakes.expire(now) {
            self.attempt_failed(at, false, &why);
            if was_taken && let Some(dial) = &mut self.peers[at].dial {
                dial.was_taken(now);
            }
        }
        for at in self.dialing.clone() {
            self.warn_unreachable(at, now);
            if let Err(why) = self.progress_dial(at, now) {
                self.give_up_dial(at, why);
            }
        }
    }

    /// Ends a dial without success. A lane that nothing needs is done without.
    fn give_up_dial(&mut self, at: usize, why: String) {
        let state = &mut self.peers[at];
        if state.is_main() || state.is_pending() {
            return self.fail(at, why);
        }
        state.is_unusable = true;
        self.stop_dialing(at);
    }

    fn progress_dial(&mut self, at: usize, now: Instant) -> Result<(), String> {
        let peer = self.peers[at].peer;
        let Some(dial) = &mut self.peers[at].dial else { return Ok(()) };
        if dial.addresses.is_empty() {
            let found = self.own.store.try_value(&key(peer));
            let found = found.map_err(|why| format!("cannot look up its address: {why}"))?;
            let Some(bytes) = found else { return Ok(()) };
            dial.addresses =
                candidates::decode(&bytes)
                    .filter(|addresses| !addresses.is_empty())
                    .ok_or("its published address has an unknown format (another version?)")?;
            candidates::sort(&mut dial.addresses, &self.own.addresses);
        }
        while self.peers[at].dial.as_ref().is_some_and(|dial| {
            dial.next < dial.addresses.len()
                && (dial.open == 0 || now >= dial.next_at)
                && (dial.next > 0 || now >= dial.next_at)
        }) {
            if !self.start_attempt(at, now) {
                return Ok(());
            }
        }
        let timeout = self.settings.reconnect_timeout;
        let state = &mut self.peers[at];
        match &mut state.dial {
            Some(dial) if dial.open == 0 && dial.next == dial.addresses.len() => {
                dial.next_round(now, timeout, state.said_bye)
            }
            _ => Ok(()),
        }
    }

    /// Tries the next address. Returns false if there is no space for another handshake now.
    fn start_attempt(&mut self, at: usize, now: Instant) -> bool {
        if !self.handshakes.can_dial() {
            return false;
        }
        let state = &mut self.peers[at];
        let Some(dial) = &mut state.dial else { return false };
        let address = dial.addresses[dial.next];
        if dial.next == 0 && dial.open == 0 {
            state.epoch += 1;
        }
        (dial.next, dial.next_at) = (dial.next + 1, now + STAGGER);
        let mut nonce = [0; 32];
        fill_random(&mut nonce);
        let (from, to) = (self.own.me.0, state.peer.0);
        let hello = Hello { from, to, epoch: state.epoch, lane: state.lane, nonce };
        match self.connect_to(at, address, hello, now) {
            Ok(()) => self.peers[at].dial.iter_mut().for_each(|dial| dial.open += 1),
            Err(errno) => self.note_failure(at, errno == Errno::CONNREFUSED, &text(errno, address)),
        }
        true
    }

    fn connect_to(
        &mut self,
        at: usize,
        address: SocketAddr,
        hello: Hello,
        now: Instant,
    ) -> Result<(), Errno> {
        let fd = match new_socket(&address) {
            Err(Errno::MFILE | Errno::NFILE) if self.evict() => new_socket(&address)?,
            other => other?,
        };
        match connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let fd = self.socket(fd, true)?;
        let generation = self.new_generation();
        let handshake = Handshake::dialer(fd, at, address, hello, (generation, now));
        let index = self.handshakes.add(handshake);
        let source = Source::Handshake(index, generation);
        if let Some(handshake) = self.handshakes.get(index, generation)
            && self.wait_set.add(&handshake.fd, source).is_err()
        {
            self.handshakes.remove(index);
            return Err(Errno::NOMEM);
        }
        Ok(())
    }

    /// Records that all attempts but one were ended.
    pub(crate) fn only_attempt(&mut self, at: usize) {
        if let Some(dial) = &mut self.peers[at].dial {
            dial.open = 1;
        }
    }

    /// Records that an attempt to reach a peer has failed. The next one need not wait.
    pub(crate) fn attempt_failed(&mut self, at: usize, is_refused: bool, why: &str) {
        if let Some(dial) = &mut self.peers[at].dial {
            dial.open = dial.open.saturating_sub(1);
        }
        self.note_failure(at, is_refused, why);
    }

    fn note_failure(&mut self, at: usize, is_refused: bool, why: &str) {
        if let Some(dial) = &mut self.peers[at].dial {
            dial.is_other_failure |= !is_refused;
            dial.why = why.to_owned();
        }
    }

    /// Reports on standard error, once, that a peer is not reached.
    fn warn_unreachable(&mut self, at: usize, now: Instant) {
        let [me, peer] = [self.own.me, self.peers[at].peer].map(|peer| ProcessName(peer.0));
        let is_needed = self.peers[at].is_main() || self.peers[at].is_pending();
        let Some(dial) = self.peers[at].dial.as_mut().filter(|_| is_needed) else { return };
        if !dial.warned && now - dial.began >= self.settings.connect_warn_after {
            dial.warned = true;
            eprintln!(
                "verbena: {me} has not reached {peer} over TCP for {} s: {}; tcp.interfaces names the \
                 network to use, and tcp.ports the ports that a firewall lets through",
                (now - dial.began).as_secs(),
                dial.text()
            );
        }
    }
}
