//! Two ends over a network that loses, doubles, delays and reorders, by seed. Messages also change
//! to a reliable path and back at any time.

use std::collections::VecDeque;

use fabric::sim::Rng;

use super::link::Link;
use super::packet::{Ack, flags};
use super::receiver::{Joined, Verdict};
use super::sender::Backlog;
use super::{Micros, is_after};
use crate::endpoint::flow::Unacked;

const PAYLOAD: usize = 100;
const LONGEST: usize = 1000;
/// Messages that may wait for acknowledgements.
const WINDOW: usize = 8;

/// A packet under way.
#[derive(Clone)]
struct Flying {
    due: Micros,
    order: u64,
    flags: u8,
    stream: u32,
    number: u32,
    payload: Vec<u8>,
    ack: Ack,
    delivered: u32,
}

struct End {
    link: Link,
    messages: VecDeque<Unacked>,
    tx_seq: u32,
    rx_seq: u32,
    left: u32,
    /// Messages go by the reliable path.
    is_reliable: bool,
    packets: u64,
}

struct Weather {
    loss: u64,
    copies: u64,
    delay: u64,
    switches: u64,
}

fn bytes_of(seq: u32, len: u32) -> Vec<u8> {
    let head = [seq.to_le_bytes(), len.to_le_bytes()].concat();
    head.into_iter().chain((8..len).map(|at| seq.wrapping_mul(31).wrapping_add(at) as u8)).collect()
}

impl End {
    fn new(left: u32, first: u32) -> End {
        let mut end = End {
            link: Link::new(0, 0),
            messages: VecDeque::new(),
            tx_seq: first,
            rx_seq: first,
            left,
            is_reliable: false,
            packets: 0,
        };
        end.restart();
        end
    }

    fn restart(&mut self) {
        let backlog = Backlog { messages: &self.messages, count: self.messages.len() };
        self.link.tx.restart(backlog, self.tx_seq);
    }

    fn post(&mut self, rng: &mut Rng) {
        while self.left > 0 && self.messages.len() < WINDOW {
            let longest = [20, 400, LONGEST as u64 - 8][rng.below(3) as usize];
            let bytes = 8 + rng.below(longest) as u32;
            let frames = 1 + rng.below(3) as u32;
            self.messages.push_back(Unacked { slot: 0, bytes, seq: self.tx_seq, frames });
            self.tx_seq = self.tx_seq.wrapping_add(frames);
            self.left -= 1;
        }
    }

    fn acknowledged(&mut self, seq: u32) {
        let is_complete =
            |message: &Unacked| !is_after(message.seq.wrapping_add(message.frames), seq);
        while self.messages.front().is_some_and(is_complete) {
            self.messages.pop_front();
        }
    }

    /// Takes a message of the peer, whose list has the truth.
    fn deliver(&mut self, bytes: &[u8], peer: &VecDeque<Unacked>) {
        let seq = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(bytes, bytes_of(seq, bytes.len() as u32), "message {seq} is damaged");
        assert!(!is_after(seq, self.rx_seq), "message {seq} comes before {}", self.rx_seq);
        if seq == self.rx_seq {
            let message = peer.iter().find(|message| message.seq == seq).expect("it was sent");
            assert_eq!(message.bytes as usize, bytes.len());
            self.rx_seq = seq.wrapping_add(message.frames);
        }
    }

    fn send(&mut self, now: Micros, rng: &mut Rng) -> Vec<Flying> {
        let mut out = Vec::new();
        self.link.tx.on_time(now);
        while !self.is_reliable {
            let backlog = Backlog { messages: &self.messages, count: self.messages.len() };
            let is_full = self.messages.len() == WINDOW;
            let Some(part) = self.link.tx.next(now, backlog, PAYLOAD, is_full) else { break };
            let bytes = bytes_of(part.message.seq, part.message.bytes);
            let payload = bytes[part.offset as usize..][..part.len as usize].to_vec();
            out.push(self.packet(part.flags, part.number, payload));
        }
        if self.link.is_ack_due(now) {
            out.push(self.packet(0, 0, Vec::new()));
        }
        self.packets += out.len() as u64;
        for packet in &mut out {
            packet.order = rng.bits();
        }
        out
    }

