//! Dynamically connected transport: the queue pairs of a process that reach the memory of all
//! peers without a connection to any.
//!
//! The *target* takes the reads, writes and atomics of all peers that know its key, which follows
//! from the job's secret. An *initiator* carries the operations of one endpoint at a time, so that
//! its failure concerns one peer; endpoints without one wait in a line. `dynamic_rma` moves
//! operations, this file does not know them. Frames never go this way: they have a connection, or
//! go by datagrams.
//!
//! Invariants: an initiator serves endpoint `at` exactly if the path of that endpoint's operations
//! names it. Its requests are that endpoint's oldest pieces, in order. An endpoint is in the line
//! exactly if its path is [`Path::Line`].

use std::collections::VecDeque;
use std::io;

use crate::adapter::Adapter;
use crate::completions::wr_id;
use crate::endpoint::rma::{Path, Piece};
use crate::endpoint::send_queue::MAX_RMA_OPS;
use crate::ibv::dynamic::{Initiator, Target, To};
use crate::ibv::layout::{access, qp_mask as mask, qp_state as state};
use crate::ibv::{Ah, Cq, Mr, QpAttr, Sge, Srq, Wc, Work};
use crate::limits::{Config, INITIATORS, RNR_RETRIES, RNR_TIMER, reads};
use crate::memory::Scratch;

/// Operations that an endpoint begins on an initiator while others wait for one.
const TURN: u32 = 16;

/// The target and the initiators of a process.
#[derive(Debug)]
pub(crate) struct Dynamic {
    // Queue pairs are dropped before what they use.
    target: Target,
    initiators: Vec<Slot>,
    _receives: Srq,
    /// Where bytes that are read back go.
    scratch_mr: Mr,
    scratch: Scratch,
    key: u64,
    line: VecDeque<u32>,
    /// Number of the initiator that was made last.
    made: u32,
    /// Operations that ended.
    pub(crate) ended: u64,
    /// Initiators that failed.
    pub(crate) failures: u64,
}

/// An initiator.
#[derive(Debug, Default)]
struct Slot {
    /// `None` after a failure, until it is taken again.
    queue: Option<Initiator>,
    /// The number by which its requests are told from those of an earlier one, whose queue pair may
    /// have had the same number.
    made: u32,
    serves: Option<u32>,
    /// Bytes of the pieces under way.
    under_way: VecDeque<u32>,
    /// Operations that the endpoint has begun.
    begun: u32,
}

