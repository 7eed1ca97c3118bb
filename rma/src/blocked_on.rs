//! What a call on a window waits for, for reports.

use crate::engine::Engine;
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
            WaitsFor::Exposure => {
                let group = window.epochs.started().ok()?;
                first_missing(group, &window.steps.posts).map(|rank| (rank, None))
            }
            WaitsFor::AccessEnd => {
                let group = window.epochs.exposed().ok()?;
                first_missing(group, &window.steps.completes).map(|rank| (rank, None))
            }
        }
    }
}

/// Returns the rank that holds the lock of a target, if this process can know.
fn holder(window: &Window, target: u32) -> Option<u32> {
    match window.remotes.get(target as usize)?.control {
        Some(control) if window.targets.get(&target)?.lock != LockState::Requested => {
            control.holder()
        }
        _ if target == window.rank => window.locks.holder(),
        _ => None,
    }
}

fn first_missing(group: &[u32], counts: &rustc_hash::FxHashMap<u32, u32>) -> Option<u32> {
    group.iter().copied().find(|rank| counts.get(rank).is_none_or(|&count| count == 0))
}
