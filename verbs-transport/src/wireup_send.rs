//! Sends wire-up messages. Nothing here waits or decides.

use crate::dynamic::Dynamic;
use crate::endpoint::Endpoint;
use crate::ibv::Qp;
use crate::limits::reads;
use crate::memory::Exposed;
use crate::transport::VerbsTransport;
use crate::wireup_msg::{Kind, WireupMsg};

impl VerbsTransport {
    /// Publishes anew how this process is reached, and whether it has ended.
    #[cold]
    pub(crate) fn publish(&mut self) -> Result<(), String> {
        let (me, port) = (self.endpoints.me(), self.adapter.port.address);
        let target = self.dynamic.as_ref().map(Dynamic::target);
        self.wireup.publish(me, port, target)
    }

    /// Sends a wire-up message to the peer of endpoint `at`. A datagram that cannot be sent counts
    /// as lost on the way.
    pub(crate) fn send_msg(&mut self, at: usize, kind: Kind) {
        let Some(addr) = self.endpoints[at].conn.addr else { return };
        let message = self.message(&self.endpoints[at], kind);
        let Self { endpoints, wireup, adapter, config, .. } = self;
        let ranks = [endpoints.me(), endpoints[at].peer];
        if let Some(ah) = endpoints[at].conn.address_handle(adapter, &config.settings, ranks) {
            let message = message.encode(&wireup.secret);
            let _ = wireup.ud.send(ah, addr.ud_qpn, message.len(), |bytes| {
                bytes.copy_from_slice(&message);
            });
        }
    }

    /// Returns the message that describes this end of an endpoint.
    fn message(&self, endpoint: &Endpoint, kind: Kind) -> WireupMsg {
        let port = &self.adapter.port;
        WireupMsg {
            kind,
            is_urgent: endpoint.is_urgent(),
            takes_datagrams: true,
            from: self.endpoints.me().0,
            to: endpoint.peer.0,
            epoch: endpoint.conn.handshake.epoch,
            qpn: endpoint.tx.queue_pair().map_or(0, Qp::number),
            psn: endpoint.conn.psn,
            peer_qpn: endpoint.conn.handshake.peer_qpn,
            rx_seq: endpoint.flow.rx_seq,
            window: self.config.settings.credits,
            frame: self.config.caps.frame as u32,
            ring_control: endpoint.eager_rdma.control.as_ref().map_or((0, 0), Exposed::target),
            port: port.address,
            mtu: endpoint.conn.mtu,
            max_reads: reads(port.device_attr.max_qp_rd_atom),
        }
    }
}
