//! What a call on a window waits for, for reports.

use crate::engine::Engine;
use crate::steps::StepKind;
use crate::window::{LockState, Target, Window};

/// What a call that waits needs from other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A lock.
    Lock,
    /// The end of operations.
    Operations,
    /// MPI_Win_post.
    Exposure,
    /// MPI_Win_complete.
    AccessEnd,
}

impl Engine {
    /// Returns the first rank of a window that a call waits for; of a lock its target, with the
    /// rank that took it last and holds it, if that is known.
    pub fn blocked_on(&self, window: u64, what: WaitsFor) -> Option<(u32, Option<u32>)> {
        let window = self.windows.get(&window)?;
        let first = |is_it: fn(&Target) -> bool| {
            let targets = window.targets.iter().filter(|(_, target)| is_it(target));
            targets.map(|(&rank, _)| rank).min()
        };
        match what {
            WaitsFor::Lock => {
                let waits = |target: &Target| {
                    matches!(target.lock, LockState::Requested | LockState::Ticket(_))
                };
                let target = first(waits)?;
                Some((target, holder(window, target)))
            }
            WaitsFor::Operations => first(Target::is_used).map(|rank| (rank, None)),
            WaitsFor::Exposure => first_missing(window, StepKind::Post),
            WaitsFor::AccessEnd => first_missing(window, StepKind::Complete),
        }
    }
}

/// Returns the rank that holds the lock of a target, if this process can know.
fn holder(window: &Window, target: u32) -> Option<u32> {
    match window.targets.get(&target)?.lock {
        LockState::Ticket(_) => window.holder(target),
        _ if target == window.rank => window.locks.holder(),
        _ => None,
    }
}

fn first_missing(window: &Window, kind: StepKind) -> Option<(u32, Option<u32>)> {
    let mut ranks = window.epochs.expected(kind).ok()?.iter().copied();
    ranks.find(|&rank| !window.has_step(rank, kind)).map(|rank| (rank, None))
}
