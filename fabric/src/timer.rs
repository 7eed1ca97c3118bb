//! A timer that wakes a sleeper: a descriptor that becomes readable at a time.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer of the monotonic clock.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    is_set: bool,
}

impl Timer {
    /// Makes a timer that is not set. The error is the system's: no descriptor is left, for
    /// example.
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { fd, is_set: false })
    }

    /// Lets the descriptor become readable at a time; `None`: never. It is not readable any more.
    pub fn set(&mut self, at: Option<Instant>) {
        if at.is_none() && !self.is_set {
            return;
        }
        self.is_set = at.is_some();
        // Zero would clear the timer.
        let left =
            at.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_micros(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = left.and_then(|left| Timespec::try_from(left).ok()).unwrap_or(zero);
        let timer = Itimerspec { it_interval: zero, it_value: value };
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &timer);
    }

    /// Returns the descriptor.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(timer: &Timer) -> bool {
        rustix::io::read(timer, &mut [0; 8]).is_ok()
    }

    #[test]
    fn a_timer_is_readable_after_its_time_alone() {
        let mut timer = Timer::new().unwrap();
        timer.set(Some(Instant::now() + Duration::from_secs(3600)));
        assert!(!is_readable(&timer));
        timer.set(Some(Instant::now()));
        while !is_readable(&timer) {
            std::thread::yield_now();
        }
        timer.set(Some(Instant::now()));
        timer.set(None);
        assert!(!is_readable(&timer));
    }
}
