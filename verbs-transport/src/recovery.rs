//! How connections end: closed for another one, broken, given up, or all at once because the
//! device is gone.
//!
//! The messages of an endpoint whose connection is *closed* or *broken* go by datagrams. A broken
//! connection is made again if the peer's traffic is worth one, and for operations under way. A
//! *failed* endpoint is idle for good: everything that waits for it ends with the reason.

use std::time::Instant;

use fabric::{Peer, PeerFailed};

use crate::endpoint::connection::{MAX_BREAKS, RETRY_MIN};
use crate::endpoint::rma::Path;
use crate::ibv::QpAttr;
use crate::ibv::layout::{qp_mask as mask, qp_state as state};
use crate::transport::VerbsTransport;
use crate::wireup_msg::{Kind, WireupMsg};

/// Reason for the failure of an atomic operation whose connection has broken.
const UNCLEAR_ATOMIC: &str = "the connection broke while an atomic operation was under way: it is \
                              unknown whether it was carried out";

impl VerbsTransport {
    /// Closes a connection.
    pub(crate) fn close(&mut self, at: usize) {
        self.disconnect(at);
        self.leave(at);
    }

    /// Tells the peer of endpoint `at` that the connection is over, until the peer confirms it.
    fn disconnect(&mut self, at: usize) {
        self.send_msg(at, Kind::Disconnect);
        let conn = &mut self.endpoints[at].conn;
        conn.disconnect_until = Some(Instant::now() + self.config.settings.reconnect_timeout);
        conn.requested();
        self.wireup.add_pending(at, conn);
    }

    /// Ends a connection that the peer has left.
    pub(crate) fn leave(&mut self, at: usize) {
        self.drain(at);
        self.endpoints[at].conn.handshake.reset();
        self.resume(at);
    }

    /// Handles a Disconnect, or the answer to one.
    pub(crate) fn on_disconnect(&mut self, at: usize, message: &WireupMsg) {
        if let Err(why) = self.on_ack(at, message.rx_seq) {
            return self.fail(at, why.into());
        }
        let conn = &mut self.endpoints[at].conn;
        if conn.is_on(message.epoch) {
            // The peer knows whether another one is worth it.
            conn.is_wanted = false;
            self.leave(at);
        }
        let conn = &mut self.endpoints[at].conn;
        if conn.is_idle() {
            conn.handshake.saw_end(message.epoch);
            conn.peer_is_idle(message.epoch);
            if message.kind == Kind::Disconnect {
                self.send_msg(at, Kind::Closed);
            }
        }
    }

    /// Lets the messages of an endpoint without a connection go by datagrams. Operations wait for
    /// another connection.
    pub(crate) fn resume(&mut self, at: usize) {
        self.use_datagrams(at);
        if self.endpoints[at].needs_attention() {
            self.endpoints[at].conn.retry_at = Instant::now() + 8 * RETRY_MIN;
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
        }
    }

    /// Ends a connection that the peer has left for attempt `epoch`. Returns whether the next one
    /// can be made: what the peer wrote through the last one must be in memory before anything
    /// arrives through the next. Otherwise the peer repeats its message.
    pub(crate) fn is_last_connection_over(&mut self, at: usize, epoch: u32) -> bool {
        if self.endpoints[at].conn.handshake.is_left_for(epoch) {
            self.leave(at);
        }
        !self.endpoints.holds_writes(at)
    }

    /// Takes the queue pair of an endpoint out of service. Frames that have arrived on it still
    /// count.
    pub(crate) fn drain(&mut self, at: usize) {
        if self.endpoints[at].rma.path == Path::Connection {
            self.fail_unclear_atomics(at);
        }
        let Self { endpoints, send, recv, rings, coalescer, polls, adapter, .. } = self;
        let endpoint = &mut endpoints[at];
        recv.release(std::mem::take(&mut endpoint.flow.receives));
        // The open message is unacknowledged like others and is replayed.
        coalescer.disconnect(at);
        // `rdma_rxe` (Linux 6.1) takes receives one at a time and does not report the last.
        let has_receives = endpoint.tx.takes_receives && !adapter.port.is_emulated;
        let may_write = endpoint.tx.takes_receives || endpoint.tx.qp.is_some();
        let qp = endpoints.detach(at, |slot| send.control.put(slot));
        if let Some(qp) = &qp {
            let _ = qp.modify(QpAttr { qp_state: state::ERR, ..QpAttr::default() }, mask::STATE);
        }
        endpoints[at].flow.end_replay(|slot| send.put(slot));
        let control = rings.disconnect(at, &mut endpoints[at].eager_rdma);
        match qp {
            Some(qp) => {
                let has_receives = has_receives && !adapter.is_gone;
                endpoints.drain(at, qp, *polls, has_receives, control, may_write);
            }
            None => control.into_iter().for_each(|control| rings.put_control(control)),
        }
    }

