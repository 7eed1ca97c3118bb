//! Both ends of a channel on a network without a device.

use std::collections::VecDeque;

use fabric::sim::Rng;

use super::super::wire::tests::{frame_in, slot_with, words};
use super::*;

#[test]
fn a_ring_opens_only_when_its_control_is_complete() {
    let ring = RingDescriptor { addr: 0x7f01_2345_6000, rkey: 0x1234, mask: 31, count: 1 };
    let open = control(ring, 0);
    let mut out = TxRing::default();
    assert!(!out.has_changed(|_| 0));
    for missing in 0..4 {
        let mut part = open;
        part[missing] = 0;
        assert!(!out.update(part) && !out.is_open(), "without word {missing}");
    }
    assert!(out.has_changed(|at| open[at]));
    assert!(!out.update(open) && out.is_open() && !out.has_changed(|at| open[at]));
    assert_eq!(out.slot(33), (ring.addr + SLOT_BYTES as u64, 0x1234));
    let half = control(ring, ring.closing() >> 32);
    assert!(!out.has_changed(|at| half[at]) && !out.update(half) && out.is_open(), "half closed");
    let closed = control(ring, ring.closing());
    assert!(out.has_changed(|at| closed[at]) && out.update(closed) && !out.is_open());
    assert!(!out.has_changed(|at| closed[at]) && !out.update(closed), "closed twice");
}

#[test]
fn a_ring_may_close_before_it_opens() {
    let ring = RingDescriptor { addr: 4096, rkey: 1, mask: 31, count: 1 };
    let mut out = TxRing::default();
    let early = [0, 0, 0, 0, ring.closing()];
    assert!(!out.has_changed(|at| early[at]) && !out.update(early));
    // Opened and closed in between: that is reported all the same.
    assert!(out.update(control(ring, ring.closing())) && !out.is_open());
    let again = RingDescriptor { count: 2, ..ring };
    assert!(!out.update(control(again, ring.closing())) && out.is_open());
    assert!(out.update(control(again, again.closing())) && !out.is_open());
}

/// Returns the words of a ring control.
fn control(ring: RingDescriptor, closing: u64) -> ControlWords {
    let [sum, addr, place, count] = words(ring);
    [sum, addr, place, count, closing]
}

#[test]
fn a_sleeper_polls_less_and_less_often_and_then_no_more() {
    let since = Instant::now();
    let closing = RxState::Closing { since };
    let longest = Duration::from_secs(4);
    let (mut now, mut polls) = (since, 0);
    while let Some(poll) = closing.next_poll(now, longest) {
        assert!(poll > now && poll - since <= 2 * longest);
        (now, polls) = (poll, polls + 1);
    }
    assert_eq!(polls, 13);
    assert!(RxState::Open.next_poll(now, longest).is_some_and(|poll| poll > now));
    assert_eq!(RxState::Draining.next_poll(since, longest), None);
}

/// One direction of a connection: a sender, a receiver that sleeps now and then, and a network
/// that delays. Frames keep their order, writes of ring controls do not. Time goes in ticks.
struct Model {
    rng: Rng,
    now: u64,
    /// From the sender: when each arrives, at most [`Model::LONGEST`] after it was posted.
    to_receiver: VecDeque<(u64, Message)>,
    /// To the sender: words of its ring control, from one on.
    to_sender: Vec<(u64, usize, Vec<u64>)>,
    // The sender.
    tx: TxRing,
    control: ControlWords,
    tx_seq: u32,
    written: u32,
    // The receiver.
    rx: RxState,
    ring: Vec<Vec<u64>>,
    arrived: VecDeque<Message>,
    rx_seq: u32,
    /// Asleep, and when it polls by itself.
    asleep: Option<u64>,
    closed_at: u64,
    openings: u64,
}

enum Message {
    Written(u32),
    Sent(u32),
    Stopped,
}

impl Model {
    const SLOTS: u32 = 8;
    const LONGEST: u64 = 20;

    fn new(seed: u64) -> Model {
        Model {
            rng: Rng::new(seed),
            now: 0,
            to_receiver: VecDeque::new(),
            to_sender: Vec::new(),
            tx: TxRing::default(),
            control: ControlWords::default(),
            tx_seq: 0,
            written: 0,
            rx: RxState::Absent,
            ring: vec![vec![0; SLOT_BYTES / 8]; Model::SLOTS as usize],
            arrived: VecDeque::new(),
            rx_seq: 0,
            asleep: None,
            closed_at: 0,
            openings: 0,
        }
    }

    fn arrival(&mut self, last: Option<u64>) -> u64 {
        (self.now + self.rng.below(Model::LONGEST)).max(last.unwrap_or(0))
    }

    fn post(&mut self, message: Message) {
        let at = self.arrival(self.to_receiver.back().map(|sent| sent.0));
        self.to_receiver.push_back((at, message));
    }

    /// Reads the ring control: before and after each frame, and between frames.
    fn read_control(&mut self) {
        if self.tx.has_changed(|at| self.control[at]) && self.tx.update(self.control) {
            self.post(Message::Stopped);
        }
    }

