//! What an idle process sleeps on: one descriptor for everything that may happen.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fabric::WaitOn;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::connect::{LONGEST, VerbsTransport};
use crate::ibv::Event;

/// How long the device is taken to be there without being asked.
const ASK: Duration = Duration::from_secs(1);
/// The place among what is watched of the device's events.
const EVENTS: u64 = 1;

/// An epoll over what others make readable, and a timer.
#[derive(Debug)]
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    timer: OwnedFd,
    is_set: bool,
}

impl WaitSet {
    /// Over these descriptors, which outlive it: of completions, of the device's events,
    /// and of others.
    pub(crate) fn new(fds: impl IntoIterator<Item = RawFd>) -> io::Result<WaitSet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        for (place, fd) in (0..).zip(fds.into_iter().chain([timer.as_raw_fd()])) {
            crate::ibv::with_fd(fd, |fd: BorrowedFd<'_>| {
                epoll::add(&epoll, fd, epoll::EventData::new_u64(place), epoll::EventFlags::IN)
            })?;
        }
        Ok(WaitSet { epoll, timer, is_set: false })
    }

    /// Over another one as well.
    fn watch(&self, other: &WaitSet) -> io::Result<()> {
        epoll::add(
            &self.epoll,
            &other.epoll,
            epoll::EventData::new_u64(u64::MAX),
            epoll::EventFlags::IN,
        )?;
        Ok(())
    }

    /// Readable when anything has happened.
    fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Whether the device has events to report.
    fn has_events(&self) -> bool {
        let none = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(u64::MAX),
        };
        let mut events = [none; 8];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.epoll, &mut events[..], Some(&now));
        ready.map_or(true, |ready| events[..ready].iter().any(|event| event.data.u64() == EVENTS))
    }

    /// Goes off then; not at all without a time.
    fn set(&mut self, at: Option<Instant>) {
        if at.is_none() && !self.is_set {
            return;
        }
        self.is_set = at.is_some();
        // Zero would be no time at all.
        let left =
            at.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_micros(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = left.and_then(|left| Timespec::try_from(left).ok()).unwrap_or(zero);
        let _ = timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        );
    }
}

impl VerbsTransport {
    /// Who sleeps on this one wakes for the other too.
    pub(crate) fn watch(&self, other: &VerbsTransport) -> io::Result<()> {
        self.alarm.watch(&other.alarm)
    }

    /// What to sleep on; `None` when there is something to do.
    pub(crate) fn fall_asleep(&mut self) -> Option<WaitOn<'_>> {
        if self.has_woken {
            self.clear_up();
        }
        // Who is lost by now is to be told before the sleep.
        if !self.unsettled.is_empty() {
            self.tend();
        }
        if self.stashed > 0
            || !self.outcomes.is_empty()
            || !self.losses.is_empty()
            || !self.debts.is_empty()
        {
            return None;
        }
        if self.is_gone {
            return Some(WaitOn::Nothing);
        }
        self.registrations.sweep();
        if !self.close_rings() {
            return None;
        }
        // In this order: what completes after the request makes an event.
        let requested = self.cq.request_notification();
        self.stashed = self.cq.poll(&mut self.completions);
        if requested.is_err() || self.stashed > 0 || self.has_room_again() || self.is_any_written()
        {
            return None;
        }
        let look_at_port = self.is_down.then(|| Instant::now() + LONGEST);
        self.alarm
            .set(self.next_call().into_iter().chain(self.next_look()).chain(look_at_port).min());
        // Who sleeps finds nothing by looking.
        self.period += 1;
        self.is_armed = true;
        Some(WaitOn::Fd(self.alarm.fd()))
    }

    /// Awake again. What it was that happened is asked before the next sleep: nearly always a frame
    /// has arrived, and its way is not to lead through calls of the system.
    #[inline]
    pub(crate) fn wake_up(&mut self) {
        self.is_armed = false;
        self.has_woken = true;
    }

    /// Takes the event that has ended the last sleep, or hears what else has.
    fn clear_up(&mut self) {
        self.has_woken = false;
        if !self.cq.take_event() && (self.must_ask() || self.alarm.has_events()) {
            self.hear_device();
        }
    }

    /// What the device has to report; and now and then whether it is there at all, since the kernel may lose
    /// the event of a port whose device goes with it.
    #[cold]
    pub(crate) fn hear_device(&mut self) {
        while let Some(event) = self.port.context.next_event() {
            self.on_event(event);
        }
        if self.must_ask() {
            self.asked_at = Instant::now();
            self.check_device();
        }
    }

    /// Whether it is time to ask the device whether it is there.
    fn must_ask(&self) -> bool {
        self.is_down || self.asked_at.elapsed() > ASK
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::QueuePair(number) => {
                let at = self.by_queue.get(&number).map(|&at| at as usize);
                let is_its = |at: &usize| {
                    self.pairs[*at].qp.as_ref().is_some_and(|qp| qp.number() == number)
                };
                if let Some(at) = at.filter(is_its) {
                    self.break_pair(at, "the device reports an error of its queue pair");
                }
            }
            Event::Fatal => self.give_up_device(),
            // What is under way fails by itself, and what rings goes on ringing.
            Event::PortDown(port) if port == self.port.number => self.is_down = true,
            Event::PortUp(port) if port == self.port.number => self.is_down = false,
            Event::PortDown(_) | Event::PortUp(_) | Event::Readdressed(_) | Event::Other => {}
        }
    }
}
