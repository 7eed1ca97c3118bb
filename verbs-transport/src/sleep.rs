//! How an idle process sleeps and wakes.
//!
//! Invariant: any event after [`VerbsTransport::prepare_wait`] makes its descriptor readable, or
//! was found by it.

use std::time::Instant;

use fabric::WaitOn;

use crate::endpoint::connection::{RETRY_MAX, RETRY_MIN};
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Returns what to sleep on; `None` if there is something to do.
    pub(crate) fn prepare_wait(&mut self) -> Option<WaitOn<'_>> {
        if self.wait_set.has_woken {
            self.clear_wake();
        }
        // A peer that has failed by now must be reported before the sleep.
        if self.wireup.is_any_pending() {
            self.progress_wireup();
        }
        if self.wireup.ud.mend_at().is_some() {
            self.mend_datagrams();
        }
        if self.datagrams.has_timers() || !self.datagrams.due.is_empty() {
            self.progress_links();
        }
        self.repost_refused();
        if !self.credit.due.is_empty() {
            self.return_credits();
        }
        // The next polls destroy queue pairs.
        if self.endpoints.is_any_drained() {
            return None;
        }
        if self.completions.stashed > 0 || !self.reports.is_empty() {
            return None;
        }
        if self.adapter.is_gone {
            return Some(WaitOn::Nothing);
        }
        self.registrations.sweep();
        if !self.close_rings() {
            return None;
        }
        if !self.completions.request_event() || self.has_space_again() || self.is_any_written() {
            return None;
        }
        let timer = self.next_timer();
        self.wait_set.set_timer(timer);
        // A sleeper receives no written frames.
        self.rings.period += 1;
        self.wait_set.is_armed = true;
        Some(WaitOn::Fd(self.wait_set.fd()))
    }

    /// Returns when a sleeper must look by itself: at pending endpoints, closing rings, a port that
    /// is down, a UD queue pair that has failed, draining queue pairs, receives that the device
    /// refused, or control messages for which there is no space. Completions that make space are
    /// events, but the system may have refused memory.
    fn next_timer(&self) -> Option<Instant> {
        let retry = self.wireup.next_retry();
        let port = self.adapter.is_down.then(|| Instant::now() + RETRY_MAX);
        let drain = self.endpoints.next_drain_end();
        let is_refused = self.recv.is_refused() || self.wireup.ud.is_refused();
        let repost =
            (is_refused || !self.credit.due.is_empty()).then(|| Instant::now() + RETRY_MIN);
        let mend = self.wireup.ud.mend_at().filter(|_| !self.adapter.is_gone);
        let retry = retry.into_iter().chain(self.datagrams.next_timer()).chain(mend);
        let others = self.next_ring_poll().into_iter().chain(port).chain(drain).chain(repost);
        retry.chain(others).min()
    }

    /// Posts receives again that the device has refused.
    fn repost_refused(&mut self) {
        if self.recv.is_refused() {
            self.recv.repost();
        }
        if self.wireup.ud.is_refused() {
            self.wireup.ud.repost_waiting();
        }
    }

    /// Ends a sleep. The events that ended it are handled before the next sleep: nearly always a
    /// frame has arrived, and the answer to it must not wait for system calls.
    #[inline]
    pub(crate) fn on_wake(&mut self) {
        self.wait_set.is_armed = false;
        self.wait_set.has_woken = true;
    }

    /// Takes the completion event that ended the last sleep, or handles any other event that did.
    fn clear_wake(&mut self) {
        self.wait_set.has_woken = false;
        if !self.completions.cq.take_event()
            && (self.adapter.is_check_due() || self.wait_set.has_device_events())
        {
            self.process_device_events();
        }
    }
}
