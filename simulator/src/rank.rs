//! One rank in its schedule.

use std::ops::Range;

use collectives::{Schedule, SegSync};

use crate::memory::Memory;
use crate::steps::Steps;
use crate::time::Time;

/// How far a rank has come in one strand of its schedule.
pub(crate) struct Strand {
    /// The round that is running.
    pub(crate) round: u32,
    /// One past its last round.
    end: u32,
    /// The next message to post, in all of the schedule.
    pub(crate) next: u32,
    /// The next local step, in all of the schedule.
    pub(crate) next_local: u32,
    /// Posted messages of the round that have not completed.
    pub(crate) open: u32,
    /// Runs local steps of the round.
    pub(crate) has_begun_locals: bool,
}

/// A rank, and how far it has come.
pub(crate) struct Rank {
    pub(crate) steps: Steps,
    /// Its segment, and its number among the members.
    pub(crate) segment: (u32, u32),
    /// The processor works until then.
    pub(crate) clock: Time,
    /// How far it has come in the main strand of its schedule, and in the one beside it.
    pub(crate) strands: [Strand; 2],
    /// The round of the segment.
    pub(crate) segment_round: u32,
    /// Until when it has read, and how many of the members that it waits for in the segment.
    pub(crate) reading: Option<(Time, usize)>,
    /// The main strand will be woken by its segment.
    pub(crate) waits_in_segment: bool,
    /// A wake is in the queue.
    pub(crate) is_scheduled: bool,
    /// The buffers, where data is carried.
    pub(crate) memory: Option<Box<Memory>>,
}

impl Rank {
    pub(crate) fn new(steps: Steps, segment: (u32, u32), memory: Option<Box<Memory>>) -> Rank {
        let (main, all) = (steps.main_rounds, steps.rounds.len() as u32);
        let strands = [(0, main), (main, all)].map(|(round, end)| {
            let (next, next_local) = steps.start_of(round);
            Strand { round, end, next, next_local, open: 0, has_begun_locals: false }
        });
        Rank {
            steps,
            segment,
            clock: Time::ZERO,
            strands,
            segment_round: 0,
            reading: None,
            waits_in_segment: false,
            is_scheduled: false,
            memory,
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.strands.iter().all(|strand| strand.round == strand.end)
    }

    /// The synchronisation of the running round of a strand; `None` if the strand is at its end, or
    /// waits for the other one.
    pub(crate) fn sync(&self, of: usize) -> Option<SegSync> {
        let [strand, other] = [of, 1 - of].map(|of| &self.strands[of]);
        let round = self.steps.rounds[..strand.end as usize].get(strand.round as usize)?;
        (other.round >= round.after).then_some(round.sync)
    }

    /// The strand that a message belongs to.
    pub(crate) fn strand_of(&mut self, message: u32) -> &mut Strand {
        let (first, _) = self.steps.start_of(self.steps.main_rounds);
        &mut self.strands[usize::from(message >= first)]
    }

    /// Goes on to the next round. Other members of the segment may have run the local steps.
    pub(crate) fn end_round(&mut self, of: usize) {
        let strand = &mut self.strands[of];
        strand.next_local = self.steps.rounds[strand.round as usize].locals;
        strand.round += 1;
    }

    /// The number of the next message to post in the running round; `None` when all are posted or
    /// the window is full.
    pub(crate) fn next_message(&self, of: usize) -> Option<u32> {
        let strand = &self.strands[of];
        let end = self.steps.rounds[strand.round as usize].messages;
        let may_post = strand.next < end && strand.open < self.steps.window;
        may_post.then_some(strand.next)
    }

    /// The numbers of the local steps to run next in the running round: a few at a time where the
    /// other strand may go on meanwhile.
    pub(crate) fn next_locals(&self, of: usize) -> Range<u32> {
        let Range { start, end } = self.locals(of);
        let is_alone = self.sync(1 - of).is_none();
        start..if is_alone { end } else { end.min(start + Schedule::LOCALS_AT_ONCE) }
    }

    /// The numbers of the local steps of the running round that have not run.
    pub(crate) fn locals(&self, of: usize) -> Range<u32> {
        let strand = &self.strands[of];
        strand.next_local..self.steps.rounds[strand.round as usize].locals
    }

    /// Those of them that run while the round's messages are under way.
    pub(crate) fn early_locals(&self, of: usize) -> Range<u32> {
        let strand = &self.strands[of];
        strand.next_local..self.steps.rounds[strand.round as usize].early
    }
}
