//! Asynchronous events.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::c_int;
use std::os::fd::{AsFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use verbs_transport::ibv::layout::{self as ibv, AsyncEvent};

use super::shared::{context, fail_int};

/// Waits until a descriptor is readable. Returns false if it does not block.
pub(super) fn wait(fd: RawFd, is_there: impl Fn() -> bool) -> bool {
    // SAFETY: fcntl takes integers alone.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    while !is_there() {
        if flags & libc::O_NONBLOCK != 0 {
            return false;
        }
        // SAFETY: the descriptor belongs to an object that lives during the call.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let _ = poll(&mut [PollFd::new(&fd.as_fd(), PollFlags::IN)], None);
    }
    true
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    device: *mut ibv::Context,
    out: *mut AsyncEvent,
) -> c_int {
    // SAFETY: by the interface the context is open.
    let (fd, context) = unsafe { ((*device).async_fd, context(device)) };
    if !wait(fd, || context.with(|engine| !engine.events.items.is_empty())) {
        return fail_int(libc::EAGAIN);
    }
    let event = context.with(|engine| {
        let event = engine.events.pop()?;
        if let Some(qp) = engine.qps.get_mut(&event.qpn) {
            qp.unacked += 1;
        }
        Some(event)
    });
    let Some(event) = event else { return fail_int(libc::EAGAIN) };
    let element = if event.qpn != 0 || event.kind == ibv::event::CQ_ERR {
        ibv::Element { qp: event.element as usize as *mut ibv::Qp }
    } else {
        ibv::Element { port_num: event.element as c_int }
    };
    // SAFETY: by the interface the event is valid for writes.
    unsafe { *out = AsyncEvent { element, event_type: event.kind } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut AsyncEvent) {
    // SAFETY: by the interface the event is one that was taken.
    let event = unsafe { *event };
    let of_qp = matches!(
        event.event_type,
        ibv::event::QP_FATAL
            | ibv::event::QP_REQ_ERR
            | ibv::event::QP_ACCESS_ERR
            | ibv::event::QP_LAST_WQE_REACHED
    );
    if of_qp {
        // SAFETY: the event carries a queue pair that is not destroyed before it is acknowledged.
        let (number, context) =
            unsafe { ((*event.element.qp).qp_num, context((*event.element.qp).context)) };
        context.with(|engine| {
            if let Some(qp) = engine.qps.get_mut(&number) {
                qp.unacked -= 1;
            }
        });
    }
}
