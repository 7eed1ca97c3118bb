//! Calls on windows that end at once; each is false, and has changed nothing, where the general
//! path has to do it.
//!
//! [`put`] to [`unlock`] take the target that was accessed last, and are short enough for an entry
//! point; [`aim`] makes a target that one. All others find their window in a table.

use fabric::{OneSided, UserBuf};
use objects::op::Primitive;
use rma::{Engine, Unlocked};

use crate::process::Process;
use crate::stack::Stack;

impl Process {
    #[inline(always)]
    fn rma(&mut self) -> Option<&mut Engine> {
        Some(&mut self.core.as_deref_mut()?.stack.protocols.rma)
    }

    /// Returns the stack and a window's slot in its engine.
    #[inline(always)]
    fn quick(&mut self, handle: usize) -> Option<(&mut Stack, u32)> {
        let slot = self.tables.wins.get(handle as u64).ok()?.slot;
        Some((&mut self.core.as_deref_mut()?.stack, slot))
    }
}

/// Makes a target, of which `len` bytes are about to be accessed at once, the one that was accessed
/// last. False if this process does not map its memory, or no epoch allows to access it.
pub fn aim(p: &mut Process, (handle, target): (usize, u32), disp: i64, len: usize) -> bool {
    if aimed(p, (handle, target)).is_some() {
        return true;
    }
    let Some((stack, slot)) = p.quick(handle) else { return false };
    stack.protocols.rma.remember(slot, handle, target, Some((disp, len)));
    aimed(p, (handle, target)).is_some()
}

/// Returns the engine, if the target that was accessed last is this one and may be accessed.
#[inline(always)]
fn aimed(p: &mut Process, (handle, target): (usize, u32)) -> Option<&mut Engine> {
    p.rma().filter(|rma| rma.recent().is(handle, target))
}

/// Copies into a target's memory.
#[inline(always)]
pub fn put(p: &mut Process, of: (usize, u32), disp: i64, from: UserBuf) -> bool {
    let Some(rma) = aimed(p, of) else { return false };
    let Some(memory) = rma.recent().reach(disp, from.len()) else { return false };
    memory.copy_from(from);
    rma.note_stores();
    true
}

/// Copies out of a target's memory.
#[inline(always)]
pub fn get(p: &mut Process, of: (usize, u32), disp: i64, into: UserBuf) -> bool {
    let Some(rma) = aimed(p, of) else { return false };
    let Some(memory) = rma.recent().reach(disp, into.len()) else { return false };
    rma.order_loads();
    into.copy_from(memory);
    true
}

/// Changes one word of `len` bytes in a target's memory.
#[inline(always)]
pub fn change(
    p: &mut Process,
    of: (usize, u32),
    disp: i64,
    (primitive, operand): (Primitive, UserBuf),
    len: usize,
    old: Option<UserBuf>,
) -> bool {
    let Some(rma) = aimed(p, of) else { return false };
    if old.is_some() {
        rma.order_loads();
    }
    rma.recent().change(disp, primitive, operand, len, old)
}

/// Replaces one word of a target's memory by the second value if it is the first.
#[inline(always)]
pub fn swap(
    p: &mut Process,
    of: (usize, u32),
    disp: i64,
    values: (UserBuf, UserBuf),
    old: UserBuf,
) -> bool {
    let Some(rma) = aimed(p, of) else { return false };
    rma.order_loads();
    rma.recent().swap(disp, values, old)
}

/// Completes all operations at a target.
#[inline(always)]
pub fn flush(p: &mut Process, (handle, target): (usize, u32)) -> bool {
    let Some(rma) = p.rma() else { return false };
    rma.flush_recent(handle, target)
}

/// Takes the lock of a target.
#[inline(always)]
pub fn lock(p: &mut Process, (handle, target): (usize, u32), exclusive: bool) -> bool {
    let Some(rma) = p.rma() else { return false };
    rma.lock_now(handle, target, exclusive)
}

