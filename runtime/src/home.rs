//! Where a rank goes that finds another process on its processor.
//!
//! Nobody is bound unless asked for, so the kernel may start two ranks of a job on one processor while
//! another one is idle, and leave them there for milliseconds, for each of them waits without sleeping. So whoever waits for
//! long lets others run now and then. Where somebody does, the rank goes to the processor of those it
//! may use that is its own by its place among the ranks of its host. It is not bound there either:
//! a moment later it is allowed all those it had, and where nobody disturbs it, it stays wherever it is. Where another
//! thread of the rank computes, nobody knows whether it does so there, and all stay.
//!
//! What it does not do: anything where processors are fewer than ranks. There ranks don't spin.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::restless::somebody_computes;
use crate::wait;

/// Letting others run takes longer only where others want the same processor.
const ALONE: Duration = Duration::from_micros(4);

/// Processors, as the kernel takes and gives them.
pub(crate) type Processors = libc::cpu_set_t;
const SIZE: usize = size_of::<Processors>();

/// So many times in a row: an interrupt or a short job of the system's takes no longer.
const OFTEN: u32 = 2;

/// As [`let_others_run`]; true if somebody wanted to. Whoever does so often is left alone, where that is possible.
pub(crate) fn make_way() -> bool {
    static SHARED: AtomicU32 = AtomicU32::new(0);
    let shared = let_others_run() > ALONE;
    let in_a_row = if shared { SHARED.load(Ordering::Relaxed) + 1 } else { 0 };
    SHARED.store(in_a_row % OFTEN, Ordering::Relaxed);
    if in_a_row == OFTEN && !somebody_computes() {
        go_home();
    }
    shared
}

/// Lets others on this processor run; how long they did.
pub(crate) fn let_others_run() -> Duration {
    let begun = Instant::now();
    std::thread::yield_now();
    begun.elapsed()
}

#[cold]
fn go_home() {
    let (rank, ranks) =
        (wait::LOCAL_RANK.load(Ordering::Relaxed), wait::LOCAL_RANKS.load(Ordering::Relaxed));
    // One that is alone on its host has nobody to make way for.
    let Some(before) = allowed(0).filter(|_| ranks > 1) else { return };
    let Some(home) = share(&before, rank as usize, ranks as usize) else { return };
    if this() != Some(home) {
        go_to(home, &before);
    }
}

/// `before`: where this thread may run, now and afterwards.
fn go_to(processor: usize, before: &Processors) {
    if allow(0, &only(processor)) {
        allow(0, before);
    }
}

/// The processor that is one's own of those that all may use.
fn share(allowed: &Processors, rank: usize, ranks: usize) -> Option<usize> {
    let all: Vec<usize> = (0..8 * SIZE).filter(|&at| has(allowed, at)).collect();
    if all.len() < ranks { None } else { all.get(rank * all.len() / ranks).copied() }
}

/// The processor where this runs, at least now.
pub(crate) fn this() -> Option<usize> {
    // SAFETY: takes no pointers.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn has(set: &Processors, processor: usize) -> bool {
    // SAFETY: a whole set.
    processor < 8 * SIZE && unsafe { libc::CPU_ISSET(processor, set) }
}

/// Whether this is one of several.
pub(crate) fn are_several(set: &Processors, this: usize) -> bool {
    // SAFETY: a whole set.
    has(set, this) && unsafe { libc::CPU_COUNT(set) } > 1
}

/// One processor.
pub(crate) fn only(processor: usize) -> Processors {
    let mut only = MaybeUninit::<Processors>::zeroed();
    // SAFETY: an empty set is all zeroes; the caller's number is one that the kernel has given.
    unsafe {
        libc::CPU_SET(processor, &mut *only.as_mut_ptr());
        only.assume_init()
    }
}

/// Where a thread may run; 0 is the one that asks.
pub(crate) fn allowed(thread: libc::pid_t) -> Option<Processors> {
    let mut allowed = MaybeUninit::<Processors>::zeroed();
    // SAFETY: a set of that size, which is valid as it is and which the call fills.
    unsafe {
        (libc::sched_getaffinity(thread, SIZE, allowed.as_mut_ptr()) == 0)
            .then(|| allowed.assume_init())
    }
}

/// Has a thread run there alone; false where nobody may say so.
pub(crate) fn allow(thread: libc::pid_t, processors: &Processors) -> bool {
    // SAFETY: a set of that size.
    unsafe { libc::sched_setaffinity(thread, SIZE, processors) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[usize]) -> Processors {
        let mut set = only(of[0]);
        // SAFETY: small numbers.
        of.iter().for_each(|&at| unsafe { libc::CPU_SET(at, &mut set) });
        set
    }

    #[test]
    fn each_rank_has_a_processor_of_its_own_unless_they_are_fewer() {
        let all = set(&[1, 3, 4, 6, 7]);
        assert_eq!([0, 1].map(|rank| share(&all, rank, 2)), [Some(1), Some(4)]);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| share(&all, rank, 5)), [1, 3, 4, 6, 7].map(Some));
        assert_eq!(share(&all, 0, 6), None);
    }

    #[test]
    fn who_goes_home_may_run_where_it_might_before() {
        let before = allowed(0).unwrap();
        for processor in (0..8 * SIZE).filter(|&at| has(&before, at)).take(4) {
            go_to(processor, &before);
            // SAFETY: whole sets.
            assert!(unsafe { libc::CPU_EQUAL(&before, &allowed(0).unwrap()) });
        }
    }
}
