//! Queues: of completions, of shared receives, and pairs for sends and receives.
//!
//! Work requests name memory by address and key. The device refuses what no
//! registration covers, so a wrong request fails and does no damage; what is left
//! to the caller is not to look at memory that a posted receive or read may write.

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
use super::{check, non_null, set_non_blocking};

/// Tells when a completion queue has something new.
#[derive(Debug)]
pub struct Channel {
    context: Arc<Context>,
    raw: NonNull<layout::CompChannel>,
}

/// A queue of completions.
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

/// Receives for all queue pairs.
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
    /// Bytes that a send may carry in its request.
    inline: u32,
}

// SAFETY: libibverbs locks what threads share; the pointers are only freed in `drop`.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}
// SAFETY: as above.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Send for Srq {}
// SAFETY: as above.
unsafe impl Send for Qp {}

/// Completions that were taken from a queue.
pub type Completions<const N: usize> = [Wc; N];

/// A request to a queue pair.
pub struct Work {
    /// Comes back in the completion.
    pub id: u64,
    /// See [`layout::send_flags`].
    pub flags: u32,
    /// The local memory.
    pub memory: Sge,
    /// Where to.
    pub to: Destination,
}

/// What a request does at the connected peer, and where: an operation, as libibverbs wants it.
#[derive(Clone, Copy)]
pub struct Destination {
    opcode: u32,
    target: Target,
}

impl Destination {
    /// Goes into the next posted receive.
    pub const RECEIVE: Destination = Destination { opcode: opcode::SEND, target: SendWr::EMPTY.wr };

    /// Reads memory at this address, with its key.
    pub fn read(addr: u64, rkey: u32) -> Destination {
        Destination {
            opcode: opcode::RDMA_READ,
            target: Target { rdma: Rdma { remote_addr: addr, rkey } },
        }
    }

    /// Writes memory at this address, with its key.
    #[inline]
    pub fn write(addr: u64, rkey: u32) -> Destination {
        Destination {
            opcode: opcode::RDMA_WRITE,
            target: Target { rdma: Rdma { remote_addr: addr, rkey } },
        }
    }

    /// Changes 64 bits at this address, with its key; the local memory gets what they were.
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
    /// A channel whose descriptor does not block.
    pub fn new(context: &Arc<Context>) -> io::Result<Arc<Channel>> {
        // SAFETY: an open device.
        let raw = non_null(unsafe { (context.library.create_channel)(context.raw()) })?;
        let channel = Channel { context: Arc::clone(context), raw };
        set_non_blocking(channel.fd())?;
        Ok(Arc::new(channel))
    }

    /// Readable when there is an event.
    pub fn fd(&self) -> RawFd {
        // SAFETY: alive until dropped.
        unsafe { self.raw.as_ref().fd }
    }
}

impl Cq {
    /// A queue with room for `entries` completions.
    pub fn new(channel: &Arc<Channel>, entries: u32) -> io::Result<Cq> {
        let context = Arc::clone(&channel.context);
        let create = context.library.create_cq;
        // SAFETY: an open device and a channel of it.
        let raw = non_null(unsafe {
            create(context.raw(), entries as c_int, null_mut(), channel.raw.as_ptr(), 0)
        })?;
        let unusable = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let poll = context.ops().poll_cq.ok_or_else(unusable)?;
        let notify = context.ops().req_notify_cq.ok_or_else(unusable)?;
        Ok(Cq { context, channel: Arc::clone(channel), raw, poll, notify, events: 0 })
    }

    /// Completions it has room for.
    pub fn entries(&self) -> u32 {
        // SAFETY: alive until dropped.
        unsafe { self.raw.as_ref().cqe as u32 }
    }

    /// Makes room for `entries` completions.
    pub fn resize(&mut self, entries: u32) -> io::Result<()> {
        // SAFETY: a queue of ours; `&mut` says that nobody polls it meanwhile.
        check(unsafe { (self.context.library.resize_cq)(self.raw.as_ptr(), entries as c_int) })
    }

    /// Takes what has completed; how much it was. Fewer than asked for: it is empty now.
    #[inline]
    pub fn poll(&mut self, completions: &mut [Wc]) -> usize {
        // SAFETY: room for as many as are asked for.
        let taken = unsafe {
            (self.poll)(self.raw.as_ptr(), completions.len() as c_int, completions.as_mut_ptr())
        };
        // An error here is a device that is gone; it says so by an event.
        usize::try_from(taken).unwrap_or(0)
    }

    /// Asks for one event with the next completion.
    pub fn request_notification(&mut self) -> io::Result<()> {
        // SAFETY: a queue of ours.
        check(unsafe { (self.notify)(self.raw.as_ptr(), 0) })
    }

    /// Takes an event off the channel, where there is at most one for each request. Returns false
    /// if there is none.
    pub fn take_event(&mut self) -> bool {
        let (mut cq, mut tag) = (null_mut(), null_mut());
        // SAFETY: a channel of ours that does not block, two pointers to be written.
        let is_there = unsafe {
            (self.context.library.cq_event)(self.channel.raw.as_ptr(), &mut cq, &mut tag)
        } == 0;
        self.events += u32::from(is_there);
        // Acknowledging takes a lock: in lots.
        if self.events >= 64 {
            self.acknowledge();
        }
        is_there
    }

