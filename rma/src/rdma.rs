//! Put and get by a device that reads and writes the memory of a target on another host.
//!
//! Memory: an origin requests the description of a target's memory at the first operation that
//! could use it ([`Step::Describe`]). Operations before the answer travel in frames. What a
//! description names is in `export`.
//!
//! Dynamic windows: the description is that of a table of attached memory. Each operation has the
//! device read the table before it accesses memory, and keeps nothing of it. Thus memory that was
//! detached, freed and mapped again is never mistaken, and the target's processor is not needed.
//!
//! What a device does: puts and gets of contiguous local memory whose runs at the target are few or
//! long, a transfer for each run. Accumulates are in `device_atomic`.
//!
//! Completion: a put has ended when its bytes are in place before any frame posted afterwards. An
//! operation of a device is over when its transfers have ended; a flush waits for that, and for the
//! confirmation of puts where the device places late (`confirm`). The frame that unlocks a target
//! or ends an access epoch is posted after the flush of the operations before it. Transfers and
//! frames overtake each other only within an epoch, where operations are not ordered.
//!
//! A device that refuses: the operation starts anew in frames, which changes nothing, and is over
//! when what was under way has ended too. Later operations on that target travel in frames.

use fabric::{
    Atomic, HybridGet, Offload, OneSided, Peer, PeerFailed, ProtocolId, Region, RequestId, Token,
    Transfer,
};

use objects::op::{BuiltinOp, Primitive};
use objects::{Class, Error};

