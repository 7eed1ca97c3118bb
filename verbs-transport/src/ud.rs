//! The UD queue pair of a process: wire-up messages, and the packets of the datagram path.
//!
//! Datagrams may be lost; senders repeat them. This file knows nothing of connections. Its receives
//! are a fixed number, whatever the number of peers: what finds none is lost.

use std::io;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::completions::wr_id;
use crate::device::Port;
use crate::ibv::layout::{qp_mask as mask, qp_state as state, send_flags};
use crate::ibv::{Ah, Cq, Pd, Qp, QpAttr, Sge, Wc};
use crate::memory::Pool;
use crate::wireup_msg::WireupMsg;

/// Bytes in front of every received datagram: the global route header, or nothing of use.
const ROUTE_HEADER: usize = 40;
/// Fewest posted receives, those for each peer, and the most.
const RECVS_MIN: u32 = 64;
const RECVS_EACH: u32 = 16;
const RECVS_MAX: u32 = 512;
/// Most sends under way.
const SENDS: u32 = 128;
/// Receives that are posted again at once.
const REPOST_BATCH: usize = 16;

/// The UD queue pair of a process, with its slots.
#[derive(Debug)]
pub(crate) struct UdEndpoint {
    qp: Qp,
    recv_slots: Pool,
    send_slots: Pool,
    qkey: u32,
    /// Datagrams under way.
    sending: u32,
    /// Slots of receives to post again.
    to_repost: Vec<u32>,
    /// The device refused receives, which must be tried again.
    is_refused: bool,
}

impl UdEndpoint {
    /// Returns the posted receives of a process in a job of `size`.
    pub(crate) fn receives(size: u32) -> u32 {
        size.saturating_sub(1).saturating_mul(RECVS_EACH).clamp(RECVS_MIN, RECVS_MAX)
    }

    /// Returns the most completions that it has in the completion queue.
    pub(crate) fn completions(size: u32) -> u32 {
        UdEndpoint::receives(size) + SENDS
    }

    /// Returns a queue pair that is ready to send and receive, in a job of `size`.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        cq: &Cq,
        port: &Port,
        secret: &[u8; 32],
        size: u32,
    ) -> io::Result<UdEndpoint> {
        let receives = UdEndpoint::receives(size);
        let qp = Qp::new(pd, cq, None, SENDS, receives, 0)?;
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
        let longest = (128_usize << port.attr.active_mtu.clamp(1, 5)).max(WireupMsg::SIZE);
        let mut ud = UdEndpoint {
            qp,
            recv_slots: Pool::new(pd, ROUTE_HEADER + longest, receives),
            send_slots: Pool::new(pd, longest, SENDS),
            qkey,
            sending: 0,
            to_repost: Vec::new(),
            is_refused: false,
        };
        ud.send_slots.prepare()?;
        for _ in 0..receives {
            let slot = ud.recv_slots.take()?;
            ud.to_repost.push(slot.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?);
        }
        ud.repost();
        match ud.to_repost.len() < receives as usize {
            true => Ok(ud),
            false => Err(io::Error::other("the device refuses receives")),
        }
    }

    /// Returns the number of the queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.qp.number()
    }

    /// Returns the registered bytes: now, and at most.
    pub(crate) fn registered(&self) -> [usize; 2] {
        let pools = [&self.recv_slots, &self.send_slots].map(Pool::registered);
        [0, 1].map(|which| pools.iter().map(|pool| pool[which]).sum())
    }

    /// Posts receives that wait for that.
    pub(crate) fn repost_waiting(&mut self) {
        if !self.to_repost.is_empty() {
            self.repost();
        }
    }

    /// Returns whether the device refused receives, which must be tried again.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns whether a datagram can be sent now.
    #[inline]
    pub(crate) fn has_space(&self) -> bool {
        self.sending < SENDS
    }

    /// Returns whether the device has sent everything.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sending == 0
    }

    /// Posts receives again. What the device refuses waits for the next time.
    fn repost(&mut self) {
        self.is_refused = false;
        while !self.is_refused && !self.to_repost.is_empty() {
            let mut list = [(0, Sge::default()); REPOST_BATCH];
            let count = self.to_repost.len().min(REPOST_BATCH);
            for (receive, &slot) in list.iter_mut().zip(&self.to_repost) {
                let sge = self.recv_slots.sge(slot, self.recv_slots.slot_bytes());
                *receive = (wr_id::UD_RECV | u64::from(slot), sge);
            }
            let (taken, result) = self.qp.post_receives(&list[..count]);
            self.to_repost.drain(..taken);
            self.is_refused = result.is_err();
        }
    }

    /// Sends a datagram of `len` bytes, which `fill` writes, to a UD queue pair. Returns false if
    /// there is no space.
    pub(crate) fn send(
        &mut self,
        ah: &Ah,
        qpn: u32,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> io::Result<bool> {
        if !self.has_space() {
            return Ok(false);
        }
        let Some(slot) = self.send_slots.take()? else { return Ok(false) };
        fill(self.send_slots.bytes_mut(slot, len));
        let sge = self.send_slots.sge(slot, len);
        let id = wr_id::UD_SEND | u64::from(slot);
        let posted = self.qp.post_datagram(id, send_flags::SIGNALED, sge, ah, qpn, self.qkey);
        match posted {
            Ok(()) => self.sending += 1,
            Err(_) => self.send_slots.put(slot),
        }
        posted.map(|()| true)
    }

    /// Handles the completion of a send.
    pub(crate) fn send_done(&mut self, completion: &Wc) {
        self.sending -= 1;
        self.send_slots.put(completion.wr_id as u32);
        if completion.status != 0 {
            // An error stops the queue. Lost datagrams are sent again.
            let _ =
                self.qp.modify(QpAttr { qp_state: state::RTS, ..QpAttr::default() }, mask::STATE);
        }
    }

    /// Returns the length of the datagram that a receive has; 0 if it has failed.
    pub(crate) fn received(&self, completion: &Wc) -> usize {
        let len = completion.byte_len as usize;
        let is_whole =
            completion.status == 0 && (ROUTE_HEADER..=self.recv_slots.slot_bytes()).contains(&len);
        if is_whole { len - ROUTE_HEADER } else { 0 }
    }

    /// Returns the first `len` bytes of a received datagram.
    #[inline]
    pub(crate) fn datagram(&self, slot: u32, len: usize) -> &[u8] {
        &self.recv_slots.bytes(slot, ROUTE_HEADER + len)[ROUTE_HEADER..]
    }

    /// Takes the slot of a datagram back that is handled.
    pub(crate) fn put(&mut self, slot: u32) {
        self.to_repost.push(slot);
        if self.to_repost.len() >= REPOST_BATCH {
            self.repost();
        }
    }
}

/// Returns a random packet sequence number to begin with.
pub(crate) fn random_psn() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness any number will do.
    let _ = getrandom(&mut bytes[..], GetRandomFlags::empty());
    u32::from_le_bytes(bytes) & 0xff_ffff
}
