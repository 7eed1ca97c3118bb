//! [`Process`] as the state that the process lock guards: makes a round of progress, arms a park
//! target, reports what it is blocked on.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Duration;

use collectives::{UserCall, UserReturn};
use fabric::WaitOn;
use io::pending::Sleep;
use objects::Datatype;
use progress::{Guarded, ParkTarget, Progress};

use crate::abort;
use crate::blocked_on;
use crate::incidents::Incidents;
use crate::lock::with;
use crate::outside_call::{OutsideCall, OutsideReturn};
use crate::process::Process;
use crate::stack::Stack;
use crate::usage;

impl Guarded for Process {
    type Call = Box<OutsideCall>;
    type Return = OutsideReturn;

    /// Polls the transports, advances collectives, and frees the buffers of buffered sends that
    /// have left.
    #[inline(always)]
    fn progress(&mut self) -> Progress<Box<OutsideCall>> {
        let Some(core) = &mut self.core else { return Progress::Idle };
        let mut moved = core.stack.progress();
        // One branch in the usual case, in which there is nothing of all this.
        let waits = core.stack.protocols.rma.shared_waits() as usize;
        let pending = core.collectives.len() | core.unannounced.len() | self.bsend.attachments();
        if waits | pending != 0 {
            match self.advance_pending() {
                Ok(has_moved) => moved |= has_moved,
                Err(call) => {
                    blocked_on::has_moved();
                    return Progress::Call(call);
                }
            }
        }
        let Some(core) = &mut self.core else { return Progress::Idle };
        if core.stack.pt2pt().has_incidents() {
            match self.handle_incidents() {
                Incidents::Nothing => {}
                // A rank that only answers notices still waits, so its report stays. Messages may
                // have come in the same round: all waiters look.
                Incidents::Notices => return Progress::Moved,
                Incidents::Failures => {
                    // A failure ends collectives that accesses to files wait for.
                    io::pending::announce();
                    moved = true;
                }
            }
        }
        if !moved {
            if !io::pending::take_news() {
                return Progress::Idle;
            }
            if let Some(call) = self.ready_file_task() {
                blocked_on::has_moved();
                return Progress::Call(call);
            }
        }
        blocked_on::has_moved();
        Progress::Moved
    }

    fn run(call: Box<OutsideCall>) -> OutsideReturn {
        match *call {
            OutsideCall::User(call) => OutsideReturn::User(call_user(call)),
            OutsideCall::File(task) => OutsideReturn::File(task.resume()),
        }
    }

    fn resume(&mut self, done: OutsideReturn) {
        match done {
            OutsideReturn::User(done) => {
                if let Some(core) = &mut self.core {
                    core.collectives.resume(done);
                }
            }
            OutsideReturn::File(Some(task)) => self.tables.files.tasks.push(task),
            // Another access may wait for the one that is done.
            OutsideReturn::File(None) => io::pending::announce(),
        }
    }

    fn is_of_application(call: &Box<OutsideCall>) -> bool {
        matches!(**call, OutsideCall::User(_))
    }

    fn postpone(&mut self, call: Box<OutsideCall>) {
        if let Some(core) = &mut self.core {
            core.postponed = Some(call);
        }
    }

    fn arm(&mut self) -> Option<ParkTarget> {
        let has_file_work = io::pending::has_news() && !self.tables.files.tasks.is_empty();
        if has_file_work || self.take_failures() || self.refuse_clients() {
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
        // The same holds for a rank that returns a window's lock, or makes a step of an epoch.
        if core.stack.protocols.rma.shared_waits() > 0 && core.stack.protocols.rma.has_turn() {
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
            || (io::pending::has_news() && !self.tables.files.tasks.is_empty())
            || !core.collectives.is_empty()
            || (core.stack.has_work() && core.stack.arm().is_none())
    }

    fn wake_needed(&mut self) -> bool {
        self.stack().is_some_and(|stack| stack.pt2pt().take_news())
    }

    fn report_before_sleep(&mut self) {
        self.report_late_ready();
    }

    fn begin_look(&mut self) {
        blocked_on::begin_look(self);
    }

    fn is_blocked_for_long() -> bool {
        blocked_on::is_long()
    }

    fn report_blocked(&mut self) -> Duration {
        blocked_on::report(self)
    }

    fn begin_wait(&mut self) {
        blocked_on::has_moved();
    }

    fn check_entry(contended: bool) {
        usage::check_entry(contended);
    }

    fn look_around(&mut self) {
        self.take_failures();
        self.refuse_clients();
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
    fn advance_pending(&mut self) -> Result<bool, Box<OutsideCall>> {
        let Some(core) = &mut self.core else { return Ok(false) };
        let mut moved = false;
        if core.stack.protocols.rma.shared_waits() > 0 {
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
                collectives::Advance::User(call) => return Err(Box::new(OutsideCall::User(call))),
            }
        }
        if !self.bsend.is_idle() {
            moved |= self.bsend.reclaim(core.stack.pt2pt());
        }
        if !core.unannounced.is_empty() {
            moved |= self.post_announced();
        }
        if moved && let Some(call) = self.ready_file_task() {
            return Err(call);
        }
        Ok(moved)
    }

    /// Takes an access to a file that can go on.
    fn ready_file_task(&mut self) -> Option<Box<OutsideCall>> {
        let tasks = &mut self.tables.files.tasks;
        if tasks.is_empty() {
            return None;
        }
        let task = tasks.take_ready(&self.core.as_ref()?.collectives)?;
        Some(Box::new(OutsideCall::File(task)))
    }
}

/// Calls a user's reduction function. A datatype that the program has freed has a new handle
/// meanwhile, since communication in progress completes normally (MPI-5.0 §5.1.9).
fn call_user(call: UserCall) -> UserReturn {
    let new = with(|p| {
        let (datatype, handle) = call.datatype();
        let is_it = |named: &Datatype| named.identity() == datatype.identity();
        let is_named = p.datatype(handle).is_ok_and(is_it);
        (!is_named).then(|| p.tables.datatypes.insert(datatype.clone()))
    });
    let Some(new) = new else { return call.run() };
    let done = call.with_handle(new as usize).run();
    with(|p| _ = p.tables.datatypes.remove(new));
    done
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