    /// Fails the atomics of endpoint `at` that were posted: whether they were done is not known.
    pub(crate) fn fail_unclear_atomics(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        let failure = PeerFailed { peer: endpoint.peer, why: UNCLEAR_ATOMIC.into() };
        self.reports.fail_all(endpoint.rma.abort_atomics(&mut self.bounce), &failure);
    }

    /// Ends a connection that has failed. It is made again if anything must go through it.
    #[cold]
    pub(crate) fn break_connection(&mut self, at: usize, why: &str) {
        let had_worked = self.endpoints[at].is_ready();
        if self.endpoints[at].conn.handshake.can_receive() {
            // The device of a peer that has posted nothing does not notice.
            self.disconnect(at);
        }
        self.drain(at);
        self.endpoints[at].conn.handshake.reset();
        if self.endpoints[at].failed.is_some() {
            return;
        }
        if had_worked {
            self.on_stuck(at);
        }
        let endpoint = &mut self.endpoints[at];
        if !endpoint.conn.broke(had_worked) {
            return self.lose(
                at,
                format!(
                    "the connection broke {MAX_BREAKS} times in a row, the last time because {why}"
                ),
            );
        }
        if endpoint.needs_attention() {
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
        }
        self.use_datagrams(at);
        self.acknowledge_soon(at);
    }

    /// Gives a peer up that is not reached. A secondary port gives up what waits for it, and tries
    /// again with later transfers.
    #[cold]
    pub(crate) fn lose(&mut self, at: usize, why: String) {
        if !self.config.settings.is_secondary {
            return self.fail(at, why);
        }
        self.put_initiator(at, false);
        self.give_up_connecting(at);
        let Self { endpoints, reports, bounce, .. } = self;
        let endpoint = &mut endpoints[at];
        let conn = &mut endpoint.conn;
        (conn.broke_at, conn.breaks, conn.disconnect_until) = (None, 0, None);
        let failure = PeerFailed { peer: endpoint.peer, why };
        reports.fail_all(endpoint.rma.abort(bounce), &failure);
        self.serve_line();
        if !std::mem::replace(&mut self.has_lost, true) {
            let PeerFailed { peer, why } = failure;
            eprintln!(
                "verbena: rank {} goes on without one of its RDMA ports to rank {}, and tries it \
                 again later: {why}",
                self.endpoints.me().0,
                peer.0,
            );
        }
    }

    /// Gives a peer up, and tells it.
    #[cold]
    pub(crate) fn fail(&mut self, at: usize, why: String) {
        let had_failed = self.endpoints[at].failed.is_some();
        self.fail_silently(at, why);
        if !had_failed {
            self.begin_notice(at);
        }
    }

    /// Gives a peer up that knows it, or is given up for this transport alone.
    #[cold]
    pub(crate) fn fail_silently(&mut self, at: usize, why: String) {
        self.drain(at);
        self.put_initiator(at, false);
        let Self { endpoints, send, reports, datagrams, bounce, .. } = self;
        endpoints.abandon(at);
        let endpoint = &mut endpoints[at];
        endpoint.conn.handshake.reset();
        if endpoint.failed.is_some() {
            return;
        }
        let failure = PeerFailed { peer: endpoint.peer, why: why.clone() };
        endpoint.failed = Some(why);
        endpoint.flow.window = 0;
        if let Some(link) = endpoint.link.take() {
            datagrams.held -= link.rx.held();
        }
        endpoint.flow.unacked.drain(..).for_each(|message| send.put(message.slot));
        reports.fail_all(endpoint.rma.abort(bounce), &failure);
        reports.failures.push(failure);
        // Its ring is released when its queue pair is gone.
        endpoint.eager_rdma.overtaking.clear();
        self.serve_line();
    }

    /// Gives a peer up that sent what this library never sends: it must not be trusted with
    /// memory. Returns false: the message was not delivered.
    #[cold]
    pub(crate) fn protocol_error(&mut self, at: usize, what: &str) -> bool {
        self.fail(at, format!("{what}: one of the two processes has overwritten memory"));
        false
    }

    /// Fails all peers if the device is gone.
    #[cold]
    pub(crate) fn check_device(&mut self) {
        if self.adapter.is_removed() {
            self.give_up_device();
        }
    }

    /// Gives all peers up because the device is gone, also those without an endpoint: a wait for
    /// a first message would never end.
    #[cold]
    pub(crate) fn give_up_device(&mut self) {
        if std::mem::replace(&mut self.adapter.is_gone, true) {
            return;
        }
        let why = self.adapter.why_gone();
        for rank in 0..self.endpoints.job_size() {
            if let Ok(at) = self.endpoints.get_or_create(Peer(rank)) {
                self.fail(at, why.clone());
            }
        }
    }
}
