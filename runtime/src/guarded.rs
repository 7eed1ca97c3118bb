//! [`Process`] as the state that the process lock guards: makes a round of progress, arms a park
//! target, reports what it is blocked on.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Duration;

use collectives::{UserCall, UserReturn};
use fabric::WaitOn;
use io::pending::Sleep;
use progress::{Guarded, ParkTarget, Progress};

use crate::abort;
use crate::blocked_on;
use crate::incidents::Incidents;
use crate::process::Process;
use crate::stack::Stack;
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
        // One branch in the usual case, in which there is nothing of all this.
        let tickets = core.stack.protocols.rma.tickets() as usize;
        let pending = core.collectives.len() | core.unannounced.len() | self.bsend.attachments();
        if tickets | pending != 0 {
            match self.advance_pending() {
                Ok(has_moved) => moved |= has_moved,
                Err(call) => return Progress::Call(call),
            }
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
        if self.take_failures() {
            return None;
        }
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
        if core.stack.protocols.rma.tickets() > 0 && core.stack.protocols.rma.has_turn() {
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

    fn report_blocked(&mut self) -> Duration {
        blocked_on::report(self)
    }

    fn check_entry(contended: bool) {
        usage::check_entry(contended);
    }

    fn look_around(&mut self) {
        self.take_failures();
    }

    fn is_orphaned(&mut self) -> bool {
        self.take_failures();
        self.core().is_ok_and(|core| core.job.launcher_exited())
    }

    fn exit_orphaned() -> ! {
        abort::orphaned()
    }
}

impl Process {
    /// Advances what is in progress beside messages; true if anything happened. `Err`: a user's
    /// reduction function is to be called first.
    #[inline(always)]
    fn advance_pending(&mut self) -> Result<bool, Box<UserCall>> {
        let Some(core) = &mut self.core else { return Ok(false) };
        let mut moved = false;
        if core.stack.protocols.rma.tickets() > 0 {
            moved |= core.stack.take_turns();
        }
        if !core.collectives.is_empty() {
            if let Some(call) = core.postponed.take() {
                return Err(call);
            }
            let Stack { protocols, endpoint } = &mut core.stack;
            match core.collectives.advance(&mut protocols.pt2pt, endpoint) {
                collectives::Advance::Idle => {}
                collectives::Advance::Moved => moved = true,
                collectives::Advance::User(call) => return Err(Box::new(call)),
            }
        }
        if !self.bsend.is_idle() {
            moved |= self.bsend.reclaim(core.stack.pt2pt());
        }
        if !core.unannounced.is_empty() {
            moved |= self.post_announced();
        }
        Ok(moved)
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