use crate::attached::Lookup;
use crate::confirmation::Unconfirmed;
use crate::device_atomic::{DeviceAtomic, word};
use crate::engine::{Engine, Posted};
use crate::operations::{Action, Operation, Path};
use crate::outgoing::Item;
use crate::segment::Cursor;
use crate::window::{AtomicsBy, Described, Target, Window};
use crate::windows::Windows;
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
    /// Returns how an operation that is about to start reaches the target's memory, of which it
    /// accesses the bytes `low .. high` from `disp` on. Requests the description that a device
    /// needs if it is not known.
    pub(crate) fn path_of<T: HybridGet>(
        &mut self,
        endpoint: &T,
        peer: Peer,
        operation: &Operation,
        (disp, (low, high)): (i64, (i64, i64)),
    ) -> Path {
        let Some(window) = self.windows.get_mut(&operation.window) else { return Path::Frames };
        let is_distant = window.remotes[operation.target as usize].is_distant;
        let caps = endpoint.caps(peer);
        let has_device = match window.is_dynamic() {
            // A processor that has to serve two requests may serve the operation itself.
            true => caps.offload >= Offload::Device,
            false => caps.get_min != u64::MAX || caps.put_min != u64::MAX,
        };
        let (is_dynamic, is_accumulate) = (window.is_dynamic(), operation.is_accumulate());
        let suits = match is_accumulate {
            true => {
                let has_atomics = !matches!(window.atomics, AtomicsBy::Processors);
                has_atomics && !is_dynamic && caps.offload >= Offload::DeviceAtomics
            }
            false => suits(operation),
        };
        if !is_distant || !has_device || !suits {
            return Path::Frames;
        }
        if is_accumulate && let Some(atomic) = atomic_of(window, operation) {
            return Path::Atomic(Box::new(atomic));
        }
        let described = &mut window.target(operation.target).described;
        match *described {
            Described::Region(table) if is_dynamic => {
                let (begin, end) = (disp.wrapping_add(low), disp.wrapping_add(high));
                return Path::Lookup(Box::new(Lookup::new(table, begin as u64, end as u64)));
            }
            Described::Region(_) if is_accumulate => return Path::Frames,
            Described::Region(region) => return Path::Device(region, 0),
            Described::Requested | Described::Nothing => return Path::Frames,
            Described::Unknown => *described = Described::Requested,
        }
        // A peer that has failed is noticed by the operation itself.
        let _ = self.send_step(operation.window, operation.target, Step::Describe);
        Path::Frames
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
        let token = Token { protocol: ProtocolId::Rma, request: id }.to_bits();
        if self.would_overtake(id) {
            self.use_frames(id);
        }
        let is_late = endpoint.caps(peer).late_puts;
        while let Some(operation) = self.operations.find(id) {
            let mut cursor = operation.cursor;
            let (region, what, at) = match &operation.path {
                Path::Frames => return Ok(Begun::Nothing),
                Path::Lookup(_) if operation.transfers > 0 => return Ok(Begun::All),
                Path::Lookup(lookup) => (lookup.table, OneSided::Get(lookup.memory()), 0),
                Path::Confirm(_) if operation.sent > 0 => break,
                Path::Confirm(confirmation) => {
                    let last = confirmation.last;
                    (last.region, OneSided::Get(confirmation.memory()), last.at)
                }
                Path::Atomic(_) if operation.layout.next_run(&mut cursor).is_none() => break,
                Path::Atomic(atomic) => {
                    let what = OneSided::Atomic(atomic.what, atomic.memory());
                    (atomic.region, what, atomic.disp as u64)
                }
                &Path::Device(region, begin) => match next(operation, &mut cursor) {
                    Some((what, disp)) => (region, what, disp.wrapping_sub(begin) as u64),
                    None => break,
                },
            };
            let begun = endpoint.one_sided(peer, &region, at, what, token)?;
            *moved |= begun != Transfer::NoSpace;
            let is_lookup = matches!(operation.path, Path::Lookup(_));
            match begun {
                Transfer::NoSpace => return Ok(Begun::Some),
                Transfer::Refused => {
                    self.give_up_device(id);
                    return Ok(Begun::Nothing);
                }
                Transfer::Done if is_lookup => self.looked_up(id),
                Transfer::Done | Transfer::Started => {
                    let is_started = begun == Transfer::Started;
                    operation.transfers += u32::from(is_started);
                    if is_started && matches!(operation.path, Path::Atomic(_)) {
                        let (window, target) = (operation.window, operation.target);
                        count_atomics(&mut self.windows, window, target, 1);
                    } else if is_started && is_late && matches!(what, OneSided::Put(_)) {
                        let at = at + what.memory().len() as u64 - 1;
                        let last = Unconfirmed { region, at };
                        note_put(&mut self.windows, operation, last);
                    }
                    if !is_lookup {
                        operation.cursor = cursor;
                        operation.sent += what.memory().len() as u64;
                    }
                }
            }
        }
        self.end_if_over(id);
        Ok(Begun::All)
    }

    /// Returns whether an operation is an atomic, and one before it has come to travel in frames.
    fn would_overtake(&mut self, id: RequestId) -> bool {
        let Some(operation) = self.operations.find(id) else { return false };
        let window = self.windows.get(&operation.window);
        let target = window.and_then(|window| window.targets.get(&operation.target));
        matches!(operation.path, Path::Atomic(_)) && target.is_some_and(Target::has_frames)
    }

    /// Takes the copy of a table of attached memory: from now on the device accesses what it
    /// shows, or frames do.
    fn looked_up(&mut self, id: RequestId) {
        let Some(operation) = self.operations.find(id) else { return };
        let Path::Lookup(lookup) = &operation.path else { return };
        match lookup.find() {
            Some((region, base)) => operation.path = Path::Device(region, base as i64),
            None => self.use_frames(id),
        }
    }

    /// Has an operation, which is queued, travel in frames from its begin. A flush that has begun
    /// must wait for them; therefore a flush of their own follows.
    fn use_frames(&mut self, id: RequestId) {
        let Some(operation) = self.operations.find(id) else { return };
        (operation.path, operation.cursor, operation.sent) = (Path::Frames, Cursor::default(), 0);
        let (window, target) = (operation.window, operation.target);
        if self.send_step(window, target, Step::Flush).is_ok()
            && let Some(window) = self.windows.get_mut(&window)
        {
            window.target(target).unacked += 1;
        }
    }

    /// Has an operation and all later ones at its target travel in frames.
    #[cold]
    fn give_up_device(&mut self, id: RequestId) {
        let Some(operation) = self.operations.find(id) else { return };
        let (window, target) = (operation.window, operation.target);
        if let Some(window) = self.windows.get_mut(&window) {
            window.target(target).described = Described::Nothing;
        }
        self.use_frames(id);
    }

    /// Takes the end of a transfer.
    pub(crate) fn transfer_ended(&mut self, id: RequestId, outcome: Result<(), PeerFailed>) {
        let is_atomic = |operation: &mut Operation| matches!(operation.path, Path::Atomic(_));
        if self.operations.find(id).is_some_and(is_atomic) {
            return self.atomic_ended(id, outcome);
        }
        if let Err(failed) = outcome {
            return self.mark_failed(failed);
        }
        // An operation that has failed is over, whatever the device still does.
        let Some(operation) = self.operations.find(id) else { return };
        operation.transfers = operation.transfers.saturating_sub(1);
        if let Path::Lookup(_) = operation.path {
            let (window, target) = (operation.window, operation.target);
            let window = self.windows.get(&window);
            let peer = window.and_then(|window| window.peers.peer_of(target));
            peer.into_iter().for_each(|peer| self.outgoing.push(peer, Item::Operation(id)));
            return self.looked_up(id);
        }
        self.end_if_over(id);
    }

    /// Takes the end of an atomic. Its failure says nothing of the peer.
    fn atomic_ended(&mut self, id: RequestId, outcome: Result<(), PeerFailed>) {
        let Some(operation) = self.operations.find(id) else { return };
        operation.transfers = 0;
        let (window, target) = (operation.window, operation.target);
        count_atomics(&mut self.windows, window, target, -1);
        let Err(failed) = outcome else { return self.end_if_over(id) };
        let text = format!("an accumulate at rank {target} has failed: {}", failed.why);
        let error = Error::new(Class::Other, text);
        self.end(id, Some(error));
    }

    fn end_if_over(&mut self, id: RequestId) {
        let Some(operation) = self.operations.find(id).filter(|op| op.is_over()) else { return };
        if let Path::Atomic(atomic) = &operation.path
            && operation.expected > 0
        {
            operation.result.unpack(0, &atomic.old());
        }
        self.end(id, None);
    }
}

