//! Shared receive queues, queue pairs and address handles.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use verbs_transport::ibv::layout::{
    self as ibv, AhAttr, QpAttr, QpInitAttr, SrqInitAttr, qp_mask, qp_state, qp_type,
};

use super::shared::{Pd, SharedQueue, context, fail};
use crate::completion::Srq;
use crate::datagram;
use crate::objects::{AhObject, QpObject};
use crate::options::Link;
use crate::qp::{Qp, Receiving, Sending, Service};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut Pd, init: *mut SrqInitAttr) -> *mut SharedQueue {
    // SAFETY: by the interface the domain is alive and the structure readable.
    let (device, domain, attr) = unsafe { ((*pd).public.context, (*pd).number, (*init).attr) };
    // SAFETY: by the interface the context is open.
    let number = unsafe { context(device) }.with(|engine| {
        let is_listed = |names: &[String]| names.contains(&engine.name);
        if is_listed(&engine.options.lacks_srq) || is_listed(&engine.options.refuses_srq) {
            return Err(libc::EOPNOTSUPP);
        }
        if attr.max_wr > engine.options.srq || attr.max_sge > 1 {
            return Err(libc::EINVAL);
        }
        let number = engine.handle();
        engine.srqs.insert(number, Srq { pd: domain, receives: [].into(), max: attr.max_wr });
        Ok(number)
    });
    match number {
        Ok(number) => {
            Box::into_raw(Box::new(SharedQueue { public: ibv::Srq { context: device }, number }))
        }
        Err(code) => fail(code),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut SharedQueue) -> c_int {
    // SAFETY: by the interface the queue is alive.
    let (number, device) = unsafe { ((*srq).number, (*srq).public.context) };
    // SAFETY: by the interface the context is open.
    let is_used = unsafe { context(device) }.with(|engine| {
        let is_used = engine.qps.values().any(|qp| qp.srq == Some(number));
        if !is_used {
            engine.srqs.remove(&number);
        }
        is_used
    });
    if is_used {
        return libc::EBUSY;
    }
    // SAFETY: the queue is of `ibv_create_srq` and not used later.
    drop(unsafe { Box::from_raw(srq) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut Pd, init: *mut QpInitAttr) -> *mut ibv::Qp {
    // SAFETY: as the caller.
    unsafe { create(pd, init, None) }
}

/// Makes a queue pair of this service, otherwise of the one that its type names.
pub(super) unsafe fn create(
    pd: *mut Pd,
    init: *mut QpInitAttr,
    service: Option<Service>,
) -> *mut ibv::Qp {
    // SAFETY: by the interface the domain is alive and the structure valid.
    let (domain, init) = unsafe { (&*pd, &mut *init) };
    let device = domain.public.context;
    // SAFETY: the queues are alive, and a shared one is of `ibv_create_srq`.
    let (send_cq, recv_cq, srq) = unsafe {
        let srq = init.srq.cast::<SharedQueue>().as_ref().map(|srq| srq.number);
        ((*init.send_cq).handle, (*init.recv_cq).handle, srq)
    };
    let is_rc = init.qp_type == qp_type::RC;
    let service = service.unwrap_or(if is_rc { Service::Connected } else { Service::Datagrams });
    // SAFETY: by the interface the context is open.
    let made = unsafe { context(device) }.with(|engine| {
        let cap = &mut init.cap;
        let has_type = match engine.link {
            Link::Iwarp => is_rc,
            Link::Efa => !is_rc,
            _ => true,
        };
        if !has_type || cap.max_inline_data > engine.options.inline || cap.max_send_sge > 1 {
            return Err(if has_type { libc::EINVAL } else { libc::EOPNOTSUPP });
        }
        let limit = engine.options.qps as usize;
        if limit > 0 && engine.qps.len() >= limit {
            return Err(libc::ENOMEM);
        }
        if cap.max_send_wr > 32_768 || cap.max_recv_wr > 32_768 || engine.is_removed {
            return Err(libc::ENOMEM);
        }
        let number = engine.qp_number().ok_or(libc::ENOMEM)?;
        // An initiator's first connection is none that a packet could be of before.
        let first = u32::from(matches!(service, Service::Initiator(_)));
        let tx = Sending { next: first, transmit: first, acked: first, ..Sending::default() };
        let qp = Qp {
            number,
            service,
            state: qp_state::RESET,
            pd: domain.number,
            send_cq,
            recv_cq,
            srq,
            max_send: cap.max_send_wr,
            max_recv: cap.max_recv_wr,
            inline: cap.max_inline_data,
            attr: QpAttr::default(),
            tx,
            rx: Receiving::default(),
            object: 0,
            unacked: 0,
        };
        engine.qps.insert(number, Box::new(qp));
        Ok(number)
    });
    let number = match made {
        Ok(number) => number,
        Err(code) => return fail(code),
    };
    let object = QpObject::allocate(ibv::Qp {
        context: device,
        qp_context: init.qp_context,
        pd: pd.cast(),
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: number,
        qp_num: number,
    })
    .cast::<ibv::Qp>();
    // SAFETY: by the interface the context is open.
    unsafe { context(device) }.with(|engine| {
        if let Some(qp) = engine.qps.get_mut(&number) {
            qp.object = object as usize;
        }
    });
    object
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv::Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
    // SAFETY: by the interface the queue pair is alive and the structure readable.
    let (number, attr, context) = unsafe { ((*qp).qp_num, *attr, context((*qp).context)) };
    let now = Instant::now();
    let result = context.with(|engine| {
        if engine.is_removed {
            return Err(libc::EIO);
        }
        let reads = engine.options.reads;
        engine
            .with_qp(number, |engine, qp| {
                if mask & qp_mask::STATE != 0 && attr.qp_state == qp_state::ERR {
                    engine.flush(qp, now);
                    return Ok(());
                }
                // Only queue pairs of datagrams are used again.
                let is_reset = mask & qp_mask::STATE != 0 && attr.qp_state == qp_state::RESET;
                if is_reset && !qp.is_reliable() {
                    engine.reset(qp);
                    return Ok(());
                }
                let port = if mask & qp_mask::PORT != 0 { attr.port_num } else { qp.attr.port_num };
                if mask & qp_mask::AV != 0 {
                    datagram::check_address(engine, port, &attr.ah_attr)?;
                }
                if mask & qp_mask::PATH_MTU != 0 && 128 << attr.path_mtu > engine.options.mtu {
                    return Err(libc::EINVAL);
                }
                qp.modify(&attr, mask, reads)
            })
            .unwrap_or(Err(libc::EINVAL))
    });
    result.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv::Qp,
    attr: *mut QpAttr,
    _: c_int,
    _: *mut QpInitAttr,
) -> c_int {
    // SAFETY: by the interface the queue pair is alive and the structure valid for writes.
    let (number, context, out) = unsafe { ((*qp).qp_num, context((*qp).context), &mut *attr) };
    context.with(|engine| match engine.qps.get(&number) {
        Some(qp) => {
            *out = QpAttr { qp_state: qp.state, ..qp.attr };
            0
        }
        None => libc::EINVAL,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv::Qp) -> c_int {
    // SAFETY: by the interface the queue pair is alive, and not used later.
    unsafe {
        let number = (*qp).qp_num;
        context((*qp).context).with(|engine| engine.destroy_qp(number));
        drop(Box::from_raw(qp.cast::<QpObject>()));
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut AhObject {
    // SAFETY: by the interface the domain is alive and the structure readable.
    let (device, domain, attr) = unsafe { ((*pd).public.context, (*pd).number, *attr) };
    // SAFETY: by the interface the context is open.
    let (made, lookup) = unsafe { context(device) }.with(|engine| {
        let made = datagram::check_address(engine, attr.port_num, &attr).map(|()| {
            let number = engine.handle();
            engine.ahs.insert(number, domain);
            number
        });
        (made, engine.options.lookup)
    });
    match made {
        Ok(number) => Box::into_raw(Box::new(AhObject { context: device, attr, number })),
        Err(code) => {
            REFUSED_HANDLES.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(lookup);
            fail(code)
        }
    }
}

static REFUSED_HANDLES: AtomicI32 = AtomicI32::new(0);

/// Returns how many address handles were refused.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_refused_handles() -> c_int {
    REFUSED_HANDLES.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut AhObject) -> c_int {
    // SAFETY: the handle is of the function above and not used later.
    let ah = unsafe { Box::from_raw(ah) };
    // SAFETY: by the interface the context is open.
    unsafe { context(ah.context) }.with(|engine| engine.ahs.remove(&ah.number));
    0
}
