//! Atomics of this process's device on its own memory.
//!
//! A queue pair that is connected to itself carries one atomic at a time; the caller polls until
//! its completion is there. Such an atomic and those of peers are carried out by the same device,
//! and are atomic towards each other.
//!
//! Invariant: at most one request is under way, and the lock is held until it has ended.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabric::{Atomic, OwnAtomics, UserBuf};

use crate::ibv::layout::{access, qp_mask as mask, qp_state as state, send_flags, wc_status};
use crate::ibv::{Channel, Cq, Destination, Mr, Qp, QpAttr, Sge, Srq, Wc, Work};
use crate::transport::VerbsTransport;

/// Longest wait for one atomic; afterwards the device counts as gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// Polls between two yields of the processor: a device that is emulated needs it.
const POLLS: u32 = 64;
/// First packet sequence number, in both directions.
const PSN: u32 = 0x1234;

/// The queue pair that is connected to itself. Fields are dropped in this order.
#[derive(Debug)]
struct Loopback {
    qp: Qp,
    cq: Cq,
    _receives: Srq,
    /// The memory that is changed.
    memory: Mr,
    /// Registers `old`.
    result: Mr,
    /// Gets the old value.
    old: Box<AtomicU64>,
    is_broken: bool,
}

/// [`OwnAtomics`] by verbs.
#[derive(Debug)]
struct Own(Mutex<Loopback>);

impl VerbsTransport {
    /// Returns the atomics of this process's device on `memory`, which outlives them.
    pub(crate) fn own_atomics(&self, memory: UserBuf) -> io::Result<Box<dyn OwnAtomics>> {
        let (pd, port) = (&self.adapter.pd, &self.adapter.port);
        let rights = access::LOCAL_WRITE | access::REMOTE_ATOMIC;
        let memory = Mr::register(pd, memory, rights)?;
        let old = Box::new(AtomicU64::new(0));
        let at = old.as_ptr().expose_provenance();
        let result = Mr::register_range(pd, at..at + 8, access::LOCAL_WRITE)?;
        let cq = Cq::new(&Channel::new(&port.context)?, 4, 0)?;
        let receives = Srq::new(pd, 1)?;
        let qp = Qp::new(pd, &cq, Some(&receives), 4, 0, 0)?;
        self.connect_to_itself(&qp)?;
        let (_receives, is_broken) = (receives, false);
        let loopback = Loopback { qp, cq, _receives, memory, result, old, is_broken };
        Ok(Box::new(Own(Mutex::new(loopback))))
    }

    fn connect_to_itself(&self, qp: &Qp) -> io::Result<()> {
        let (port, settings) = (&self.adapter.port, &self.config.settings);
        let init = QpAttr {
            qp_state: state::INIT,
            pkey_index: port.pkey_index,
            port_num: port.number,
            qp_access_flags: access::REMOTE_ATOMIC as u32,
            ..QpAttr::default()
        };
        qp.modify(init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
        let receive = QpAttr {
            qp_state: state::RTR,
            path_mtu: port.attr.active_mtu,
            dest_qp_num: qp.number(),
            rq_psn: PSN,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ah_attr: port.address_vector(&port.address, settings),
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        qp.modify(receive, what | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)?;
        let send = QpAttr {
            qp_state: state::RTS,
            timeout: settings.ack_timeout,
            retry_cnt: settings.retries,
            rnr_retry: 7,
            sq_psn: PSN,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN;
        qp.modify(send, what | mask::MAX_QP_RD_ATOMIC)
    }
}

impl Loopback {
    fn change(&mut self, at: u64, what: Atomic) -> Option<u64> {
        if self.is_broken {
            return None;
        }
        // Until it has ended, the device may write `old`.
        self.is_broken = true;
        let result = self.old.as_ptr().addr() as u64;
        let work = Work {
            id: 0,
            flags: send_flags::SIGNALED,
            memory: Sge { addr: result, length: 8, lkey: self.result.lkey() },
            to: Destination::atomic(at, self.memory.rkey(), what),
        };
        // SAFETY: nothing is inline.
        unsafe { self.qp.post(&work) }.ok()?;
        let begin = Instant::now();
        let mut completion = [Wc::default(); 1];
        for polls in 0_u32.. {
            if self.cq.poll(&mut completion) > 0 {
                break;
            }
            if polls.is_multiple_of(POLLS) {
                std::thread::yield_now();
                if begin.elapsed() > PATIENCE {
                    return None;
                }
            }
        }
        self.is_broken = completion[0].status != wc_status::SUCCESS;
        (!self.is_broken).then(|| self.old.load(Ordering::Acquire))
    }
}

impl OwnAtomics for Own {
    fn change(&self, at: UserBuf, what: Atomic) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).change(at.addr(), what)
    }
}
