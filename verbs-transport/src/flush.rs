//! The end of a session: everything posted must reach the peers' devices before the queue pairs
//! go with the process.

use std::time::{Duration, Instant};

use crate::frame::control;
use crate::transport::VerbsTransport;

/// How long requests go to a peer whose connection broke while this process ends.
const RECONNECT_AT_END: Duration = Duration::from_secs(5);

impl VerbsTransport {
    /// Returns whether the peers' devices have everything. A peer whose connection has broken
    /// meanwhile may have ended as well. Therefore it is waited for only [`RECONNECT_AT_END`].
    pub(crate) fn flush_all(&mut self) -> bool {
        let since = *self.flushing_since.get_or_insert_with(Instant::now);
        let in_time = since.elapsed() < RECONNECT_AT_END;
        let mut is_flushed = true;
        for at in 0..self.endpoints.len() {
            // A signaled request shows that those before it are complete.
            if self.endpoints[at].is_ready() && self.endpoints[at].tx.unsignaled > 0 {
                self.send_control(at, control::CREDIT);
            }
            is_flushed &= self.is_flushed(at, in_time);
        }
        if is_flushed {
            // Another session may begin later, and end.
            self.flushing_since = None;
            // Peers may still wait for an acknowledgement that was lost: a Disconnect has it.
            for at in 0..self.endpoints.len() {
                if self.endpoints[at].is_ready() {
                    self.close(at);
                }
                // Twice: if it is lost, the peer waits for nothing until its limit.
                for _ in 0..2 {
                    self.acknowledge_soon(at);
                    self.send_acknowledgements();
                }
            }
        }
        is_flushed
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
