//! Waiting: progress, then back-off, then sleep.
//!
//! The one thread of a single-threaded process does all of that here. With several threads, a
//! thread makes one round here and then takes its place among the
//! [`waiters`](crate::leader_followers).

use crate::backoff::{self, Backoff};
use crate::global_lock::ProcessLock;
use crate::guarded::{Guarded, Progress};
use crate::sync::Ordering;
use crate::waiter;

impl<S: Guarded + Send> ProcessLock<S> {
    /// Makes progress until `ready` returns a result. Another thread of the process may call
    /// `ready`.
    #[inline]
    pub fn block_on<R>(&'static self, mut ready: impl FnMut(&mut S) -> Option<R>) -> R {
        let mut backoff = Backoff::Fresh;
        loop {
            let (result, progress) = self.with(|state| {
                let progress = self.progress(state);
                (ready(state), progress)
            });
            if let Some(result) = result {
                self.finish(progress);
                return result;
            }
            if self.finish(progress) {
                backoff = Backoff::Fresh;
            } else if self.is_multithreaded() {
                // A copy, so that the closure of the loop above is kept in registers.
                let ready = std::hint::black_box(ready);
                return self.wait_among_others(ready);
            } else {
                backoff = self.back_off(backoff);
            }
        }
    }

    /// Makes one round of progress, for calls that test and return.
    #[inline]
    pub fn progress_once(&self) {
        let progress = self.with(|state| self.progress(state));
        self.finish(progress);
    }

    /// Pauses between two polls.
    #[inline]
    pub fn cpu_relax(&self) {
        backoff::cpu_relax(&self.shared);
    }

    /// Returns true if a wait of this process's one thread begins with a yield that is not timed.
    #[inline]
    pub fn starts_with_yield(&self) -> bool {
        self.shared.ranks_share_processors()
            && !self.is_multithreaded()
            && !self.shared.yield_was_long.load(Ordering::Relaxed)
    }

    /// Returns true if a wait spins, without other threads of this process.
    #[inline]
    pub fn spins_alone(&self) -> bool {
        self.shared.spins() && !self.is_multithreaded()
    }

    /// The rest of [`block_on`](ProcessLock::block_on) with several threads.
    #[cold]
    fn wait_among_others<R>(&'static self, mut ready: impl FnMut(&mut S) -> Option<R>) -> R {
        let mut result = None;
        let mut predicate = |state: &mut S| {
            result = ready(state);
            result.is_some()
        };
        waiter::wait(self, &mut predicate);
        result.unwrap_or_else(|| unreachable!("a waiting thread returned without its result"))
    }

    /// Does outside the lock what progress left to be done; returns true if it moved.
    #[inline]
    fn finish(&self, progress: Progress<S::Call>) -> bool {
        match progress {
            Progress::Idle => false,
            Progress::Moved => true,
            Progress::Call(call) => {
                let done = S::run(call);
                self.with(|state| state.resume(done));
                true
            }
        }
    }

    #[cold]
    fn back_off(&self, backoff: Backoff) -> Backoff {
        backoff.snooze(&self.shared, self.is_multithreaded()).unwrap_or_else(|| {
            self.park();
            Backoff::Fresh
        })
    }

    fn park(&self) {
        let target = self.with(|state| {
            state.report_before_sleep();
            state.arm()
        });
        if let Some(target) = target {
            waiter::park_and_report(self, target);
        }
        self.with(S::disarm);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
