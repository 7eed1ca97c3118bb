//! Completion queues, shared receive queues and queue pairs.
//!
//! Work requests name memory by address and key. The device refuses accesses that no registration
//! covers; therefore an invalid request fails and does no damage. The caller must not access memory
//! that a posted receive or read may write.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::context::Context;
use super::layout::{
    self, Datagram, PollCq, PostRecv, PostSend, PostSrqRecv, QpAttr, QpCap, QpInitAttr, Rdma,
    RecvWr, ReqNotifyCq, SendWr, Sge, SrqAttr, SrqInitAttr, Target, Wc, opcode, qp_mask, qp_state,
    qp_type,
};
use super::protection::{Ah, Pd};
use super::{check, non_null, released, set_non_blocking};

/// A completion channel: its descriptor shows when a completion queue has an event.
#[derive(Debug)]
pub struct Channel {
    context: Arc<Context>,
    raw: NonNull<layout::CompChannel>,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    context: Arc<Context>,
    channel: Arc<Channel>,
    raw: NonNull<layout::Cq>,
    poll: PollCq,
    notify: ReqNotifyCq,
    /// Events taken and not acknowledged yet.
    events: u32,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    pd: Arc<Pd>,
    raw: NonNull<layout::Srq>,
    post: PostSrqRecv,
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    pd: Arc<Pd>,
    raw: NonNull<layout::Qp>,
    post: PostSend,
    receive: PostRecv,
    /// Most bytes that a send may carry in its request.
    inline: u32,
}

// SAFETY: a channel belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Channel {}
// SAFETY: shared references only read its descriptor, which does not change, and take events,
// which libibverbs allows from any thread.
unsafe impl Sync for Channel {}
// SAFETY: a completion queue belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Cq {}
// SAFETY: a receive queue belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Srq {}
// SAFETY: a queue pair belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Qp {}

/// Completions that were taken from a queue.
pub type Completions<const N: usize> = [Wc; N];

/// A request to a queue pair.
pub struct Work {
    /// Number that comes back in the completion.
    pub id: u64,
    /// See [`layout::send_flags`].
    pub flags: u32,
    /// The local memory.
    pub memory: Sge,
    /// The operation and its target.
    pub to: Destination,
}

/// The operation of a request at the connected peer, and its target.
#[derive(Clone, Copy)]
pub struct Destination {
    pub(super) opcode: u32,
    pub(super) target: Target,
}

impl Destination {
    /// A send into the next posted receive.
    pub const RECEIVE: Destination = Destination { opcode: opcode::SEND, target: SendWr::EMPTY.wr };

    /// Returns a read of memory at this address, with its key.
    pub fn read(addr: u64, rkey: u32) -> Destination {
        Destination {
            opcode: opcode::RDMA_READ,
            target: Target { rdma: Rdma { remote_addr: addr, rkey } },
        }
    }

    /// Returns a write of memory at this address, with its key.
    #[inline]
    pub fn write(addr: u64, rkey: u32) -> Destination {
        Destination {
            opcode: opcode::RDMA_WRITE,
            target: Target { rdma: Rdma { remote_addr: addr, rkey } },
        }
    }

    /// Returns an atomic change of 64 bits at this address, with its key. The local memory gets the
    /// old value.
    pub fn atomic(addr: u64, rkey: u32, what: fabric::Atomic) -> Destination {
        let (opcode, compare_add, swap) = match what {
            fabric::Atomic::Add(more) => (opcode::ATOMIC_FETCH_AND_ADD, more, 0),
            fabric::Atomic::CompareSwap { expected, new } => {
                (opcode::ATOMIC_CMP_AND_SWP, expected, new)
            }
        };
        let target =
            Target { atomic: layout::Atomic { remote_addr: addr, compare_add, swap, rkey } };
        Destination { opcode, target }
    }
}

