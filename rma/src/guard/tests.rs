//! Short and long accesses of several threads to one counter.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fabric::UserBuf;

use super::*;
use crate::control::Fences;

fn guard_of(records: &[Control; RANKS], own: usize) -> Guard<'_> {
    let (own, target, first) = (records[own], records[TARGET], records[0]);
    Guard::new(Records { own, target, first, fences: Fences::Equal }, records)
}

fn counter_at<'a>(at: UserBuf) -> &'a AtomicU64 {
    // SAFETY: the caller's counter, aligned, and alive while it is used.
    unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) }
}

const RANKS: usize = 4;
/// The rank whose memory is accessed.
const TARGET: usize = 2;

/// Runs a test with the records of all ranks, and what says which processes have ended.
fn with_records(test: impl FnOnce(&[Control; RANKS], &'static [AtomicU32; RANKS])) {
    let mut memory = [0_u64; RANKS * Control::BYTES / 8];
    let ended: &'static _ = Box::leak(Box::new([const { AtomicU32::new(0) }; RANKS]));
    // SAFETY: the array outlives the records, which the test does not keep.
    let all = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), RANKS * Control::BYTES) };
    let record = |rank| all.slice(rank * Control::BYTES, Control::BYTES);
    let control = |rank| Control::new(record(rank), rank as u32, &ended[rank]);
    test(&std::array::from_fn(control), ended);
}

#[test]
fn short_and_long_accesses_exclude_each_other() {
    const ROUNDS: u64 = 2000;
    let mut counter = 0_u64;
    let address = &raw mut counter as usize;
    with_records(|records, _| {
        std::thread::scope(|scope| {
            for own in 0..RANKS {
                scope.spawn(move || {
                    let guard = guard_of(records, own);
                    // SAFETY: the counter outlives the scope.
                    let at = unsafe { UserBuf::new(address as *mut u8, 8) };
                    for round in 0..ROUNDS {
                        if (round + own as u64).is_multiple_of(2) {
                            guard.beside_others(|| {
                                counter_at(at).fetch_add(1, Ordering::Relaxed);
                            });
                        } else {
                            guard.alone(|| {
                                let mut bytes = [0; 8];
                                at.read(0, &mut bytes);
                                at.write(0, &(u64::from_ne_bytes(bytes) + 1).to_ne_bytes());
                            });
                        }
                    }
                });
            }
        });
    });
    assert_eq!(counter, RANKS as u64 * ROUNDS);
}

#[test]
fn ranks_that_die_in_an_access_keep_nobody_waiting() {
    with_records(|records, ended| {
        let guard = |own: usize| guard_of(records, own);
        let announce = |own: usize| guard_of(records, own).records.announce();
        records[0].begin_use(Use::LongAccumulates, Fences::Equal);
        // The lock of one, and an announcement of another.
        assert!(records[TARGET].hold(0) && !announce(1));
        ended[0].store(1, Ordering::Release);
        assert_eq!(guard(1).beside_others(|| records[TARGET].held_by()), None);
        assert!(records[TARGET].hold(0));
        assert_eq!(guard(3).alone(|| records[TARGET].held_by()), Some(3));
        assert!(announce(1) && records[1].accesses(TARGET as u32));
        ended[1].store(1, Ordering::Release);
        assert_eq!(guard(3).alone(|| records[TARGET].held_by()), Some(3));
    });
}

#[test]
fn a_rank_that_lives_keeps_the_lock() {
    with_records(|records, ended| {
        let guard = guard_of(records, 1);
        ended[3].store(1, Ordering::Release);
        assert!(records[TARGET].hold(0));
        guard.release_for_dead();
        records[TARGET].release_for(3);
        assert_eq!(records[TARGET].held_by(), Some(0));
    });
}