    fn packet(&mut self, flags: u8, number: u32, payload: Vec<u8>) -> Flying {
        self.link.acknowledged();
        Flying {
            due: 0,
            order: 0,
            flags,
            stream: self.link.tx.stream,
            number,
            payload,
            ack: self.link.rx.ack(),
            delivered: self.rx_seq,
        }
    }

    fn receive(&mut self, now: Micros, packet: Flying, peer: &VecDeque<Unacked>) {
        self.link.tx.on_ack(now, packet.ack);
        self.acknowledged(packet.delivered);
        if packet.flags & flags::DATA == 0 {
            return;
        }
        let verdict = self.link.rx.judge(packet.stream, packet.number);
        let is_urgent = packet.flags & flags::ACK_NOW != 0;
        match verdict {
            Verdict::Next => {
                self.take(packet.flags, &packet.payload, peer);
                while let Some((flags, payload)) = self.link.rx.next_held() {
                    self.take(flags, &payload, peer);
                }
            }
            Verdict::Early => {
                assert!(self.link.rx.hold(packet.number, packet.flags, &packet.payload));
            }
            Verdict::Repeated => {}
            Verdict::Stale => return,
        }
        self.link.received(now, is_urgent || verdict != Verdict::Next);
    }

    fn take(&mut self, flags: u8, payload: &[u8], peer: &VecDeque<Unacked>) {
        match self.link.rx.take(flags, payload, LONGEST) {
            Joined::Whole => self.deliver(payload, peer),
            Joined::Message(message) => self.deliver(&message, peer),
            Joined::Part => {}
            Joined::Invalid => panic!("the sender is in error"),
        }
    }

    /// Changes the path of messages. A reliable path carries all that are not acknowledged, each
    /// with its number, and those that follow.
    fn change_path(&mut self) {
        self.is_reliable = !self.is_reliable;
        match self.is_reliable {
            true => self.link.tx.stop(),
            false => self.restart(),
        }
    }
}

/// Runs two ends until all messages have arrived; returns the packets and the time.
fn run(seed: u64, weather: &Weather, messages: u32) -> (u64, Micros) {
    let mut rng = Rng::new(seed);
    let first = u32::MAX - 20;
    let mut ends = [End::new(messages, first), End::new(messages / 2, first)];
    let mut network: Vec<(usize, Flying)> = Vec::new();
    let mut now = 0;
    while ends.iter().any(|end| end.left > 0 || !end.messages.is_empty()) {
        now += 50;
        assert!(now < 600_000_000, "seed {seed}: it hangs");
        for at in 0..2 {
            ends[at].post(&mut rng);
            if weather.switches > 0 && rng.below(weather.switches) == 0 {
                ends[at].change_path();
            }
            if ends[at].is_reliable && rng.below(4) == 0 {
                let list = ends[at].messages.clone();
                let count = rng.below(list.len() as u64 + 1) as usize;
                for message in list.iter().take(count) {
                    ends[1 - at].deliver(&bytes_of(message.seq, message.bytes), &list);
                }
                if rng.below(2) == 0 {
                    let seq = ends[1 - at].rx_seq;
                    ends[at].acknowledged(seq);
                }
            }
            for packet in ends[at].send(now, &mut rng) {
                let copies = if rng.below(1000) < weather.copies { 2 } else { 1 };
                for _ in 0..copies {
                    if rng.below(1000) >= weather.loss {
                        let due = now + 10 + rng.below(weather.delay);
                        network.push((1 - at, Flying { due, ..packet.clone() }));
                    }
                }
            }
        }
        let (mut due, later): (Vec<_>, Vec<_>) =
            network.drain(..).partition(|(_, packet)| packet.due <= now);
        network = later;
        due.sort_by_key(|(_, packet)| (packet.due, packet.order));
        for (to, packet) in due {
            let list = ends[1 - to].messages.clone();
            // The messages that were acknowledged meanwhile are not in the list any more.
            ends[to].receive(now, packet, &list);
        }
    }
    assert_eq!(ends[0].tx_seq, ends[1].rx_seq);
    assert_eq!(ends[1].tx_seq, ends[0].rx_seq);
    (ends[0].packets + ends[1].packets, now)
}