impl Channel {
    /// Makes a channel whose descriptor does not block.
    pub fn new(context: &Arc<Context>) -> io::Result<Arc<Channel>> {
        // SAFETY: the device is open.
        let raw = non_null(unsafe { (context.library.create_channel)(context.raw()) })?;
        let channel = Channel { context: Arc::clone(context), raw };
        set_non_blocking(channel.fd())?;
        Ok(Arc::new(channel))
    }

    /// Returns the descriptor, which is readable when there is an event.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the object is alive until dropped.
        unsafe { self.raw.as_ref().fd }
    }
}

impl Cq {
    /// Makes a queue with space for `entries` completions. Its events interrupt by one of the
    /// device's vectors, those of queues of different `turn` by different ones.
    pub fn new(channel: &Arc<Channel>, entries: u32, turn: u32) -> io::Result<Cq> {
        let context = Arc::clone(&channel.context);
        let create = context.library.create_cq;
        let vector = (turn % context.completion_vectors()) as c_int;
        // SAFETY: the device is open, and the channel is of the same device and kept alive.
        let raw = non_null(unsafe {
            create(context.raw(), entries as c_int, null_mut(), channel.raw.as_ptr(), vector)
        })?;
        let unusable = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let poll = context.ops().poll_cq.ok_or_else(unusable)?;
        let notify = context.ops().req_notify_cq.ok_or_else(unusable)?;
        Ok(Cq { context, channel: Arc::clone(channel), raw, poll, notify, events: 0 })
    }

    pub(super) fn raw(&self) -> *mut layout::Cq {
        self.raw.as_ptr()
    }

    /// Takes completions and returns their number. If there are fewer than there is space for, the
    /// queue is empty.
    #[inline]
    pub fn poll(&mut self, completions: &mut [Wc]) -> usize {
        // SAFETY: the queue is alive, and there is space for as many completions as are requested.
        let taken = unsafe {
            (self.poll)(self.raw.as_ptr(), completions.len() as c_int, completions.as_mut_ptr())
        };
        // An error means that the device is gone, which it reports by an event.
        usize::try_from(taken).unwrap_or(0)
    }

    /// Requests one event with the next completion.
    pub fn request_notification(&mut self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { (self.notify)(self.raw.as_ptr(), 0) })
    }

    /// Takes an event off the channel, where there is at most one for each request. Returns false
    /// if there is none.
    pub fn take_event(&mut self) -> bool {
        let (mut cq, mut tag) = (null_mut(), null_mut());
        // SAFETY: the channel is alive and does not block, and both pointers are valid for writes.
        let is_there = unsafe {
            (self.context.library.cq_event)(self.channel.raw.as_ptr(), &mut cq, &mut tag)
        } == 0;
        self.events += u32::from(is_there);
        // Acknowledging takes a lock; therefore many events are acknowledged at once.
        if self.events >= 64 {
            self.acknowledge();
        }
        is_there
    }

    fn acknowledge(&mut self) {
        // SAFETY: the queue is alive, and as many events were taken and not acknowledged.
        unsafe { (self.context.library.ack_cq_events)(self.raw.as_ptr(), self.events) };
        self.events = 0;
    }
}

impl Srq {
    /// Makes a queue with space for `entries` receives.
    pub fn new(pd: &Arc<Pd>, entries: u32) -> io::Result<Srq> {
        let attr = SrqAttr { max_wr: entries, max_sge: 1, srq_limit: 0 };
        let mut attr = SrqInitAttr { srq_context: null_mut(), attr };
        // SAFETY: the domain is alive, and the attributes live for the call.
        let raw = non_null(unsafe { (pd.context.library.create_srq)(pd.raw(), &mut attr) })?;
        let post = pd
            .context
            .ops()
            .post_srq_recv
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
        Ok(Srq { pd: Arc::clone(pd), raw, post })
    }

    pub(super) fn raw(&self) -> *mut layout::Srq {
        self.raw.as_ptr()
    }

    /// Posts receives: the number that comes back in the completion, and the memory of each.
    /// Returns how many the device has taken; the error is why it has not taken the next one.
    pub fn post(&mut self, receives: &[(u64, Sge)]) -> (usize, io::Result<()>) {
        // SAFETY: the queue is alive, and the list lives for the call.
        post_receives(receives, |list, refused| unsafe {
            (self.post)(self.raw.as_ptr(), list, refused)
        })
    }
}

