//! The UD queue pair of a process: wire-up messages, and the packets of the datagram path.
//!
//! Datagrams may be lost; senders repeat them. This file knows nothing of connections. Its receives
//! are a fixed number, whatever the number of peers: what finds none is lost.
//!
//! A send that finds no route puts the queue pair into SQE, or with `rdma_rxe` into ERR. In SQE it
//! is made to send again. In ERR it is reset and set up again, with the same number. The device may
//! report earlier requests or not. Therefore a reset frees all slots, and completions of an earlier
//! *generation* have no effect.
//!
//! Invariants: a slot is posted, waits to be posted, or is being handled. A send keeps the address
//! handle that it names until it is complete.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::completions::wr_id;
use crate::device::{Port, mtu_bytes};
use crate::endpoint::connection::{RETRY_MAX, RETRY_MIN};
use crate::ibv::layout::{qp_mask as mask, qp_state as state, send_flags, wc_status};
use crate::ibv::{Ah, Cq, Pd, Qp, QpAttr, Sge, Wc};
use crate::memory::Pool;
use crate::wireup_msg::WireupMsg;

const _: () = assert!(WireupMsg::SIZE <= mtu_bytes(1) as usize);

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

/// Whether the queue pair carries datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// It sends and receives.
    Works,
    /// A request has failed, or the device has reported an error. Its state is looked at then.
    Failed(Instant),
}

/// The UD queue pair of a process, with its slots.
#[derive(Debug)]
pub(crate) struct UdEndpoint {
    qp: Qp,
    recv_slots: Pool,
    send_slots: Pool,
    qkey: u32,
    /// Largest packet of the port when it was opened, as libibverbs numbers it.
    mtu: u8,
    condition: Condition,
    /// Failures in a row, without a datagram sent in between.
    failures: u32,
    /// How often it was set up again.
    generation: u32,
    /// Slots of the datagrams under way, in order, and the handles that they name.
    sending: VecDeque<(u32, Arc<Ah>)>,
    /// Slots of all receives, and of those to post again.
    receives: Vec<u32>,
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

    /// Makes the queue pair of an endpoint.
    pub(crate) fn queue_pair(pd: &Arc<Pd>, cq: &Cq, size: u32) -> io::Result<Qp> {
        Qp::new(pd, cq, None, SENDS, UdEndpoint::receives(size), 0)
    }

    /// Makes a queue pair ready to send and receive, in a job of `size`.
    pub(crate) fn new(
        qp: Qp,
        pd: &Arc<Pd>,
        port: &Port,
        secret: &[u8; 32],
        size: u32,
    ) -> io::Result<UdEndpoint> {
        let receives = UdEndpoint::receives(size);
        // Keys with the highest bit are the kernel's. The key is no proof of the sender: the
        // datagrams have one.
        let key = blake3::derive_key("verbena verbs bell qkey", secret);
        let qkey = u32::from_le_bytes([key[0], key[1], key[2], key[3] & 0x7f]);
        start(&qp, port, qkey)?;
        let mtu = port.mtu();
        let longest = usize::from(mtu_bytes(mtu));
        let mut ud = UdEndpoint {
            qp,
            recv_slots: Pool::new(pd, ROUTE_HEADER + longest, receives),
            send_slots: Pool::new(pd, longest, SENDS),
            qkey,
            mtu,
            condition: Condition::Works,
            failures: 0,
            generation: 0,
            sending: VecDeque::new(),
            receives: Vec::new(),
            to_repost: Vec::new(),
            is_refused: false,
        };
        ud.send_slots.prepare()?;
        for _ in 0..receives {
            let slot = ud.recv_slots.take()?;
            ud.receives.push(slot.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?);
        }
        ud.to_repost.clone_from(&ud.receives);
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

    /// Returns the largest packet that it sends and receives on the port, as libibverbs numbers it.
    /// The port may have a larger one by now, but the slots do not.
    pub(crate) fn mtu(&self, port: &Port) -> u8 {
        self.mtu.min(port.mtu())
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
        self.condition == Condition::Works && self.sending.len() < SENDS as usize
    }

    /// Returns whether the device has sent everything.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sending.is_empty()
    }

    /// Returns when a queue pair that has failed is to be [mended](Self::mend); `None` while it
    /// works.
    #[inline]
    pub(crate) fn mend_at(&self) -> Option<Instant> {
        match self.condition {
            Condition::Works => None,
            Condition::Failed(retry_at) => Some(retry_at),
        }
    }

    /// Records that something on the queue pair has failed. It is mended at once, and after 2, 4, 8
    /// .. 500 ms if it fails again before it has sent anything.
    #[cold]
    pub(crate) fn failed(&mut self) {
        if self.condition == Condition::Works {
            self.put_off();
        }
    }

