//! Completion queues, the queues of events, and shared receive queues.
//!
//! States of a completion: posted, and visible once it is due. Those of one queue become visible in
//! order. An event is made when a completion becomes visible after a request for one; those that
//! are visible already make none, as on real devices.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use verbs_transport::ibv::layout::{Sge, Wc};

#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) wc: Wc,
    due: Instant,
    /// Requests of the send queue that end with it.
    pub(crate) retires: u32,
    is_visible: bool,
}

#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) entries: VecDeque<Completion>,
    pub(crate) capacity: u32,
    pub(crate) channel: Option<u32>,
    /// Address of the program's object.
    pub(crate) object: usize,
    /// Events that the program has taken, less those that it has acknowledged.
    pub(crate) unacked: i64,
    is_armed: bool,
    last_due: Instant,
}

impl Cq {
    pub(crate) fn new(capacity: u32, channel: Option<u32>, object: usize, now: Instant) -> Cq {
        Cq {
            entries: VecDeque::new(),
            capacity,
            channel,
            object,
            unacked: 0,
            is_armed: false,
            last_due: now,
        }
    }

    /// Adds a completion that becomes visible at `due` or after the one before it. Returns when,
    /// or `None` if there is no space.
    pub(crate) fn push(&mut self, wc: Wc, retires: u32, due: Instant) -> Option<Instant> {
        if self.entries.len() >= self.capacity as usize {
            return None;
        }
        self.last_due = self.last_due.max(due);
        let due = self.last_due;
        self.entries.push_back(Completion { wc, due, retires, is_visible: false });
        Some(due)
    }

    /// Shows what is due. Returns whether that makes an event.
    pub(crate) fn update(&mut self, now: Instant) -> bool {
        let mut is_new = false;
        for entry in self.entries.iter_mut().rev() {
            if entry.is_visible {
                break;
            }
            if entry.due <= now {
                (entry.is_visible, is_new) = (true, true);
            }
        }
        is_new && std::mem::take(&mut self.is_armed)
    }

    /// Takes a visible completion.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        self.entries.pop_front_if(|entry| entry.is_visible)
    }

    pub(crate) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// Returns when the next completion becomes visible.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.entries.iter().find(|entry| !entry.is_visible).map(|entry| entry.due)
    }

    /// Returns when the last completion of a queue pair becomes visible.
    pub(crate) fn last_due_of(&self, qpn: u32) -> Option<Instant> {
        self.entries.iter().rev().find(|entry| entry.wc.qp_num == qpn).map(|entry| entry.due)
    }
}

/// A queue with a descriptor that is readable while it has items.
#[derive(Debug)]
pub(crate) struct Signals<T> {
    pub(crate) items: VecDeque<T>,
    pub(crate) fd: OwnedFd,
}

impl<T> Signals<T> {
    pub(crate) fn new() -> std::io::Result<Signals<T>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        Ok(Signals { items: VecDeque::new(), fd: eventfd(0, flags)? })
    }

    pub(crate) fn push(&mut self, item: T) {
        self.items.push_back(item);
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8][..]);
        Some(item)
    }

    /// Removes items.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let before = self.items.len();
        self.items.retain(|item| keep(item));
        for _ in self.items.len()..before {
            let _ = rustix::io::read(&self.fd, &mut [0u8; 8][..]);
        }
    }
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) sge: Sge,
}

#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) pd: u32,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) max: u32,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn completions_show_in_order_when_they_are_due() {
        let now = Instant::now();
        let soon = now + Duration::from_secs(1);
        let mut cq = Cq::new(2, None, 0, now);
        cq.arm();
        assert_eq!(cq.push(Wc { wr_id: 1, ..Wc::default() }, 1, soon), Some(soon));
        // It is due at once, but another one is before it.
        assert_eq!(cq.push(Wc { wr_id: 2, ..Wc::default() }, 1, now), Some(soon));
        assert_eq!(cq.push(Wc::default(), 1, now), None);
        assert!(!cq.update(now) && cq.take().is_none());
        assert!(cq.update(soon) && !cq.update(soon));
        assert_eq!(cq.take().map(|completion| completion.wc.wr_id), Some(1));
        // What is visible makes no event.
        cq.arm();
        assert!(!cq.update(soon));
        assert_eq!(cq.take().map(|completion| completion.wc.wr_id), Some(2));
    }
}
