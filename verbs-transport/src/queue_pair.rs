//! The queue pair of an endpoint: created, connected (RTR), and made to send (RTS).
//!
//! A new one needs space among the connections that there may be, and memory and a number, which
//! the system or the device may refuse. If there is none, there is no connection; the one used
//! least recently is closed only for operations that nothing else can carry.

use std::io;
use std::time::{Duration, Instant};

use crate::buffers::SendBuffers;
use crate::endpoint::Endpoint;
use crate::endpoint::send_queue::{CONTROL_SENDS, MAX_RMA_OPS, Signal};
use crate::ibv::layout::{access, qp_mask as mask, qp_state as state};
use crate::ibv::{Destination, Qp, QpAttr};
use crate::limits::{RNR_RETRIES, RNR_TIMER, queue_pairs, reads};
use crate::transport::VerbsTransport;
use crate::ud::random_psn;
use crate::wireup_msg::WireupMsg;

/// Age, in use, below which a connection is not closed for another one. It is four times as much
/// while the connection is not ready.
const MIN_CONNECTION_AGE: Duration = Duration::from_millis(10);
/// Most bytes that a frame may have to travel in its request.
const INLINE_MAX: u32 = 220;

impl VerbsTransport {
    /// Gives endpoint `at` a new queue pair in place of the old one, if there is one. Fails with
    /// `WouldBlock` if there is no space for one.
    pub(crate) fn create_qp(&mut self, at: usize, is_urgent: bool) -> io::Result<()> {
        self.drain(at);
        self.make_space_for_qp(at, is_urgent)?;
        let qp = match self.make_qp(at) {
            Ok(qp) => qp,
            Err(error) => return Err(self.refused(at, is_urgent, error)),
        };
        let endpoint = &mut self.endpoints[at];
        endpoint.conn.created(qp.number(), random_psn(), self.adapter.port.mtu());
        endpoint.used_at = self.polls;
        self.endpoints.attach(at, qp);
        Ok(())
    }

