//! Put and get by a device that reads and writes the memory of a target on another host.
//!
//! Memory: an origin requests the description of a target's memory at the first operation that
//! could use it ([`Step::Describe`]). Operations before the answer travel in frames. The target
//! registers its memory once for each origin that asks, until the window is closed. Dynamic windows
//! describe nothing.
//!
//! What a device does: puts and gets of contiguous local memory whose runs at the target are few or
//! long, a transfer for each run. Accumulates never: processors execute them all, so that all
//! accesses of a window agree on one kind of atomicity.
//!
//! Completion: a put has ended when its bytes are in place, before any frame posted afterwards. An
//! operation of a device is over when its transfers have ended; a flush waits for that and sends
//! nothing. The frame that unlocks a target or ends an access epoch is posted after the flush of
//! the operations before it. Transfers and frames overtake each other only within an epoch, where
//! operations are not ordered.
//!
//! A device that refuses: the operation starts anew in frames, which changes nothing, and is over
//! when what was under way has ended too. Later operations on that target travel in frames.

use fabric::{
    Header, HybridGet, OneSided, Peer, PeerFailed, Post, ProtocolId, Region, RequestId, Rights,
    Token, Transfer,
};

use crate::engine::{Engine, Posted};
use crate::operations::{Action, Operation};
use crate::segment::Cursor;
use crate::window::{Described, Memory};
use crate::wire::Step;

/// How much of an operation a device has begun.
pub(crate) enum Begun {
    All,
    /// There is no space for the next transfer.
    Some,
    /// Nothing: it travels in frames.
    Nothing,
}

impl Engine {
    /// Returns the target's memory if a device is to do an operation that is about to start.
    /// Requests it if it is not known.
    pub(crate) fn device_of<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        operation: &Operation,
    ) -> Option<Region> {
        let window = self.windows.get_mut(&operation.window)?;
        let is_distant = window.remotes[operation.target as usize].is_distant;
        if !is_distant || window.is_dynamic() || !suits(operation) {
            return None;
        }
        let caps = endpoint.caps(peer);
        if caps.get_min == u64::MAX && caps.put_min == u64::MAX {
            return None;
        }
        let described = &mut window.target(operation.target).described;
        match *described {
            Described::Region(region) => return Some(region),
            Described::Requested | Described::Nothing => return None,
            Described::Unknown => *described = Described::Requested,
        }
        // A peer that has failed is noticed by the operation itself.
        let _ = self.send_step(operation.window, operation.target, Step::Describe);
        None
    }

    /// Registers this rank's memory for a peer, once, and posts its description; false if there is
    /// no space.
    pub(crate) fn post_description<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        id: u64,
    ) -> Posted<bool> {
        let Some(window) = self.windows.get_mut(&id) else { return Ok(true) };
        let memory = match window.memory {
            Memory::Fixed(memory) if !memory.is_empty() => Some(memory),
            _ => None,
        };
        let region = *window.exports.entry(peer).or_insert_with(|| {
            memory.and_then(|memory| endpoint.register(peer, memory, Rights::All))
        });
        let body = region.map(|region| region.encode());
        let body = body.as_ref().map_or(&[][..], |body| &body[..]);
        let header: Header = Step::Described.header(id, window.rank);
        let posted = endpoint.post(peer, &header, body.len(), |slot| slot.copy_from_slice(body))?;
        Ok(posted == Post::Sent)
    }

    /// Takes the description of a target's memory; `None`: no device can access it.
    pub(crate) fn described(&mut self, window: u64, target: u32, region: Option<Region>) {
        let Some(window) = self.windows.get_mut(&window) else { return };
        if let Some(target) = window.targets.get_mut(&target)
            && target.described == Described::Requested
        {
            target.described = region.map_or(Described::Nothing, Described::Region);
        }
    }

    /// Begins the transfers of an operation, as far as there is space.
    pub(crate) fn begin_transfers<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        id: RequestId,
        moved: &mut bool,
    ) -> Posted<Begun> {
        let Some(operation) = self.operations.find(id) else { return Ok(Begun::Nothing) };
        let Some(region) = operation.device else { return Ok(Begun::Nothing) };
        let token = Token { protocol: ProtocolId::Rma, request: id }.to_bits();
        loop {
            let mut cursor = operation.cursor;
            let Some((what, disp)) = next(operation, &mut cursor) else { break };
            let begun = endpoint.one_sided(peer, &region, disp as u64, what, token)?;
            match begun {
                Transfer::Done => {}
                Transfer::Started => operation.transfers += 1,
                Transfer::NoSpace => return Ok(Begun::Some),
                Transfer::Refused => {
                    self.give_up_device(id);
                    return Ok(Begun::Nothing);
                }
            }
            *moved = true;
            operation.cursor = cursor;
            operation.sent += what.memory().len() as u64;
        }
        if operation.is_over() {
            self.end(id, None);
        }
        Ok(Begun::All)
    }

    /// Starts an operation anew in frames.
    #[cold]
    fn give_up_device(&mut self, id: RequestId) {
        let Some(operation) = self.operations.find(id) else { return };
        (operation.device, operation.cursor, operation.sent) = (None, Cursor::default(), 0);
        let (window, target) = (operation.window, operation.target);
        if let Some(window) = self.windows.get_mut(&window) {
            let target = window.target(target);
            (target.described, target.is_dirty) = (Described::Nothing, true);
        }
    }

    /// Takes the end of a transfer.
    pub(crate) fn transfer_ended(&mut self, id: RequestId, outcome: Result<(), PeerFailed>) {
        if let Err(failed) = outcome {
            return self.mark_failed(failed);
        }
        // An operation that has failed is over, whatever the device still does.
        let Some(operation) = self.operations.find(id) else { return };
        operation.transfers = operation.transfers.saturating_sub(1);
        if operation.is_over() {
            self.end(id, None);
        }
    }
}

/// Returns whether a device may do an operation.
fn suits(operation: &Operation) -> bool {
    let local = match operation.action {
        Action::Put => &operation.origin,
        Action::Get => &operation.result,
        _ => return false,
    };
    local.memory().is_some() && operation.layout.has_long_runs()
}

/// Returns the next transfer and its displacement at the target; moves the cursor past it.
fn next(operation: &Operation, cursor: &mut Cursor) -> Option<(OneSided, i64)> {
    let (disp, bytes) = operation.layout.next_run(cursor)?;
    let (begin, bytes) = (operation.sent as usize, bytes as usize);
    let what = match operation.action {
        Action::Put => OneSided::Put(operation.origin.memory()?.slice(begin, bytes)),
        _ => OneSided::Get(operation.result.memory()?.slice(begin, bytes)),
    };
    Some((what, disp))
}
