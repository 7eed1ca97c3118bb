//! Collectives that their caller runs by itself, outside of the executor's list, while they wait
//! for nothing but their segment. Those of one process wait for nothing.
//!
//! An inline run knows one end, success. Anything else is for the executor, which continues where
//! the run has stopped and finds the same again.

use super::cursor::{Cursor, Interrupt, SyncResult};
use crate::plan::Plan;

/// A collective that its caller runs by itself.
pub struct InlineRun<'a> {
    plan: &'a Plan,
    sequence: i32,
    cursor: Cursor,
}

/// An inline run that continues as a collective like all others.
pub struct Suspended {
    pub(super) plan: Plan,
    pub(super) sequence: i32,
    pub(super) cursor: Cursor,
}

impl<'a> InlineRun<'a> {
    /// The `sequence`th collective of its communicator; see [`Plan::may_run_inline`].
    #[inline]
    pub fn new(plan: &'a Plan, sequence: i32) -> InlineRun<'a> {
        debug_assert!(plan.may_run_inline());
        InlineRun { plan, sequence, cursor: Cursor::first(plan, sequence) }
    }

    /// Runs as far as it can without waiting. True when it is over and has succeeded.
    #[inline]
    pub fn go(&mut self) -> bool {
        let InlineRun { plan, cursor, .. } = self;
        while let Some(round) = plan.schedule().rounds().get(cursor.round) {
            match cursor.sync(plan, round.sync) {
                SyncResult::Blocked => {
                    cursor.prefetch(plan, round.locals as usize);
                    return false;
                }
                // The executor finds it again and reports it.
                SyncResult::Mismatch(_) => return false,
                SyncResult::Skip => cursor.skip(plan),
                SyncResult::Run => {
                    let interrupt = cursor.run_locals(plan, round.locals as usize, None);
                    debug_assert!(!matches!(interrupt, Some(Interrupt::User(..))), "no user calls");
                    if interrupt.is_some() {
                        return false;
                    }
                    cursor.next_round(plan, round.sync);
                }
            }
        }
        cursor.leave(plan);
        true
    }

    /// The round of its schedule in which it waits.
    #[inline]
    pub fn round(&self) -> usize {
        self.cursor.round
    }

    /// Gives up a run that is not over.
    #[cold]
    pub fn suspend(self) -> Suspended {
        let InlineRun { plan, sequence, cursor } = self;
        Suspended { plan: plan.clone(), sequence, cursor }
    }
}
