//! One rank in its schedule.

use std::ops::Range;

use collectives::{Message, Schedule, SegSync};

use crate::memory::Memory;
use crate::time::Time;

/// A rank, and how far it has come.
pub(crate) struct Rank {
    pub(crate) schedule: Schedule,
    /// Its segment, and its number among the members.
    pub(crate) segment: (u32, u32),
    /// The processor works until then.
    pub(crate) clock: Time,
    /// The round that is running.
    pub(crate) round: u32,
    /// The next message to post, in all of the schedule.
    pub(crate) next: u32,
    /// The next local step, in all of the schedule.
    pub(crate) next_local: u32,
    /// Posted messages of the round that have not completed.
    pub(crate) open: u32,
    /// The round of the segment.
    pub(crate) segment_round: u32,
    /// Until when it has read, and how many of the members that it waits for in the segment.
    pub(crate) reading: Option<(Time, usize)>,
    /// A wake is in the queue.
    pub(crate) is_scheduled: bool,
    /// The buffers, where data is carried.
    pub(crate) memory: Option<Box<Memory>>,
}

impl Rank {
    pub(crate) fn new(
        schedule: Schedule,
        segment: (u32, u32),
        memory: Option<Box<Memory>>,
    ) -> Rank {
        Rank {
            schedule,
            segment,
            clock: Time::ZERO,
            round: 0,
            next: 0,
            next_local: 0,
            open: 0,
            segment_round: 0,
            reading: None,
            is_scheduled: false,
            memory,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.round as usize == self.schedule.rounds().len()
    }

    /// The synchronisation of the running round.
    pub(crate) fn sync(&self) -> SegSync {
        self.schedule.rounds()[self.round as usize].sync
    }

    /// Goes on to the next round. Other members of the segment may have run the local steps.
    pub(crate) fn end_round(&mut self) {
        self.next_local = self.schedule.rounds()[self.round as usize].locals;
        self.round += 1;
    }

    /// The next message to post in the running round; `None` when all are posted or the window is
    /// full.
    pub(crate) fn next_message(&self) -> Option<(u32, Message)> {
        let end = self.schedule.rounds()[self.round as usize].messages;
        let may_post = self.next < end && self.open < self.schedule.window();
        may_post.then(|| (self.next, self.schedule.messages()[self.next as usize]))
    }

    /// The numbers of the local steps of the running round that have not run.
    pub(crate) fn locals(&self) -> Range<u32> {
        self.next_local..self.schedule.rounds()[self.round as usize].locals
    }

    /// Those of them that run while the round's messages are under way.
    pub(crate) fn early_locals(&self) -> Range<u32> {
        self.next_local..self.schedule.rounds()[self.round as usize].early
    }
}
