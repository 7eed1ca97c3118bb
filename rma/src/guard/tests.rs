//! Short and long accesses of several threads to one counter.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::UserBuf;

use super::*;

fn counter_at<'a>(at: UserBuf) -> &'a AtomicU64 {
    // SAFETY: the caller's counter, aligned, and alive while it is used.
    unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) }
}

#[test]
fn short_and_long_accesses_exclude_each_other() {
    const RANKS: usize = 4;
    const ROUNDS: u64 = 2000;
    let mut memory = [0_u64; RANKS * Control::BYTES / 8];
    // SAFETY: the array outlives the records, which the threads do not keep.
    let all = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), RANKS * Control::BYTES) };
    let record = |rank| Control::new(all.slice(rank * Control::BYTES, Control::BYTES));
    let records: [Control; RANKS] = std::array::from_fn(record);
    let mut counter = 0_u64;
    let address = &raw mut counter as usize;
    std::thread::scope(|scope| {
        for own in 0..RANKS as u32 {
            let records = &records;
            scope.spawn(move || {
                let guard = Guard::new(&records[own as usize], (&records[2], 2), records);
                // SAFETY: the counter outlives the scope.
                let at = unsafe { UserBuf::new(address as *mut u8, 8) };
                for round in 0..ROUNDS {
                    if (round + u64::from(own)).is_multiple_of(2) {
                        _ = guard.beside_others(|| counter_at(at).fetch_add(1, Ordering::Relaxed));
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
    assert_eq!(counter, RANKS as u64 * ROUNDS);
}