/// Returns the atomic that does an operation which is about to start, if the device may.
fn atomic_of(window: &Window, operation: &Operation) -> Option<DeviceAtomic> {
    let target = window.targets.get(&operation.target)?;
    let Described::Region(region) = target.described else { return None };
    if matches!(window.atomics, AtomicsBy::Processors) || target.has_frames() {
        return None;
    }
    let &[segment] = operation.layout.segments() else { return None };
    let is_word = operation.layout.size == 8 && segment.elements() == 1;
    let is_aligned = region.addr.wrapping_add(segment.disp as u64).is_multiple_of(8);
    let what = what(operation).filter(|_| is_word && is_aligned)?;
    Some(DeviceAtomic::new(region, segment.disp, what))
}

/// Returns the atomic of a device that does an accumulate of one element of 8 bytes.
fn what(operation: &Operation) -> Option<Atomic> {
    let add = |op: BuiltinOp, primitive: Option<Primitive>| match primitive? {
        Primitive::Keep => Some(Atomic::Add(0)),
        Primitive::Add if op != BuiltinOp::NoOp => {
            let mut operand = [0; 8];
            operation.origin.pack(0, &mut operand);
            Some(Atomic::Add(u64::from_ne_bytes(operand)))
        }
        _ => None,
    };
    match &operation.action {
        Action::Put | Action::Get => None,
        Action::Accumulate(op, element) | Action::Fetch(op, element) => {
            if element.size == 8 {
                add(*op, element.primitive(*op))
            } else {
                None
            }
        }
        Action::Swap(element, values) if element.size == 8 => {
            let [expected, new] = [0, 1].map(|index| word(&values[index][..8]));
            Some(Atomic::CompareSwap { expected, new })
        }
        Action::Swap(..) => None,
    }
}

/// Counts atomics under way at a target.
fn count_atomics(windows: &mut Windows, window: u64, target: u32, change: i32) {
    if let Some(window) = windows.get_mut(&window) {
        let atomics = &mut window.target(target).atomics;
        *atomics = atomics.saturating_add_signed(change);
    }
}

/// Records a put that the device may report before it is in memory.
fn note_put(windows: &mut Windows, operation: &Operation, last: Unconfirmed) {
    if let Some(window) = windows.get_mut(&operation.window) {
        window.target(operation.target).unconfirmed = Some(last);
    }
}

/// Returns whether a device may do a put or get.
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
