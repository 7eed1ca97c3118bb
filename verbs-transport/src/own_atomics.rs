//! Atomics of this process's device on its own memory.
//!
//! A queue pair that is connected to itself carries one atomic at a time; the caller polls until
//! its completion is there. Such an atomic and those of peers are carried out by the same device,
//! and are atomic towards each other.
//!
//! The queue pair may break while the device goes on for peers, for example because the port has
//! another address. Whether the atomic was done is then not known, and processors must not take
//! over: they are not atomic towards the device. The next atomic makes another queue pair. Only if
//! the device is gone there is nobody left to change the memory.
//!
//! Invariant: at most one request is under way, and the lock is held until it has ended or its
//! queue pair is destroyed.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabric::{Atomic, AtomicFailure, OwnAtomics, UserBuf};

use crate::adapter::is_lost;
use crate::device::Port;
use crate::ibv::layout::{access, qp_mask as mask, qp_state as state, send_flags, wc_status};
use crate::ibv::{Channel, Cq, Destination, Mr, Pd, Qp, QpAttr, Sge, Srq, Wc, Work};
use crate::settings::Settings;
use crate::transport::VerbsTransport;

/// Longest wait for one atomic; afterwards the queue pair counts as broken.
const PATIENCE: Duration = Duration::from_secs(20);
/// Polls between two yields of the processor: a device that is emulated needs it.
const POLLS: u32 = 64;
/// First packet sequence number, in both directions.
const PSN: u32 = 0x1234;

/// What the atomics need. Fields are dropped in this order.
#[derive(Debug)]
struct OwnMemory {
    /// `None`: there is none yet, or it broke.
    loopback: Option<Loopback>,
    /// The memory that is changed.
    memory: Mr,
    /// Registers `old`.
    result: Mr,
    /// Gets the old value.
    old: Box<AtomicU64>,
    pd: Arc<Pd>,
    port: Port,
    settings: Settings,
}

/// The queue pair that is connected to itself. Fields are dropped in this order.
#[derive(Debug)]
struct Loopback {
    qp: Qp,
    cq: Cq,
    _receives: Srq,
}

/// [`OwnAtomics`] by verbs.
#[derive(Debug)]
struct Own(Mutex<OwnMemory>);

impl VerbsTransport {
    /// Returns the atomics of this process's device on `memory`, which outlives them.
    pub(crate) fn own_atomics(&self, memory: UserBuf) -> io::Result<Box<dyn OwnAtomics>> {
        let (pd, port) = (Arc::clone(&self.adapter.pd), self.adapter.port.clone());
        let settings = self.config.settings.clone();
        let rights = access::LOCAL_WRITE | access::REMOTE_ATOMIC;
        let memory = Mr::register(&pd, memory, rights)?;
        let old = Box::new(AtomicU64::new(0));
        let at = old.as_ptr().expose_provenance();
        let result = Mr::register_range(&pd, at..at + 8, access::LOCAL_WRITE)?;
        let loopback = Some(Loopback::new(&pd, &port, &settings)?);
        Ok(Box::new(Own(Mutex::new(OwnMemory {
            loopback,
            memory,
            result,
            old,
            pd,
            port,
            settings,
        }))))
    }
}

impl OwnMemory {
    fn change(&mut self, at: u64, what: Atomic) -> Result<u64, AtomicFailure> {
        let mut loopback = match self.loopback.take() {
            Some(loopback) => loopback,
            None => self.reconnect()?,
        };
        let memory =
            Sge { addr: self.old.as_ptr().addr() as u64, length: 8, lkey: self.result.lkey() };
        let to = Destination::atomic(at, self.memory.rkey(), what);
        let work = Work { id: 0, flags: send_flags::SIGNALED, memory, to };
        // One that has failed is destroyed before anything else happens: until then the device may
        // write `old`.
        if !loopback.carry_out(&work) {
            return Err(AtomicFailure::Unclear);
        }
        self.loopback = Some(loopback);
        Ok(self.old.load(Ordering::Acquire))
    }

    /// Makes another queue pair, at the address that the port has now.
    #[cold]
    fn reconnect(&mut self) -> Result<Loopback, AtomicFailure> {
        if is_lost(&self.port) {
            return Err(AtomicFailure::Gone);
        }
        self.port.readdress(&self.settings).map_err(|_| AtomicFailure::Unclear)?;
        Loopback::new(&self.pd, &self.port, &self.settings).map_err(|_| AtomicFailure::Unclear)
    }
}

impl Loopback {
    fn new(pd: &Arc<Pd>, port: &Port, settings: &Settings) -> io::Result<Loopback> {
        let cq = Cq::new(&Channel::new(&port.context)?, 4, 0)?;
        let receives = Srq::new(pd, 1)?;
        let qp = Qp::new(pd, &cq, Some(&receives), 4, 0, 0)?;
        connect_to_itself(&qp, port, settings)?;
        Ok(Loopback { qp, cq, _receives: receives })
    }

    /// Carries out an atomic. Returns whether it is known to be done.
    fn carry_out(&mut self, work: &Work) -> bool {
        // SAFETY: nothing is inline.
        if unsafe { self.qp.post(work) }.is_err() {
            return false;
        }
        let begin = Instant::now();
        let mut completion = [Wc::default(); 1];
        for polls in 0_u32.. {
            if self.cq.poll(&mut completion) > 0 {
                break;
            }
            if polls.is_multiple_of(POLLS) {
                std::thread::yield_now();
                if begin.elapsed() > PATIENCE {
                    return false;
                }
            }
        }
        completion[0].status == wc_status::SUCCESS
    }
}

fn connect_to_itself(qp: &Qp, port: &Port, settings: &Settings) -> io::Result<()> {
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

impl OwnAtomics for Own {
    fn change(&self, at: UserBuf, what: Atomic) -> Result<u64, AtomicFailure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).change(at.addr(), what)
    }
}
