//! [`Process`] as the state that the process lock guards: makes a round of progress, arms a park
//! target, reports what it is blocked on.

#![allow(unsafe_code)]

use std::os::fd::RawFd;

use collectives::{UserCall, UserReturn};
use fabric::WaitOn;
use io::pending::Sleep;
use progress::{Guarded, ParkTarget, Progress};

use crate::abort;
use crate::blocked_on;
use crate::incidents::Incidents;
use crate::process::Process;
use crate::usage;

impl Guarded for Process {
    /// A user's reduction function.
    type Call = Box<UserCall>;
    type Return = UserReturn;

    /// Polls the transports, advances collectives, and frees the buffers of buffered sends that
    /// have left.
    #[inline(always)]
    fn progress(&mut self) -> Progress<Box<UserCall>> {
        let Some(core) = &mut self.core else { return Progress::Idle };
        let mut moved = core.stack.progress();
        if core.stack.protocols.rma.has_tickets() {
            moved |= core.stack.take_turns();
        }
        if !core.collectives.is_empty() {
            if let Some(call) = core.postponed.take() {
                return Progress::Call(call);
            }
            match core
                .collectives
                .advance(&mut core.stack.protocols.pt2pt, &mut core.stack.endpoint)
            {
                collectives::Advance::Idle => {}
                collectives::Advance::Moved => moved = true,
                collectives::Advance::User(call) => return Progress::Call(Box::new(call)),
            }
        }
        if !self.bsend.is_idle() {
            moved |= self.bsend.reclaim(core.stack.pt2pt());
        }
        if !core.unannounced.is_empty() {
            moved |= self.post_announced();
        }
        let Some(core) = &mut self.core else { return Progress::Idle };
        if core.stack.pt2pt().has_incidents() {
            match self.handle_incidents() {
                Incidents::Nothing => {}
                // A rank that only answers notices still waits, so its report stays. Messages may
                // have come in the same round: all waiters look.
                Incidents::Notices => return Progress::Moved,
                Incidents::Failures => moved = true,
            }
        }
        if !moved && !io::pending::take_news() {
            return Progress::Idle;
        }
        blocked_on::has_moved();
        Progress::Moved
    }

    fn run(call: Box<UserCall>) -> UserReturn {
        call.run()
    }

    fn resume(&mut self, done: UserReturn) {
        if let Some(core) = &mut self.core {
            core.collectives.resume(done);
        }
    }

    fn postpone(&mut self, call: Box<UserCall>) {
        if let Some(core) = &mut self.core {
            core.postponed = Some(call);
        }
    }

    fn arm(&mut self) -> Option<ParkTarget> {
        let core = self.core.as_deref_mut()?;
        let on = core.stack.arm()?;
        let target = match io::pending::sleep() {
            Sleep::Freely => Some(park_target(on)),
            Sleep::With(fd) => park_target_with(on, fd),
            Sleep::Never => None,
        };
        let Some(target) = target else {
            core.stack.disarm();
            return None;
        };
        // A peer that arrives in a collective segment either sees that this process sleeps, or
        // arrived before this check.
        if core
            .collectives
            .has_segment_work(&mut core.stack.protocols.pt2pt, &mut core.stack.endpoint)
        {
            core.stack.disarm();
            return None;
        }
        // The same holds for a rank that returns a window's lock.
        if core.stack.protocols.rma.has_tickets() && core.stack.protocols.rma.has_turn() {
            core.stack.disarm();
            return None;
        }
        Some(target)
    }

    fn disarm(&mut self) {
        if let Some(stack) = self.stack() {
            stack.disarm();
        }
    }

    fn has_more_to_do(&mut self) -> bool {
        let Some(core) = &mut self.core else { return false };
        // A leader that parked before an access began does not poll its descriptor.
        io::pending::is_active()
            || !core.collectives.is_empty()
            || (core.stack.has_work() && core.stack.arm().is_none())
    }

    fn wake_needed(&mut self) -> bool {
        self.stack().is_some_and(|stack| stack.pt2pt().take_news())
    }

    fn report_before_sleep(&mut self) {
        self.report_late_ready();
    }

    fn is_reported_blocked() -> bool {
        blocked_on::is_reported()
    }

    fn report_blocked(&mut self) {
        blocked_on::report(self);
    }

    fn check_entry(contended: bool) {
        usage::check_entry(contended);
    }

    fn is_orphaned(&mut self) -> bool {
        self.core().is_ok_and(|core| core.job.launcher_exited())
    }

    fn exit_orphaned() -> ! {
        abort::orphaned()
    }
}

/// Returns the target that also wakes when `fd` is readable; `None` if there is another descriptor
/// already.
#[cold]
fn park_target_with(on: WaitOn<'_>, fd: RawFd) -> Option<ParkTarget> {
    match on {
        WaitOn::Futex { word, value } => Some(park_target(WaitOn::Either { word, value, fd })),
        WaitOn::Nothing => Some(park_target(WaitOn::Fd(fd))),
        WaitOn::Fd(_) | WaitOn::Either { .. } => None,
    }
}

fn park_target(on: WaitOn<'_>) -> ParkTarget {
    // SAFETY: a transport's futex word lies in a segment that it keeps mapped until the process
    // ends.
    unsafe {
        match on {
            WaitOn::Futex { word, value } => ParkTarget::futex(word, value),
            WaitOn::Fd(fd) => ParkTarget::fd(fd),
            WaitOn::Either { word, value, fd } => ParkTarget::either(word, value, fd),
            WaitOn::Nothing => ParkTarget::internal(),
        }
    }
}
