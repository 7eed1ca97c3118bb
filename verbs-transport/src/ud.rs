//! The UD queue pair of a process, over which wire-up datagrams go.
//!
//! Datagrams may be lost; senders repeat them. This file knows nothing of connections. Today it
//! carries wire-up messages only; a datagram path for frames would have queues of its own.

use std::io;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::completions::wr_id;
use crate::device::Port;
use crate::ibv::layout::{qp_mask as mask, qp_state as state, send_flags};
use crate::ibv::{Ah, Cq, Pd, Qp, QpAttr, Wc};
use crate::memory::Pool;
use crate::wireup_msg::WireupMsg;

/// Bytes in front of every received datagram: the global route header, or nothing of use.
const ROUTE_HEADER: usize = 40;
/// Posted receives, and most sends under way.
const RECVS: u32 = 64;
const SENDS: u32 = 32;

/// The UD queue pair of a process, with its slots.
#[derive(Debug)]
pub(crate) struct UdEndpoint {
    qp: Qp,
    slots: Pool,
    qkey: u32,
    /// Datagrams under way.
    sending: u32,
    /// Slots of receives that the device refused.
    refused: Vec<u32>,
}

impl UdEndpoint {
    /// Most completions that it has in the completion queue.
    pub(crate) const COMPLETIONS: u32 = RECVS + SENDS;

    /// Returns a queue pair that is ready to send and receive.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        cq: &Cq,
        port: &Port,
        secret: &[u8; 32],
    ) -> io::Result<UdEndpoint> {
        let qp = Qp::new(pd, cq, None, SENDS, RECVS, 0)?;
        // Keys with the highest bit are the kernel's. The key is no proof of the sender: the
        // datagrams have one.
        let key = blake3::derive_key("verbena verbs bell qkey", secret);
        let qkey = u32::from_le_bytes([key[0], key[1], key[2], key[3] & 0x7f]);
        let init = QpAttr {
            qp_state: state::INIT,
            pkey_index: port.pkey_index,
            port_num: port.number,
            qkey,
            ..QpAttr::default()
        };
        qp.modify(init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::QKEY)?;
        let to = |qp_state| QpAttr { qp_state, ..QpAttr::default() };
        qp.modify(to(state::RTR), mask::STATE)?;
        qp.modify(to(state::RTS), mask::STATE | mask::SQ_PSN)?;
        let slots = Pool::new(pd, ROUTE_HEADER + WireupMsg::SIZE, RECVS + SENDS);
        let mut ud = UdEndpoint { qp, slots, qkey, sending: 0, refused: Vec::new() };
        for _ in 0..RECVS {
            let slot = ud.slots.take()?;
            ud.post_recv(slot.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?)?;
        }
        Ok(ud)
    }

    /// Returns the number of the queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.qp.number()
    }

    fn post_recv(&self, slot: u32) -> io::Result<()> {
        let sge = self.slots.sge(slot, self.slots.slot_bytes());
        self.qp.post_receives(&[(wr_id::UD_RECV | u64::from(slot), sge)])
    }

    /// Sends a datagram to a UD queue pair. Drops it if the send queue is full.
    pub(crate) fn send(
        &mut self,
        ah: &Ah,
        qpn: u32,
        datagram: &[u8; WireupMsg::SIZE],
    ) -> io::Result<()> {
        if self.sending == SENDS {
            return Ok(());
        }
        let Some(slot) = self.slots.take()? else { return Ok(()) };
        self.slots.bytes_mut(slot, WireupMsg::SIZE).copy_from_slice(datagram);
        let sge = self.slots.sge(slot, WireupMsg::SIZE);
        let id = wr_id::UD_SEND | u64::from(slot);
        let posted = self.qp.post_datagram(id, send_flags::SIGNALED, sge, ah, qpn, self.qkey);
        match posted {
            Ok(()) => self.sending += 1,
            Err(_) => self.slots.put(slot),
        }
        posted
    }

    /// Handles the completion of a send.
    pub(crate) fn send_done(&mut self, completion: &Wc) {
        self.sending -= 1;
        self.slots.put(completion.wr_id as u32);
        if completion.status != 0 {
            // An error stops the queue. Lost datagrams are sent again.
            let _ =
                self.qp.modify(QpAttr { qp_state: state::RTS, ..QpAttr::default() }, mask::STATE);
        }
    }

    /// Handles the completion of a receive. Returns the message if it comes from this job.
    pub(crate) fn recv(&mut self, completion: &Wc, secret: &[u8; 32]) -> Option<WireupMsg> {
        let slot = completion.wr_id as u32;
        let len = completion.byte_len as usize;
        let is_whole =
            completion.status == 0 && (ROUTE_HEADER..=self.slots.slot_bytes()).contains(&len);
        let message = is_whole
            .then(|| WireupMsg::decode(&self.slots.bytes(slot, len)[ROUTE_HEADER..], secret))
            .flatten();
        self.refused.push(slot);
        while let Some(slot) = self.refused.pop() {
            // What the device refuses goes with the next receive.
            if self.post_recv(slot).is_err() {
                self.refused.push(slot);
                break;
            }
        }
        message
    }
}

/// Returns a random packet sequence number to begin with.
pub(crate) fn random_psn() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness any number will do.
    let _ = getrandom(&mut bytes[..], GetRandomFlags::empty());
    u32::from_le_bytes(bytes) & 0xff_ffff
}
