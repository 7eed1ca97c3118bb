//! Carries the RMA operations of endpoints without a connection over dynamically connected
//! transport.
//!
//! An initiator that fails says nothing about its endpoint's frames. The operations continue on a
//! connection, whose recovery decides what becomes of the peer, and the peer's target is not used
//! for a while. Its number is looked up in the store, which alone has it.

use std::time::{Duration, Instant};

use crate::dynamic::{Dynamic, max_reads};
use crate::endpoint::connection::PeerTarget;
use crate::endpoint::rma::Path;
use crate::ibv::Wc;
use crate::ibv::layout::wc_status;
use crate::transport::VerbsTransport;

/// Time for which a target is not used after a failure.
const SUSPENSION: Duration = Duration::from_secs(1);

impl VerbsTransport {
    /// Returns whether operations on the memory of endpoint `at` can go to its target; `None` while
    /// that is looked up.
    pub(crate) fn reaches_target(&mut self, at: usize) -> Option<bool> {
        let conn = &mut self.endpoints[at].conn;
        // Initiators have one length of packets for all peers.
        if self.dynamic.is_none() || conn.path_mtu < self.adapter.port.mtu() {
            return Some(false);
        }
        match conn.target {
            PeerTarget::Known(target) => return Some(target.is_some()),
            PeerTarget::Suspended(until) if Instant::now() < until => return Some(false),
            PeerTarget::Suspended(_) | PeerTarget::Unknown => {}
        }
        conn.target = PeerTarget::Unknown;
        self.look_up_target(at);
        match self.endpoints[at].conn.target {
            PeerTarget::Known(target) => Some(target.is_some()),
            PeerTarget::Suspended(_) => Some(false),
            PeerTarget::Unknown => None,
        }
    }

    /// Returns the initiator that is queue pair `qpn`.
    #[cold]
    pub(crate) fn initiator(&self, qpn: u32) -> Option<u8> {
        self.dynamic.as_ref().and_then(|dynamic| dynamic.find(qpn))
    }

    /// Begins to carry out an operation of endpoint `at`, the last one that was queued.
    pub(crate) fn start_dynamic(&mut self, at: usize) {
        match self.endpoints[at].rma.path {
            Path::Initiator(_) => self.progress_dynamic(at),
            Path::Line if self.endpoints[at].rma.ops.len() == 1 => self.take_initiator(at),
            Path::Line | Path::Connection => return,
        }
        self.serve_line();
    }

    /// Gives endpoint `at` an initiator and posts what there is space for, or lets it wait.
    fn take_initiator(&mut self, at: usize) {
        let Self { endpoints, dynamic, adapter, completions, config, .. } = self;
        let Some(dynamic) = dynamic else { return };
        match dynamic.take(at, adapter, &completions.cq, config) {
            Ok(Some(number)) => {
                endpoints[at].rma.path = Path::Initiator(number);
                self.progress_dynamic(at);
            }
            Ok(None) => endpoints[at].rma.path = Path::Line,
            Err(_) => {
                endpoints[at].rma.disconnect();
                self.use_connection(at);
            }
        }
    }

    /// Gives initiators that are free to the endpoints in the line.
    pub(crate) fn serve_line(&mut self) {
        while let Some(at) = self.dynamic.as_mut().and_then(Dynamic::next_in_line) {
            self.take_initiator(at);
        }
    }

    /// Posts as many pieces of an endpoint's operations to its target as there is space for.
    pub(crate) fn progress_dynamic(&mut self, at: usize) {
        let Self { endpoints, dynamic, adapter, config, .. } = self;
        let ranks = [endpoints.me(), endpoints[at].peer];
        let endpoint = &mut endpoints[at];
        let (Some(dynamic), Path::Initiator(number)) = (dynamic, endpoint.rma.path) else { return };
        let (max_reads, mut index) = (max_reads(adapter), 0);
        loop {
            let may_begin = dynamic.may_begin(number);
            let Some(piece) = endpoint.rma.next_piece(&mut index, max_reads, may_begin) else {
                return;
            };
            let (target, settings) = (endpoint.conn.target, &config.settings);
            let ah = endpoint.conn.address_handle(adapter, settings, ranks);
            let (PeerTarget::Known(Some(target)), Some(ah)) = (target, ah) else { break };
            if dynamic.post(number, &piece, ah, target).is_err() {
                break;
            }
        }
        self.leave_target(at);
    }

