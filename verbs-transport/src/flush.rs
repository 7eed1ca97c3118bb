//! The end of a session: everything posted must reach the peers' devices before the queue pairs
//! go with the process.

use std::time::{Duration, Instant};

use crate::frame::control;
use crate::transport::{Flushing, VerbsTransport};

/// How long a peer is waited for that has ended, or whose connection broke, while this process
/// ends.
const RECONNECT_AT_END: Duration = Duration::from_secs(5);

impl VerbsTransport {
    /// Returns whether the peers' devices have everything, and the peers what goes by datagrams: a
    /// peer may compute for long before it takes them. One that has ended, or whose connection has
    /// broken meanwhile, is waited for only [`RECONNECT_AT_END`].
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
        if count > 0 && !std::mem::replace(&mut self.wireup.has_ended, true) {
            // Those acknowledgements may be lost as well.
            let _ = self.publish();
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
            false if has_unacked => {
                let conn = &endpoint.conn;
                let shows_ends = self.wireup.shows_ends();
                let may_have_ended = conn.broke_at.is_some() || conn.has_ended || !shows_ends;
                endpoint.failed.is_some() || (may_have_ended && !in_time)
            }
            false => self.wireup.ud.is_flushed() || endpoint.failed.is_some() || !in_time,
        }
    }
}
