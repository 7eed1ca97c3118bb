//! The bytes, and both ends on a network without a device.

use std::collections::VecDeque;

use fabric::sim::Rng;

use super::*;

/// A frame of `len` bytes in a place.
fn placed(number: u32, len: usize) -> Vec<u64> {
    let mut slot = vec![0xee; taken(len)];
    let frame = &mut slot[LEAD..LEAD + len];
    frame.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 ^ number as u8);
    frame[..4].copy_from_slice(&number.to_le_bytes());
    seal(&mut slot, len);
    slot.resize(PLACE, 0);
    slot.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn taken_from(place: &[u64], number: u32) -> Option<Vec<u8>> {
    let mut frame = [0; PLACE];
    take(|at| place[at], number, &mut frame).map(|len| frame[..len].to_vec())
}

#[test]
fn a_frame_is_taken_as_it_was_written_and_under_its_number_alone() {
    for len in 9..=PLACE - LEAD {
        let place = placed(7, len);
        let frame = taken_from(&place, 7).expect("it is there");
        assert_eq!((frame.len(), frame[4], frame[len - 1]), (len, 4 ^ 7, (len - 1) as u8 ^ 7));
        assert_eq!(taken_from(&place, 7 + 32), None);
    }
    assert_eq!(taken_from(&[0; PLACE / 8], 0), None, "a wiped place holds a frame");
}

/// Any words that are still those of the frame before: it is not there yet.
#[test]
fn half_a_frame_is_none() {
    let mut rng = Rng::new(5);
    for round in 0..20_000 {
        let len = 9 + rng.below((PLACE - LEAD - 8) as u64) as usize;
        let new = placed(64 + 32 * (round % 2), len);
        let mut old = placed(64 + 32 - 32 * (round % 2), 9 + rng.below(200) as usize);
        if rng.chance(500) {
            // The same frame but for the highest bits of two words.
            old = new.clone();
            let words = taken(len) as u64 / 8;
            (0..2).for_each(|_| old[rng.below(words) as usize] ^= 1 << 63);
        }
        let number = 64 + 32 * (round % 2);
        let mixed: Vec<u64> =
            (0..PLACE / 8).map(|at| if rng.chance(700) { new[at] } else { old[at] }).collect();
        let is_whole = mixed[..taken(len) / 8] == new[..taken(len) / 8];
        assert_eq!(taken_from(&mixed, number).is_some(), is_whole, "round {round}: {len} bytes");
    }
}

fn words(way: Way) -> [u64; 3] {
    let bytes = way.encode();
    std::array::from_fn(|at| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap()))
}

#[test]
fn a_gate_opens_only_when_it_has_arrived_whole() {
    let way = Way { addr: 0x7f01_2345_6000, rkey: 0x1234, mask: 31 };
    let open = words(way);
    let mut out = Outbound::default();
    for missing in 0..3 {
        let mut gate = open;
        gate[missing] = 0;
        assert!(!out.look(gate) && !out.is_open(), "without word {missing}");
    }
    assert!(!out.look(open) && out.is_open() && out.has_seen(open[0]));
    assert_eq!(out.place(33), (way.addr + PLACE as u64, 0x1234));
    let closed = words(Way::closed(1));
    assert!(!out.look([closed[0], open[1], closed[2]]) && out.is_open(), "half closed");
    assert!(out.look(closed) && !out.is_open() && out.has_seen(closed[0]));
    // It may have been open in between.
    assert!(!out.has_seen(words(Way::closed(2))[0]) && out.look(words(Way::closed(2))));
}

#[test]
fn a_sleeper_looks_less_and_less_often_and_then_no_more() {
    let since = Instant::now();
    let closing = Inbound::Closing { since };
    let longest = Duration::from_secs(4);
    let (mut now, mut looks) = (since, 0);
    while let Some(look) = closing.next_look(now, longest) {
        assert!(look > now && look - since <= 2 * longest);
        (now, looks) = (look, looks + 1);
    }
    assert_eq!(looks, 13);
    assert_eq!(Inbound::Open.next_look(since, longest), None);
}

/// One direction of a pair: a sender, a receiver that sleeps now and then, and a network that
/// keeps order and takes its time. Time goes in ticks.
struct Model {
    rng: Rng,
    now: u64,
    /// From the sender: when each arrives, at most [`Model::LONGEST`] after it was posted.
    to_receiver: VecDeque<(u64, Message)>,
    to_sender: VecDeque<(u64, [u64; 3])>,
    // The sender.
    out: Outbound,
    gate: [u64; 3],
    next: u32,
    written: u32,
    // The receiver.
    inbound: Inbound,
    ring: Vec<Vec<u64>>,
    arrived: VecDeque<Message>,
    consumed: u32,
    /// Asleep, and when it looks by itself.
    asleep: Option<u64>,
    closed_at: u64,
    closings: u32,
}

enum Message {
    Written(u32),
    Sent(u32),
    Stopped,
}

impl Model {
    const PLACES: u32 = 8;
    const LONGEST: u64 = 20;
    const WAY: Way = Way { addr: 4096, rkey: 9, mask: Model::PLACES - 1 };