#[test]
fn messages_arrive_once_and_in_order_whatever_the_network_does() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed + 1_000_000);
        let weather = Weather {
            loss: [0, 10, 100, 400][rng.below(4) as usize],
            copies: [0, 50, 300][rng.below(3) as usize],
            delay: [1, 100, 5_000][rng.below(3) as usize],
            switches: [0, 0, 40, 400][rng.below(4) as usize],
        };
        run(seed, &weather, 60);
    }
}

#[test]
fn a_good_network_carries_few_packets_besides_the_data() {
    let good = Weather { loss: 0, copies: 0, delay: 1, switches: 0 };
    let (packets, _) = run(1, &good, 400);
    // About three packets a message, and one acknowledgement for some of them at most.
    assert!(packets < 600 * 5, "{packets} packets for 600 messages");
}

#[test]
fn one_loss_costs_a_round_trip_and_not_a_timeout() {
    let lossy = Weather { loss: 5, copies: 0, delay: 1, switches: 0 };
    let good = Weather { loss: 0, copies: 0, delay: 1, switches: 0 };
    let (times, least): (Micros, Micros) = (0..20)
        .map(|seed| (run(seed, &lossy, 400).1, run(seed, &good, 400).1))
        .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(times < 3 * least, "{times} us with losses of 0.5 %, {least} us without");
}

#[test]
fn an_idle_link_has_no_packets() {
    let mut end = End::new(3, 0);
    let mut rng = Rng::new(1);
    end.post(&mut rng);
    assert!(!end.send(0, &mut rng).is_empty());
    assert!(!end.link.tx.is_idle());
    let sent = end.packets as u32;
    end.link.tx.on_ack(1, Ack { stream: 1, next: sent, later: 0 });
    assert!(end.link.tx.is_idle() && end.link.tx.timer().is_none());
    // Acknowledgements of what was never sent, or of another stream, mean nothing.
    assert!(!end.link.tx.on_ack(1, Ack { stream: 1, next: sent + 1, later: u64::MAX }));
    assert!(!end.link.tx.on_ack(1, Ack { stream: 2, next: 0, later: u64::MAX }));
}

/// A process that sends one message to each of 10,000 peers: memory and work for each of them.
#[test]
fn ten_thousand_peers_cost_the_same_each() {
    use super::queue::Datagrams;

    let cost = |peers: usize| {
        let mut queue = Datagrams::new();
        let mut ends: Vec<End> = (0..peers).map(|_| End::new(1, 0)).collect();
        let mut rng = Rng::new(3);
        let (mut packets, mut visits) = (0, 0);
        for (at, end) in ends.iter_mut().enumerate() {
            end.post(&mut rng);
            packets += end.send(0, &mut rng).iter().filter(|packet| packet.stream == 1).count();
            queue.set_timer(at, &mut end.link);
        }
        // Half of them answer in time; the others are looked after, once each.
        for end in ends.iter_mut().step_by(2) {
            let next = end.packets as u32;
            end.link.tx.on_ack(10, Ack { stream: 1, next, later: 0 });
        }
        while let Some((at, time)) = queue.next_due(30_000) {
            visits += 1;
            let end = &mut ends[at];
            assert_eq!(end.link.timer.take(), Some(time));
            packets += end.send(30_000, &mut rng).len();
            queue.set_timer(at, &mut end.link);
        }
        (packets, visits)
    };
    let (few, many) = (cost(1_000), cost(10_000));
    assert_eq!((few.1, many.1), (1_000, 10_000));
    // Packets of the message, and one repeated for each peer that is silent.
    assert!(many.0 < 11 * few.0, "{} packets for ten times as many as {}", many.0, few.0);
    assert!(size_of::<Link>() <= 256, "{} bytes for a link", size_of::<Link>());
}
