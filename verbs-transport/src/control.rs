//! Control messages: the prefix with a code in place of a sequence number, and an operand for one.

use crate::endpoint::send_queue::Signal;
use crate::frame::{OPERAND, PREFIX, control};
use crate::ibv::Destination;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Sends a control message. Returns false if it must be tried again.
    pub(crate) fn send_control(&mut self, at: usize, code: u32) -> bool {
        let Self { endpoints, send, config, .. } = self;
        let endpoint = &mut endpoints[at];
        if !endpoint.is_ready() {
            self.acknowledge_soon(at);
            return true;
        }
        if endpoint.tx.used >= config.send_depth {
            return false;
        }
        let Ok(Some(slot)) = send.control.take() else { return false };
        let len = if code == control::STOPPED { PREFIX + OPERAND } else { PREFIX };
        let words = [code, endpoint.flow.rx_seq, endpoint.flow.tx_seq].map(u32::to_le_bytes);
        send.control.bytes_mut(slot, len).copy_from_slice(&words.as_flattened()[..len]);
        endpoint.flow.advertised = endpoint.flow.rx_seq;
        let signal = Signal { slot: Some(slot), ..Signal::NONE };
        let memory = send.control.sge(slot, len);
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