/// Posts receives in chains of a few. Returns how many were taken. `post` also writes the address
/// of the first one that was not.
fn post_receives(
    receives: &[(u64, Sge)],
    mut post: impl FnMut(*mut RecvWr, *mut *mut RecvWr) -> c_int,
) -> (usize, io::Result<()>) {
    const CHAIN: usize = 16;
    for (before, chain) in (0..).step_by(CHAIN).zip(receives.chunks(CHAIN)) {
        let mut memory = [Sge::default(); CHAIN];
        let empty = RecvWr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 1 };
        let mut list = [empty; CHAIN];
        let (memory, list) = (memory.as_mut_ptr(), list.as_mut_ptr());
        for (at, (id, sge)) in chain.iter().enumerate() {
            // SAFETY: `at`, and `at + 1` where it is used, are within both arrays, which live to
            // the end of the call.
            unsafe {
                *memory.add(at) = *sge;
                let next = if at + 1 < chain.len() { list.add(at + 1) } else { null_mut() };
                *list.add(at) = RecvWr { wr_id: *id, next, sg_list: memory.add(at), num_sge: 1 };
            }
        }
        let mut refused = null_mut();
        if let Err(error) = check(post(list, &mut refused)) {
            let bytes = refused.addr().wrapping_sub(list.addr());
            // A driver that names none of the list has taken nothing.
            let taken = Some(bytes / size_of::<RecvWr>()).filter(|&taken| taken < chain.len());
            return (before + taken.unwrap_or(0), Err(error));
        }
    }
    (receives.len(), Ok(()))
}

impl Qp {
    /// Makes an RC queue pair that receives from `srq`, or, without one, a UD queue pair with
    /// receives of its own. Requests less inline data until the device agrees.
    pub fn new(
        pd: &Arc<Pd>,
        cq: &Cq,
        srq: Option<&Srq>,
        sends: u32,
        receives: u32,
        inline: u32,
    ) -> io::Result<Qp> {
        let mut inline = inline;
        let (raw, inline) = loop {
            let cap = QpCap {
                max_send_wr: sends,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: u32::from(receives > 0),
                max_inline_data: inline,
            };
            let mut attr = QpInitAttr {
                qp_context: null_mut(),
                send_cq: cq.raw.as_ptr(),
                recv_cq: cq.raw.as_ptr(),
                srq: srq.map_or(null_mut(), |srq| srq.raw.as_ptr()),
                cap,
                qp_type: if srq.is_some() { qp_type::RC } else { qp_type::UD },
                sq_sig_all: 0,
            };
            // SAFETY: the domain is alive, the queues are of the same device, and the attributes
            // live for the call.
            match non_null(unsafe { (pd.context.library.create_qp)(pd.raw(), &mut attr) }) {
                Ok(raw) => break (raw, attr.cap.max_inline_data.min(inline)),
                Err(error) if inline == 0 => return Err(error),
                Err(_) => inline /= 2,
            }
        };
        Qp::of(pd, raw, inline)
    }

    /// Returns the owner of a queue pair that was just made.
    pub(super) fn of(pd: &Arc<Pd>, raw: NonNull<layout::Qp>, inline: u32) -> io::Result<Qp> {
        let unusable = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let post = pd.context.ops().post_send.ok_or_else(unusable)?;
        let receive = pd.context.ops().post_recv.ok_or_else(unusable)?;
        Ok(Qp { pd: Arc::clone(pd), raw, post, receive, inline })
    }

    pub(super) fn raw(&self) -> *mut layout::Qp {
        self.raw.as_ptr()
    }

    /// Returns its number on the wire.
    pub fn number(&self) -> u32 {
        // SAFETY: the object is alive until dropped.
        unsafe { self.raw.as_ref().qp_num }
    }

