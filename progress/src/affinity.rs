//! Where threads run: moving a rank off a processor that another process uses, and waking a thread
//! on the processor that its waker is about to leave.
//!
//! Ranks are not bound unless the user requests it. The kernel may then start two ranks on one
//! processor and leave them there for milliseconds while another processor idles, for both spin. A
//! spinning rank therefore yields now and then. When its yields are slow, another process runs
//! there, and the rank migrates to its own processor: the one at its local rank among those it may
//! use. Its affinity mask is restored at once; therefore it may move again later.
//!
//! Threads do not migrate while another thread of the process computes: it might compute on the
//! destination. Where processors are fewer than ranks, ranks do not spin, and nothing here runs.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::shared::Shared;
use crate::sync::{AtomicU32, Ordering, const_fn, now, yield_now};
use crate::thread::ThreadId;

/// The longest yield that lets no other process run.
const LONE_YIELD_MAX: Duration = Duration::from_micros(4);
/// Slow yields in a row before migrating; a single one may be an interrupt.
const SLOW_YIELDS: u32 = 2;

/// A set of processors, as the kernel takes and gives it.
pub(crate) type CpuSet = libc::cpu_set_t;
const SET_BYTES: usize = size_of::<CpuSet>();

/// Yields; returns true if another process ran meanwhile. Migrates after [`SLOW_YIELDS`] of them in
/// a row.
pub(crate) fn yield_and_migrate(shared: &Shared) -> bool {
    let was_slow = timed_yield() > LONE_YIELD_MAX;
    let streak = if was_slow { shared.slow_yields.load(Ordering::Relaxed) + 1 } else { 0 };
    shared.slow_yields.store(streak % SLOW_YIELDS, Ordering::Relaxed);
    if streak == SLOW_YIELDS && !shared.owner_is_away.load(Ordering::Relaxed) {
        migrate_to_own_cpu(shared);
    }
    was_slow
}

/// Yields; returns how long others ran.
pub(crate) fn timed_yield() -> Duration {
    let begun = now();
    yield_now();
    begun.elapsed()
}

#[cold]
fn migrate_to_own_cpu(shared: &Shared) {
    let (rank, ranks) = (shared.local_rank(), shared.local_ranks());
    if ranks == 1 {
        return; // It shares processors with no other rank.
    }
    let Some(before) = affinity_of(ThreadId::NONE) else { return };
    let Some(own) = own_cpu(&before, rank as usize, ranks as usize) else { return };
    if current_cpu() != Some(own) {
        migrate(own, &before);
    }
}

/// Moves the calling thread to `cpu`; `before` is its affinity, now and afterwards.
fn migrate(cpu: usize, before: &CpuSet) {
    if set_affinity(ThreadId::NONE, &only(cpu)) {
        set_affinity(ThreadId::NONE, before);
    }
}

/// Returns this rank's own processor among those that all ranks may use; `None` if ranks are more.
fn own_cpu(allowed: &CpuSet, rank: usize, ranks: usize) -> Option<usize> {
    let all = || (0..8 * SET_BYTES).filter(|&cpu| has(allowed, cpu));
    let count = all().count();
    if count < ranks { None } else { all().nth(rank * count / ranks) }
}

/// Returns the processor that runs the calling thread, at least now.
fn current_cpu() -> Option<usize> {
    // SAFETY: takes no pointers.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn has(set: &CpuSet, cpu: usize) -> bool {
    // SAFETY: a whole set, and a number within it.
    cpu < 8 * SET_BYTES && unsafe { libc::CPU_ISSET(cpu, set) }
}

/// Returns true if `cpu` is one of several in `set`.
fn is_one_of_several(set: &CpuSet, cpu: usize) -> bool {
    // SAFETY: a whole set.
    has(set, cpu) && unsafe { libc::CPU_COUNT(set) } > 1
}

/// Returns the set of one processor.
fn only(cpu: usize) -> CpuSet {
    let mut only = MaybeUninit::<CpuSet>::zeroed();
    // SAFETY: an empty set is all zeroes; the number is one that the kernel has given.
    unsafe {
        libc::CPU_SET(cpu, &mut *only.as_mut_ptr());
        only.assume_init()
    }
}

/// Returns where a thread may run; [`ThreadId::NONE`] is the calling one.
fn affinity_of(thread: ThreadId) -> Option<CpuSet> {
    let mut allowed = MaybeUninit::<CpuSet>::zeroed();
    // SAFETY: a set of that size, valid as all zeroes, which the call fills.
    unsafe {
        (libc::sched_getaffinity(thread.0, SET_BYTES, allowed.as_mut_ptr()) == 0)
            .then(|| allowed.assume_init())
    }
}

