//! The collective segment of a host in simulated time: when each member of a round has arrived, and
//! which ranks wait for that. See `fabric::coll_segment`.
//!
//! Members that count in one word see the round complete after the last one has done its work.
//! Where each raises a flag, a round is complete when all have arrived; a member then has read the
//! flags one after the other ([`Segment::arrivals`]).

use std::collections::VecDeque;

use crate::memory::{Bytes, Slots};
use crate::time::Time;

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// All members have arrived at the round before; then the own slot may be written.
    Slot,
    /// A member has arrived.
    Member(u32),
    /// The round is complete.
    Completion,
}

/// One round.
#[derive(Default)]
struct Round {
    arrived: Vec<Option<Time>>,
    count: u32,
    left: u32,
    completed: Option<Time>,
    /// A member counts in one word.
    is_counted: bool,
    waiting: Vec<(u32, Awaited)>,
    /// The slots, where data is carried.
    slots: Bytes,
}

/// The segment of one host.
#[derive(Default)]
pub(crate) struct Segment {
    /// The ranks that share it.
    members: Vec<u32>,
    /// The number of the first round in `rounds`.
    first: u32,
    rounds: VecDeque<Round>,
}

impl Segment {
    pub(crate) fn new(members: &[u32]) -> Segment {
        Segment { members: members.to_vec(), ..Segment::default() }
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// The members of a complete round with flags, and when each has arrived; `None` in a round
    /// whose members count in one word.
    pub(crate) fn arrivals(&mut self, round: u32) -> Option<impl Iterator<Item = (u32, Time)>> {
        let index = (round - self.first) as usize;
        let round = self.rounds.get(index).filter(|round| !round.is_counted)?;
        let arrived = round.arrived.iter().map(|arrived| arrived.unwrap_or_default());
        Some(self.members.iter().copied().zip(arrived))
    }

    /// Returns when the event has come; `None` if it has not, and then the rank is woken by it.
    pub(crate) fn wait(&mut self, round: u32, awaited: Awaited, rank: u32) -> Option<Time> {
        let at = match awaited {
            // The memory of a round is used again two rounds later.
            Awaited::Slot if round < 2 || round - 2 < self.first => return Some(Time::ZERO),
            Awaited::Slot => round - 2,
            Awaited::Member(_) | Awaited::Completion => round,
        };
        let round = self.round(at);
        let come = match awaited {
            Awaited::Member(member) => round.arrived[member as usize],
            Awaited::Slot | Awaited::Completion => round.completed,
        };
        if come.is_none() {
            round.waiting.push((rank, awaited));
        }
        come
    }

    /// Notes that a member has arrived. Returns true for the last one, which completes the round.
    /// `counts`: it counts in one word.
    pub(crate) fn arrive(&mut self, round: u32, member: u32, now: Time, counts: bool) -> bool {
        let members = self.members.len() as u32;
        let round = self.round(round);
        round.is_counted |= counts;
        debug_assert!(round.arrived[member as usize].is_none(), "a member arrives twice");
        round.arrived[member as usize] = Some(now);
        round.count += 1;
        round.count == members
    }

    /// Takes the ranks that waited for this member's arrival.
    pub(crate) fn wake_for(&mut self, round: u32, member: u32) -> Vec<u32> {
        let round = self.round(round);
        let (woken, waiting) =
            round.waiting.drain(..).partition(|(_, awaited)| *awaited == Awaited::Member(member));
        round.waiting = waiting;
        ranks(woken)
    }

    /// Completes a round and takes the ranks that waited for it.
    pub(crate) fn complete(&mut self, round: u32, now: Time) -> Vec<u32> {
        let round = self.round(round);
        round.completed = Some(now);
        ranks(std::mem::take(&mut round.waiting))
    }

    /// A member leaves a round; its memory goes when all have left it and the next one.
    pub(crate) fn leave(&mut self, round: u32) {
        let members = self.members.len() as u32;
        self.round(round).left += 1;
        while self.rounds.get(1).is_some_and(|round| round.left == members) {
            self.rounds.pop_front();
            self.first += 1;
        }
    }

    /// Lends `with` the slots of a round and of the round before.
    pub(crate) fn with_slots(&mut self, round: u32, with: impl FnOnce(&mut Slots)) {
        let before = round.saturating_sub(1);
        let mut slots = [round, before].map(|of| std::mem::take(&mut self.round(of).slots));
        with(&mut slots);
        let [now, past] = slots;
        self.round(before).slots = past;
        self.round(round).slots = now;
    }

    fn round(&mut self, number: u32) -> &mut Round {
        let index = (number - self.first) as usize;
        while self.rounds.len() <= index {
            let arrived = vec![None; self.members.len()];
            self.rounds.push_back(Round { arrived, ..Round::default() });
        }
        &mut self.rounds[index]
    }
}

fn ranks(waiting: Vec<(u32, Awaited)>) -> Vec<u32> {
    waiting.into_iter().map(|(rank, _)| rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_wait_for_a_member_or_for_all() {
        let mut segment = Segment::new(&[10, 11, 12]);
        assert_eq!(segment.wait(0, Awaited::Slot, 10), Some(Time::ZERO));
        assert_eq!(segment.wait(0, Awaited::Member(2), 10), None);
        assert_eq!(segment.wait(0, Awaited::Completion, 11), None);
        assert!(!segment.arrive(0, 2, Time(5), false));
        assert_eq!(segment.wake_for(0, 2), [10]);
        assert_eq!(segment.wait(0, Awaited::Member(2), 10), Some(Time(5)));
        assert!(!segment.arrive(0, 0, Time(6), false));
        assert!(segment.arrive(0, 1, Time(7), false));
        assert_eq!(segment.complete(0, Time(8)), [11]);
        assert_eq!(segment.wait(0, Awaited::Completion, 11), Some(Time(8)));
    }

    #[test]
    fn a_slot_is_free_again_two_rounds_later() {
        let mut segment = Segment::new(&[0]);
        assert_eq!(segment.wait(2, Awaited::Slot, 0), None);
        assert!(segment.arrive(0, 0, Time(1), false));
        assert_eq!(segment.complete(0, Time(1)), [0]);
        assert_eq!(segment.wait(2, Awaited::Slot, 0), Some(Time(1)));
        segment.leave(0);
        assert!(segment.arrive(1, 0, Time(2), false));
        segment.leave(1);
        assert_eq!(segment.wait(2, Awaited::Slot, 0), Some(Time::ZERO));
    }
}