    fn acknowledge(&mut self) {
        // SAFETY: as many as were taken.
        unsafe { (self.context.library.ack_cq_events)(self.raw.as_ptr(), self.events) };
        self.events = 0;
    }
}

impl Srq {
    /// A queue with room for `entries` receives.
    pub fn new(pd: &Arc<Pd>, entries: u32) -> io::Result<Srq> {
        let attr = SrqAttr { max_wr: entries, max_sge: 1, srq_limit: 0 };
        let mut attr = SrqInitAttr { srq_context: null_mut(), attr };
        // SAFETY: a domain and attributes of ours.
        let raw = non_null(unsafe { (pd.context.library.create_srq)(pd.raw(), &mut attr) })?;
        let post = pd
            .context
            .ops()
            .post_srq_recv
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
        Ok(Srq { pd: Arc::clone(pd), raw, post })
    }

    /// Posts receives: the number that comes back, and where each writes.
    pub fn post(&mut self, receives: &[(u64, Sge)]) -> io::Result<()> {
        // SAFETY: a queue of ours and a list that lives for the call.
        post_receives(receives, |list| unsafe {
            (self.post)(self.raw.as_ptr(), list, &mut null_mut())
        })
    }
}

/// Chains receives, a few at a time, for one call each.
fn post_receives(
    receives: &[(u64, Sge)],
    mut post: impl FnMut(*mut RecvWr) -> c_int,
) -> io::Result<()> {
    const AT_ONCE: usize = 16;
    for some in receives.chunks(AT_ONCE) {
        let mut memory = [Sge::default(); AT_ONCE];
        let empty = RecvWr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 1 };
        let mut list = [empty; AT_ONCE];
        let (memory, list) = (memory.as_mut_ptr(), list.as_mut_ptr());
        for (at, (id, sge)) in some.iter().enumerate() {
            // SAFETY: `at` is within both arrays, which live to the end of the call.
            unsafe {
                *memory.add(at) = *sge;
                let next = if at + 1 < some.len() { list.add(at + 1) } else { null_mut() };
                *list.add(at) = RecvWr { wr_id: *id, next, sg_list: memory.add(at), num_sge: 1 };
            }
        }
        check(post(list))?;
    }
    Ok(())
}

impl Qp {
    /// A reliable connection that receives from `srq`, or (without) a datagram pair
    /// with receives of its own. Asks for less inline data until the device agrees.
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
            // SAFETY: a domain, queues of it and attributes of ours.
            match non_null(unsafe { (pd.context.library.create_qp)(pd.raw(), &mut attr) }) {
                Ok(raw) => break (raw, attr.cap.max_inline_data.min(inline)),
                Err(error) if inline == 0 => return Err(error),
                Err(_) => inline /= 2,
            }
        };
        let unusable = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let post = pd.context.ops().post_send.ok_or_else(unusable)?;
        let receive = pd.context.ops().post_recv.ok_or_else(unusable)?;
        Ok(Qp { pd: Arc::clone(pd), raw, post, receive, inline })
    }

    /// Its number on the wire.
    pub fn number(&self) -> u32 {
        // SAFETY: alive until dropped.
        unsafe { self.raw.as_ref().qp_num }
    }

    /// Bytes that may be sent with [`layout::send_flags::INLINE`].
    #[inline]
    pub fn inline(&self) -> u32 {
        self.inline
    }

    /// Changes what the mask names (see [`layout::qp_mask`]).
    pub fn modify(&self, mut attr: QpAttr, mask: c_int) -> io::Result<()> {
        // SAFETY: a queue pair and attributes of ours.
        check(unsafe { (self.pd.context.library.modify_qp)(self.raw.as_ptr(), &mut attr, mask) })
    }

    /// Asks the device whether the queue pair still carries requests out.
    pub fn is_ready_to_send(&self) -> bool {
        let (mut attr, mut made_with) = (QpAttr::default(), MaybeUninit::<QpInitAttr>::zeroed());
        // SAFETY: a queue pair and room of ours for both answers, of which the second is not read.
        let asked = unsafe {
            (self.pd.context.library.query_qp)(
                self.raw.as_ptr(),
                &mut attr,
                qp_mask::STATE,
                made_with.as_mut_ptr(),
            )
        };
        asked == 0 && attr.qp_state == qp_state::RTS
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
        // SAFETY: one request that lives for the call, and the caller's promise.
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
        // SAFETY: one request that lives for the call; the device checks the memory.
        check(unsafe { (self.post)(self.raw.as_ptr(), &mut request, &mut null_mut()) })
    }

    /// Posts receives of a datagram pair: the number that comes back, and where each
    /// writes.
    pub fn post_receives(&self, receives: &[(u64, Sge)]) -> io::Result<()> {
        // SAFETY: a queue pair of ours and a list that lives for the call.
        post_receives(receives, |list| unsafe {
            (self.receive)(self.raw.as_ptr(), list, &mut null_mut())
        })
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `new`; the queues that used it are gone.
        unsafe { (self.context.library.destroy_channel)(self.raw.as_ptr()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.acknowledge();
        // SAFETY: made by `new`; all its events are acknowledged.
        unsafe { (self.context.library.destroy_cq)(self.raw.as_ptr()) };
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (self.pd.context.library.destroy_srq)(self.raw.as_ptr()) };
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (self.pd.context.library.destroy_qp)(self.raw.as_ptr()) };
    }
}