    /// Lets a queue pair that has failed be mended at once: the port is up again.
    pub(crate) fn mend_soon(&mut self) {
        if self.condition != Condition::Works {
            (self.condition, self.failures) = (Condition::Failed(Instant::now()), 0);
        }
    }

    fn put_off(&mut self) {
        let pause = match self.failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(before) => (RETRY_MIN * (1 << before.min(8))).min(RETRY_MAX),
        };
        self.condition = Condition::Failed(Instant::now() + pause);
        self.failures += 1;
    }

    /// Lets a queue pair that has failed send and receive again. Datagrams under way are lost. No
    /// datagram may be handled meanwhile.
    #[cold]
    pub(crate) fn mend(&mut self, port: &Port) {
        let mended = self.qp.state().and_then(|now| match now {
            state::RTS => Ok(()),
            state::SQE => self.resume_sending(),
            _ => self.restart(port),
        });
        match mended {
            Ok(()) => {
                self.condition = Condition::Works;
                self.repost();
            }
            Err(_) => self.put_off(),
        }
    }

    /// Makes a send queue that has stopped send again. The kernel does not know that it has
    /// stopped; therefore the request names its state.
    fn resume_sending(&self) -> io::Result<()> {
        let resumed =
            QpAttr { qp_state: state::RTS, cur_qp_state: state::SQE, ..QpAttr::default() };
        self.qp.modify(resumed, mask::STATE | mask::CUR_STATE)
    }

    /// Sets the queue pair up again. In RESET the device uses no slot.
    fn restart(&mut self, port: &Port) -> io::Result<()> {
        self.qp.modify(QpAttr { qp_state: state::RESET, ..QpAttr::default() }, mask::STATE)?;
        self.generation = self.generation.wrapping_add(1);
        self.sending.drain(..).for_each(|(slot, _)| self.send_slots.put(slot));
        self.to_repost.clone_from(&self.receives);
        start(&self.qp, port, self.qkey)
    }

    /// Posts receives again. What the device refuses waits for the next time, and everything while
    /// the queue pair does not work: it would come back at once.
    fn repost(&mut self) {
        self.is_refused = false;
        let works = self.condition == Condition::Works;
        while works && !self.is_refused && !self.to_repost.is_empty() {
            let mut list = [(0, Sge::default()); REPOST_BATCH];
            let count = self.to_repost.len().min(REPOST_BATCH);
            for (receive, &slot) in list.iter_mut().zip(&self.to_repost) {
                let sge = self.recv_slots.sge(slot, self.recv_slots.slot_bytes());
                *receive = (wr_id::ud(wr_id::UD_RECV, self.generation, slot), sge);
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
        ah: &Arc<Ah>,
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
        let id = wr_id::ud(wr_id::UD_SEND, self.generation, slot);
        let posted = self.qp.post_datagram(id, send_flags::SIGNALED, sge, ah, qpn, self.qkey);
        match posted {
            Ok(()) => self.sending.push_back((slot, Arc::clone(ah))),
            Err(_) => self.send_slots.put(slot),
        }
        posted.map(|()| true)
    }

    /// Handles the completion of a send.
    pub(crate) fn send_done(&mut self, completion: &Wc) {
        if !wr_id::is_of(completion.wr_id, self.generation) {
            return;
        }
        // Sends are complete in order, and all are signaled.
        if let Some((slot, _)) = self.sending.pop_front() {
            self.send_slots.put(slot);
        }
        match completion.status {
            wc_status::SUCCESS => self.failures = 0,
            // Lost datagrams are sent again.
            _ => self.failed(),
        }
    }

    /// Returns the slot of a receive and the length of its datagram, 0 if it has failed; `None` if
    /// it is of an earlier generation.
    pub(crate) fn received(&mut self, completion: &Wc) -> Option<(u32, usize)> {
        if !wr_id::is_of(completion.wr_id, self.generation) {
            return None;
        }
        let is_whole = completion.status == wc_status::SUCCESS;
        if !is_whole {
            self.failed();
        }
        let len = completion.byte_len as usize;
        let fits = (ROUTE_HEADER..=self.recv_slots.slot_bytes()).contains(&len);
        let len = if is_whole && fits { len - ROUTE_HEADER } else { 0 };
        Some((completion.wr_id as u32, len))
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

/// Takes a queue pair in RESET to RTS.
fn start(qp: &Qp, port: &Port, qkey: u32) -> io::Result<()> {
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
    qp.modify(to(state::RTS), mask::STATE | mask::SQ_PSN)
}

/// Returns a random packet sequence number to begin with.
pub(crate) fn random_psn() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness any number will do.
    let _ = getrandom(&mut bytes[..], GetRandomFlags::empty());
    u32::from_le_bytes(bytes) & 0xff_ffff
}
