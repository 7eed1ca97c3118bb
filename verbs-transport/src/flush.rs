//! The end of a session: everything posted must reach the peers' devices before the queue pairs
//! go with the process.

use std::time::{Duration, Instant};

use crate::frame::control;
use crate::transport::{Flushing, VerbsTransport};

/// How long requests go to a peer whose connection broke while this process ends.
const RECONNECT_AT_END: Duration = Duration::from_secs(5);

impl VerbsTransport {
    /// Returns whether the peers' devices have everything. A peer whose connection has broken
    /// meanwhile may have ended as well. Therefore it is waited for only [`RECONNECT_AT_END`].
    pub(crate) fn flush_all(&mut self) -> bool {
        let begin = || Flushing { since: Instant::now(), next: 0 };
        let mut flushing = self.flushing.take().unwrap_or_else(begin);
        let connected: Vec<u32> = self.endpoints.with_queue_pairs().collect();
        for at in connected.into_iter().map(|at| at as usize) {
            // A signaled request shows that those before it are complete.
            if self.endpoints[at].is_ready() && self.endpoints[at].tx.unsignaled > 0 {
                self.send_control(at, control::CREDIT);
            }
        }
        let (in_time, count) = (flushing.since.elapsed() < RECONNECT_AT_END, self.endpoints.len());
        let unflushed = |from| (from..count).find(|&at| !self.is_flushed(at, in_time));
        // A connection may have broken since its endpoint was looked at.
        if let Some(at) = unflushed(flushing.next).or_else(|| unflushed(0)) {
            flushing.next = at;
            self.flushing = Some(flushing);
            return false;
        }
        // Peers may still wait for an acknowledgement that was lost: a Disconnect has it.
        for at in 0..count {
            if self.endpoints[at].is_ready() {
                self.close(at);
            }
            // Twice: if it is lost, the peer waits for nothing until its limit.
            for _ in 0..2 {
                self.acknowledge_soon(at);
                self.send_acknowledgements();
            }
        }
        true
    }

    fn is_flushed(&self, at: usize, in_time: bool) -> bool {
        let endpoint = &self.endpoints[at];
        let has_unacked = !endpoint.flow.unacked.is_empty();
        // No peer waits for the last control messages.
        let has_sent_all = !has_unacked && endpoint.rma.ops.is_empty();
        match endpoint.is_ready() {
            true => endpoint.tx.used == 0 || (has_sent_all && !in_time),
            false => {
                let is_sent = !has_unacked && self.wireup.ud.is_flushed();
                is_sent || endpoint.failed.is_some() || !in_time
            }
        }
    }
}
