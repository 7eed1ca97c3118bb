//! Links: how a connection that was proven takes over, and what happens when it ends.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use fabric::{Peer, PeerFailed};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::dial_state::Dial;
use crate::peer::{Link, Then};
use crate::socket::Socket;
use crate::transport::{Hot, TcpTransport};
use crate::wait_set::Source;
use crate::wire::Kind;

/// Milliseconds without an acknowledgement of sent bytes after which the system gives up a
/// connection.
const USER_TIMEOUT_MS: u32 = 30_000;
/// Silence after which the system probes an idle connection, and time between two probes: firewalls
/// forget connections that are silent for minutes. Linux ends a connection with this timeout set
/// when a probe is due, the last one is unanswered and [`USER_TIMEOUT_MS`] are over. So two probes
/// in a row must be lost.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(5));

impl TcpTransport {
    /// Makes a proven connection the link of a peer, which has received our stream up to
    /// `received`.
    pub(crate) fn establish(&mut self, at: usize, fd: Socket, received: u64) {
        self.stop_dialing(at);
        self.drop_link(at);
        let generation = self.new_generation();
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        self.peers[at].is_far = crate::congestion::is_far(fd.as_fd());
        crate::congestion::choose(fd.as_fd(), self.settings.congestion_control.as_deref());
        let _ = set_timeouts(fd.as_fd());
        if let Err(error) = self.wait_set.change(&fd, Source::Link(at as u32, generation)) {
            return self.break_link(at, &format!("its socket cannot be watched: {error}"));
        }
        let state = &mut self.peers[at];
        if state.tx.resume(received).is_err() {
            return self.fail(at, "it has received more, or less, than was sent".into());
        }
        // No record may come that tells it once more.
        let delivered = std::iter::from_fn(|| state.next_delivered(received));
        self.reports.transfers.extend(delivered.map(|token| (token, Ok(()))));
        self.attention.has_space_again |= state.has_space_again(self.settings.window / 2);
        state.said_bye = false;
        state.link = Some(Link::new(fd, generation));
        state.write(self.attention.polls);
        self.linked.push(at);
        self.mark_readable(at);
        if self.linked.len() > self.limits.max_links {
            self.retire_one();
        }
    }

    /// Records that a link may have something to read.
    pub(crate) fn mark_readable(&mut self, at: usize) {
        let readable = &mut self.attention.readable;
        if !readable.contains(&at) {
            readable.push(at);
        }
    }

    /// Closes the link of a peer, if there is one.
    pub(crate) fn drop_link(&mut self, at: usize) {
        // A Bye is about its own link: the next one is not closed because of it.
        self.peers[at].rx.bye_due = None;
        if self.peers[at].link.take().is_some() {
            self.linked.retain(|&other| other != at);
            self.attention.readable.retain(|&other| other != at);
            if self.attention.hot.at == Some(at) {
                self.attention.hot = Hot::default();
            }
        }
    }

    /// Handles a connection that has ended. It is made anew unless the peer has closed it and
    /// nothing is left to send. A peer that has ended refuses the new one, and has then failed.
    #[cold]
    pub(crate) fn break_link(&mut self, at: usize, why: &str) {
        self.drop_link(at);
        let state = &self.peers[at];
        let is_over = state.said_bye || self.writing.flushing_since.is_some();
        if state.failed.is_none() && (state.is_pending() || (!is_over && state.is_main())) {
            self.start_dialing(at, why);
        } else {
            self.peers[at].tx.shrink();
        }
    }

    /// Begins to dial a peer that has neither a link nor a dial.
    #[cold]
    pub(crate) fn start_dialing(&mut self, at: usize, why: &str) {
        let state = &mut self.peers[at];
        if state.dial.is_none() && state.link.is_none() && state.failed.is_none() {
            state.dial = Some(Dial::new(Instant::now(), why));
            self.dialing.push(at);
        }
    }

    /// Ends the dial of a peer, if there is one.
    pub(crate) fn stop_dialing(&mut self, at: usize) {
        if self.peers[at].dial.take().is_some() {
            self.dialing.retain(|&other| other != at);
            self.handshakes.remove_dials(at, None);
        }
    }

    /// Gives a peer up. All that waits for it fails. A peer that has said Bye and waits for nothing
    /// has ended in order: that is no failure to report.
    #[cold]
    pub(crate) fn fail(&mut self, at: usize, why: String) {
        let said_bye = self.peers[at].said_bye;
        let at = self.peers[at].main;
        self.stop_dialing(at);
        self.drop_link(at);
        if self.peers[at].failed.is_some() {
            return;
        }
        let failure = PeerFailed { peer: self.peers[at].peer, why };
        let said_bye = said_bye || self.peers[at].said_bye;
        let before = self.reports.transfers.len();
        self.end_stream(at, &failure);
        for lane in self.peers[at].lanes.clone() {
            self.stop_dialing(lane);
            self.drop_link(lane);
            self.end_stream(lane, &failure);
        }
        if !said_bye || self.reports.transfers.len() > before {
            self.reports.failures.push(failure);
        }
        self.attention.has_space_again = true;
    }

    /// Ends a stream with a peer that has failed. Its transfers fail.
    fn end_stream(&mut self, at: usize, failure: &PeerFailed) {
        let state = &mut self.peers[at];
        state.failed = Some(failure.clone());
        state.tx = crate::send_queue::SendQueue::default();
        let rx = std::mem::take(&mut state.rx);
        self.scratch.forget(at);
        // A get whose last piece is arriving is no longer among the others.
        let last = rx.bulk.and_then(|bulk| match bulk.then {
            Then::Report(what) => Some(what),
            Then::Nothing | Then::Acknowledge => None,
        });
        let stripes = &mut self.stripes;
        let gets = state.gets.drain().map(|(_, get)| get.completes).chain(last);
        let gets = gets.filter_map(|what| stripes.abandon(what));
        let atomics = state.atomics.drain().map(|(_, (token, _))| token);
        let puts = state.puts.drain(..).map(|(_, token)| token);
        let failed = gets.chain(atomics).chain(puts).map(|token| (token, Err(failure.clone())));
        self.reports.transfers.extend(failed);
    }

