//! Dynamically connected queue pairs, which adapters of the mlx5 driver have.
//!
//! An *initiator* carries reads, writes and atomics to any *target*, which each request names; a
//! target takes those of all initiators.

#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::layout::{self, QpCap, opcode, send_flags};
use super::mlx5::{
    Access, CompareSwap, Complete, DcInitAttr, FetchAdd, MLX5_INIT_MASK_DC, Mlx5, Mlx5QpEx,
    Mlx5QpInitAttr, QP_TYPE_DRIVER, QpEx, QpInitAttrEx, SetSge, SetTarget, Start, dc_type,
    init_mask, send_ops,
};
use super::protection::{Ah, Pd};
use super::queue::{Cq, Qp, Srq, Work};
use super::{check, non_null};

/// The target of a process: takes the requests of all initiators that know its key.
#[derive(Debug)]
pub struct Target(Qp);

/// A queue pair that carries requests to targets.
#[derive(Debug)]
pub struct Initiator {
    qp: Qp,
    calls: Calls,
}

/// The structures of an initiator, and the calls that build its requests.
#[derive(Debug)]
struct Calls {
    ex: NonNull<QpEx>,
    mlx5: NonNull<Mlx5QpEx>,
    start: Start,
    read: Access,
    write: Access,
    compare_swap: Option<CompareSwap>,
    fetch_add: Option<FetchAdd>,
    set_target: SetTarget,
    set_sge: SetSge,
    complete: Complete,
}

// SAFETY: an initiator belongs to no thread; the pointers are to parts of its queue pair.
unsafe impl Send for Calls {}

/// Where an initiator's request goes.
#[derive(Clone, Copy, Debug)]
pub struct To<'a> {
    /// Address of the target's port.
    pub ah: &'a Ah,
    /// Number of the target.
    pub target: u32,
    /// Its key.
    pub key: u64,
}

/// Returns the attributes of a queue pair of the driver.
fn init_attr(pd: &Pd, cq: &Cq, srq: *mut layout::Srq, sends: u32, ops: u64) -> QpInitAttrEx {
    let ops_mask = if ops == 0 { 0 } else { init_mask::SEND_OPS_FLAGS };
    QpInitAttrEx {
        qp_context: null_mut(),
        send_cq: cq.raw(),
        recv_cq: cq.raw(),
        srq,
        cap: QpCap { max_send_wr: sends, max_send_sge: u32::from(sends > 0), ..QpCap::default() },
        qp_type: QP_TYPE_DRIVER,
        sq_sig_all: 0,
        comp_mask: init_mask::PD | ops_mask,
        pd: pd.raw(),
        xrcd: null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: null_mut(),
        rx_hash_conf: [0; 3],
        source_qpn: 0,
        send_ops_flags: ops,
    }
}

/// Makes a queue pair of the driver.
fn create(pd: &Arc<Pd>, mut init: QpInitAttrEx, dc_type: u32, key: u64) -> io::Result<Qp> {
    let mlx5 = functions(pd)?;
    let mut attr = Mlx5QpInitAttr {
        comp_mask: MLX5_INIT_MASK_DC,
        create_flags: 0,
        dc_init_attr: DcInitAttr { dc_type, dct_access_key: key },
        send_ops_flags: 0,
    };
    // SAFETY: the device is open, domain and queues are alive, and the attributes live for the
    // call.
    let raw = non_null(unsafe { (mlx5.create_qp)(pd.context.raw(), &mut init, &mut attr) })?;
    Qp::of(pd, raw, 0)
}

fn functions(pd: &Pd) -> io::Result<&'static Mlx5> {
    pd.context.library.mlx5().ok_or_else(unusable)
}

fn unusable() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

impl Target {
    /// Makes a target. Sends to it would take receives of `srq`; there are none.
    pub fn new(pd: &Arc<Pd>, cq: &Cq, srq: &Srq, key: u64) -> io::Result<Target> {
        create(pd, init_attr(pd, cq, srq.raw(), 0, 0), dc_type::DCT, key).map(Target)
    }

