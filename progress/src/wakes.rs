//! Wake-ups that are collected under the lock and sent after it is left.

use crate::park::ParkTarget;
use crate::parker::Parker;
use crate::thread::ThreadId;

/// The threads to wake.
#[derive(Default)]
pub(crate) struct Wakes {
    pub(crate) parkers: Vec<Parker>,
    /// The next owner of the time slice; it is woken on the caller's processor.
    pub(crate) next_owner: Option<(Parker, ThreadId)>,
    /// Where the leader is parked.
    pub(crate) leader: Option<ParkTarget>,
}

impl Wakes {
    pub(crate) const fn new() -> Wakes {
        Wakes { parkers: Vec::new(), next_owner: None, leader: None }
    }

    /// Wakes the threads. Outside the lock.
    #[inline]
    pub(crate) fn send(self) {
        self.parkers.into_iter().for_each(Parker::unpark);
        if let Some((parker, thread)) = self.next_owner {
            parker.unpark_here(thread);
        }
        if let Some(target) = self.leader {
            target.wake();
        }
    }
}
