//! Calls on windows that end at once; each is false where the general path has to do it.

use fabric::{OneSided, UserBuf};
use objects::op::{PackedOp, Primitive};
use rma::{Engine, Recent, Unlocked};

use crate::lock::with_inline as with;
use crate::process::{Process, Tables};
use crate::stack::Stack;

impl Process {
    /// Returns the stack and a window's slot in its engine.
    #[inline(always)]
    fn quick(&mut self, handle: usize) -> Option<(&mut Stack, u32)> {
        let slot = self.tables.wins.get(handle as u64).ok()?.slot;
        Some((&mut self.core.as_deref_mut()?.stack, slot))
    }
}

#[inline(always)]
fn ask(handle: usize, work: impl FnOnce(&mut Engine, u32) -> bool) -> bool {
    with(move |p| match p.quick(handle) {
        Some((stack, slot)) => work(&mut stack.protocols.rma, slot),
        None => false,
    })
}

/// Runs `work` on a target whose memory this process maps, inside of an epoch that allows it.
#[inline(always)]
fn at_target(handle: usize, target: u32, work: impl FnOnce(&Recent) -> bool) -> bool {
    with(move |p| {
        let Some(core) = p.core.as_deref_mut() else { return false };
        let rma = &mut core.stack.protocols.rma;
        if !rma.recent().is(handle, target) && !remember(&p.tables, rma, handle, target) {
            return false;
        }
        work(rma.recent())
    })
}

#[inline(never)]
fn remember(tables: &Tables, rma: &mut Engine, handle: usize, target: u32) -> bool {
    let win = tables.wins.get(handle as u64);
    win.is_ok_and(|win| rma.remember(win.slot, handle, target))
}

/// Copies into a target's memory.
#[inline(always)]
pub fn put(handle: usize, target: u32, disp: i64, from: UserBuf) -> bool {
    let is_done = at_target(handle, target, move |at| {
        at.reach(disp, from.len()).map(|memory| memory.copy_from(from)).is_some()
    });
    is_done || defer(handle, target, disp, OneSided::Put(from))
}

/// Copies out of a target's memory.
#[inline(always)]
pub fn get(handle: usize, target: u32, disp: i64, into: UserBuf) -> bool {
    let is_done = at_target(handle, target, move |at| {
        at.reach(disp, into.len()).map(|memory| into.copy_from(memory)).is_some()
    });
    is_done || defer(handle, target, disp, OneSided::Get(into))
}

/// Lets an access wait until a synchronisation.
#[inline(never)]
fn defer(handle: usize, target: u32, disp: i64, what: OneSided) -> bool {
    with(move |p| match p.quick(handle) {
        Some((stack, slot)) => stack.defer(slot, target, disp, what),
        None => false,
    })
}

/// Changes one word of `len` bytes in a target's memory.
#[inline(always)]
pub fn change(
    handle: usize,
    (target, disp): (u32, i64),
    primitive: Primitive,
    operand: UserBuf,
    len: usize,
    old: Option<UserBuf>,
) -> bool {
    at_target(handle, target, move |at| at.change(disp, primitive, operand, len, old))
}

/// Changes some words of `size` bytes in a target's memory.
pub fn change_all(
    handle: usize,
    (target, disp): (u32, i64),
    primitive: Primitive,
    operands: UserBuf,
    size: usize,
) -> bool {
    at_target(handle, target, move |at| at.change_all(disp, primitive, operands, size))
}

/// Combines `len` bytes of adjacent elements in a target's memory.
pub fn combine(
    handle: usize,
    place: (u32, i64),
    op: PackedOp,
    operands: UserBuf,
    len: usize,
    old: Option<UserBuf>,
) -> bool {
    ask(handle, move |rma, slot| {
        let window = rma.at(slot);
        window.is_some_and(|window| window.combine_now(place, op, operands, len, old))
    })
}

/// Replaces one word of a target's memory by the second value if it is the first.
#[inline(always)]
pub fn swap(
    handle: usize,
    (target, disp): (u32, i64),
    values: (UserBuf, UserBuf),
    old: UserBuf,
) -> bool {
    at_target(handle, target, move |at| at.swap(disp, values, old))
}

/// Completes all operations at a target.
#[inline(always)]
pub fn flush(handle: usize, target: u32) -> bool {
    with(move |p| {
        let Some(core) = p.core.as_deref_mut() else { return false };
        let rma = &mut core.stack.protocols.rma;
        if rma.recent().is(handle, target) {
            return rma.flush_recent(handle, target);
        }
        let Some((stack, slot)) = p.quick(handle) else { return false };
        stack.protocols.rma.flush_now(slot, target)
            || stack.deliver(slot) && stack.protocols.rma.flush_now(slot, target)
    })
}

/// Completes all operations at all targets.
#[inline(always)]
pub fn flush_all(handle: usize) -> bool {
    with(move |p| {
        let Some((stack, slot)) = p.quick(handle) else { return false };
        stack.protocols.rma.flush_all_now(slot)
            || stack.deliver(slot) && stack.protocols.rma.flush_all_now(slot)
    })
}

/// Takes the shared locks of all targets.
pub fn lock_all(handle: usize) -> bool {
    with(move |p| {
        let Some((stack, slot)) = p.quick(handle) else { return false };
        let is_taken = stack.protocols.rma.lock_all_now(slot);
        if !is_taken {
            stack.wake_waiters();
        }
        is_taken
    })
}

/// Takes the lock of a target.
#[inline(always)]
pub fn lock(handle: usize, target: u32, exclusive: bool) -> bool {
    ask(handle, move |rma, slot| rma.lock_now(slot, target, exclusive))
}

/// Returns the lock of a target.
#[inline(always)]
pub fn unlock(handle: usize, target: u32) -> bool {
    with(move |p| {
        let Some((stack, slot)) = p.quick(handle) else { return false };
        match stack.protocols.rma.unlock_now(slot, target) {
            Unlocked::Quietly => true,
            other => end_unlock(stack, slot, other, |rma| rma.unlock_now(slot, target)),
        }
    })
}

/// Returns the locks of all targets.
pub fn unlock_all(handle: usize) -> bool {
    with(move |p| {
        let Some((stack, slot)) = p.quick(handle) else { return false };
        let unlocked = stack.protocols.rma.unlock_all_now(slot);
        end_unlock(stack, slot, unlocked, |rma| rma.unlock_all_now(slot))
    })
}

/// Delivers what waits and tries again, if that has kept a lock from its return; wakes the ranks
/// that wait for the lock.
#[inline(never)]
fn end_unlock(
    stack: &mut Stack,
    slot: u32,
    mut unlocked: Unlocked,
    again: impl FnOnce(&mut Engine) -> Unlocked,
) -> bool {
    if unlocked == Unlocked::Refused && stack.deliver(slot) {
        unlocked = again(&mut stack.protocols.rma);
    }
    match unlocked {
        Unlocked::Refused => false,
        Unlocked::Quietly => true,
        Unlocked::WithWaiters => {
            stack.wake_waiters();
            true
        }
    }
}