    /// Connects the queue pair to the sender of a message: it can receive.
    pub(crate) fn move_to_rtr(&mut self, at: usize, message: &WireupMsg) -> io::Result<()> {
        let (port, config) = (&self.adapter.port, &self.config);
        let endpoint = &mut self.endpoints[at];
        let Some(qp) = endpoint.tx.queue_pair() else { return Err(not_connected()) };
        let device = &port.device_attr;
        let attr = QpAttr {
            qp_state: state::RTR,
            path_mtu: endpoint.conn.mtu.min(message.mtu).into(),
            dest_qp_num: message.qpn,
            rq_psn: message.psn,
            max_dest_rd_atomic: reads(device.max_qp_rd_atom),
            min_rnr_timer: RNR_TIMER,
            ah_attr: port.address_vector(&message.port, &config.settings),
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        qp.modify(attr, what | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)?;
        endpoint.tx.takes_receives = true;
        let max_reads = reads(device.max_qp_init_rd_atom).min(message.max_reads);
        endpoint.rma.max_reads = usize::from(max_reads).clamp(1, MAX_RMA_OPS);
        endpoint.flow.grant(message.window.min(config.send_depth - CONTROL_SENDS));
        endpoint.eager_rdma.peer_control = message.ring_control;
        self.on_ack(at, message.rx_seq).map_err(|why| io::Error::other(why.to_owned()))
    }

    /// Makes the queue pair send. Everything that is not acknowledged goes again, and so do RMA
    /// operations.
    pub(crate) fn move_to_rts(&mut self, at: usize) -> io::Result<()> {
        let Self { endpoints, send, config, .. } = self;
        let endpoint = &mut endpoints[at];
        let Some(qp) = endpoint.tx.queue_pair() else { return Err(not_connected()) };
        let attr = QpAttr {
            qp_state: state::RTS,
            timeout: config.settings.ack_timeout,
            retry_cnt: config.settings.retries,
            rnr_retry: RNR_RETRIES,
            sq_psn: endpoint.conn.psn,
            max_rd_atomic: endpoint.rma.max_reads as u8,
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN;
        qp.modify(attr, what | mask::MAX_QP_RD_ATOMIC)?;
        endpoint.tx.qp = endpoint.tx.connecting.take();
        endpoint.conn.connected();
        endpoint.flow.connected();
        if let Some(link) = &mut endpoint.link {
            link.tx.stop();
        }
        replay(endpoint, send)?;
        self.progress_rma(at);
        Ok(())
    }

    /// Returns whether there may be one more connection now.
    pub(crate) fn has_space_for_connection(&self) -> bool {
        self.endpoints.connected() < self.config.max_connections
            && self.recv.unreserved() >= self.config.receives_each()
    }

    /// Makes space for one more connection, of endpoint `at`. If there is none, other ones end only
    /// if it `is_urgent`.
    fn make_space_for_qp(&mut self, at: usize, is_urgent: bool) -> io::Result<()> {
        let queue_pairs = queue_pairs(self.config.max_connections);
        if self.endpoints.connected() + self.endpoints.draining() >= queue_pairs {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        while !self.has_space_for_connection() {
            let victim = self.eviction_candidate(at).filter(|_| is_urgent);
            self.close(victim.ok_or(io::ErrorKind::WouldBlock)?);
        }
        Ok(())
    }

    /// Makes the queue pair of endpoint `at`, and reserves its receives. What is reserved when it
    /// fails is the endpoint's.
    fn make_qp(&mut self, at: usize) -> io::Result<Qp> {
        let each = self.config.receives_each();
        if !self.reserve_receives(each)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.endpoints[at].flow.receives = each;
        let control = self.rings.take_control().inspect_err(|error| self.warn_refused(error))?;
        self.endpoints[at].eager_rdma.control = control;
        let Self { adapter, completions, recv, config, registrations, .. } = self;
        let make = || {
            let (cq, srq) = (&completions.cq, Some(recv.srq()));
            Qp::new(&adapter.pd, cq, srq, config.send_depth, 0, INLINE_MAX)
        };
        let mut made = make();
        if made.is_err() && registrations.evict_idle() {
            made = make();
        }
        let qp = made?;
        let rights = access::REMOTE_READ | access::REMOTE_WRITE | adapter.atomic_access();
        let init = QpAttr {
            qp_state: state::INIT,
            pkey_index: adapter.port.pkey_index,
            port_num: adapter.port.number,
            qp_access_flags: rights as u32,
            ..QpAttr::default()
        };
        qp.modify(init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
        Ok(qp)
    }

    /// Returns the error of endpoint `at`, whose queue pair the system or the device refuses. Where
    /// there are others, that is a lack of space, and no fault of the connection. One of the others
    /// is closed if it `is_urgent`; what it has is free when it has drained.
    #[cold]
    fn refused(&mut self, at: usize, is_urgent: bool, error: io::Error) -> io::Error {
        let draining = self.endpoints.draining();
        if self.endpoints.connected() + draining == 0 {
            return error;
        }
        if error.kind() != io::ErrorKind::WouldBlock {
            self.warn_refused_queue_pair(error);
        }
        if is_urgent && draining == 0 {
            let victim = self.eviction_candidate(at);
            victim.into_iter().for_each(|victim| self.close(victim));
        }
        io::ErrorKind::WouldBlock.into()
    }

    /// Returns the connection to close for one of endpoint `at`: of those that are old enough,
    /// one without operations under way, and the one used least recently.
    fn eviction_candidate(&self, at: usize) -> Option<usize> {
        let now = Instant::now();
        let is_old_enough = |endpoint: &Endpoint| {
            let min_age = MIN_CONNECTION_AGE * if endpoint.is_ready() { 1 } else { 4 };
            now - endpoint.conn.created_at > min_age
        };
        let cost = |endpoint: &Endpoint| {
            let (rma, flow) = (&endpoint.rma, &endpoint.flow);
            (!rma.ops.is_empty(), !flow.unacked.is_empty(), endpoint.used_at)
        };
        let connected = self.endpoints.with_queue_pairs().map(|other| other as usize);
        connected
            .filter(|&other| other != at && self.endpoints[other].tx.queue_pair().is_some())
            .filter(|&other| is_old_enough(&self.endpoints[other]))
            .min_by_key(|&other| cost(&self.endpoints[other]))
    }
}

/// Sends again what the peer has not acknowledged. The peer may have it already, and acknowledge it
/// before the device has read it for the last time: the slots are kept until then.
fn replay(endpoint: &mut Endpoint, send: &mut SendBuffers) -> io::Result<()> {
    let count = endpoint.flow.unacked.len();
    endpoint.flow.is_replaying = count > 0;
    for index in 0..count {
        let message = endpoint.flow.unacked[index];
        send.set_ack(message.slot, endpoint.flow.rx_seq);
        let signal = Signal { ends_replay: index + 1 == count, ..Signal::NONE };
        endpoint
            .tx
            .submit(send.sge(&message), Destination::RECEIVE, signal)
            .map_err(|_| io::Error::other("the device refused a send"))?;
    }
    Ok(())
}

fn not_connected() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOTCONN)
}