/// Sets where a thread may run; returns false where the kernel does not allow that.
fn set_affinity(thread: ThreadId, cpus: &CpuSet) -> bool {
    // SAFETY: a set of that size.
    unsafe { libc::sched_setaffinity(thread.0, SET_BYTES, cpus) == 0 }
}

/// The affinity of a sleeping thread that its waker pins to the waker's processor. The sleeper
/// restores it before it goes on; therefore neither the application nor a thread that it starts
/// ever sees the pinned mask.
///
/// States: `NONE`; then `REQUESTED`, set under the lock; then `PINNED`, or `REFUSED` if the thread
/// could not be pinned. The sleeper takes the last two back to `NONE`. If something else has woken
/// it, it waits for them.
pub(crate) struct SavedAffinity {
    state: AtomicU32,
    /// Written by the waker while `REQUESTED`, read by the sleeper while `PINNED`.
    before: UnsafeCell<MaybeUninit<CpuSet>>,
}

// SAFETY: `state` shows which of the two threads may touch `before`; see the field.
unsafe impl Sync for SavedAffinity {}

impl SavedAffinity {
    const NONE: u32 = 0;
    const REQUESTED: u32 = 1;
    const PINNED: u32 = 2;
    const REFUSED: u32 = 3;

    const_fn! {
        pub(crate) fn new() -> SavedAffinity {
            SavedAffinity {
                state: AtomicU32::new(SavedAffinity::NONE),
                before: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }
    }

    /// Announces that the sleeper is about to be pinned. Under the lock.
    pub(crate) fn request(&self) {
        self.state.store(SavedAffinity::REQUESTED, Ordering::Relaxed);
    }

    /// Pins the sleeper, which was [requested](SavedAffinity::request), to the caller's processor.
    pub(crate) fn pin_here(&self, sleeper: ThreadId) {
        let state = pin_here(sleeper).map_or(SavedAffinity::REFUSED, |before| {
            // SAFETY: the state is `REQUESTED`, therefore the sleeper does not look here yet.
            unsafe { (*self.before.get()).write(before) };
            SavedAffinity::PINNED
        });
        // Release: a sleeper that sees the state finds the processors.
        self.state.store(state, Ordering::Release);
    }

    /// Restores the affinity of the calling thread, which is the sleeper.
    pub(crate) fn restore(&self) {
        loop {
            match self.state.load(Ordering::Acquire) {
                SavedAffinity::NONE => return,
                SavedAffinity::REQUESTED => yield_now(),
                SavedAffinity::PINNED => {
                    // SAFETY: written before the state became `PINNED`, and no longer written
                    // since.
                    let before = unsafe { (*self.before.get()).assume_init_ref() };
                    set_affinity(ThreadId::NONE, before);
                    break;
                }
                _ => break,
            }
        }
        self.state.store(SavedAffinity::NONE, Ordering::Relaxed);
    }
}

/// Pins another thread to the caller's processor. Returns the processors that it had, if they were
/// more.
fn pin_here(thread: ThreadId) -> Option<CpuSet> {
    if cfg!(loom) {
        return None;
    }
    let before = affinity_of(thread)?;
    let here = current_cpu()?;
    (is_one_of_several(&before, here) && set_affinity(thread, &only(here))).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[usize]) -> CpuSet {
        let mut set = only(of[0]);
        // SAFETY: small numbers.
        of.iter().for_each(|&cpu| unsafe { libc::CPU_SET(cpu, &mut set) });
        set
    }

    #[test]
    fn each_rank_has_a_processor_of_its_own_unless_they_are_fewer() {
        let all = set(&[1, 3, 4, 6, 7]);
        assert_eq!([0, 1].map(|rank| own_cpu(&all, rank, 2)), [Some(1), Some(4)]);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| own_cpu(&all, rank, 5)), [1, 3, 4, 6, 7].map(Some));
        assert_eq!(own_cpu(&all, 0, 6), None);
    }

    #[test]
    fn a_thread_that_migrates_keeps_its_affinity() {
        let before = affinity_of(ThreadId::NONE).unwrap();
        for cpu in (0..8 * SET_BYTES).filter(|&cpu| has(&before, cpu)).take(4) {
            migrate(cpu, &before);
            // SAFETY: whole sets.
            assert!(unsafe { libc::CPU_EQUAL(&before, &affinity_of(ThreadId::NONE).unwrap()) });
        }
    }
}
