//! The events of a simulation in the order of their times. Equal times keep the order of insertion;
//! therefore a simulation gives the same result every time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Something that happens to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Its processor is free again, or the event that it waited for has come.
    Wake,
    /// A message of its round has left.
    Sent,
    /// A message of its round has arrived; its number in the schedule.
    Arrived(u32),
    /// A message with this number of those between hosts is at the rank's adapter.
    Reached(u32),
}

#[derive(Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, u32, Event)>>,
    inserted: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Time, rank: u32, event: Event) {
        self.heap.push(Reverse((at, self.inserted, rank, event)));
        self.inserted += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, u32, Event)> {
        self.heap.pop().map(|Reverse((at, _, rank, event))| (at, rank, event))
    }

    /// Events so far.
    pub(crate) fn count(&self) -> u64 {
        self.inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_insertion() {
        let mut queue = EventQueue::default();
        queue.push(Time(5), 1, Event::Wake);
        queue.push(Time(3), 2, Event::Sent);
        queue.push(Time(5), 0, Event::Arrived(7));
        let ranks: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, rank, _)| rank).collect();
        assert_eq!((ranks, queue.count()), (vec![2, 1, 0], 3));
    }
}
