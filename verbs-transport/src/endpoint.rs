//! The state of a peer that this process has communicated with.
//!
//! An endpoint outlives its connections. It is *idle* (no queue pair), *connecting*, *ready*, or
//! *failed* for good. Each part has a file: the send queue, flow control, RMA operations, the
//! eager-RDMA channel, and the wire-up state of the connection. Nothing here knows the transport;
//! `post`, `poll`, `connect` and `recovery` drive it.

pub(crate) mod address_handle;
pub(crate) mod connection;
pub(crate) mod flow;
pub(crate) mod rma;
pub(crate) mod send_queue;

use std::time::Instant;

use fabric::{Header, Peer, PeerFailed, Sink};

use crate::datagram::link::{AckState, Link};
use crate::eager_rdma::channel::Channel;
use crate::frame::control;
use crate::ibv::Qp;
use connection::Connection;
use flow::FlowControl;
use rma::{Path, RmaQueue};
use send_queue::{CONTROL_SENDS, SIGNAL_EVERY, SendQueue};

/// A peer that this process has communicated with.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) peer: Peer,
    // Before the parts whose memory its queue pair uses.
    pub(crate) tx: SendQueue,
    pub(crate) flow: FlowControl,
    pub(crate) rma: RmaQueue,
    pub(crate) eager_rdma: Channel,
    pub(crate) conn: Connection,
    /// The datagram path, from first use on.
    pub(crate) link: Option<Box<Link>>,
    /// Frames of both directions when connections were compared last.
    pub(crate) frames_before: u32,
    /// The poll in which it was last used.
    pub(crate) used_at: u64,
    /// Why the peer counts as failed.
    pub(crate) failed: Option<String>,
}

impl Endpoint {
    pub(crate) fn new(peer: Peer, now: Instant) -> Endpoint {
        Endpoint {
            peer,
            tx: SendQueue::default(),
            flow: FlowControl::default(),
            rma: RmaQueue::new(),
            eager_rdma: Channel::default(),
            conn: Connection::new(now),
            link: None,
            frames_before: 0,
            used_at: 0,
            failed: None,
        }
    }

