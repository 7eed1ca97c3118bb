//! The descriptors that an idle process sleeps on: one descriptor for everything that may happen.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use fabric::Timer;
use rustix::event::epoll;
use rustix::time::Timespec;

/// Index of the device's asynchronous events among the descriptors.
const DEVICE_EVENTS: u64 = 1;

/// An epoll instance over descriptors of others and a timer.
#[derive(Debug)]
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    timer: Timer,
    /// The process may sleep on the set.
    pub(crate) is_armed: bool,
    /// The process was woken, and the reason is not known yet.
    pub(crate) has_woken: bool,
}

impl WaitSet {
    /// Returns a set over these descriptors, which outlive it: of completions, of the device's
    /// events, and of others.
    pub(crate) fn new(fds: impl IntoIterator<Item = RawFd>) -> io::Result<WaitSet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = Timer::new()?;
        for (index, fd) in (0..).zip(fds.into_iter().chain([timer.raw_fd()])) {
            crate::ibv::with_fd(fd, |fd: BorrowedFd<'_>| {
                epoll::add(&epoll, fd, epoll::EventData::new_u64(index), epoll::EventFlags::IN)
            })?;
        }
        Ok(WaitSet { epoll, timer, is_armed: false, has_woken: false })
    }

    /// Adds another set: any event that wakes it wakes this one.
    pub(crate) fn add(&self, other: &WaitSet) -> io::Result<()> {
        epoll::add(
            &self.epoll,
            &other.epoll,
            epoll::EventData::new_u64(u64::MAX),
            epoll::EventFlags::IN,
        )?;
        Ok(())
    }

    /// Returns the descriptor that is readable when anything has happened.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Returns whether the device has events to report.
    pub(crate) fn has_device_events(&self) -> bool {
        let none = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(u64::MAX),
        };
        let mut events = [none; 8];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_device = |event: &epoll::Event| event.data.u64() == DEVICE_EVENTS;
        let ready = epoll::wait(&self.epoll, &mut events[..], Some(&now));
        ready.map_or(true, |ready| events[..ready].iter().any(is_device))
    }

    /// Sets the timer to a time, or clears it.
    pub(crate) fn set_timer(&mut self, at: Option<Instant>) {
        self.timer.set(at);
    }
}
