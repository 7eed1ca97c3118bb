//! Delivers accesses that wait in this rank's mailbox.

use fabric::OneSided;
use objects::Result;
use rma::Deferral;

use crate::lock::with;
use crate::process::Process;
use crate::stack::Stack;

/// Rounds of progress of this rank in which a target may come for an offer.
const ROUNDS: u32 = 12;
/// Looks at an offer between two rounds.
const LOOKS: u32 = 16;

impl Stack {
    /// Delivers what waits for a target of the window in a slot; false if nothing does. Errors are
    /// those of the next synchronisation.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver(&mut self, slot: u32) -> bool {
        if !self.protocols.rma.has_deferred(slot) {
            return false;
        }
        let (rma, endpoint) = self.rma();
        if rma.offer(endpoint, slot) {
            self.wait_until_served(slot);
        }
        loop {
            let (rma, endpoint) = self.rma();
            if rma.conclude(endpoint, slot) {
                return true;
            }
            // The target is at it.
            self.progress_aside();
            std::thread::yield_now();
        }
    }

    /// Waits for a target that may be in MPI. Meanwhile this rank does what others offer.
    fn wait_until_served(&mut self, slot: u32) {
        for _ in 0..ROUNDS {
            for _ in 0..LOOKS {
                if self.protocols.rma.is_served(slot) {
                    return;
                }
                std::hint::spin_loop();
            }
            self.progress_aside();
        }
    }

    /// Lets a put or get wait, after what it has no space beside; false if another path has to do
    /// it.
    pub(super) fn defer(&mut self, slot: u32, target: u32, disp: i64, what: OneSided) -> bool {
        let mut outcome = self.protocols.rma.defer(slot, target, disp, what);
        if outcome == Deferral::Full {
            self.deliver(slot);
            outcome = self.protocols.rma.defer(slot, target, disp, what);
        }
        outcome == Deferral::Waits
    }
}

/// Delivers what waits in a window.
pub(super) fn deliver(handle: usize) -> Result<()> {
    with(|p: &mut Process| {
        let slot = p.win(handle)?.slot;
        p.core()?.stack.deliver(slot);
        Ok(())
    })
}