    /// Sends a frame if the window permits. The network goes on while it is posted.
    fn send(&mut self) {
        if self.tx_seq - self.rx_seq >= Model::SLOTS {
            return;
        }
        self.read_control();
        let number = self.tx_seq;
        self.tx_seq += 1;
        if !self.tx.is_open() {
            return self.post(Message::Sent(number));
        }
        assert_eq!(
            self.tx.slot(number).0,
            4096 + u64::from(number % Model::SLOTS) * SLOT_BYTES as u64
        );
        self.written += 1;
        if self.rng.chance(300) {
            // The process is stopped for long between its read and the write to the device's
            // doorbell.
            for _ in 0..3 * Model::LONGEST {
                self.pass_time();
            }
        }
        self.post(Message::Written(number));
        self.read_control();
    }

    /// Returns the ring as it is opened for the `openings`th time.
    fn descriptor(&self) -> RingDescriptor {
        RingDescriptor { addr: 4096, rkey: 9, mask: Model::SLOTS - 1, count: self.openings }
    }

    fn write_control(&mut self, first: usize, words: &[u64]) {
        let at = self.arrival(None);
        self.to_sender.push((at, first, words.to_owned()));
    }

    /// Passes a tick: what is due arrives, and the receiver sleeps, wakes, or polls.
    fn pass_time(&mut self) {
        self.now += 1;
        let Self { now, to_sender, control, .. } = self;
        for (_, first, words) in to_sender.extract_if(.., |sent| sent.0 <= *now) {
            control[first..][..words.len()].copy_from_slice(&words);
        }
        while self.to_receiver.front().is_some_and(|sent| sent.0 <= self.now) {
            match self.to_receiver.pop_front().unwrap().1 {
                Message::Written(number) => {
                    assert_ne!(self.rx, RxState::Absent, "written into memory of others");
                    self.ring[(number % Model::SLOTS) as usize] =
                        slot_with(number, 9 + number as usize % 100);
                }
                message => {
                    self.arrived.push_back(message);
                    self.asleep = None;
                }
            }
        }
        match self.asleep {
            Some(poll) if poll > self.now => {}
            _ => self.poll(),
        }
    }

    fn poll(&mut self) {
        self.asleep = None;
        self.take_frames();
        while let Some(message) = self.arrived.pop_front() {
            self.take_frames();
            match message {
                Message::Sent(number) => {
                    assert_eq!(number, self.rx_seq, "out of order");
                    self.rx_seq += 1;
                }
                Message::Stopped => {
                    assert!(matches!(self.rx, RxState::Closing { .. }));
                    self.rx = RxState::Absent;
                }
                Message::Written(_) => unreachable!(),
            }
        }
        if self.rx == RxState::Absent && self.rng.chance(300) {
            self.ring.iter_mut().for_each(|slot| slot.fill(0));
            self.rx = RxState::Open;
            self.openings += 1;
            self.write_control(0, &words(self.descriptor()));
        }
        if self.rng.chance(15) {
            self.fall_asleep();
        }
    }

    fn take_frames(&mut self) {
        if self.rx != RxState::Absent {
            while frame_in(&self.ring[(self.rx_seq % Model::SLOTS) as usize], self.rx_seq).is_some()
            {
                self.rx_seq += 1;
            }
        }
    }

    fn fall_asleep(&mut self) {
        // One of four times there is no space for the closing.
        if self.rx == RxState::Open && self.rng.below(4) > 0 {
            self.rx = RxState::Closing { since: self.base() };
            self.closed_at = self.now;
            self.write_control(CLOSING, &[self.descriptor().closing()]);
        }
        // A tick is a millisecond.
        let now = self.base() + Duration::from_millis(self.now - self.closed_at);
        let longest = Duration::from_millis(2 * Model::LONGEST);
        let poll =
            self.rx.next_poll(now, longest).map(|poll| (poll - self.base()).as_millis() as u64);
        self.asleep = Some(poll.map_or(u64::MAX, |poll| self.closed_at + poll));
    }

    fn base(&self) -> Instant {
        static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BASE.get_or_init(Instant::now)
    }
}

#[test]
fn every_frame_arrives_once_and_in_order_however_the_receiver_sleeps() {
    let mut written = 0;
    for seed in 0..50 {
        let mut model = Model::new(seed);
        for spell in 0..50 {
            for _ in 0..model.rng.below(300) {
                match model.rng.below(10) {
                    0..3 => model.send(),
                    3 => model.read_control(),
                    _ => {}
                }
                model.pass_time();
            }
            // From now on the sender computes and does not read its ring control.
            for _ in 0..10 * Model::LONGEST {
                model.pass_time();
            }
            assert_eq!(model.rx_seq, model.tx_seq, "seed {seed}, spell {spell}: a frame is left");
        }
        written += model.written;
    }
    assert!(written > 10_000, "{written} were written");
}
