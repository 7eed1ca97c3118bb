//! Control messages between processes that do not share a communicator yet, for creating one.
//!
//! A [`ControlChannel`] is a context id that no communicator has (its top bit is set) and a tag.
//! No user's message, wildcard or collective matches a control message. The source of a control
//! message is the sender's rank in MPI_COMM_WORLD. Several groups with the same two processes may
//! therefore use one channel in turn.

#![allow(unsafe_code)]

use std::ffi::OsStr;

use fabric::{Collective, CollectiveKind, Peer, UserBuf};
use objects::{Buffer, Class, Error, Group, Result};
use pt2pt::{Envelope, Fault, Mode, Pattern, RequestId};

use crate::context_id::{CONTROL_BIT, FROM_TAG_BIT};
use crate::detached::Detached;
use crate::lock::{block_on, with};
use crate::process::Core;
use crate::stack::Stack;
use crate::wait_target::WaitTarget;

/// A context and a tag that match control messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlChannel {
    context: u64,
    tag: i32,
}

impl ControlChannel {
    /// Returns the channel of a communicator and a tag of the user.
    pub(crate) fn from_comm(context: u64, tag: i32) -> ControlChannel {
        ControlChannel { context: CONTROL_BIT | context, tag }
    }

    /// Returns the channel of a tag text of the user (MPI-5.0 §7.4.2).
    pub(crate) fn from_tag(tag: impl AsRef<OsStr>) -> ControlChannel {
        let bytes = tag.as_ref().as_encoded_bytes();
        // FNV-1a: equal in every process and version.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        ControlChannel { context: CONTROL_BIT | FROM_TAG_BIT | hash >> 3, tag: 0 }
    }

    /// Sends bytes; returns when the caller may change them.
    pub(crate) fn send(self, to: Peer, bytes: &[u8]) -> Result<()> {
        let request = self.post_send(to, bytes)?;
        finish(request)
    }

    /// Receives exactly as many bytes as `into` has.
    pub(crate) fn receive(self, from: Peer, into: &mut [u8]) -> Result<()> {
        let request = self.post_receive(Some(from), into)?;
        finish(request)
    }

    /// Receives from any process.
    pub(crate) fn receive_from_any(self, into: &mut [u8]) -> Result<()> {
        let request = self.post_receive(None, into)?;
        finish(request)
    }

    /// Sends and receives at once, so that two processes may exchange messages.
    pub(crate) fn exchange(self, with: Peer, bytes: &[u8], into: &mut [u8]) -> Result<()> {
        let incoming = self.post_receive(Some(with), into)?;
        let outgoing = self.post_send(with, bytes);
        let sent = outgoing.and_then(finish);
        finish(incoming).and(sent)
    }

    /// Broadcasts the bytes of `root` to all members of `group`, in a binomial tree. `rank` is the
    /// caller's.
    pub(crate) fn broadcast(
        self,
        group: &Group,
        rank: u32,
        root: u32,
        bytes: &mut [u8],
    ) -> Result<()> {
        let size = group.size();
        let node = (rank + size - root) % size;
        let peer = |node: u32| {
            group
                .peer_of((node + root) % size)
                .ok_or_else(|| Error::internal("a tree left its group"))
        };
        if node > 0 {
            self.receive(peer(node & (node - 1))?, bytes)?;
        }
        let reach = if node == 0 { size.next_power_of_two() } else { node & node.wrapping_neg() };
        let mut step = reach / 2;
        while step > 0 {
            if node + step < size {
                self.send(peer(node + step)?, bytes)?;
            }
            step /= 2;
        }
        Ok(())
    }

    /// Receives a message of so many bytes that has arrived, from any process; `None` if there is
    /// none.
    pub(crate) fn take<const SIZE: usize>(self, stack: &mut Stack) -> Option<[u8; SIZE]> {
        let mut bytes = [0; SIZE];
        // SAFETY: the bytes are borrowed exclusively, and the receive is over when the call
        // returns.
        let memory = unsafe { UserBuf::new(bytes.as_mut_ptr(), SIZE) };
        let received = stack.receive_now(&self.pattern(None), &Buffer::contiguous(memory))?;
        received.fault.is_none().then_some(bytes)
    }

    /// Starts to send bytes that no call waits for.
    pub(crate) fn start_send<const SIZE: usize>(
        self,
        core: &mut Core,
        to: Peer,
        bytes: [u8; SIZE],
    ) -> Detached {
        let bytes = Box::from(bytes);
        Detached::new(self.send_from(core, to, &bytes), bytes)
    }

    /// Starts to receive so many bytes that no call reads.
    pub(crate) fn start_discard(self, core: &mut Core, from: Peer, size: usize) -> Detached {
        let mut bytes = vec![0; size].into_boxed_slice();
        Detached::new(self.receive_into(core, Some(from), &mut bytes), bytes)
    }

    fn post_send(self, to: Peer, bytes: &[u8]) -> Result<RequestId> {
        with(|p| Ok(self.send_from(p.core()?, to, bytes)))
    }

    fn post_receive(self, from: Option<Peer>, into: &mut [u8]) -> Result<RequestId> {
        with(|p| Ok(self.receive_into(p.core()?, from, into)))
    }

    fn send_from(self, core: &mut Core, to: Peer, bytes: &[u8]) -> RequestId {
        // SAFETY: each caller keeps the bytes until the request is complete; a send does not write
        // to them.
        let memory = unsafe { UserBuf::new(bytes.as_ptr().cast_mut(), bytes.len()) };
        let ControlChannel { context, tag } = self;
        let envelope =
            Envelope { context, source: core.job.number, tag, collective: Some(CREATION) };
        core.stack.send(Mode::Standard, to, envelope, Buffer::contiguous(memory))
    }

    fn receive_into(self, core: &mut Core, from: Option<Peer>, into: &mut [u8]) -> RequestId {
        // SAFETY: each caller keeps the bytes, and uses them for nothing else, until the request is
        // complete.
        let memory = unsafe { UserBuf::new(into.as_mut_ptr(), into.len()) };
        core.stack.receive(self.pattern(from), Buffer::contiguous(memory))
    }

    fn pattern(self, from: Option<Peer>) -> Pattern {
        let ControlChannel { context, tag } = self;
        let source = from.map(|peer| peer.0);
        Pattern { context, source, tag: Some(tag), collective: Some(CREATION) }
    }
}

/// The kind of control messages on the wire and in the launcher's reports.
const CREATION: Collective = Collective::new(CollectiveKind::CommCreate, None, None);

fn finish(request: RequestId) -> Result<()> {
    let completion = block_on(|p| {
        p.wait_target = WaitTarget::Message(request);
        p.stack()?.pt2pt().finish(request)
    });
    match completion.fault {
        None => Ok(()),
        Some(fault) => {
            let class =
                if let Fault::PeerFailed(_) = *fault { Class::ProcAborted } else { Class::Other };
            Err(Error::new(class, format!("cannot create the communicator: {fault}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_differ_from_communicators_and_from_each_other() {
        let from_comm = ControlChannel::from_comm(7, 3);
        assert_ne!(from_comm.context, 7 * 2);
        assert_ne!(from_comm, ControlChannel::from_comm(7, 4));
        let text = ControlChannel::from_tag("halo");
        assert_eq!(text, ControlChannel::from_tag("halo"));
        assert_ne!(text, ControlChannel::from_tag("hale"));
        assert!(
            text.context & CONTROL_BIT != 0
                && text.context & FROM_TAG_BIT != 0
                && from_comm.context & FROM_TAG_BIT == 0
        );
    }
}
