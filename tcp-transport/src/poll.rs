//! The progress loop.
//!
//! Each poll reads the hot link, if there is one (`hot`). All other events are taken by
//! `epoll_wait`, less often while there is a hot link or no connection at all, or while nothing
//! happens for long.

use std::time::{Duration, Instant};

use fabric::Sink;

use crate::transport::TcpTransport;
use crate::wait_set::{BATCH, Ready, Source};
use crate::wire::Kind;

/// Polls between two looks at events while there is a hot link.
const HOT_INTERVAL: u64 = 16;
/// Polls between two looks at events while there are no connections: another transport may do the
/// work, and each look is a system call.
const UNUSED_INTERVAL: u64 = 256;
/// Polls without a result after which only one of [`IDLE_INTERVAL`] makes system calls.
const IDLE_POLLS: u64 = 2048;
const IDLE_INTERVAL: u64 = 4;
/// Polls between two looks at the clock while peers are dialed.
const DIAL_INTERVAL: u64 = 64;
/// Polls between two closings of a connection while there are too many.
const RETIRE_INTERVAL: u64 = 256;
/// How long the end of a process waits for a peer whose system takes no connection.
const FLUSH_MAX: Duration = Duration::from_secs(5);

impl TcpTransport {
    /// Delivers what has arrived. Returns whether there was anything.
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut impl Sink) -> bool {
        let attention = &mut self.attention;
        attention.polls += 1;
        let polls = attention.polls;
        if !self.writing.delayed.is_empty() {
            self.write_delayed();
        }
        let attention = &self.attention;
        let interval = if self.is_unused() {
            UNUSED_INTERVAL
        } else if attention.idle > IDLE_POLLS {
            IDLE_INTERVAL
        } else {
            1
        };
        let is_quiet = !polls.is_multiple_of(interval) && attention.readable.is_empty();
        if is_quiet && self.reports.is_empty() && self.writing.flushing_since.is_none() {
            self.attention.idle += 1;
            return false;
        }
        let mut moved = match attention.hot.at {
            Some(at) => self.read_hot(at, sink),
            None => false,
        };
        let is_divided = !self.stripes.is_empty();
        if self.attention.hot.at.is_none() || is_divided || polls.is_multiple_of(HOT_INTERVAL) {
            self.take_events();
        }
        if !self.attention.readable.is_empty() {
            moved |= self.read_all(sink);
        }
        moved |= self.maintain(sink);
        self.attention.idle = if moved { 0 } else { self.attention.idle + 1 };
        moved
    }

    /// Returns whether there are no connections, and none are being made.
    fn is_unused(&self) -> bool {
        self.linked.is_empty() && self.dialing.is_empty() && self.handshakes.is_empty()
    }

    /// Performs what is rarely due.
    #[inline]
    fn maintain(&mut self, sink: &mut impl Sink) -> bool {
        if !self.dialing.is_empty() && self.attention.polls.is_multiple_of(DIAL_INTERVAL) {
            self.progress_dials();
        }
        if self.linked.len() > self.limits.max_links
            && self.attention.polls.is_multiple_of(RETIRE_INTERVAL)
        {
            self.retire_one();
        }
        if self.reports.is_empty() {
            // What the system has sent changes the answer of `flush`, which is called again only
            // after something has happened.
            return self.writing.flushing_since.is_some();
        }
        self.reports.deliver(sink);
        true
    }

    #[inline]
    fn read_hot(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let found = self.read_link(at, sink);
        self.hot_was_read(at, found);
        found
    }

    /// Reads all links that have something. The last one becomes hot.
    fn read_all(&mut self, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for at in std::mem::take(&mut self.attention.readable) {
            if self.read_link(at, sink) && self.peers[at].link.is_some() {
                moved = true;
                self.make_hot(at);
            }
        }
        moved
    }

    /// Takes the events that have come.
    #[inline]
    pub(crate) fn take_events(&mut self) {
        loop {
            let count = self.wait_set.take();
            for at in 0..count {
                let ready = self.wait_set.event(at);
                self.on_event(ready);
            }
            if count < BATCH {
                return;
            }
        }
    }

    fn on_event(&mut self, Ready { source, writable, ending }: Ready) {
        match source {
            Source::Listener => self.accept_all(),
            Source::Other => self.progress_dials(),
            Source::Handshake(at, generation) => self.progress_handshake(at, generation),
            Source::Link(at, generation) => {
                let (at, polls) = (at as usize, self.attention.polls);
                let Some(state) = self.peers.get_mut(at) else { return };
                let Some(link) = &mut state.link else { return };
                if link.generation != generation {
                    return;
                }
                link.is_ending |= ending;
                if writable && !link.writable && !link.is_shut {
                    link.writable = true;
                    state.write(polls);
                }
                self.mark_readable(at);
            }
        }
    }

    /// Returns true when the systems of all peers have everything; see `Transport::flush`. A peer
    /// whose system takes no connection is waited for [`FLUSH_MAX`], a peer that computes as long
    /// as that takes. A link that carries nothing any more breaks by itself (`USER_TIMEOUT_MS`).
    pub(crate) fn flush_all(&mut self) -> bool {
        let now = Instant::now();
        let since = *self.writing.flushing_since.get_or_insert(now);
        let polls = self.attention.polls;
        for &at in &self.linked {
            self.peers[at].write(polls);
        }
        let is_sent = |at: usize| {
            let state = &self.peers[at];
            let left = state.link.as_ref().map(|link| link.fd.unacknowledged());
            let waits = state.link.as_ref().is_some_and(|link| link.fd.has_unsent());
            // A link that both sides close carries no more acknowledgements of ours.
            let is_shut = state.link.as_ref().is_some_and(|link| link.is_shut);
            let has_unsent = state.tx.has_unsent() && (!is_shut || state.is_pending());
            !has_unsent && !waits && left == Some(0)
        };
        let is_unreachable = |at: usize| {
            let dial = self.peers[at].dial.as_ref();
            let is_late = dial.is_some_and(|dial| now - dial.taken_at.max(since) >= FLUSH_MAX);
            is_late && !self.handshakes.is_connected_to(at)
        };
        let is_flushed = self.linked.iter().all(|&at| is_sent(at))
            && self.dialing.iter().all(|&at| !self.peers[at].is_pending() || is_unreachable(at));
        if !is_flushed {
            return false;
        }
        self.writing.flushing_since = None;
        for &at in &self.linked {
            let state = &mut self.peers[at];
            if let Some(link) = state.link.as_mut().filter(|link| !link.is_shut) {
                link.is_closing = true;
                state.append(Kind::Bye, 0);
                state.write(polls);
            }
        }
        true
    }
}