    /// Returns its queue pair.
    pub fn qp(&self) -> &Qp {
        &self.0
    }
}

impl Initiator {
    /// Makes an initiator for up to `sends` requests.
    pub fn new(pd: &Arc<Pd>, cq: &Cq, sends: u32, has_atomics: bool) -> io::Result<Initiator> {
        let atomics = send_ops::ATOMIC_CMP_AND_SWP | send_ops::ATOMIC_FETCH_AND_ADD;
        let ops = send_ops::RDMA_WRITE | send_ops::RDMA_READ;
        let ops = ops | if has_atomics { atomics } else { 0 };
        let qp = create(pd, init_attr(pd, cq, null_mut(), sends, ops), dc_type::DCI, 0)?;
        let mlx5 = functions(pd)?;
        // SAFETY: the queue pair is alive; it was made for requests by calls, and for the driver's.
        let (ex, direct) = unsafe {
            let ex = non_null((mlx5.qp_ex)(qp.raw()))?;
            (ex, non_null((mlx5.mlx5_qp_ex)(ex.as_ptr()))?)
        };
        // SAFETY: the structures live as long as the queue pair, and their functions do not change.
        let (verbs, driver) = unsafe { (ex.as_ref(), direct.as_ref()) };
        let calls = Calls {
            ex,
            mlx5: direct,
            start: verbs.wr_start.ok_or_else(unusable)?,
            read: verbs.wr_rdma_read.ok_or_else(unusable)?,
            write: verbs.wr_rdma_write.ok_or_else(unusable)?,
            compare_swap: verbs.wr_atomic_cmp_swp.filter(|_| has_atomics),
            fetch_add: verbs.wr_atomic_fetch_add.filter(|_| has_atomics),
            set_target: driver.wr_set_dc_addr.ok_or_else(unusable)?,
            set_sge: verbs.wr_set_sge.ok_or_else(unusable)?,
            complete: verbs.wr_complete.ok_or_else(unusable)?,
        };
        Ok(Initiator { qp, calls })
    }

    /// Returns its queue pair.
    pub fn qp(&self) -> &Qp {
        &self.qp
    }

    /// Posts a read, a write or an atomic to a target. It is signaled.
    pub fn post(&mut self, work: &Work, to: To<'_>) -> io::Result<()> {
        let calls = &self.calls;
        let (ex, target) = (calls.ex.as_ptr(), &work.to.target);
        let is_missing = match work.to.opcode {
            opcode::ATOMIC_FETCH_AND_ADD => calls.fetch_add.is_none(),
            opcode::ATOMIC_CMP_AND_SWP => calls.compare_swap.is_none(),
            _ => false,
        };
        // Now: between `start` and `complete` the driver may hold a lock.
        if is_missing {
            return Err(unusable());
        }
        // SAFETY: the queue pair and the address handle are alive. The calls come in the order that
        // the interface wants. The opcode says which member of the target is there. Nothing is
        // inline; therefore the device checks all memory.
        check(unsafe {
            (calls.start)(ex);
            (*ex).wr_id = work.id;
            (*ex).wr_flags = send_flags::SIGNALED;
            match (work.to.opcode, calls.fetch_add, calls.compare_swap) {
                (opcode::RDMA_WRITE, ..) => {
                    (calls.write)(ex, target.rdma.rkey, target.rdma.remote_addr);
                }
                (opcode::ATOMIC_FETCH_AND_ADD, Some(add), _) => {
                    let of = target.atomic;
                    add(ex, of.rkey, of.remote_addr, of.compare_add);
                }
                (opcode::ATOMIC_CMP_AND_SWP, _, Some(swap)) => {
                    let of = target.atomic;
                    swap(ex, of.rkey, of.remote_addr, of.compare_add, of.swap);
                }
                _ => (calls.read)(ex, target.rdma.rkey, target.rdma.remote_addr),
            }
            (calls.set_target)(calls.mlx5.as_ptr(), to.ah.raw(), to.target, to.key);
            (calls.set_sge)(ex, work.memory.lkey, work.memory.addr, work.memory.length);
            (calls.complete)(ex)
        })
    }
}
