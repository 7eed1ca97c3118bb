//! The state of one open device, and the steps that several parts of it share: sending a packet,
//! completing a request, placing data, putting a queue pair into error.
//!
//! A queue pair is out of the table while its own functions run. `deadline` is when `drive` must
//! run again at the latest. Nothing here happens by itself.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fastrand::Rng;
use verbs_transport::ibv::layout::{
    AhAttr, Wc, access, event, opcode, qp_state as state, wc_opcode, wc_status,
};

use crate::completion::{Cq, Receive, Signals, Srq};
use crate::links::{Links, Sent, Target};
use crate::memory::{self, Regions};
use crate::options::{Link, Options};
use crate::packet::{GLOBAL, MTU_SHIFT, Packet};
use crate::port::{self, Port};
use crate::qp::{Qp, Receiving, Sending, Service, Wqe};

/// The opcode of a receive's completion.
pub(crate) const RECEIVED: u32 = wc_opcode::RECV;
/// Bits of a queue pair's number within its context.
const INDEX_BITS: u32 = 14;

/// A part of a write that is not in memory yet.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) due: Instant,
    pub(crate) qpn: u32,
    /// The target, if it came through one.
    pub(crate) serves: Option<u32>,
    pub(crate) psn: u32,
    pub(crate) key: u32,
    pub(crate) pd: u32,
    pub(crate) addr: u64,
    pub(crate) bytes: Vec<u8>,
}

/// An asynchronous event: its kind, and the object's address or the port's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncEvent {
    pub(crate) kind: u32,
    pub(crate) element: u64,
    /// Number of its queue pair, or 0.
    pub(crate) qpn: u32,
}

pub(crate) struct Engine {
    pub(crate) options: Options,
    /// Name of the device.
    pub(crate) name: String,
    pub(crate) link: Link,
    pub(crate) rng: Rng,
    number: u32,
    pub(crate) links: Links,
    pub(crate) regions: Regions,
    pub(crate) cqs: HashMap<u32, Cq>,
    pub(crate) channels: HashMap<u32, Signals<usize>>,
    pub(crate) srqs: HashMap<u32, Srq>,
    pub(crate) qps: HashMap<u32, Box<Qp>>,
    /// The protection domains of address handles.
    pub(crate) ahs: HashMap<u32, u32>,
    /// Queue pairs with requests under way.
    pub(crate) active: BTreeSet<u32>,
    pub(crate) ports: Vec<Port>,
    pub(crate) events: Signals<AsyncEvent>,
    pub(crate) later: Vec<(Instant, AsyncEvent)>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) replies: VecDeque<(Target, Packet)>,
    /// Acknowledgements are due on these.
    pub(crate) acks: BTreeSet<u32>,
    pub(crate) is_removed: bool,
    pub(crate) is_closed: bool,
    pub(crate) deadline: Instant,
    /// When a program polled last.
    pub(crate) polled_at: Option<Instant>,
    next_qp: u32,
    next_handle: u32,
}

impl Engine {
    /// Returns the state of device `index` of the options.
    pub(crate) fn new(options: Options, index: u16, kick: &OwnedFd) -> io::Result<Engine> {
        let (name, link) = options.devices[usize::from(index)].clone();
        let node = options.host * options.devices.len() as u16 + index;
        let (links, number) = Links::new(&options.fabric, node, kick)?;
        let port = |number| Port::new(node, number, link, options.pkeys.clone());
        let seed = options.seed ^ (u64::from(node) << 32 | u64::from(number));
        Ok(Engine {
            name,
            link,
            rng: Rng::with_seed(seed),
            number,
            links,
            regions: Regions::default(),
            cqs: HashMap::new(),
            channels: HashMap::new(),
            srqs: HashMap::new(),
            qps: HashMap::new(),
            ahs: HashMap::new(),
            active: BTreeSet::new(),
            ports: (1..=options.ports).map(port).collect(),
            events: Signals::new()?,
            later: Vec::new(),
            placements: Vec::new(),
            replies: VecDeque::new(),
            acks: BTreeSet::new(),
            is_removed: false,
            is_closed: false,
            deadline: Instant::now(),
            polled_at: None,
            next_qp: 1,
            next_handle: 1,
            options,
        })
    }

