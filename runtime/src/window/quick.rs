//! Calls on windows that end at once; each is false where the general path has to do it.

use fabric::UserBuf;
use objects::op::Primitive;
use rma::{Engine, Unlocked};

use crate::lock::with_inline as with;
use crate::process::Process;
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
    with(|p| match p.quick(handle) {
        Some((stack, slot)) => work(&mut stack.protocols.rma, slot),
        None => false,
    })
}

/// Copies into a target's memory.
#[inline(always)]
pub fn put(handle: usize, target: u32, disp: i64, from: UserBuf) -> bool {
    ask(handle, |rma, slot| {
        let at = rma.at(slot).and_then(|window| window.reach(target, disp, from.len()));
        at.map(|at| at.copy_from(from)).is_some()
    })
}

/// Copies out of a target's memory.
#[inline(always)]
pub fn get(handle: usize, target: u32, disp: i64, into: UserBuf) -> bool {
    ask(handle, |rma, slot| {
        let at = rma.at(slot).and_then(|window| window.reach(target, disp, into.len()));
        at.map(|at| into.copy_from(at)).is_some()
    })
}

/// Changes one word of a target's memory.
#[inline(always)]
pub fn fetch(
    handle: usize,
    place: (u32, i64),
    primitive: Primitive,
    operand: UserBuf,
    old: UserBuf,
) -> bool {
    ask(handle, |rma, slot| {
        rma.at(slot).is_some_and(|window| window.fetch_now(place, primitive, operand, old))
    })
}

/// Replaces one word of a target's memory by the second value if it is the first.
#[inline(always)]
pub fn swap(handle: usize, place: (u32, i64), values: (UserBuf, UserBuf), old: UserBuf) -> bool {
    ask(handle, |rma, slot| rma.at(slot).is_some_and(|window| window.swap_now(place, values, old)))
}

/// Completes all operations at a target.
#[inline(always)]
pub fn flush(handle: usize, target: u32) -> bool {
    ask(handle, |rma, slot| rma.flush_now(slot, target))
}

/// Completes all operations at all targets.
#[inline(always)]
pub fn flush_all(handle: usize) -> bool {
    ask(handle, |rma, slot| rma.flush_all_now(slot))
}

/// Takes the shared locks of all targets.
pub fn lock_all(handle: usize) -> bool {
    with(|p| {
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
    ask(handle, |rma, slot| rma.lock_now(slot, target, exclusive))
}

/// Returns the lock of a target.
#[inline(always)]
pub fn unlock(handle: usize, target: u32) -> bool {
    unlock_by(handle, |rma, slot| rma.unlock_now(slot, target))
}

/// Returns the locks of all targets.
pub fn unlock_all(handle: usize) -> bool {
    unlock_by(handle, Engine::unlock_all_now)
}

#[inline(always)]
fn unlock_by(handle: usize, work: impl FnOnce(&mut Engine, u32) -> Unlocked) -> bool {
    with(|p| {
        let Some((stack, slot)) = p.quick(handle) else { return false };
        match work(&mut stack.protocols.rma, slot) {
            Unlocked::Refused => false,
            Unlocked::Quietly => true,
            Unlocked::WithWaiters => {
                stack.wake_waiters();
                true
            }
        }
    })
}
