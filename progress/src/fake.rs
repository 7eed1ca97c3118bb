//! A state for tests: a transport of one wire, and events of the process's own.

#![allow(unsafe_code)]

use std::time::Duration;

use crate::futex::{Scope, futex_wake};
use crate::global_lock::ProcessLock;
use crate::guarded::{Guarded, Progress};
use crate::park::ParkTarget;
use crate::shared::Settings;
use crate::sync::{AtomicU32, Ordering::AcqRel};

/// The word that peers write to. All accesses are read-modify-writes, so that each sees the latest
/// value.
pub(crate) struct Wire {
    /// 1 while a sleeper wants to be woken.
    armed: AtomicU32,
    /// Messages sent so far.
    sent: AtomicU32,
}

impl Wire {
    /// Sends a message, as a peer.
    pub(crate) fn send(&self) {
        self.sent.fetch_add(1, AcqRel);
        if self.armed.swap(0, AcqRel) == 1 {
            futex_wake(&self.armed, Scope::Shared);
        }
    }

    /// Returns true while a sleeper wants to be woken.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.fetch_add(0, AcqRel) == 1
    }
}

std::thread_local! {
    /// This thread has waited for long.
    static IS_LONG: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(crate) struct Fake {
    pub(crate) wire: &'static Wire,
    /// Messages received.
    pub(crate) received: u32,
    /// Events of the process's own.
    pub(crate) events: u32,
    /// The next round comes to a call.
    pub(crate) has_call: bool,
    /// An operation of the process's own is under way.
    pub(crate) has_more: bool,
    pub(crate) postponed: u32,
    pub(crate) resumed: u32,
    /// Reports of a wait.
    pub(crate) reports: u32,
}

/// Returns a multithreaded lock that parks at once, and its wire.
pub(crate) fn lock() -> (&'static ProcessLock<Fake>, &'static Wire) {
    let wire: &Wire =
        Box::leak(Box::new(Wire { armed: AtomicU32::new(0), sent: AtomicU32::new(0) }));
    let fake = Fake {
        wire,
        received: 0,
        events: 0,
        has_call: false,
        has_more: false,
        postponed: 0,
        resumed: 0,
        reports: 0,
    };
    let lock: &ProcessLock<Fake> = Box::leak(Box::new(ProcessLock::new(fake)));
    lock.configure(settings(8));
    (lock, wire)
}

/// Returns the settings of the second of two ranks that share so many processors.
pub(crate) fn settings(processors: u32) -> Settings {
    Settings {
        local_rank: 1,
        local_ranks: 2,
        processors,
        spin: Duration::ZERO,
        device_polled: false,
        kernel_works: false,
        max_sleep: Duration::from_secs(2),
    }
}

impl Guarded for Fake {
    type Call = ();
    type Return = ();

    fn progress(&mut self) -> Progress<()> {
        if std::mem::take(&mut self.has_call) {
            return Progress::Call(());
        }
        let sent = self.wire.sent.fetch_add(0, AcqRel);
        match std::mem::replace(&mut self.received, sent) == sent {
            true => Progress::Idle,
            false => Progress::Moved,
        }
    }

    fn run((): ()) {}

    fn resume(&mut self, (): ()) {
        self.resumed += 1;
    }

    fn postpone(&mut self, (): ()) {
        self.postponed += 1;
    }

    fn arm(&mut self) -> Option<ParkTarget> {
        self.wire.armed.swap(1, AcqRel);
        if self.wire.sent.fetch_add(0, AcqRel) != self.received {
            self.disarm();
            return None;
        }
        // SAFETY: a wire is never freed.
        Some(unsafe { ParkTarget::futex(&self.wire.armed, 1) })
    }

    fn disarm(&mut self) {
        self.wire.armed.swap(0, AcqRel);
    }

    fn has_more_to_do(&mut self) -> bool {
        self.has_more
    }

    fn wake_needed(&mut self) -> bool {
        false
    }

    fn report_before_sleep(&mut self) {}

    fn begin_look(&mut self) {
        IS_LONG.set(true);
    }

    fn is_blocked_for_long() -> bool {
        // Under loom the first sleep would be a wait of its own, and double the states.
        cfg!(loom) || IS_LONG.get()
    }

    fn report_blocked(&mut self) -> Duration {
        self.reports += 1;
        Duration::MAX
    }

    fn is_orphaned(&mut self) -> bool {
        false
    }

    fn exit_orphaned() -> ! {
        unreachable!("the fake has no launcher")
    }
}