    /// Returns a copy of the descriptor that a context waits for.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.links.descriptor()
    }

    /// Returns a number for an object that is no queue pair.
    pub(crate) fn handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Returns whether a protection domain has registrations, queues or address handles.
    pub(crate) fn uses(&self, pd: u32) -> bool {
        self.regions.are_of(pd)
            || self.qps.values().any(|qp| qp.pd == pd)
            || self.srqs.values().any(|srq| srq.pd == pd)
            || self.ahs.values().any(|&domain| domain == pd)
    }

    /// Returns a number for a queue pair that is not in use; it leads to this context.
    pub(crate) fn qp_number(&mut self) -> Option<u32> {
        let most = (1 << INDEX_BITS) - 1;
        (0..most).find_map(|_| {
            self.next_qp = self.next_qp % most + 1;
            let number = self.number << INDEX_BITS | self.next_qp;
            (!self.qps.contains_key(&number)).then_some(number)
        })
    }

    /// Returns true `rate` times in a million.
    pub(crate) fn chance(&mut self, rate: u32) -> bool {
        rate > 0 && self.rng.u32(0..1_000_000) < rate
    }

    /// Returns a random time up to `longest`, often none.
    pub(crate) fn delay(&mut self, longest: Duration) -> Duration {
        if longest.is_zero() || self.rng.bool() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.rng.u64(0..=longest.as_nanos() as u64))
    }

    /// Lets `step` run at this time at the latest.
    pub(crate) fn wake_at(&mut self, at: Instant) {
        self.deadline = self.deadline.min(at);
    }

    /// Runs `work` on a queue pair, and keeps it active while it has requests.
    pub(crate) fn with_qp<R>(
        &mut self,
        number: u32,
        work: impl FnOnce(&mut Engine, &mut Qp) -> R,
    ) -> Option<R> {
        let mut qp = self.qps.remove(&number)?;
        let result = work(self, &mut qp);
        if !qp.tx.queue.is_empty() {
            self.active.insert(number);
        }
        if qp.rx.ack_due {
            self.acks.insert(number);
        }
        self.qps.insert(number, qp);
        Some(result)
    }

    pub(crate) fn port_of(&self, qp: &Qp) -> Option<&Port> {
        self.ports.get(usize::from(qp.attr.port_num).wrapping_sub(1))
    }

    /// Sends a packet to the peer of a connection.
    pub(crate) fn send(&mut self, qp: &Qp, packet: Packet) -> Sent {
        self.send_to(qp, &qp.attr.ah_attr, packet)
    }

    /// Sends a packet of a queue pair to an address.
    pub(crate) fn send_to(&mut self, qp: &Qp, address: &AhAttr, packet: Packet) -> Sent {
        match self.address(qp, address, packet) {
            Some((target, packet)) => self.links.send(target, &packet),
            // Lost on the way.
            None => Sent::Yes,
        }
    }

    /// Fills the addresses of a packet. `None`: it is lost.
    fn address(&mut self, qp: &Qp, to: &AhAttr, mut packet: Packet) -> Option<(Target, Packet)> {
        if self.is_removed || self.chance(self.options.loss) {
            return None;
        }
        if packet.longest(qp.attr.path_mtu) > self.options.path as usize {
            return None;
        }
        let port = self.port_of(qp).filter(|port| port.is_up)?;
        if qp.is_reliable() {
            packet.flags |= (qp.attr.path_mtu as u8) << MTU_SHIFT;
        }
        packet.pkey = port.pkeys.get(usize::from(qp.attr.pkey_index)).copied()?;
        (packet.source_lid, packet.target_lid) = (port.lid(), to.dlid);
        if to.is_global != 0 {
            packet.flags |= GLOBAL;
            packet.source_gid = port.gid(to.grh.sgid_index.into())?.gid.raw;
            packet.target_gid = to.grh.dgid.raw;
        }
        let node = port::node_of(to)?;
        let host = node / self.options.devices.len() as u16;
        let is_cut = self.options.cut.contains(&(self.options.host, host));
        (!is_cut).then_some(((node, packet.target >> INDEX_BITS), packet))
    }

    /// Answers the peer of a connection.
    pub(crate) fn reply(&mut self, qp: &Qp, mut packet: Packet, now: Instant) {
        let source = qp.serves().unwrap_or(qp.number);
        (packet.source, packet.target) = (source, qp.attr.dest_qp_num);
        packet.start = qp.attr.rq_psn;
        let addressed = self.address(qp, &qp.attr.ah_attr, packet);
        self.replies.extend(addressed);
        self.wake_at(now);
    }

    /// Adds a completion.
    pub(crate) fn push(&mut self, cq: u32, wc: Wc, retires: u32, now: Instant) {
        let mut due = now + self.delay(self.options.late);
        let lots = self.options.lots;
        if !lots.is_zero() {
            due += Duration::from_nanos(self.rng.u64(0..=lots.as_nanos() as u64));
        }
        let Some(queue) = self.cqs.get_mut(&cq) else { return };
        match queue.push(wc, retires, due) {
            Some(due) => self.wake_at(due),
            None => {
                let element = queue.object as u64;
                eprintln!("verbs-device: a completion queue of {} overflows", queue.capacity);
                self.events.push(AsyncEvent { kind: event::CQ_ERR, element, qpn: 0 });
            }
        }
    }

    /// Ends a request; an unsignaled one that succeeds is silent.
    pub(crate) fn complete_send(&mut self, qp: &mut Qp, wqe: &Wqe, status: u32, now: Instant) {
        qp.tx.unreported += 1;
        if !wqe.is_signaled && status == wc_status::SUCCESS {
            return;
        }
        let opcode = match wqe.opcode {
            opcode::RDMA_WRITE => 1,
            opcode::RDMA_READ => 2,
            opcode::ATOMIC_CMP_AND_SWP => 3,
            opcode::ATOMIC_FETCH_AND_ADD => 4,
            _ => 0,
        };
        let (wr_id, byte_len, qp_num) = (wqe.id, wqe.len() as u32, qp.number);
        let wc = Wc { wr_id, status, opcode, byte_len, qp_num, ..Wc::default() };
        self.push(qp.send_cq, wc, std::mem::take(&mut qp.tx.unreported), now);
    }

    /// Ends a receive.
    pub(crate) fn complete_receive(
        &mut self,
        qp: &Qp,
        receive: Receive,
        status: u32,
        byte_len: u32,
        now: Instant,
    ) {
        let (wr_id, qp_num, src_qp) = (receive.id, qp.number, qp.attr.dest_qp_num);
        let wc = Wc { wr_id, status, opcode: RECEIVED, byte_len, qp_num, src_qp, ..Wc::default() };
        self.push(qp.recv_cq, wc, 0, now);
    }

    /// Takes a receive for a message; some more are taken from a shared queue in advance.
    pub(crate) fn take_receive(&mut self, qp: &mut Qp) -> Option<Receive> {
        if let Some(srq) = qp.srq.and_then(|at| self.srqs.get_mut(&at))
            && qp.rx.taken.is_empty()
        {
            let count = (1 + self.options.prefetch).min(srq.receives.len());
            qp.rx.taken.extend(srq.receives.drain(..count));
        }
        if qp.srq.is_some() { qp.rx.taken.pop_front() } else { qp.rx.posted.pop_front() }
    }

    /// Puts a queue pair into error: its requests are flushed, and the receives that it has taken.
    pub(crate) fn flush(&mut self, qp: &mut Qp, now: Instant) {
        let was_connected = qp.can_receive();
        if std::mem::replace(&mut qp.state, state::ERR) == state::ERR {
            return;
        }
        (qp.tx.timer, qp.tx.pause, qp.rx.ack_due) = (None, None, false);
        for wqe in std::mem::take(&mut qp.tx.queue) {
            self.complete_send(qp, &wqe, wc_status::WR_FLUSH_ERR, now);
        }
        let current = qp.rx.current.take().map(|(receive, _)| receive);
        let taken = std::mem::take(&mut qp.rx.taken).into_iter();
        let posted = std::mem::take(&mut qp.rx.posted).into_iter();
        for receive in current.into_iter().chain(taken).chain(posted) {
            self.complete_receive(qp, receive, wc_status::WR_FLUSH_ERR, 0, now);
        }
        if qp.srq.is_some() && was_connected {
            let shown = self.cqs.get(&qp.recv_cq).and_then(|cq| cq.last_due_of(qp.number));
            let due = shown.unwrap_or(now).max(now) + self.delay(self.options.late);
            let event = self.event_of(qp, event::QP_LAST_WQE_REACHED);
            self.later.push((due, event));
            self.wake_at(due);
        }
    }

    /// Puts a queue pair back to its beginning. Completions that it has made stay.
    pub(crate) fn reset(&mut self, qp: &mut Qp) {
        (qp.state, qp.tx, qp.rx) = (state::RESET, Sending::default(), Receiving::default());
        let queues = self.cqs.values_mut().flat_map(|cq| &mut cq.entries);
        queues.filter(|entry| entry.wc.qp_num == qp.number).for_each(|entry| entry.retires = 0);
    }

    /// Lets a queue pair fail without a reason.
    pub(crate) fn break_qp(&mut self, qp: &mut Qp, now: Instant) {
        self.report_qp(qp, event::QP_FATAL);
        self.flush(qp, now);
    }

    pub(crate) fn report_qp(&mut self, qp: &Qp, kind: u32) {
        let event = self.event_of(qp, kind);
        self.events.push(event);
    }

    fn event_of(&self, qp: &Qp, kind: u32) -> AsyncEvent {
        AsyncEvent { kind, element: qp.object as u64, qpn: qp.number }
    }

    pub(crate) fn place_later(&mut self, placement: Placement) {
        self.wake_at(placement.due);
        self.placements.push(placement);
    }

    /// Places the parts of writes that `is_due` names. Those whose memory is no longer registered
    /// are dropped.
    pub(crate) fn place(&mut self, is_due: impl Fn(&Placement) -> bool) {
        if self.placements.is_empty() {
            return;
        }
        let (due, later): (Vec<_>, Vec<_>) = self.placements.drain(..).partition(|it| is_due(it));
        self.placements = later;
        for part in due {
            let range = (part.addr, part.bytes.len() as u64);
            if self.regions.covers(part.pd, part.key, range, access::REMOTE_WRITE) {
                memory::write(part.addr, &part.bytes);
            }
            if let Some(qp) = self.qps.get_mut(&part.qpn).filter(|qp| qp.can_receive()) {
                qp.rx.ack_due = true;
            }
            self.acks.insert(part.qpn);
        }
    }

    /// Returns the first packet of a queue pair of which a part is not placed.
    pub(crate) fn first_unplaced(&self, qpn: u32) -> Option<u32> {
        self.placements.iter().filter(|part| part.qpn == qpn).map(|part| part.psn).min()
    }

    /// Returns the queues with what is in them, one a line.
    pub(crate) fn dump(&self) -> String {
        let srqs = self.srqs.values().map(|srq| srq.receives.len()).collect::<Vec<_>>();
        let mut out = format!("receives posted: {srqs:?}, replies: {}\n", self.replies.len());
        for cq in self.cqs.values() {
            out += &format!("completions: {}, next {:?}\n", cq.entries.len(), cq.next_due());
        }
        for (number, qp) in &self.qps {
            let (tx, rx) = (&qp.tx, &qp.rx);
            out += &format!(
                "queue pair {number:#x} to {:#x}, state {}: {} requests, next {} transmit {} acked \
                 {}, timer {:?} pause {:?}; expects {}, has {} receives\n",
                qp.attr.dest_qp_num,
                qp.state,
                tx.queue.len(),
                tx.next,
                tx.transmit,
                tx.acked,
                tx.timer,
                tx.pause,
                rx.expected,
                rx.taken.len()
            );
        }
        out
    }

    /// Destroys a queue pair: what it has received is in memory, the rest of it is gone.
    pub(crate) fn destroy_qp(&mut self, number: u32) -> bool {
        let Some(qp) = self.qps.remove(&number) else { return false };
        if let Service::Target(_, servants) = &qp.service {
            servants.values().for_each(|&(_, servant)| _ = self.destroy_qp(servant));
        }
        if qp.unacked > 0 {
            eprintln!("verbs-device: a queue pair with unacknowledged events is destroyed");
            std::process::abort();
        }
        for cq in self.cqs.values_mut() {
            cq.entries.retain(|entry| entry.wc.qp_num != number);
        }
        self.place(|part| part.qpn == number);
        self.later.retain(|(_, event)| event.qpn != number);
        self.events.retain(|event| event.qpn != number);
        true
    }
}
