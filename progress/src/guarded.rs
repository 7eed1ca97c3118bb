//! The operations that the process lock and its waiting threads need from the state that they
//! share.

use std::time::Duration;

use crate::park::ParkTarget;

/// The result of one round of progress.
pub enum Progress<C> {
    /// Nothing happened.
    Idle,
    /// Something moved; poll again.
    Moved,
    /// This call is to be made outside the lock.
    Call(C),
}

/// The state that a [`ProcessLock`](crate::ProcessLock) guards.
pub trait Guarded: 'static {
    /// Work that must run outside the lock, since it may enter again.
    type Call;
    /// The result of such work.
    type Return;

    /// Polls once for everything that may have happened.
    fn progress(&mut self) -> Progress<Self::Call>;

    /// Makes a call, outside the lock.
    fn run(call: Self::Call) -> Self::Return;

    /// Takes back the result of a call.
    fn resume(&mut self, done: Self::Return);

    /// Returns true for a call that only threads of the application make, not the progress thread.
    fn is_of_application(_call: &Self::Call) -> bool {
        true
    }

    /// Keeps a call for a thread of the application: the progress thread must not make it.
    fn postpone(&mut self, call: Self::Call);

    /// Prepares for sleep and returns what to park on. `None`: something has happened, poll again.
    /// Any event after `arm` ends a park on that target.
    fn arm(&mut self) -> Option<ParkTarget>;

    /// Ends what [`arm`](Guarded::arm) began: events need no longer wake a sleeper. The futex word
    /// no longer holds the value of the target afterwards.
    fn disarm(&mut self);

    /// Returns true if a round could do something that no event from outside would bring about.
    /// Arms again if armed.
    fn has_more_to_do(&mut self) -> bool;

    /// Returns true, once, if a call did more than its caller waits for: other threads' predicates
    /// may be true.
    fn wake_needed(&mut self) -> bool;

    /// Reports what is reported at leisure, before a thread sleeps.
    fn report_before_sleep(&mut self);

    /// A thread that waits has slept for some time. Before it sleeps again, all predicates run, and
    /// [`report_blocked`](Guarded::report_blocked) reports what they miss.
    fn begin_look(&mut self);

    /// Returns true from [`begin_look`](Guarded::begin_look) on until something moves.
    fn is_blocked_for_long() -> bool;

    /// Reports what this process waits for. Returns the longest time until it should be called
    /// again, if the thread still sleeps then.
    fn report_blocked(&mut self) -> Duration;

    /// A thread begins to wait, among others: what was reported is of an earlier wait.
    fn begin_wait(&mut self) {}

    /// Checks that the calling thread may enter, after
    /// [`check_entries`](crate::ProcessLock::check_entries). `contended`: another was inside.
    fn check_entry(_contended: bool) {}

    /// Returns true if the process that started this one is gone. Called when a sleep has lasted
    /// for [`Settings::max_sleep`](crate::Settings::max_sleep): it normally dies with that process,
    /// but one that was started through a wrapper has to look.
    fn is_orphaned(&mut self) -> bool;

    /// Looks for what no transport reports, in a loop of polls that find nothing.
    fn look_around(&mut self) {}

    /// Ends an orphaned process.
    fn exit_orphaned() -> !;
}
