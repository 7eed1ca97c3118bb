//! The send queue of an endpoint.
//!
//! Invariant: `used` requests are in the queue, and `signaled` has one entry for each of them that
//! completes by itself.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;

use crate::completions::wr_id;
use crate::ibv::layout::send_flags;
use crate::ibv::{Destination, Qp, Sge, Work};

/// Every so many requests one is signaled.
pub(crate) const SIGNAL_EVERY: u32 = 16;
/// Most RMA requests of one endpoint under way.
pub(crate) const MAX_RMA_OPS: usize = 16;
/// Requests that a send queue has space for besides frames: control messages, ring controls, RMA,
/// and requests that wait for the next signaled one.
pub(crate) const CONTROL_SENDS: u32 = 14 + MAX_RMA_OPS as u32 + SIGNAL_EVERY;

/// A signaled request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    /// Requests that are complete with it.
    pub(crate) requests: u32,
    /// Bytes of a piece of an RMA operation; 0 for any other request.
    pub(crate) piece: u32,
    /// The device accesses the memory of the request after it was posted: to write it, or because
    /// it is the program's.
    pub(crate) by_reference: bool,
    /// Slot of a control message, which is then free.
    pub(crate) slot: Option<u32>,
    /// It is the last message that the connection sends again.
    pub(crate) ends_replay: bool,
}

/// The queue pair of an endpoint and its outstanding requests.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    pub(crate) qp: Option<Qp>,
    /// A queue pair that does not carry requests yet.
    pub(crate) connecting: Option<Qp>,
    /// The queue pair takes receives of the shared queue.
    pub(crate) takes_receives: bool,
    /// Requests in the send queue.
    pub(crate) used: u32,
    /// Requests after the last signaled one.
    pub(crate) unsignaled: u32,
    /// Data was written after the last SEND; therefore the next frame must be one. A device may
    /// acknowledge a write before it is in memory, and place a later write first. A later SEND's
    /// receive completes only after it.
    pub(crate) must_send: bool,
    pub(crate) signaled: VecDeque<Signal>,
}

impl Signal {
    /// A request that is signaled only at its interval.
    pub(crate) const NONE: Signal =
        Signal { requests: 0, piece: 0, by_reference: false, slot: None, ends_replay: false };
}

impl SendQueue {
    /// Posts a request. A request that is a piece of an RMA operation, that has a slot to return or
    /// that ends a replay is signaled. Of the others one in [`SIGNAL_EVERY`] is.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        memory: Sge,
        to: Destination,
        signal: Signal,
    ) -> io::Result<()> {
        let Some(qp) = &self.qp else {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        let requests = self.unsignaled + 1;
        let has_meaning = signal.piece != 0 || signal.slot.is_some() || signal.ends_replay;
        let is_signaled = requests >= SIGNAL_EVERY || has_meaning;
        let mut flags = if is_signaled { send_flags::SIGNALED } else { 0 };
        if memory.length <= qp.inline() && !signal.by_reference {
            flags |= send_flags::INLINE;
        }
        // SAFETY: inline requests name a slot of a pool. The pool keeps it mapped as long as the
        // transport lives, and this request holds the slot. Therefore it is readable and not
        // written during the call.
        unsafe { qp.post(&Work { id: wr_id::SEND, flags, memory, to }) }?;
        self.used += 1;
        self.unsignaled = requests;
        if is_signaled {
            self.unsignaled = 0;
            self.signaled.push_back(Signal { requests, ..signal });
        }
        Ok(())
    }

    /// Handles the completion of the oldest signaled request, and returns it.
    #[inline]
    pub(crate) fn complete(&mut self) -> Option<Signal> {
        let signal = self.signaled.pop_front()?;
        self.used -= signal.requests;
        Some(signal)
    }

    /// Returns whether the queue pair has this number.
    #[inline]
    pub(crate) fn is_on(&self, qpn: u32) -> bool {
        self.queue_pair().is_some_and(|qp| qp.number() == qpn)
    }

    /// Returns the queue pair, whether or not it carries requests.
    #[inline]
    pub(crate) fn queue_pair(&self) -> Option<&Qp> {
        self.qp.as_ref().or(self.connecting.as_ref())
    }

    /// Takes the queue pair out; `free` gets the slots of control messages under way.
    pub(crate) fn disconnect(&mut self, free: impl FnMut(u32)) -> Option<Qp> {
        self.signaled.drain(..).filter_map(|signal| signal.slot).for_each(free);
        (self.used, self.unsignaled) = (0, 0);
        (self.takes_receives, self.must_send) = (false, false);
        self.qp.take().or_else(|| self.connecting.take())
    }
}
