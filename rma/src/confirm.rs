//! Confirms puts: a device may report them before their bytes are in the target's memory. A read
//! of the byte that was written last, by the same device on the same way, is answered after them.
//!
//! A flush begins one for each target with unconfirmed puts, right behind these, and waits for it
//! as for any operation. Nothing is confirmed where frames follow that the target answers, nor
//! before a frame to the target itself ends the epoch: it arrives after what was put before it.
//! A device that refuses the read is replaced by a flush in frames.

use objects::{Buffer, Result};

use crate::confirmation::Confirmation;
use crate::engine::Engine;
use crate::operations::{Action, Operation, Path};
use crate::outgoing::Item;
use crate::segment::{Cursor, Layout};
use crate::window::Target;

impl Engine {
    /// Begins to confirm the puts of a device at a target, if any are not.
    pub(crate) fn confirm(&mut self, window: u64, rank: u32) -> Result<()> {
        let state = self.window_mut(window)?;
        let peer = state.peer(rank)?;
        let Some(target) = state.targets.get_mut(&rank) else { return Ok(()) };
        let Some(last) = target.unconfirmed.take() else { return Ok(()) };
        target.active += 1;
        let id = self.operations.open(Operation {
            window,
            target: rank,
            action: Action::Get,
            layout: Layout::NONE,
            cursor: Cursor::default(),
            origin: Buffer::EMPTY,
            result: Buffer::EMPTY,
            sent: 0,
            received: 0,
            expected: 0,
            path: Path::Confirm(Box::new(Confirmation::new(last))),
            is_answered: false,
            transfers: 0,
            is_wanted: false,
        });
        self.outgoing.push(peer, Item::Operation(id));
        Ok(())
    }

    /// Confirms puts that have begun since a flush of `target` (`None`: of all) did, and ended.
    pub(crate) fn confirm_ended(&mut self, window: u64, target: Option<u32>) -> Result<()> {
        let targets = &self.window(window)?.targets;
        let is_ended = |it: &Target| it.active == 0 && it.unconfirmed.is_some();
        let ended: Vec<u32> = match target {
            Some(rank) if targets.get(&rank).is_some_and(is_ended) => vec![rank],
            Some(_) => return Ok(()),
            None => targets.iter().filter(|(_, it)| is_ended(it)).map(|(&rank, _)| rank).collect(),
        };
        ended.into_iter().try_for_each(|rank| self.confirm(window, rank))
    }
}
