//! Work requests.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::c_int;
use std::time::Instant;

use verbs_transport::ibv::layout::{
    self as ibv, RecvWr, SendWr, Sge, opcode, qp_state, send_flags,
};

use super::shared::{SharedQueue, context};
use crate::completion::Receive;
use crate::engine::Engine;
use crate::objects::AhObject;
use crate::qp::{Data, Qp, Wqe};
use crate::{datagram, requester};

/// Returns the receives of a list; the error is the first that is invalid.
unsafe fn receives(mut list: *mut RecvWr) -> Result<Vec<(Receive, *mut RecvWr)>, *mut RecvWr> {
    let mut all = Vec::new();
    // SAFETY: by the interface the list ends with null, and its structures are readable.
    while let Some(wr) = unsafe { list.as_ref() } {
        let sge = match wr.num_sge {
            0 => Sge::default(),
            // SAFETY: there is one entry.
            1 => unsafe { *wr.sg_list },
            _ => return Err(list),
        };
        all.push((Receive { id: wr.wr_id, sge }, list));
        list = wr.next;
    }
    Ok(all)
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv::Srq,
    list: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    let srq = srq.cast::<SharedQueue>();
    // SAFETY: by the interface the queue is alive and the list readable.
    let (number, context, all) =
        unsafe { ((*srq).number, context((*srq).public.context), receives(list)) };
    let refused = match all {
        Err(at) => Some((at, libc::EINVAL)),
        Ok(all) => context.with(|engine| {
            let is_refused = engine.chance(engine.options.refuse);
            let mut room = if is_refused { engine.rng.usize(0..all.len()) } else { usize::MAX };
            let is_removed = engine.is_removed;
            let srq = engine.srqs.get_mut(&number)?;
            all.into_iter().find_map(|(receive, at)| {
                if room == 0 || is_removed || srq.receives.len() >= srq.max as usize {
                    return Some((at, if is_removed { libc::EIO } else { libc::ENOMEM }));
                }
                room -= 1;
                srq.receives.push_back(receive);
                None
            })
        }),
    };
    refused.map_or(0, |(at, code)| {
        // SAFETY: by the interface the result is valid for writes.
        unsafe { *bad = at };
        code
    })
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv::Qp,
    list: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    // SAFETY: by the interface the queue pair is alive and the list readable.
    let (number, context, all) = unsafe { ((*qp).qp_num, context((*qp).context), receives(list)) };
    let now = Instant::now();
    let refused = match all {
        Err(at) => Some((at, libc::EINVAL)),
        Ok(all) => context.with(|engine| {
            let post = |engine: &mut Engine, qp: &mut Qp, (receive, at)| {
                if qp.rx.posted.len() >= qp.max_recv as usize || qp.state == qp_state::RESET {
                    return Some((at, libc::ENOMEM));
                }
                match qp.state {
                    qp_state::ERR => {
                        let status = ibv::wc_status::WR_FLUSH_ERR;
                        engine.complete_receive(qp, receive, status, 0, now);
                    }
                    _ => qp.rx.posted.push_back(receive),
                }
                None
            };
            engine.with_qp(number, |engine, qp| {
                all.into_iter().find_map(|receive| post(engine, qp, receive))
            })?
        }),
    };
    refused.map_or(0, |(at, code)| {
        // SAFETY: by the interface the result is valid for writes.
        unsafe { *bad = at };
        code
    })
}

/// Returns the request of a structure; `None` if it is invalid.
unsafe fn request(wr: &SendWr, qp: &Qp) -> Option<Wqe> {
    let sge = match wr.num_sge {
        0 => Sge::default(),
        // SAFETY: there is one entry.
        1 => unsafe { *wr.sg_list },
        _ => return None,
    };
    let is_inline = wr.send_flags & send_flags::INLINE != 0;
    if is_inline && (sge.length > qp.inline || wr.opcode > opcode::SEND) {
        return None;
    }
    let data = match is_inline {
        true => Data::Inline(crate::memory::read(sge.addr, sge.length as usize)?),
        false => Data::Memory(sge),
    };
    // SAFETY: the opcode and the type of the queue pair say which member is there; all are
    // integers and pointers, and an address handle is alive.
    let (addr, key, operands, datagram) = unsafe {
        match (qp.is_reliable(), wr.opcode) {
            (false, opcode::SEND) => {
                let ud = wr.wr.ud;
                let attr = (*ud.ah.cast::<AhObject>()).attr;
                (0, ud.remote_qkey, [0; 2], Some((attr, ud.remote_qpn)))
            }
            (true, opcode::SEND) => (0, 0, [0; 2], None),
            (true, opcode::RDMA_WRITE | opcode::RDMA_READ) => {
                (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey, [0; 2], None)
            }
            (true, opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD) => {
                let atomic = wr.wr.atomic;
                let operands = [atomic.compare_add, atomic.swap];
                (atomic.remote_addr, atomic.rkey, operands, None)
            }
            _ => return None,
        }
    };
    let is_signaled = wr.send_flags & send_flags::SIGNALED != 0;
    let (id, opcode) = (wr.wr_id, wr.opcode);
    let mut wqe = Wqe {
        id,
        opcode,
        is_signaled,
        data,
        addr,
        key,
        operands,
        datagram,
        session: None,
        first: qp.tx.next,
        packets: 0,
        received: 0,
    };
    wqe.packets = wqe.count_packets();
    Some(wqe)
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv::Qp,
    list: *mut SendWr,
    bad: *mut *mut SendWr,
) -> c_int {
    // SAFETY: by the interface the queue pair is alive.
    let (number, context) = unsafe { ((*qp).qp_num, context((*qp).context)) };
    let now = Instant::now();
    let mut at = list;
    let code = context.with(|engine| {
        if engine.is_removed {
            return libc::EIO;
        }
        let posted = engine.with_qp(number, |engine, qp| {
            // SAFETY: by the interface the list ends with null, and its structures are readable.
            while let Some(wr) = unsafe { at.as_ref() } {
                // SAFETY: as above.
                let code = unsafe { post_one(engine, qp, wr, now) };
                if code != 0 {
                    return code;
                }
                at = wr.next;
            }
            requester::transmit(engine, qp, now);
            0
        });
        engine.wake_at(now);
        posted.unwrap_or(libc::EINVAL)
    });
    if code != 0 {
        // SAFETY: by the interface the result is valid for writes.
        unsafe { *bad = at };
    }
    code
}

unsafe fn post_one(engine: &mut Engine, qp: &mut Qp, wr: &SendWr, now: Instant) -> c_int {
    if !matches!(qp.state, qp_state::RTS | qp_state::SQE | qp_state::ERR) {
        return libc::EINVAL;
    }
    // SAFETY: by the interface the structure and what it names are readable.
    let Some(wqe) = (unsafe { request(wr, qp) }) else { return libc::EINVAL };
    enqueue(engine, qp, wqe, now)
}

/// Adds a request to a queue pair in RTS, SQE or ERR. Returns an error number if it is full.
pub(super) fn enqueue(engine: &mut Engine, qp: &mut Qp, wqe: Wqe, now: Instant) -> c_int {
    if qp.tx.used >= qp.max_send {
        return libc::ENOMEM;
    }
    qp.tx.used += 1;
    if qp.state != qp_state::RTS {
        engine.complete_send(qp, &wqe, ibv::wc_status::WR_FLUSH_ERR, now);
    } else if qp.is_reliable() {
        qp.tx.next = wqe.first + wqe.packets;
        qp.tx.queue.push_back(wqe);
    } else {
        datagram::send(engine, qp, &wqe, now);
    }
    0
}
