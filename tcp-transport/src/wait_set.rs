//! The descriptors that an idle process sleeps on, behind one descriptor: sockets, a timer, the
//! store's connection.
//!
//! Sockets are registered edge-triggered: an event says that a socket has changed since its last
//! event was taken. Taking all events before a sleep therefore leaves a descriptor that becomes
//! readable with the next change.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use fabric::Timer;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;

/// Events that one call takes.
pub(crate) const BATCH: usize = 16;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A connection asks to be accepted.
    Listener,
    /// Time has passed, or the store has an answer, or another transport has events.
    Other,
    /// The link of a peer: its index and generation.
    Link(u32, u32),
    /// A handshake, by index and generation.
    Handshake(u32, u32),
}

impl Source {
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Source::Listener => 0,
            Source::Other => 1,
            Source::Link(at, generation) => pack(2, at, generation),
            Source::Handshake(at, generation) => pack(3, at, generation),
        })
    }

    fn of(data: u64) -> Source {
        let (at, generation) = ((data >> 2) as u32, (data >> 34) as u32);
        match data & 3 {
            0 => Source::Listener,
            1 => Source::Other,
            2 => Source::Link(at, generation),
            _ => Source::Handshake(at, generation),
        }
    }
}

/// Generations have 30 bits in an event.
pub(crate) const GENERATION_MASK: u32 = (1 << 30) - 1;

fn pack(tag: u64, at: u32, generation: u32) -> u64 {
    tag | u64::from(at) << 2 | u64::from(generation & GENERATION_MASK) << 34
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) source: Source,
    /// The socket takes bytes.
    pub(crate) writable: bool,
    /// The end of what the peer sends has arrived. No other event says so.
    pub(crate) ending: bool,
}

const NOTHING: Ready = Ready { source: Source::Other, writable: false, ending: false };

/// An epoll instance with a timer.
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    timer: Timer,
    events: [Ready; BATCH],
}

impl WaitSet {
    /// Returns a set of the timer, and of the descriptor of the store if it has one.
    pub(crate) fn new(store: Option<RawFd>) -> io::Result<WaitSet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = Timer::new()?;
        epoll::add(&epoll, &timer, Source::Other.data(), EventFlags::IN | EventFlags::ET)?;
        let set = WaitSet { epoll, timer, events: [NOTHING; BATCH] };
        store.map_or(Ok(()), |fd| set.add_store(fd))?;
        Ok(set)
    }

    /// Adds the descriptor of the store, whose answers are taken when they come.
    pub(crate) fn add_store(&self, fd: RawFd) -> io::Result<()> {
        self.add_other(fd, EventFlags::IN | EventFlags::ET)
    }

    /// Adds a descriptor of another transport, which outlives the set: while it is readable, a
    /// sleeper wakes.
    pub(crate) fn add_foreign(&self, fd: RawFd) -> io::Result<()> {
        self.add_other(fd, EventFlags::IN)
    }

    fn add_other(&self, fd: RawFd, flags: EventFlags) -> io::Result<()> {
        Ok(crate::sys::with_fd(fd, |fd| epoll::add(&self.epoll, fd, Source::Other.data(), flags))?)
    }

    /// Adds a socket.
    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, source.data(), flags(source))?)
    }

    /// Removes a socket.
    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Gives the events of a socket another source. An event follows if the socket is ready.
    pub(crate) fn change(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, source.data(), flags(source))?)
    }

    /// Returns the descriptor that is readable when anything has happened.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Takes up to [`BATCH`] events; returns their number.
    #[inline]
    pub(crate) fn take(&mut self) -> usize {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [none; BATCH];
        let count = epoll::wait(&self.epoll, &mut events[..], Some(&now)).unwrap_or(0);
        for (ready, event) in self.events.iter_mut().zip(&events[..count]) {
            let epoll::Event { flags, data } = *event;
            let source = Source::of(data.u64());
            let ending = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            *ready = Ready {
                source,
                writable: flags.contains(EventFlags::OUT),
                ending: flags.intersects(ending),
            };
        }
        count
    }

    /// Returns an event of the last `take`.
    pub(crate) fn event(&self, at: usize) -> Ready {
        self.events[at]
    }

    /// Sets the timer to a time, or clears it.
    pub(crate) fn set_timer(&mut self, at: Option<Instant>) {
        self.timer.set(at);
    }
}

fn flags(source: Source) -> EventFlags {
    match source {
        // Level-triggered: a connection that found no descriptor is accepted later.
        Source::Listener => EventFlags::IN,
        _ => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_the_kernel() {
        for source in [
            Source::Listener,
            Source::Other,
            Source::Link(u32::MAX, 5),
            Source::Handshake(7, GENERATION_MASK),
        ] {
            assert_eq!(Source::of(source.data().u64()), source);
        }
    }
}
