//! How an idle process sleeps and wakes.
//!
//! States: awake; armed, from [`TcpTransport::prepare_wait`] to `disarm`. Other threads may call
//! the transport while one sleeps.
//!
//! Invariant: any event after [`TcpTransport::prepare_wait`] makes its descriptor readable, or was
//! found by it. While armed, a call leaves no work for a poll that the sleeper does not know of: it
//! writes at once, and sets the timer for the rest ([`TcpTransport::wake_sleeper`]).

use std::time::{Duration, Instant};

use fabric::WaitOn;

use crate::dial::INTERVAL;
use crate::transport::TcpTransport;

/// Time between two looks while strangers have open connections.
const STRANGER_INTERVAL: Duration = Duration::from_secs(1);

impl TcpTransport {
    /// Returns what to sleep on; `None` if there is something to do.
    pub(crate) fn prepare_wait(&mut self) -> Option<WaitOn<'_>> {
        self.write_delayed();
        if std::mem::take(&mut self.attention.has_space_again) {
            return None;
        }
        if !self.dialing.is_empty() || !self.handshakes.is_empty() {
            self.progress_dials();
        }
        self.watch_hot();
        self.take_events();
        if self.must_look() {
            return None;
        }
        let pause = match (self.dialing.is_empty(), self.handshakes.is_empty()) {
            (false, _) => Some(INTERVAL),
            (true, false) => Some(STRANGER_INTERVAL),
            (true, true) => None,
        };
        self.wait_set.set_timer(pause.map(|pause| Instant::now() + pause));
        // The first poll after the sleep looks.
        self.attention.idle = 0;
        self.attention.is_armed = true;
        Some(WaitOn::Fd(self.wait_set.fd()))
    }

    /// Makes the descriptor of a sleeper readable: at once if a poll has something to do, and when
    /// a dial is due.
    #[inline]
    pub(crate) fn wake_sleeper(&mut self) {
        if self.attention.is_armed {
            self.set_alarm();
        }
    }

    #[cold]
    fn set_alarm(&mut self) {
        self.watch_hot();
        if self.must_look() || self.attention.has_space_again {
            self.wait_set.set_timer(Some(Instant::now()));
        } else if !self.dialing.is_empty() {
            self.wait_set.set_timer(Some(Instant::now() + INTERVAL));
        }
    }

    fn must_look(&self) -> bool {
        !self.attention.readable.is_empty()
            || !self.reports.is_empty()
            || self.writing.flushing_since.is_some()
    }
}
