//! Dynamically connected queue pairs, as `infiniband/mlx5dv.h` describes them.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Instant;

use verbs_transport::ibv::layout::{self as ibv, QpInitAttr, Sge, opcode, qp_state, send_flags};
use verbs_transport::ibv::mlx5::{
    MLX5_INIT_MASK_DC, Mlx5QpEx, Mlx5QpInitAttr, QP_TYPE_DRIVER, QpEx, QpInitAttrEx, dc_type,
    init_mask, send_ops,
};

use super::device::setup;
use super::pair;
use super::shared::{context, fail};
use super::work::enqueue;
use crate::engine::Engine;
use crate::objects::{AhObject, Device, QpObject, Request};
use crate::qp::{Data, Qp, Service, Wqe};
use crate::{dynamic, requester};

#[unsafe(no_mangle)]
pub extern "C" fn mlx5dv_is_supported(_: *mut Device) -> bool {
    setup().options.dc
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_create_qp(
    _: *mut ibv::Context,
    init: *mut QpInitAttrEx,
    driver: *mut Mlx5QpInitAttr,
) -> *mut ibv::Qp {
    // SAFETY: by the interface the structures are valid.
    let (init, driver) = unsafe { (&mut *init, &*driver) };
    let is_asked_for = init.qp_type == QP_TYPE_DRIVER
        && init.comp_mask & init_mask::PD != 0
        && driver.comp_mask == MLX5_INIT_MASK_DC;
    let has_ops = init.comp_mask & init_mask::SEND_OPS_FLAGS != 0;
    let service = match driver.dc_init_attr.dc_type {
        // A target has no send queue, and an initiator no receives.
        dc_type::DCT if !init.srq.is_null() && !has_ops => {
            Service::Target(driver.dc_init_attr.dct_access_key, HashMap::new())
        }
        dc_type::DCI if init.srq.is_null() && has_ops => Service::Initiator(None),
        _ => return fail(libc::EINVAL),
    };
    if !is_asked_for || !setup().options.dc {
        return fail(libc::EOPNOTSUPP);
    }
    let is_initiator = matches!(service, Service::Initiator(_));
    let mut basic = QpInitAttr {
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        cap: init.cap,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all,
    };
    // SAFETY: the domain is alive, and the queues are.
    let qp = unsafe { pair::create(init.pd.cast(), &mut basic, Some(service)) };
    init.cap = basic.cap;
    if is_initiator && !qp.is_null() {
        // SAFETY: just made.
        fill(unsafe { &mut *qp.cast::<QpObject>() }, init.send_ops_flags);
    }
    qp
}

/// Fills the tables of an initiator; there are the calls of its kinds of requests alone.
fn fill(object: &mut QpObject, ops: u64) {
    let ex = &mut object.ex;
    let has = |op| ops & op != 0;
    ex.wr_start = Some(start);
    ex.wr_complete = Some(complete);
    ex.wr_set_sge = Some(set_sge);
    ex.wr_rdma_read = has(send_ops::RDMA_READ).then_some(rdma_read);
    ex.wr_rdma_write = has(send_ops::RDMA_WRITE).then_some(rdma_write);
    ex.wr_atomic_cmp_swp = has(send_ops::ATOMIC_CMP_AND_SWP).then_some(cmp_swp);
    ex.wr_atomic_fetch_add = has(send_ops::ATOMIC_FETCH_AND_ADD).then_some(fetch_add);
    object.mlx5.wr_set_dc_addr = Some(set_dc_addr);
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv::Qp) -> *mut QpEx {
    qp.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_qp_ex_from_ibv_qp_ex(qp: *mut QpEx) -> *mut Mlx5QpEx {
    // SAFETY: by the interface the queue pair is alive; its structure begins an object.
    unsafe { &raw mut (*qp.cast::<QpObject>()).mlx5 }
}

unsafe fn object<'a>(qp: *mut QpEx) -> &'a mut QpObject {
    // SAFETY: by the interface the queue pair is alive, and one thread builds requests.
    unsafe { &mut *qp.cast::<QpObject>() }
}

unsafe extern "C" fn start(qp: *mut QpEx) {
    // SAFETY: as the caller.
    unsafe { object(qp) }.requests.clear();
}

unsafe fn add(qp: *mut QpEx, opcode: u32, key: u32, addr: u64, operands: [u64; 2]) {
    // SAFETY: as the caller.
    let object = unsafe { object(qp) };
    let (id, flags) = (object.ex.wr_id, object.ex.wr_flags);
    let (sge, to) = (Sge::default(), None);
    object.requests.push(Request { id, flags, opcode, addr, key, operands, sge, to });
}

unsafe extern "C" fn rdma_read(qp: *mut QpEx, key: u32, addr: u64) {
    // SAFETY: as the caller.
    unsafe { add(qp, opcode::RDMA_READ, key, addr, [0; 2]) };
}

unsafe extern "C" fn rdma_write(qp: *mut QpEx, key: u32, addr: u64) {
    // SAFETY: as the caller.
    unsafe { add(qp, opcode::RDMA_WRITE, key, addr, [0; 2]) };
}

unsafe extern "C" fn cmp_swp(qp: *mut QpEx, key: u32, addr: u64, compare: u64, swap: u64) {
    // SAFETY: as the caller.
    unsafe { add(qp, opcode::ATOMIC_CMP_AND_SWP, key, addr, [compare, swap]) };
}

unsafe extern "C" fn fetch_add(qp: *mut QpEx, key: u32, addr: u64, more: u64) {
    // SAFETY: as the caller.
    unsafe { add(qp, opcode::ATOMIC_FETCH_AND_ADD, key, addr, [more, 0]) };
}

unsafe extern "C" fn set_sge(qp: *mut QpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: as the caller.
    if let Some(request) = unsafe { object(qp) }.requests.last_mut() {
        request.sge = Sge { addr, length, lkey };
    }
}

unsafe extern "C" fn set_dc_addr(mlx5: *mut Mlx5QpEx, ah: *mut ibv::Ah, target: u32, key: u64) {
    let qp = mlx5.wrapping_byte_sub(std::mem::offset_of!(QpObject, mlx5)).cast::<QpEx>();
    // SAFETY: by the interface the structure is that of a queue pair, which is alive, and so is
    // the address handle.
    let (object, address) = unsafe { (object(qp), (*ah.cast::<AhObject>()).attr) };
    if let Some(request) = object.requests.last_mut() {
        request.to = Some((address, target, key));
    }
}

unsafe extern "C" fn complete(qp: *mut QpEx) -> c_int {
    // SAFETY: as the caller.
    let object = unsafe { object(qp) };
    let number = object.ex.qp_base.public.qp_num;
    // SAFETY: by the interface the context is open.
    let context = unsafe { context(object.ex.qp_base.public.context) };
    let (requests, now) = (std::mem::take(&mut object.requests), Instant::now());
    context.with(|engine| {
        if engine.is_removed {
            return libc::EIO;
        }
        let posted = engine.with_qp(number, |engine, qp| {
            let codes = requests.iter().map(|request| post(engine, qp, request, now));
            let code = codes.into_iter().find(|&code| code != 0).unwrap_or(0);
            requester::transmit(engine, qp, now);
            code
        });
        engine.wake_at(now);
        posted.unwrap_or(libc::EINVAL)
    })
}

fn post(engine: &mut Engine, qp: &mut Qp, request: &Request, now: Instant) -> c_int {
    let is_ready = matches!(qp.state, qp_state::RTS | qp_state::ERR);
    let (true, Some(to)) = (is_ready, request.to) else { return libc::EINVAL };
    let mut wqe = Wqe {
        id: request.id,
        opcode: request.opcode,
        is_signaled: request.flags & send_flags::SIGNALED != 0,
        data: Data::Memory(request.sge),
        addr: request.addr,
        key: request.key,
        operands: request.operands,
        datagram: None,
        session: dynamic::session(engine, qp, to),
        first: qp.tx.next,
        packets: 0,
        received: 0,
    };
    wqe.packets = wqe.count_packets();
    enqueue(engine, qp, wqe, now)
}
