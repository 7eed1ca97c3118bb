//! The events of a simulation in the order of their times. Equal times keep the order of insertion;
//! therefore a simulation gives the same result every time.
//!
//! Most events are far ahead when they are inserted: they wait in buckets, each for a span of time,
//! and only those of the earliest bucket are in a heap, which stays in the processor's caches.
//!
//! Invariant: no event is inserted before the one that was taken last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::time::Time;

/// Something that happens to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Its processor is free again, or the event that it waited for has come.
    Wake,
    /// A message of its round has left; its number in the schedule.
    Sent(u32),
    /// A message of its round has arrived; its numbers in the schedules of receiver and sender.
    Arrived(u32, u32),
    /// A message with this number of those between hosts may leave by the adapter of its sender.
    Leaves(u32),
    /// It is at the adapter of its receiver.
    Reached(u32),
}

/// An event with its time and its number.
type Entry = (Time, u64, u32, Event);

/// Log2 of the picoseconds of a bucket.
const BUCKET_BITS: u32 = 13;

#[derive(Default)]
pub(crate) struct EventQueue {
    /// Those up to the end of bucket `current`.
    near: BinaryHeap<Reverse<Entry>>,
    current: u64,
    far: BTreeMap<u64, Vec<Reverse<Entry>>>,
    inserted: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Time, rank: u32, event: Event) {
        let (entry, bucket) = (Reverse((at, self.inserted, rank, event)), at.0 >> BUCKET_BITS);
        self.inserted += 1;
        if bucket <= self.current {
            self.near.push(entry);
        } else {
            self.far.entry(bucket).or_default().push(entry);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, u32, Event)> {
        if self.near.is_empty() {
            let (bucket, entries) = self.far.pop_first()?;
            (self.current, self.near) = (bucket, BinaryHeap::from(entries));
        }
        self.near.pop().map(|Reverse((at, _, rank, event))| (at, rank, event))
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
        let bucket = 1 << BUCKET_BITS;
        queue.push(Time(5), 1, Event::Wake);
        queue.push(Time(bucket + 3), 5, Event::Wake);
        queue.push(Time(3), 2, Event::Sent(0));
        queue.push(Time(5), 0, Event::Arrived(7, 0));
        queue.push(Time(5 * bucket), 6, Event::Wake);
        queue.push(Time(bucket + 2), 4, Event::Wake);
        assert_eq!(queue.pop(), Some((Time(3), 2, Event::Sent(0))));
        queue.push(Time(5), 3, Event::Wake);
        queue.push(Time(5 * bucket), 7, Event::Wake);
        let ranks: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, rank, _)| rank).collect();
        assert_eq!((ranks, queue.count()), (vec![1, 0, 3, 4, 5, 6, 7], 8));
    }
}