    fn new(seed: u64) -> Model {
        Model {
            rng: Rng::new(seed),
            now: 0,
            to_receiver: VecDeque::new(),
            to_sender: VecDeque::new(),
            out: Outbound::default(),
            gate: [0; 3],
            next: 0,
            written: 0,
            inbound: Inbound::Absent,
            ring: vec![vec![0; PLACE / 8]; Model::PLACES as usize],
            arrived: VecDeque::new(),
            consumed: 0,
            asleep: None,
            closed_at: 0,
            closings: 0,
        }
    }

    fn arrival(&mut self, last: Option<u64>) -> u64 {
        (self.now + self.rng.below(Model::LONGEST)).max(last.unwrap_or(0))
    }

    fn post(&mut self, message: Message) {
        let at = self.arrival(self.to_receiver.back().map(|sent| sent.0));
        self.to_receiver.push_back((at, message));
    }

    /// What the sender does before and after each frame, and between frames.
    fn look(&mut self) {
        if !self.out.has_seen(self.gate[0]) && self.out.look(self.gate) {
            self.post(Message::Stopped);
        }
    }

    /// A frame, if the window permits. The network goes on while it is posted.
    fn send(&mut self) {
        if self.next - self.consumed >= Model::PLACES {
            return;
        }
        self.look();
        let number = self.next;
        self.next += 1;
        if !self.out.is_open() {
            return self.post(Message::Sent(number));
        }
        assert_eq!(
            self.out.place(number).0,
            4096 + u64::from(number % Model::PLACES) * PLACE as u64
        );
        self.written += 1;
        if self.rng.chance(300) {
            // The process is stopped for long between its look and the doorbell.
            for _ in 0..3 * Model::LONGEST {
                self.pass_time();
            }
        }
        self.post(Message::Written(number));
        self.look();
    }

    fn write_gate(&mut self, gate: [u64; 3]) {
        let at = self.arrival(self.to_sender.back().map(|sent| sent.0));
        self.to_sender.push_back((at, gate));
    }

    /// A tick: what is due arrives, and the receiver sleeps, wakes, or polls.
    fn pass_time(&mut self) {
        self.now += 1;
        while self.to_sender.front().is_some_and(|sent| sent.0 <= self.now) {
            self.gate = self.to_sender.pop_front().unwrap().1;
        }
        while self.to_receiver.front().is_some_and(|sent| sent.0 <= self.now) {
            match self.to_receiver.pop_front().unwrap().1 {
                Message::Written(number) => {
                    assert_ne!(self.inbound, Inbound::Absent, "written into memory of others");
                    self.ring[(number % Model::PLACES) as usize] =
                        placed(number, 9 + number as usize % 100);
                }
                message => {
                    self.arrived.push_back(message);
                    self.asleep = None;
                }
            }
        }
        match self.asleep {
            Some(look) if look > self.now => {}
            _ => self.poll(),
        }
    }

    fn poll(&mut self) {
        self.asleep = None;
        self.take_written();
        while let Some(message) = self.arrived.pop_front() {
            self.take_written();
            match message {
                Message::Sent(number) => {
                    assert_eq!(number, self.consumed, "out of order");
                    self.consumed += 1;
                }
                Message::Stopped => {
                    assert!(matches!(self.inbound, Inbound::Closing { .. }));
                    self.inbound = Inbound::Absent;
                }
                Message::Written(_) => unreachable!(),
            }
        }
        if self.inbound == Inbound::Absent && self.rng.chance(300) {
            self.ring.iter_mut().for_each(|place| place.fill(0));
            self.inbound = Inbound::Open;
            self.write_gate(words(Model::WAY));
        }
        if self.rng.chance(15) {
            self.fall_asleep();
        }
    }

    fn take_written(&mut self) {
        if self.inbound != Inbound::Absent {
            while taken_from(&self.ring[(self.consumed % Model::PLACES) as usize], self.consumed)
                .is_some()
            {
                self.consumed += 1;
            }
        }
    }

    fn fall_asleep(&mut self) {
        if self.inbound == Inbound::Open {
            self.inbound = Inbound::Closing { since: self.base() };
            self.closed_at = self.now;
            self.closings += 1;
            self.write_gate(words(Way::closed(self.closings)));
        }
        // A tick is a millisecond.
        let now = self.base() + Duration::from_millis(self.now - self.closed_at);
        let longest = Duration::from_millis(2 * Model::LONGEST);
        let look = self
            .inbound
            .next_look(now, longest)
            .map(|look| (look - self.base()).as_millis() as u64);
        self.asleep = Some(look.map_or(u64::MAX, |look| self.closed_at + look));
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
                    3 => model.look(),
                    _ => {}
                }
                model.pass_time();
            }
            // From now on the sender computes: nobody looks at its gate.
            for _ in 0..10 * Model::LONGEST {
                model.pass_time();
            }
            assert_eq!(model.consumed, model.next, "seed {seed}, spell {spell}: a frame is left");
        }
        written += model.written;
    }
    assert!(written > 10_000, "{written} were written");
}
