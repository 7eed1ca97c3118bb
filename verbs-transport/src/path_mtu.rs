//! Paths that carry shorter packets than both ports: a switch between them has a smaller MTU. Short
//! packets arrive and long ones never do.
//!
//! The path to a peer is *whole* until long packets are lost again and again, then *short*, for
//! good: its packets have at most [`SAFE_MTU`]. There are two signs. A datagram is repeated in vain
//! while the peer answers short ones, which are sent for that purpose after it. Or connections
//! break in a row with the same message or operation under way. A peer that computes answers
//! nothing, and shows neither.

use crate::datagram::link::SAFE_MTU;
use crate::datagram::packet::{HEADER, flags};
use crate::device::mtu_bytes;
use crate::transport::VerbsTransport;

/// Times that a long datagram is lost, with an answer to a short one each time but the first.
const LOST_DATAGRAMS: u8 = 4;
/// Breaks with the same message or operation under way.
const STUCK_BREAKS: u8 = 3;

impl VerbsTransport {
    /// Handles a timeout of the datagrams to endpoint `at`.
    pub(crate) fn on_datagram_lost(&mut self, at: usize) {
        let Some(link) = &mut self.endpoints[at].link else { return };
        let Some((id, len)) = link.tx.oldest() else { return };
        let lost = link.oldest.timed_out(id);
        if HEADER + usize::from(len) <= usize::from(mtu_bytes(SAFE_MTU)) {
            return;
        }
        if lost < LOST_DATAGRAMS {
            // After the long one, which `pump` repeats.
            self.pump(at);
            return self.send_packet(at, None, flags::ACK_NOW);
        }
        link.oldest.is_untold = true;
        self.shorten_path(at);
    }

    /// Handles the arrival of datagrams at the peer of endpoint `at`.
    pub(crate) fn on_datagrams_arrived(&mut self, at: usize) {
        let link = self.endpoints[at].link.as_mut();
        if link.is_some_and(|link| std::mem::take(&mut link.oldest.is_untold)) {
            self.tell_short_path(at, "long datagrams were lost, and short ones arrive");
        }
    }

    /// Handles a break of a connection that worked.
    pub(crate) fn on_stuck(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        if endpoint.flow.unacked.is_empty() && !endpoint.rma.needs_connection() {
            return;
        }
        let done = (endpoint.flow.acked, endpoint.rma.confirmed);
        let count = endpoint.conn.last_break.again(done);
        if count == STUCK_BREAKS && endpoint.conn.mtu > SAFE_MTU {
            self.shorten_path(at);
            self.tell_short_path(at, "connections broke in a row with the same data under way");
        }
    }

    fn shorten_path(&mut self, at: usize) {
        self.endpoints[at].conn.path_mtu = SAFE_MTU;
        self.limit_packets(at);
    }

    /// Reports the first short path of this process.
    #[cold]
    fn tell_short_path(&mut self, at: usize, why: &str) {
        if std::mem::replace(&mut self.datagrams.has_told_short_path, true) {
            return;
        }
        let endpoint = &self.endpoints[at];
        let Some(addr) = endpoint.conn.addr else { return };
        eprintln!(
            "verbena: rank {} sends RDMA packets of at most {} bytes to rank {} ({}) from now on, \
             on {}: {why}. A switch between the two ports may have a smaller MTU than both: give \
             all of them the same one",
            self.endpoints.me().0,
            mtu_bytes(SAFE_MTU),
            endpoint.peer.0,
            addr.port,
            self.adapter.describe(),
        );
    }
}
