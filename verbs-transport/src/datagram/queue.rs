//! What the links of a process share: the clock, timers, and lists of links with something to do.
//!
//! Each link has at most one valid timer, the earliest; entries that a link no longer names are
//! skipped. Therefore nothing is done for links without packets under way, however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::Micros;
use super::link::{AckState, Link};

/// Early packets that a process holds at most, of all peers together.
pub(crate) const MAX_HELD: usize = 4096;

/// The common state of all links.
#[derive(Debug)]
pub(crate) struct Datagrams {
    opened: Instant,
    timers: BinaryHeap<Reverse<(Micros, u32)>>,
    /// Links that wait for space in the send queue.
    pub(crate) stalled: Vec<u32>,
    /// Links whose acknowledgement is due.
    pub(crate) due: Vec<u32>,
    /// Early packets held.
    pub(crate) held: usize,
    /// A line has reported a path that carries short packets alone.
    pub(crate) has_told_short_path: bool,
    /// Packets sent, with data or without.
    pub(crate) sent: u64,
}

impl Datagrams {
    pub(crate) fn new() -> Datagrams {
        Datagrams {
            opened: Instant::now(),
            timers: BinaryHeap::new(),
            stalled: Vec::new(),
            due: Vec::new(),
            held: 0,
            has_told_short_path: false,
            sent: 0,
        }
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Micros {
        self.opened.elapsed().as_micros() as Micros
    }

    /// Returns a time as an instant.
    pub(crate) fn instant(&self, time: Micros) -> Instant {
        self.opened + Duration::from_micros(time)
    }

    /// Adds the link of endpoint `at` to those whose acknowledgement is due, if it is.
    pub(crate) fn list(&mut self, at: usize, link: &mut Link) {
        if link.ack == AckState::Due && !std::mem::replace(&mut link.is_listed, true) {
            self.due.push(at as u32);
        }
    }

    /// Sets the timer of the link of endpoint `at`.
    pub(crate) fn set_timer(&mut self, at: usize, link: &mut Link) {
        let Some(next) = link.next_time() else { return };
        if link.timer.is_none_or(|set| next < set) {
            link.timer = Some(next);
            self.timers.push(Reverse((next, at as u32)));
        }
    }

    /// Returns the next endpoint whose timer has run out, and that time.
    pub(crate) fn next_due(&mut self, now: Micros) -> Option<(usize, Micros)> {
        let &Reverse((time, at)) = self.timers.peek().filter(|Reverse((time, _))| *time <= now)?;
        self.timers.pop();
        Some((at as usize, time))
    }

    /// Returns whether any timer is set.
    pub(crate) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Returns when the next timer runs out.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((time, _))| self.instant(*time))
    }
}