/// Returns the lock of a target. False also if it is returned, but ranks that wait for it have to
/// be woken: [`unlock_any`] does that.
#[inline(always)]
pub fn unlock(p: &mut Process, (handle, target): (usize, u32)) -> bool {
    let Some(rma) = p.rma() else { return false };
    rma.unlock_now(handle, target) == Unlocked::Quietly
}

/// Changes some words of `size` bytes in a target's memory.
pub fn change_all(
    p: &mut Process,
    of: (usize, u32),
    disp: i64,
    (primitive, operands): (Primitive, UserBuf),
    size: usize,
) -> bool {
    aim(p, of, disp, operands.len())
        && aimed(p, of).is_some_and(|rma| rma.recent().change_all(disp, primitive, operands, size))
}

/// Combines `len` bytes of adjacent elements in a target's memory, by the handles of a predefined
/// operation and datatype.
pub fn combine(
    p: &mut Process,
    (handle, target): (usize, u32),
    disp: i64,
    ((op, datatype), operands): ((usize, usize), UserBuf),
    len: usize,
    old: Option<UserBuf>,
) -> bool {
    let Some((stack, _)) = p.quick(handle) else { return false };
    let Some(op) = stack.protocols.rma.packed_op(op, datatype) else { return false };
    // An access that is refused begins no epoch of a fence; therefore after the operation.
    if !aim(p, (handle, target), disp, len) {
        return false;
    }
    let Some((stack, slot)) = p.quick(handle) else { return false };
    if old.is_some() {
        stack.protocols.rma.order_loads();
    }
    stack.protocols.rma.note_stores();
    let window = stack.protocols.rma.at(slot);
    window.is_some_and(|window| window.combine_now((target, disp), op, operands, len, old))
}

/// Lets an access wait until a synchronisation.
pub fn defer(p: &mut Process, (handle, target): (usize, u32), disp: i64, what: OneSided) -> bool {
    p.quick(handle).is_some_and(|(stack, slot)| stack.defer(slot, target, disp, what))
}

/// Completes all operations at a target that another one may have followed, and what waits.
pub fn flush_any(p: &mut Process, (handle, target): (usize, u32)) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    stack.protocols.rma.flush_now(slot, target)
        || stack.deliver(slot) && stack.protocols.rma.flush_now(slot, target)
}

/// Completes all operations at all targets.
pub fn flush_all(p: &mut Process, handle: usize) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    stack.protocols.rma.flush_all_now(slot)
        || stack.deliver(slot) && stack.protocols.rma.flush_all_now(slot)
}

/// Takes the shared locks of all targets.
pub fn lock_all(p: &mut Process, handle: usize) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    let is_taken = stack.protocols.rma.lock_all_now(slot);
    if !is_taken {
        stack.wake_waiters();
    }
    is_taken
}

/// Takes the lock of any target.
pub fn lock_any(p: &mut Process, (handle, target): (usize, u32), exclusive: bool) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    stack.wake_waiters();
    stack.protocols.rma.remember(slot, handle, target, None);
    let is_taken = stack.protocols.rma.lock_now(handle, target, exclusive);
    if !is_taken {
        stack.wake_waiters();
    }
    is_taken
}

/// Returns the lock of any target, or ends what [`unlock`] has left.
pub fn unlock_any(p: &mut Process, (handle, target): (usize, u32)) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    if stack.protocols.rma.has_left_waiters() {
        stack.wake_waiters();
        return true;
    }
    let unlock = |rma: &mut Engine| {
        rma.remember(slot, handle, target, None);
        rma.unlock_now(handle, target)
    };
    let unlocked = unlock(&mut stack.protocols.rma);
    end_unlock(stack, slot, unlocked, unlock)
}

/// Returns the locks of all targets.
pub fn unlock_all(p: &mut Process, handle: usize) -> bool {
    let Some((stack, slot)) = p.quick(handle) else { return false };
    let unlocked = stack.protocols.rma.unlock_all_now(slot);
    end_unlock(stack, slot, unlocked, |rma| rma.unlock_all_now(slot))
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
