//! Completion channels and completion queues.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use verbs_transport::ibv::layout::{self as ibv, Wc};

use super::event::wait;
use super::shared::{CompChannel, context, fail, fail_int};
use crate::completion::{Cq, Signals};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(device: *mut ibv::Context) -> *mut CompChannel {
    let Ok(signals) = Signals::new() else { return fail(libc::EMFILE) };
    let fd = signals.fd.as_raw_fd();
    // SAFETY: by the interface the context is open.
    let number = unsafe { context(device) }.with(|engine| {
        let number = engine.handle();
        engine.channels.insert(number, signals);
        number
    });
    let public = ibv::CompChannel { context: device, fd, refcnt: 0 };
    Box::into_raw(Box::new(CompChannel { public, number }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    // SAFETY: by the interface the channel is alive.
    let number = unsafe { (*channel).number };
    // SAFETY: by the interface the context is open.
    let is_used = unsafe { context((*channel).public.context) }.with(|engine| {
        let is_used = engine.cqs.values().any(|cq| cq.channel == Some(number));
        if !is_used {
            engine.channels.remove(&number);
        }
        is_used
    });
    if is_used {
        return libc::EBUSY;
    }
    // SAFETY: the channel is of the function above and not used later.
    drop(unsafe { Box::from_raw(channel) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    device: *mut ibv::Context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut ibv::Cq {
    // SAFETY: by the interface the context is open.
    let vectors = unsafe { context(device) }.with(|engine| engine.options.vectors);
    if !(0..vectors as c_int).contains(&vector) {
        return fail(libc::EINVAL);
    }
    VECTORS.fetch_or(1 << vector, Ordering::Relaxed);
    // SAFETY: by the interface the channel is null or alive.
    let number = unsafe { channel.as_ref() }.map(|channel| channel.number);
    let object = Box::into_raw(Box::new(ibv::Cq {
        context: device,
        channel: channel.cast(),
        cq_context,
        handle: 0,
        cqe: entries,
    }));
    let cq = Cq::new(entries as u32, number, object as usize, Instant::now());
    // SAFETY: by the interface the context is open.
    let handle = unsafe { context(device) }.with(|engine| {
        let handle = engine.handle();
        engine.cqs.insert(handle, cq);
        handle
    });
    // SAFETY: the object was allocated above.
    unsafe { (*object).handle = handle };
    object
}

static VECTORS: AtomicI32 = AtomicI32::new(0);

/// Returns the vectors of all completion queues, as bits.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_vectors() -> c_int {
    VECTORS.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv::Cq) -> c_int {
    // SAFETY: by the interface the queue is alive.
    let (handle, device, object) = unsafe { ((*cq).handle, (*cq).context, cq as usize) };
    // SAFETY: by the interface the context is open.
    let is_used = unsafe { context(device) }.with(|engine| {
        let unacked = engine.cqs.get(&handle).map_or(0, |cq| cq.unacked);
        if unacked != 0 {
            eprintln!(
                "verbs-device: of the events of a completion queue {unacked} are not acknowledged: \
                 libibverbs waits for them for ever"
            );
        }
        let is_used = unacked != 0
            || engine.qps.values().any(|qp| qp.send_cq == handle || qp.recv_cq == handle);
        if !is_used {
            engine.cqs.remove(&handle);
            engine.channels.values_mut().for_each(|channel| channel.retain(|it| *it != object));
        }
        is_used
    });
    if is_used {
        return libc::EBUSY;
    }
    // SAFETY: the queue is of `ibv_create_cq` and not used later.
    drop(unsafe { Box::from_raw(cq) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut ibv::Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: by the interface the channel and its context are alive.
    let (channel, context) = unsafe { (&*channel, context((*channel).public.context)) };
    let has_event = || {
        context.with(|engine| {
            engine.channels.get(&channel.number).is_some_and(|it| !it.items.is_empty())
        })
    };
    if !wait(channel.public.fd, has_event) {
        return fail_int(libc::EAGAIN);
    }
    let object = context.with(|engine| {
        let object = engine.channels.get_mut(&channel.number)?.pop()?;
        let cq = engine.cqs.values_mut().find(|cq| cq.object == object);
        cq.into_iter().for_each(|cq| cq.unacked += 1);
        Some(object)
    });
    let Some(object) = object else { return fail_int(libc::EAGAIN) };
    let object = object as *mut ibv::Cq;
    // SAFETY: both results are valid for writes, and a queue with events is alive.
    unsafe { (*cq, *cq_context) = (object, (*object).cq_context) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv::Cq, count: c_uint) {
    // SAFETY: by the interface the queue is alive.
    let (handle, context) = unsafe { ((*cq).handle, context((*cq).context)) };
    context.with(|engine| {
        let cq = engine.cqs.get_mut(&handle);
        cq.into_iter().for_each(|cq| cq.unacked -= i64::from(count));
    });
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv::Cq, count: c_int, out: *mut Wc) -> c_int {
    // SAFETY: by the interface the queue is alive.
    let (handle, context) = unsafe { ((*cq).handle, context((*cq).context)) };
    let now = Instant::now();
    context.with(|engine| {
        engine.step(now);
        engine.polled_at = Some(now);
        let mut taken = 0;
        while taken < count {
            let Some(entry) = engine.cqs.get_mut(&handle).and_then(Cq::take) else { break };
            if let Some(qp) = engine.qps.get_mut(&entry.wc.qp_num) {
                qp.tx.used -= entry.retires;
            }
            // SAFETY: by the interface there is space for `count` completions.
            unsafe { *out.add(taken as usize) = entry.wc };
            taken += 1;
        }
        taken
    })
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv::Cq, _: c_int) -> c_int {
    // SAFETY: by the interface the queue is alive.
    let (handle, context) = unsafe { ((*cq).handle, context((*cq).context)) };
    context.with(|engine| {
        engine.polled_at = None;
        // The thread sleeps as if the program polled: it must look again.
        engine.deadline = Instant::now();
        engine.cqs.get_mut(&handle).map(Cq::arm)
    });
    0
}