    /// Handles the completion of a request of an initiator, if it is one.
    pub(crate) fn dynamic_done(&mut self, completion: &Wc) {
        let Some(number) = self.dynamic.as_ref().and_then(|dynamic| dynamic.of(completion)) else {
            return;
        };
        match completion.status {
            wc_status::SUCCESS => self.dynamic_piece_done(number),
            _ => self.initiator_failed(number),
        }
    }

    fn dynamic_piece_done(&mut self, number: u8) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let (Some(at), Some(len)) = (dynamic.served_by(number), dynamic.complete(number)) else {
            return;
        };
        let endpoint = &mut self.endpoints[at];
        endpoint.used_at = self.polls;
        if endpoint.rma.complete(len).is_some_and(|done| done.is_last) {
            let token = endpoint.rma.finish_first(&mut self.bounce);
            self.reports.transfers.extend(token.map(|token| (token, Ok(()))));
            dynamic.ended += 1;
        }
        self.progress_dynamic(at);
        let (rma, dynamic) = (&mut self.endpoints[at].rma, self.dynamic.as_mut());
        if rma.path == Path::Initiator(number)
            && !rma.is_under_way()
            && let Some(dynamic) = dynamic
        {
            dynamic.put(number, false);
            // There is nothing left, or it is another endpoint's turn.
            rma.path = match rma.ops.is_empty() {
                true => Path::Connection,
                false => dynamic.join_line(at),
            };
        }
        self.serve_line();
    }

    /// Handles a failure of an initiator.
    #[cold]
    pub(crate) fn initiator_failed(&mut self, number: u8) {
        let at = self.dynamic.as_ref().and_then(|dynamic| dynamic.served_by(number));
        if let Some(at) = at {
            self.leave_target(at);
            self.serve_line();
        }
    }

    /// Gives a target up for a while. What is under way continues on a connection.
    #[cold]
    fn leave_target(&mut self, at: usize) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.failures += 1;
        }
        self.endpoints[at].conn.target = PeerTarget::Suspended(Instant::now() + SUSPENSION);
        self.fail_unclear_atomics(at);
        self.put_initiator(at, true);
        self.use_connection(at);
    }

    /// Lets the operations of endpoint `at` continue on a connection.
    fn use_connection(&mut self, at: usize) {
        if self.endpoints[at].is_ready() {
            self.progress_rma(at);
        } else if self.endpoints[at].needs_connection() {
            let conn = &mut self.endpoints[at].conn;
            conn.retry_at = Instant::now();
            self.wireup.add_pending(at, conn);
        }
    }

    /// Takes the initiator from endpoint `at`, or its place in the line. Operations are to be
    /// posted on a connection.
    pub(crate) fn put_initiator(&mut self, at: usize, has_failed: bool) {
        let Self { endpoints, dynamic, .. } = self;
        let (Some(dynamic), rma) = (dynamic, &mut endpoints[at].rma) else { return };
        match rma.path {
            Path::Connection => return,
            Path::Line => dynamic.leave_line(at),
            Path::Initiator(number) => dynamic.put(number, has_failed),
        }
        rma.disconnect();
    }

    /// Replaces target and initiators, which name the port's old address.
    #[cold]
    pub(crate) fn renew_dynamic(&mut self) {
        if self.dynamic.is_none() {
            return;
        }
        for at in 0..self.endpoints.len() {
            if self.endpoints[at].rma.path != Path::Connection {
                self.leave_target(at);
            }
        }
        let (adapter, cq) = (&self.adapter, &self.completions.cq);
        self.dynamic = Dynamic::new(adapter, cq, &self.config, &self.wireup.secret).ok();
    }
}
