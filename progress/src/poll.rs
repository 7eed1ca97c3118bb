//! Calls that poll and return (MPI_Test, MPI_Iprobe): how a loop over them gives way to other
//! ranks.
//!
//! A poll is *vain* if its caller finds nothing. Where ranks share processors, a loop of vain polls
//! keeps the processor from the rank that would send the message. So each poll after
//! [`VAIN_POLLS`] vain ones in a row yields, as a blocking wait does. If others compute, it sleeps
//! until something arrives, for at most [`NAP`]: the program may poll for other things too.
//!
//! Two vain polls are in a row if the program did little between them: see [`POLL_GAP`]. A program
//! that computes and tests now and then keeps its processor.

use std::time::Duration;

use crate::affinity::yield_and_migrate;
use crate::backoff::yield_slice;
use crate::global_lock::ProcessLock;
use crate::guarded::Guarded;
use crate::shared::Shared;
use crate::sync::{Ordering::Relaxed, nanos, yield_now};

/// Vain polls in a row before each further one gives way.
const VAIN_POLLS: u32 = 16;
/// Nanoseconds between two vain polls in a row: several times what a poll takes.
const POLL_GAP: u64 = 5_000;
/// The longest sleep of a polling call: far more than a wake-up costs, and little beside the time
/// slice that the processor would otherwise be given for.
const NAP: Duration = Duration::from_micros(200);

impl<S: Guarded + Send> ProcessLock<S> {
    /// Gives way to other ranks before a poll, if the last ones were vain.
    #[inline]
    pub fn give_way(&self) {
        let mask = self.shared.poll_mask.load(Relaxed);
        if self.shared.vain_polls.load(Relaxed) & mask == mask {
            self.yield_or_nap();
        }
    }

    /// Counts a vain poll.
    #[inline]
    pub fn count_vain_poll(&self) {
        // No read-modify-write: a lost increment does no harm.
        let polls = self.shared.vain_polls.load(Relaxed);
        self.shared.vain_polls.store(polls.wrapping_add(1), Relaxed);
    }

    #[cold]
    fn yield_or_nap(&self) {
        let shared = &self.shared;
        if !shared.ranks_share_processors() {
            self.with(S::look_around);
            self.count_vain_poll();
            yield_and_migrate(shared);
        } else if is_time(shared, nanos()) {
            self.with(S::look_around);
            if !yield_slice(shared) {
                self.nap(NAP);
            }
            shared.last_poll.store(nanos(), Relaxed);
        }
    }

    /// Sleeps until something arrives, at most so long.
    fn nap(&self, most: Duration) {
        // With several threads the transport's park target is the leader's.
        if self.is_multithreaded() {
            return yield_now();
        }
        if let Some(target) = self.with(S::arm) {
            target.park(most);
        }
        self.with(S::disarm);
    }
}

/// Returns true if a poll at `now`, in nanoseconds, is one of a loop of vain ones.
fn is_time(shared: &Shared, now: u64) -> bool {
    let is_in_a_row = now.saturating_sub(shared.last_poll.swap(now, Relaxed)) < POLL_GAP;
    if !is_in_a_row {
        shared.vain_polls.store(0, Relaxed);
    }
    is_in_a_row && shared.vain_polls.load(Relaxed) >= VAIN_POLLS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::fake::{lock, settings};
    use crate::shared::{POLLS_PER_KERNEL_YIELD, POLLS_PER_YIELD};
    use std::time::Instant;

    #[test]
    fn a_loop_of_vain_polls_gives_way_and_goes_on_doing_so() {
        let (lock, _) = lock();
        for poll in 0..100 {
            assert_eq!(is_time(&lock.shared, 1000 * poll), poll >= VAIN_POLLS.into(), "{poll}");
            lock.count_vain_poll();
        }
    }

    #[test]
    fn a_program_that_computes_between_its_polls_keeps_its_processor() {
        let (lock, _) = lock();
        for poll in 0..100 {
            assert!(!is_time(&lock.shared, POLL_GAP * (poll + 1)));
            lock.count_vain_poll();
        }
    }

    #[test]
    fn polls_that_find_something_are_not_vain() {
        let (lock, _) = lock();
        assert!((0..100).all(|poll| !is_time(&lock.shared, 1000 * poll)));
    }

    #[test]
    fn a_rank_that_shares_with_no_other_rank_yields_seldom_unless_the_kernel_works() {
        for (kernel_works, each) in [(false, POLLS_PER_YIELD), (true, POLLS_PER_KERNEL_YIELD)] {
            let (lock, _) = lock();
            let spin = Duration::from_micros(50);
            lock.configure(Settings { spin, kernel_works, ..settings(8) });
            lock.set_multithreaded(false);
            let given = (0..3 * each).filter(|_| {
                let before = lock.shared.vain_polls.load(Relaxed);
                lock.give_way();
                lock.shared.vain_polls.load(Relaxed) != before || {
                    lock.count_vain_poll();
                    false
                }
            });
            assert_eq!(given.count(), 3);
        }
    }

    #[test]
    fn a_message_ends_a_nap() {
        let (lock, wire) = lock();
        lock.set_multithreaded(false);
        let (begun, most) = (Instant::now(), Duration::from_secs(60));
        for _ in 0..50 {
            let napper = std::thread::spawn(move || lock.nap(most));
            while !wire.is_armed() && !napper.is_finished() {}
            wire.send();
            napper.join().unwrap();
            lock.progress_once();
            assert!(!wire.is_armed(), "the transport stays armed");
        }
        assert!(begun.elapsed() < most);
    }
}