    /// Returns the most bytes that may be sent with [`layout::send_flags::INLINE`].
    #[inline]
    pub fn inline(&self) -> u32 {
        self.inline
    }

    /// Changes the attributes that the mask names, see [`layout::qp_mask`].
    pub fn modify(&self, mut attr: QpAttr, mask: c_int) -> io::Result<()> {
        // SAFETY: the queue pair is alive, and the attributes live for the call.
        check(unsafe { (self.pd.context.library.modify_qp)(self.raw.as_ptr(), &mut attr, mask) })
    }

    /// Queries the state, see [`layout::qp_state`].
    pub fn state(&self) -> io::Result<u32> {
        let (mut attr, mut made_with) = (QpAttr::default(), MaybeUninit::<QpInitAttr>::zeroed());
        // SAFETY: the queue pair is alive, and both answers, of which the second is not read, have
        // space for their structures.
        check(unsafe {
            (self.pd.context.library.query_qp)(
                self.raw.as_ptr(),
                &mut attr,
                qp_mask::STATE,
                made_with.as_mut_ptr(),
            )
        })?;
        Ok(attr.qp_state)
    }

    /// Queries whether the queue pair still carries out requests.
    pub fn is_ready_to_send(&self) -> bool {
        self.state().is_ok_and(|state| state == qp_state::RTS)
    }

    /// Posts one request. With the inline flag `memory.addr` must be readable for
    /// `memory.length` bytes now.
    ///
    /// # Safety
    /// The inline flag makes this process read `memory` without a registration.
    #[inline]
    pub unsafe fn post(&self, work: &Work) -> io::Result<()> {
        let mut memory = work.memory;
        let mut request = SendWr {
            wr_id: work.id,
            sg_list: &mut memory,
            num_sge: 1,
            opcode: work.to.opcode,
            send_flags: work.flags,
            wr: work.to.target,
            ..SendWr::EMPTY
        };
        // SAFETY: the queue pair is alive, the request lives for the call, and inline memory is
        // readable by the caller's promise.
        check(unsafe { (self.post)(self.raw.as_ptr(), &mut request, &mut null_mut()) })
    }

    /// Sends a datagram.
    pub fn post_datagram(
        &self,
        id: u64,
        flags: u32,
        mut memory: Sge,
        ah: &Ah,
        number: u32,
        qkey: u32,
    ) -> io::Result<()> {
        let mut request = SendWr {
            wr_id: id,
            sg_list: &mut memory,
            num_sge: 1,
            opcode: opcode::SEND,
            send_flags: flags & !layout::send_flags::INLINE,
            wr: Target { ud: Datagram { ah: ah.raw(), remote_qpn: number, remote_qkey: qkey } },
            ..SendWr::EMPTY
        };
        // SAFETY: the queue pair and the address handle are alive, the request lives for the call,
        // and the device checks the memory, since nothing is inline.
        check(unsafe { (self.post)(self.raw.as_ptr(), &mut request, &mut null_mut()) })
    }

    /// Posts receives of a UD queue pair: the number that comes back in the completion, and the
    /// memory of each.
    pub fn post_receives(&self, receives: &[(u64, Sge)]) -> (usize, io::Result<()>) {
        // SAFETY: the queue pair is alive, and the list lives for the call.
        post_receives(receives, |list, refused| unsafe {
            (self.receive)(self.raw.as_ptr(), list, refused)
        })
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once; queues hold an `Arc` of it, therefore they are
        // gone.
        released(unsafe { (self.context.library.destroy_channel)(self.raw.as_ptr()) });
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.acknowledge();
        // SAFETY: made by `new` and freed once; all its events are acknowledged, and the queue
        // pairs that use it are dropped before it.
        released(unsafe { (self.context.library.destroy_cq)(self.raw.as_ptr()) });
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once; the queue pairs that use it are dropped before it.
        released(unsafe { (self.pd.context.library.destroy_srq)(self.raw.as_ptr()) });
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once.
        released(unsafe { (self.pd.context.library.destroy_qp)(self.raw.as_ptr()) });
    }
}