impl Dynamic {
    /// Makes the target of a process. Initiators are made when they are needed.
    pub(crate) fn new(
        adapter: &Adapter,
        cq: &Cq,
        config: &Config,
        secret: &[u8; 32],
    ) -> io::Result<Dynamic> {
        let key = blake3::derive_key("verbena verbs dynamic key", secret);
        let key = u64::from_le_bytes(std::array::from_fn(|at| key[at]));
        let receives = Srq::new(&adapter.pd, 1)?;
        let target = Target::new(&adapter.pd, cq, &receives, key)?;
        let rights = access::REMOTE_READ | access::REMOTE_WRITE | adapter.atomic_access();
        let init = QpAttr { qp_access_flags: rights as u32, ..initial(adapter) };
        target
            .qp()
            .modify(init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
        let receive = QpAttr { min_rnr_timer: RNR_TIMER, ..receiving(adapter, config) };
        let what = mask::STATE | mask::AV | mask::PATH_MTU | mask::MIN_RNR_TIMER;
        target.qp().modify(receive, what)?;
        let scratch = Scratch::new()?;
        let scratch_mr = Mr::register(&adapter.pd, scratch.byte(), access::LOCAL_WRITE)?;
        Ok(Dynamic {
            target,
            initiators: Vec::new(),
            _receives: receives,
            scratch_mr,
            scratch,
            key,
            line: VecDeque::new(),
            made: 0,
            ended: 0,
            failures: 0,
        })
    }

    /// Returns the number of the target.
    pub(crate) fn target(&self) -> u32 {
        self.target.qp().number()
    }

    /// Returns the initiator that is queue pair `qpn`.
    pub(crate) fn find(&self, qpn: u32) -> Option<u8> {
        let is_it = |slot: &Slot| slot.queue.as_ref().is_some_and(|it| it.qp().number() == qpn);
        self.initiators.iter().position(is_it).map(|number| number as u8)
    }

    /// Returns the initiator whose request this completion is of.
    pub(crate) fn of(&self, completion: &Wc) -> Option<u8> {
        let number = self.find(completion.qp_num)?;
        let made = self.initiators[usize::from(number)].made;
        (completion.wr_id as u32 == made).then_some(number)
    }

    /// Returns the endpoint that an initiator serves.
    pub(crate) fn served_by(&self, number: u8) -> Option<usize> {
        self.initiators[usize::from(number)].serves.map(|at| at as usize)
    }

    /// Gives endpoint `at` an initiator, which is made if there is none; `None`: it waits in the
    /// line.
    pub(crate) fn take(
        &mut self,
        at: usize,
        adapter: &Adapter,
        cq: &Cq,
        config: &Config,
    ) -> io::Result<Option<u8>> {
        let free = self.initiators.iter().position(|slot| slot.serves.is_none());
        let number = free.unwrap_or(self.initiators.len());
        if number == INITIATORS {
            self.join_line(at);
            return Ok(None);
        }
        if free.is_none() {
            self.initiators.push(Slot::default());
        }
        let slot = &mut self.initiators[number];
        if slot.queue.is_none() {
            slot.queue = Some(make(adapter, cq, config)?);
            self.made = self.made.wrapping_add(1);
            slot.made = self.made;
        }
        (slot.serves, slot.begun) = (Some(at as u32), 0);
        Ok(Some(number as u8))
    }

    /// Returns whether the endpoint of an initiator may begin further operations: not after its
    /// turn, while others wait.
    pub(crate) fn may_begin(&self, number: u8) -> bool {
        self.line.is_empty() || self.initiators[usize::from(number)].begun < TURN
    }

    /// Posts a piece to a peer's target, that of the endpoint that the initiator serves.
    pub(crate) fn post(
        &mut self,
        number: u8,
        piece: &Piece,
        ah: &Ah,
        target: u32,
    ) -> io::Result<()> {
        let slot = &mut self.initiators[usize::from(number)];
        let Some(queue) = &mut slot.queue else {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        let memory = match piece.reads_back {
            true => Sge {
                addr: self.scratch.byte().addr(),
                lkey: self.scratch_mr.lkey(),
                ..piece.memory
            },
            false => piece.memory,
        };
        let id = wr_id::SEND | u64::from(slot.made);
        let work = Work { id, flags: 0, memory, to: piece.to };
        queue.post(&work, To { ah, target, key: self.key })?;
        slot.under_way.push_back(memory.length);
        slot.begun += u32::from(piece.is_first);
        Ok(())
    }

    /// Handles the completion of the oldest request of an initiator, and returns its bytes.
    pub(crate) fn complete(&mut self, number: u8) -> Option<usize> {
        self.initiators[usize::from(number)].under_way.pop_front().map(|bytes| bytes as usize)
    }

    /// Takes an initiator from its endpoint. It is destroyed if it has failed, or if anything is
    /// under way on it: the device accesses the memory of these requests no more.
    pub(crate) fn put(&mut self, number: u8, has_failed: bool) {
        let slot = &mut self.initiators[usize::from(number)];
        slot.serves = None;
        if has_failed || !slot.under_way.is_empty() {
            slot.under_way.clear();
            slot.queue = None;
        }
    }

    /// Returns the endpoint that is next in the line, if there is an initiator for it.
    pub(crate) fn next_in_line(&mut self) -> Option<usize> {
        let is_free = |slot: &Slot| slot.serves.is_none();
        let at = self.line.front().filter(|_| self.initiators.iter().any(is_free))?;
        let at = *at as usize;
        self.line.pop_front();
        Some(at)
    }

    /// Puts an endpoint at the end of the line, and returns its path.
    pub(crate) fn join_line(&mut self, at: usize) -> Path {
        self.line.push_back(at as u32);
        Path::Line
    }

    /// Takes an endpoint out of the line.
    pub(crate) fn leave_line(&mut self, at: usize) {
        self.line.retain(|&other| other != at as u32);
    }
}

/// Returns the attributes of a queue pair that is set up.
fn initial(adapter: &Adapter) -> QpAttr {
    QpAttr {
        qp_state: state::INIT,
        pkey_index: adapter.port.pkey_index,
        port_num: adapter.port.number,
        ..QpAttr::default()
    }
}

/// Returns the attributes of one that can receive. The address is this port's own, of which only
/// the local part counts: peers are named by requests.
fn receiving(adapter: &Adapter, config: &Config) -> QpAttr {
    let port = &adapter.port;
    QpAttr {
        qp_state: state::RTR,
        path_mtu: port.attr.active_mtu,
        ah_attr: port.address_vector(&port.address, &config.settings),
        ..QpAttr::default()
    }
}

/// Makes an initiator that is ready to send.
fn make(adapter: &Adapter, cq: &Cq, config: &Config) -> io::Result<Initiator> {
    let queue = Initiator::new(&adapter.pd, cq, MAX_RMA_OPS as u32, adapter.has_atomics())?;
    queue.qp().modify(initial(adapter), mask::STATE | mask::PKEY_INDEX | mask::PORT)?;
    queue.qp().modify(receiving(adapter, config), mask::STATE | mask::AV | mask::PATH_MTU)?;
    let send = QpAttr {
        qp_state: state::RTS,
        timeout: config.settings.ack_timeout,
        retry_cnt: config.settings.retries,
        rnr_retry: RNR_RETRIES,
        max_rd_atomic: max_reads(adapter) as u8,
        ..QpAttr::default()
    };
    let what = mask::STATE | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN;
    queue.qp().modify(send, what | mask::MAX_QP_RD_ATOMIC)?;
    Ok(queue)
}

/// Returns the most requests of an initiator that are answered with data at once. Targets answer
/// as many as their devices do, which is the same for all of the driver.
pub(crate) fn max_reads(adapter: &Adapter) -> usize {
    usize::from(reads(adapter.port.device_attr.max_qp_init_rd_atom)).clamp(1, MAX_RMA_OPS)
}
