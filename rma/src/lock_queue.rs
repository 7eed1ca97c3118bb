//! The passive-target lock of a window whose ranks are on several hosts: the target grants it.
//!
//! Requests are granted in the order of their arrival; adjacent shared ones together.

use std::collections::VecDeque;

/// The holders of the lock of this rank's window, and the ranks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct LockQueue {
    /// Rank and whether it is exclusive.
    holders: Vec<(u32, bool)>,
    waiting: VecDeque<(u32, bool)>,
}

impl LockQueue {
    /// Adds a request; a rank has one at a time. Returns false if it has one already.
    pub(crate) fn request(&mut self, rank: u32, exclusive: bool) -> bool {
        if self.holders.iter().chain(&self.waiting).any(|&(other, _)| other == rank) {
            return false;
        }
        self.waiting.push_back((rank, exclusive));
        true
    }

    /// Takes the next request that can be granted.
    pub(crate) fn grant(&mut self) -> Option<u32> {
        let &(rank, exclusive) = self.waiting.front()?;
        let is_free = match self.holders.first() {
            None => true,
            Some(&(_, held_exclusively)) => !exclusive && !held_exclusively,
        };
        if !is_free {
            return None;
        }
        self.waiting.pop_front();
        self.holders.push((rank, exclusive));
        Some(rank)
    }

    /// Returns the rank that has held the lock longest.
    pub(crate) fn holder(&self) -> Option<u32> {
        self.holders.first().map(|&(rank, _)| rank)
    }

    /// Removes a rank that holds the lock or waits for it.
    pub(crate) fn remove(&mut self, rank: u32) {
        self.holders.retain(|&(holder, _)| holder != rank);
        self.waiting.retain(|&(waiter, _)| waiter != rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_granted_in_order() {
        let mut queue = LockQueue::default();
        assert!(queue.request(1, false) && queue.request(2, false) && queue.request(3, true));
        assert!(queue.request(4, false) && !queue.request(4, true));
        assert_eq!([(); 3].map(|()| queue.grant()), [Some(1), Some(2), None]);
        queue.remove(1);
        assert_eq!(queue.grant(), None);
        queue.remove(2);
        assert_eq!([queue.grant(), queue.grant()], [Some(3), None]);
        queue.remove(3);
        assert_eq!([queue.grant(), queue.grant()], [Some(4), None]);
    }
}
