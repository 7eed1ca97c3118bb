//! How an idle process sleeps and wakes.
//!
//! Invariant: any event after [`TcpTransport::prepare_wait`] makes its descriptor readable, or was
//! found by it.

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
        Some(WaitOn::Fd(self.wait_set.fd()))
    }

    fn must_look(&self) -> bool {
        !self.attention.readable.is_empty()
            || !self.reports.is_empty()
            || self.writing.flushing_since.is_some()
    }
}