    /// Returns whether requests may be posted.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.conn.is_ready()
    }

    /// Returns whether there is space for one more frame in the window and in a send queue of
    /// `depth` requests.
    #[inline]
    pub(crate) fn has_space(&self, depth: u32) -> bool {
        self.flow.has_credit() && self.tx.used + CONTROL_SENDS - SIGNAL_EVERY <= depth
    }

    /// Handles the peer's acknowledgement; `free` gets the slots of acknowledged messages. An error
    /// describes the fault.
    #[inline]
    pub(crate) fn on_ack(&mut self, seq: u32, free: impl FnMut(u32)) -> Result<(), &'static str> {
        if self.flow.on_ack(seq, free)? {
            self.made_progress();
        }
        Ok(())
    }

    /// Records that new frames have got through, in either direction: breaks before that do not
    /// count. Frames that arrive again are no progress.
    #[inline]
    fn made_progress(&mut self) {
        if self.is_ready() { self.conn.works() } else { self.conn.is_alive() }
    }

    /// Delivers the next frame, header and body. Returns false if the header is malformed.
    #[inline]
    pub(crate) fn deliver(&mut self, frame: &[u8], sink: &mut impl Sink) -> bool {
        let Ok((header, body)) = Header::decode(frame) else { return false };
        sink.frame(self.peer, &header, body);
        self.flow.rx_seq = self.flow.rx_seq.wrapping_add(1);
        self.made_progress();
        true
    }

    /// Returns whether something must go to the peer.
    pub(crate) fn needs_address(&self) -> bool {
        self.flow.no_credit
            || self.flow.due.has(control::CREDIT)
            || !self.flow.unacked.is_empty()
            || !self.rma.ops.is_empty()
            || self.link.as_ref().is_some_and(|link| link.ack != AckState::None)
    }

    /// Returns whether something must go to the peer that only a connection can carry.
    pub(crate) fn is_urgent(&self) -> bool {
        let lacks_datagrams = self.conn.addr.is_some_and(|addr| !addr.takes_datagrams);
        self.rma.needs_connection() || (lacks_datagrams && self.needs_address())
    }

    /// Returns whether something must go to the peer on a connection.
    pub(crate) fn needs_connection(&self) -> bool {
        self.is_urgent() || (self.conn.is_wanted && self.needs_address())
    }

    /// Returns whether the endpoint waits for an address or a connection.
    pub(crate) fn needs_attention(&self) -> bool {
        self.needs_connection() || (self.conn.addr.is_none() && self.needs_address())
    }

    /// Returns whether the endpoint is being connected, or waits for that.
    pub(crate) fn awaits_connection(&self) -> bool {
        self.conn.is_connecting() || (self.conn.is_idle() && self.needs_attention())
    }

    /// Returns the frames of both directions.
    pub(crate) fn frames(&self) -> u32 {
        self.flow.tx_seq.wrapping_add(self.flow.rx_seq)
    }

    /// Returns the error for operations on a failed peer.
    pub(crate) fn check(&self) -> Result<(), PeerFailed> {
        match &self.failed {
            Some(why) => Err(PeerFailed { peer: self.peer, why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Ends the connection and returns its queue pair; `free` gets the slots of control messages
    /// under way. Unfinished requests start over on the next connection.
    pub(crate) fn disconnect(&mut self, free: impl FnMut(u32)) -> Option<Qp> {
        if self.tx.qp.is_some() {
            self.flow.disconnect();
        }
        if self.rma.path == Path::Connection {
            self.rma.disconnect();
        }
        self.tx.disconnect(free)
    }
}

#[cfg(test)]
mod tests {
    use super::connection::MAX_BREAKS;
    use super::*;
    use crate::handshake::Phase;

    #[test]
    fn an_idle_endpoint_is_small() {
        let (endpoint, link) = (size_of::<Endpoint>(), size_of::<Link>());
        println!("{endpoint} bytes for an endpoint, {link} for its link");
        assert!(endpoint <= 768 && link <= 256, "{endpoint} bytes, {link} bytes");
    }

    /// A side that only receives.
    #[test]
    fn breaks_with_frames_delivered_in_between_are_not_in_a_row() {
        struct Ignore;
        impl Sink for Ignore {
            fn frame(&mut self, _: Peer, _: &Header, _: &(impl fabric::Body + ?Sized)) {}
            fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
            fn peer_failed(&mut self, _: PeerFailed) {}
        }
        let mut endpoint = Endpoint::new(Peer(1), Instant::now());
        let frame = Header::new(fabric::Kind::Data).encode();
        for phase in [Phase::Idle, Phase::Ready] {
            for _ in 0..3 * MAX_BREAKS {
                assert!(endpoint.conn.broke(true), "the peer counts as failed");
                endpoint.conn.handshake.phase = phase;
                assert!(endpoint.deliver(&frame, &mut Ignore));
                assert_eq!(endpoint.conn.broke_at, None);
            }
        }
        let broken = (0..=MAX_BREAKS).map(|_| endpoint.conn.broke(true));
        assert_eq!(broken.filter(|may_retry| !may_retry).count(), 1);
    }

    /// Whether it carries anything or not.
    #[test]
    fn a_connection_that_is_back_is_not_overdue() {
        let mut endpoint = Endpoint::new(Peer(1), Instant::now());
        endpoint.conn.broke(true);
        assert!(endpoint.conn.broke_at.is_some());
        endpoint.conn.connected();
        assert_eq!((endpoint.conn.broke_at, endpoint.conn.breaks), (None, 1));
    }

    #[test]
    fn space_ends_with_the_window_and_with_the_send_queue() {
        let mut endpoint = Endpoint::new(Peer(1), Instant::now());
        let depth = 8 + CONTROL_SENDS;
        endpoint.flow.tx_seq = 3;
        assert!(!endpoint.has_space(depth));
        endpoint.flow.window = 4;
        assert!(endpoint.has_space(depth));
        endpoint.tx.used = depth;
        assert!(!endpoint.has_space(depth));
        endpoint.tx.used = 0;
        endpoint.flow.window = 3;
        assert!(!endpoint.has_space(depth));
    }
}
