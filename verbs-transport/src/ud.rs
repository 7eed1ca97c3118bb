//! The datagram queue pair of a process: where others ring to be connected.
//!
//! Datagrams get lost; whoever rings does so again. The bell knows nothing of
//! connections.

use std::io;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::device::Port;
use crate::ibv::layout::{qp_mask as mask, qp_state as state, send_flags};
use crate::ibv::{Ah, Cq, Pd, Qp, QpAttr, Wc};
use crate::memory::Pool;
use crate::wireup_msg::WireupMsg;

/// In front of every received datagram: the global route header or nothing of worth.
const ROUTE: usize = 40;
const RECEIVES: u32 = 64;
const SENDS: u32 = 32;

/// The bell of this process.
#[derive(Debug)]
pub(crate) struct UdEndpoint {
    qp: Qp,
    slots: Pool,
    qkey: u32,
    /// Datagrams under way.
    sending: u32,
    /// What a receive's number begins with, and a send's.
    marks: [u64; 2],
}

impl UdEndpoint {
    /// Completions that it can have in the queue at once.
    pub(crate) const COMPLETIONS: u32 = RECEIVES + SENDS;

    /// Ready to ring and be rung.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        cq: &Cq,
        port: &Port,
        secret: &[u8; 32],
        marks: [u64; 2],
    ) -> io::Result<UdEndpoint> {
        let qp = Qp::new(pd, cq, None, SENDS, RECEIVES, 0)?;
        // Keys with the highest bit are the kernel's. Knowing it proves nothing: the
        // datagrams do.
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
        qp.modify(QpAttr { qp_state: state::RTR, ..QpAttr::default() }, mask::STATE)?;
        qp.modify(
            QpAttr { qp_state: state::RTS, ..QpAttr::default() },
            mask::STATE | mask::SQ_PSN,
        )?;
        let slots = Pool::new(pd, ROUTE + WireupMsg::SIZE, RECEIVES + SENDS);
        let mut bell = UdEndpoint { qp, slots, qkey, sending: 0, marks };
        for _ in 0..RECEIVES {
            let slot =
                bell.slots.take()?.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
            bell.listen(slot)?;
        }
        Ok(bell)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.qp.number()
    }

    fn listen(&self, slot: u32) -> io::Result<()> {
        let sge = self.slots.sge(slot, self.slots.slot_bytes());
        self.qp.post_receives(&[(self.marks[0] | u64::from(slot), sge)])
    }

    /// Sends a datagram if there is room.
    pub(crate) fn ring(
        &mut self,
        ah: &Ah,
        bell: u32,
        datagram: &[u8; WireupMsg::SIZE],
    ) -> io::Result<()> {
        if self.sending == SENDS {
            return Ok(());
        }
        let Some(slot) = self.slots.take()? else { return Ok(()) };
        self.slots.bytes_mut(slot, WireupMsg::SIZE).copy_from_slice(datagram);
        let sge = self.slots.sge(slot, WireupMsg::SIZE);
        let id = self.marks[1] | u64::from(slot);
        let posted = self.qp.post_datagram(id, send_flags::SIGNALED, sge, ah, bell, self.qkey);
        match posted {
            Ok(()) => self.sending += 1,
            Err(_) => self.slots.put(slot),
        }
        posted
    }

    /// A datagram has left, or never will.
    pub(crate) fn rung(&mut self, completion: &Wc) {
        self.sending -= 1;
        self.slots.put(completion.wr_id as u32);
        if completion.status != 0 {
            // An error stops the queue; what was lost is rung again.
            let _ =
                self.qp.modify(QpAttr { qp_state: state::RTS, ..QpAttr::default() }, mask::STATE);
        }
    }

    /// What a received datagram says, if it is of this job.
    pub(crate) fn heard(&mut self, completion: &Wc, secret: &[u8; 32]) -> Option<WireupMsg> {
        let slot = completion.wr_id as u32;
        let len = completion.byte_len as usize;
        let hello = (completion.status == 0 && (ROUTE..=self.slots.slot_bytes()).contains(&len))
            .then(|| WireupMsg::decode(&self.slots.bytes(slot, len)[ROUTE..], secret))
            .flatten();
        // Without this receive there is one fewer.
        let _ = self.listen(slot);
        hello
    }
}

/// A random number for packets to begin with.
pub(crate) fn random_psn() -> u32 {
    let mut bytes = [0; 4];
    // Any number will do when there is no randomness.
    let _ = getrandom(&mut bytes[..], GetRandomFlags::empty());
    u32::from_le_bytes(bytes) & 0xff_ffff
}
