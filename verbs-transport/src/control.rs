//! Control messages: the prefix alone, with a code in place of a sequence number.

use crate::endpoint::send_queue::Signal;
use crate::frame::{PREFIX, control};
use crate::ibv::Destination;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Sends a control message. Returns false if it must be tried again.
    pub(crate) fn send_control(&mut self, at: usize, code: u32) -> bool {
        let Self { endpoints, send, config, .. } = self;
        let endpoint = &mut endpoints[at];
        if !endpoint.is_ready() {
            // The next handshake reports it to the peer.
            return true;
        }
        if endpoint.tx.used >= config.send_depth {
            return false;
        }
        let Ok(Some(slot)) = send.control.take() else { return false };
        let bytes = send.control.bytes_mut(slot, PREFIX);
        bytes[..4].copy_from_slice(&code.to_le_bytes());
        bytes[4..].copy_from_slice(&endpoint.flow.rx_seq.to_le_bytes());
        endpoint.flow.advertised = endpoint.flow.rx_seq;
        let signal = Signal { slot: Some(slot), ..Signal::NONE };
        let memory = send.control.sge(slot, PREFIX);
        if endpoint.tx.submit(memory, Destination::RECEIVE, signal).is_err() {
            send.control.put(slot);
            self.break_connection(at, "the device refused a send");
        }
        true
    }

    /// Sends the acknowledgements and stops that are due.
    #[cold]
    pub(crate) fn return_credits(&mut self) {
        for at in std::mem::take(&mut self.credit.due) {
            let index = at as usize;
            let stop_due = std::mem::take(&mut self.endpoints[index].eager_rdma.stop_due);
            if stop_due && !self.send_control(index, control::STOPPED) {
                self.endpoints[index].eager_rdma.stop_due = true;
                self.credit.due.push(at);
                continue;
            }
            let flow = &mut self.endpoints[index].flow;
            let is_due = flow.credit_due || flow.must_advertise();
            flow.credit_due = false;
            if is_due && !self.send_control(index, control::CREDIT) {
                self.endpoints[index].flow.credit_due = true;
                self.credit.due.push(at);
            }
        }
    }
}