    /// Begins to close the least recently used link, so that there are not too many. A link that
    /// has carried nothing yet is the last to go: it was made for a post that is still to come. The
    /// peer answers with what it has received; then nothing is left that a new link would be needed
    /// for.
    pub(crate) fn retire_one(&mut self) {
        let link = |at: usize| self.peers[at].link.as_ref();
        let is_closing = |at: usize| link(at).is_some_and(|it| it.is_closing || it.is_shut);
        let open = self.linked.iter().copied().filter(|&at| !is_closing(at));
        if open.clone().count() <= self.limits.max_links {
            return;
        }
        let used = |at: usize| link(at).map_or(0, |link| link.used);
        let rank = |at: usize| {
            let state = &self.peers[at];
            (used(at) == Link::UNUSED, state.is_pending(), state.is_main(), used(at))
        };
        let Some(at) = open.min_by_key(|&at| rank(at)) else {
            return;
        };
        self.counts.evicted += 1;
        let (polls, state) = (self.attention.polls, &mut self.peers[at]);
        state.link.iter_mut().for_each(|link| link.is_closing = true);
        state.append(Kind::Bye, 0);
        state.write(polls);
    }

    /// Answers the Bye or Agree of a peer: with an Agree, or by closing our direction of the link
    /// that we wanted to close. A link over which more was sent meanwhile stays, and an Agree to
    /// what an earlier link was to do means nothing. Writes what the same read has caused: the
    /// caller does not, and a request may have come with the record.
    #[cold]
    pub(crate) fn answer_bye(&mut self, at: usize) {
        let (polls, state) = (self.attention.polls, &mut self.peers[at]);
        let due = state.rx.bye_due.take();
        let Some(link) = state.link.as_mut().filter(|link| !link.is_shut) else { return };
        let is_ours = std::mem::take(&mut link.is_closing);
        let closes = is_ours && !state.is_pending();
        let agrees = !is_ours && due == Some(Kind::Bye);
        state.append(if agrees { Kind::Agree } else { Kind::Ack }, 0);
        state.rx.ack_due = false;
        state.write(polls);
        // The peer may have sent more after its answer: that is read before the link is closed.
        if closes
            && !state.tx.has_unsent()
            && let Some(link) = &mut state.link
            && !link.fd.has_unsent()
        {
            let _ = shutdown(&link.fd, Shutdown::Write);
            (link.is_shut, link.writable) = (true, false);
        }
    }

    /// Closes a link at once, since no descriptor is left: one that is being closed, otherwise the
    /// least recently used. Returns false if there is none.
    pub(crate) fn evict(&mut self) -> bool {
        let rank = |at: usize| {
            let state = &self.peers[at];
            let link = state.link.as_ref();
            let is_closing = link.is_some_and(|link| link.is_closing || link.is_shut);
            let used = link.map_or(0, |link| link.used);
            (!is_closing, used == Link::UNUSED, state.is_pending(), state.is_main(), used)
        };
        let Some(at) = self.linked.iter().copied().min_by_key(|&at| rank(at)) else { return false };
        self.counts.evicted += 1;
        self.drop_link(at);
        // What was not read yet comes again.
        if self.peers[at].is_main() || self.peers[at].is_pending() {
            self.start_dialing(at, "it was closed, since no descriptor was left");
        }
        true
    }

    /// Breaks the connection to a peer, as a fault of the network would. For tests.
    #[doc(hidden)]
    pub fn interrupt(&mut self, peer: Peer) {
        let index = self.index.get(peer.0 as usize).map(|&at| at as usize);
        if let Some(at) = index.filter(|&at| self.peers.get(at).is_some_and(|it| it.link.is_some()))
        {
            let lanes = &self.peers[at].lanes;
            let turn = self.counts.interruptions as usize % (lanes.len() + 1);
            let at = turn.checked_sub(1).map_or(at, |lane| lanes[lane]);
            self.counts.interruptions += 1;
            if self.peers[at].link.is_some() {
                self.break_link(at, "a test has broken it");
            }
        }
    }

    /// Returns the bytes of all streams that peers have not acknowledged. For tests.
    #[doc(hidden)]
    pub fn unacknowledged(&self) -> u64 {
        self.peers.iter().map(|state| state.tx.unacknowledged()).sum()
    }

    /// Returns the number of connections that [`TcpTransport::interrupt`] has broken.
    #[doc(hidden)]
    pub fn interruptions(&self) -> u64 {
        self.counts.interruptions
    }
}

/// Has the system end a connection to a host that is gone, also while nothing is sent.
fn set_timeouts(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    sockopt::set_tcp_user_timeout(fd, USER_TIMEOUT_MS)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE.0)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE.1)?;
    sockopt::set_socket_keepalive(fd, true)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn two_probes_are_sent_before_an_idle_connection_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_timeouts(stream.as_fd()).unwrap();
        let (idle, interval) =
            (sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepintvl(&stream).unwrap());
        let limit = Duration::from_millis(sockopt::tcp_user_timeout(&stream).unwrap().into());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert!(idle + interval < limit, "the second probe is the last: {idle:?}, {interval:?}");
        assert!(idle + 2 * interval <= limit, "noticed later than a loss of sent bytes: {idle:?}");
    }
}
