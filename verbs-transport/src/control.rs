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
        let flow = &endpoint.flow;
        let (operand, len) = match code {
            control::STOPPED | control::LOWERED => (flow.tx_seq, PREFIX + OPERAND),
            control::WINDOW if flow.is_lowering => (flow.low_window(), PREFIX + OPERAND),
            control::WINDOW => (flow.share, PREFIX + OPERAND),
            _ => (0, PREFIX),
        };
        let words = [code, flow.rx_seq, operand].map(u32::to_le_bytes);
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

    /// Sends the control messages that are due.
    #[cold]
    pub(crate) fn return_credits(&mut self) {
        for at in std::mem::take(&mut self.credit.due) {
            let index = at as usize;
            // Each acknowledges; therefore the acknowledgement is the last.
            for code in [control::STOPPED, control::LOWERED, control::WINDOW, control::CREDIT] {
                let flow = &mut self.endpoints[index].flow;
                let is_late = code == control::CREDIT && flow.must_advertise();
                if (flow.due.take(code) || is_late) && !self.send_control(index, code) {
                    self.credit.owe(&mut self.endpoints, index, code);
                    break;
                }
            }
        }
    }
}
