//! Receives follow demand: peers that send little have few, peers that send much have those of a
//! whole window, no frame finds none, and their number is fixed.

use std::time::{Duration, Instant};

use fabric::sim::Rng;
use fabric::{Body, Header, Kind, Offload, Peer, PeerFailed, Post, Sink, Transport};
use tests::device;
use verbs_transport::{Settings, VerbsTransport};

use crate::stand_in::{LIMIT, alone, alone_by_seed, library, settings, transports};

/// Receives of a connection with a whole window, and with a low one.
const WHOLE: u32 = 42;
const LOW: u32 = 14;

/// Checks that the frames of each peer come in order, each once.
struct InOrder(Vec<u64>);

impl Sink for InOrder {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let next = &mut self.0[from.0 as usize];
        assert_eq!(header.length, *next, "not the next frame of rank {}", from.0);
        body.for_each_chunk(body.len(), |_, part| {
            assert!(part.iter().all(|&byte| byte == *next as u8), "another frame's body");
        })
        .unwrap();
        *next += 1;
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// Processes that exchange numbered frames.
struct Group {
    ends: Vec<VerbsTransport>,
    sinks: Vec<InOrder>,
    /// Frames that were sent, by sender and receiver.
    sent: Vec<Vec<u64>>,
    began: Instant,
}

impl Group {
    fn new(ranks: u32, settings: &Settings) -> Group {
        let none = || vec![0; ranks as usize];
        let sinks = (0..ranks).map(|_| InOrder(none())).collect();
        let sent = (0..ranks).map(|_| none()).collect();
        Group { ends: transports(ranks, settings), sinks, sent, began: Instant::now() }
    }

    fn poll(&mut self) {
        for (end, sink) in self.ends.iter_mut().zip(&mut self.sinks) {
            end.poll(sink);
        }
        assert!(self.began.elapsed() < LIMIT / 2, "the frames do not come to an end");
    }

    /// Sends the next frame if there is space for it.
    fn try_send(&mut self, from: usize, to: usize, len: usize) -> bool {
        let number = self.sent[from][to];
        let header = Header { length: number, ..Header::new(Kind::Data) };
        let fill = |slot: &mut fabric::Slot| slot.fill(number as u8);
        let posted = self.ends[from].post(Peer(to as u32), &header, len, fill).expect("a peer");
        self.sent[from][to] += u64::from(posted == Post::Sent);
        posted == Post::Sent
    }

    /// Waits until everything has arrived.
    fn settle(&mut self) {
        let ranks = self.ends.len();
        while (0..ranks).any(|to| (0..ranks).any(|of| self.sinks[to].0[of] < self.sent[of][to])) {
            self.poll();
        }
    }
}

/// Asserts that no frame has found no receive, and that the receives take no more than their share.
fn assert_bounds(ends: &[VerbsTransport]) {
    assert_eq!(device::number(&library(), c"verbs_device_missed_receives"), 0, "no receive");
    for end in ends {
        let [now, most] = end.pinned_bytes();
        assert!(now <= most && most <= 64 << 20, "{now} bytes pinned, at most {most}");
    }
}

#[test]
fn receives_follow_demand() {
    alone("shares::receives_follow_demand", "", || {
        const PEERS: usize = 12;
        // Whole windows for four peers at once.
        let receives = WHOLE + (PEERS as u32 - 1) * LOW;
        let few = Settings { receives, connect_after: 0, ..settings() };
        let mut group = Group::new(PEERS as u32 + 1, &few);
        for rank in 1..=PEERS {
            while !group.ends[0].is_connected(Peer(rank as u32)) {
                group.try_send(rank, 0, 8);
                group.poll();
            }
        }
        group.settle();
        assert_eq!(group.ends[0].connections(), PEERS as u32);
        let low = |group: &Group| {
            (1..=PEERS).filter(|&rank| group.ends[rank].window(Peer(0)) < 32).collect::<Vec<_>>()
        };
        let before = low(&group);
        assert!(before.len() >= PEERS - 4, "peers with low windows: {before:?}");
        // Each that sends much gets a whole window, the others having become idle.
        for rank in before {
            let mut frames = 0;
            while group.ends[rank].window(Peer(0)) < 32 {
                frames += usize::from(group.try_send(rank, 0, 3000));
                group.poll();
            }
            println!("rank {rank} has a whole window after {frames} frames");
        }
        group.settle();
        assert_bounds(&group.ends);
    });
}

/// Some pairs send much for a moment, then others do; all of them small windows at times.
#[test]
fn windows_change_under_traffic() {
    let late = "place=2000 overtake=1 late=500 lots=200";
    for (seed, options) in [(0, ""), (1, ""), (2, late), (3, late)] {
        alone_by_seed("shares::windows_change_under_traffic", seed, options, || {
            const RANKS: usize = 7;
            let settings = Settings {
                receives: WHOLE + 5 * LOW + 10,
                connect_after: 0,
                eager_rdma_threshold: 8,
                ..settings()
            };
            let mut group = Group::new(RANKS as u32, &settings);
            let mut rng = Rng::new(seed);
            for _ in 0..40 {
                let pairs: Vec<[usize; 2]> = (0..1 + rng.below(3))
                    .map(|_| {
                        let from = rng.below(RANKS as u64) as usize;
                        [from, (from + 1 + rng.below(RANKS as u64 - 1) as usize) % RANKS]
                    })
                    .collect();
                let until = Instant::now() + Duration::from_millis(20 + rng.below(150));
                while Instant::now() < until {
                    for &[from, to] in &pairs {
                        for _ in 0..rng.below(40) {
                            let len = if rng.chance(200) { 8000 } else { 8 };
                            if !group.try_send(from, to, len) {
                                break;
                            }
                        }
                    }
                    // Some do not poll for a while.
                    let rank = rng.below(RANKS as u64) as usize;
                    for _ in 0..rng.below(20) {
                        group.ends[rank].poll(&mut group.sinks[rank]);
                    }
                }
                group.settle();
            }
            let lowered: u64 = group.ends.iter().map(VerbsTransport::windows_lowered).sum();
            println!("seed {seed}: {lowered} windows were lowered");
            assert!(lowered > 0, "no window was lowered");
            assert_bounds(&group.ends);
        });
    }
}

/// A connection for which there are no receives would end another one, and leave its atomics open.
#[test]
fn devices_do_atomics_where_receives_suffice_for_all() {
    let name = "shares::devices_do_atomics_where_receives_suffice_for_all";
    alone(name, "devices=stand0/ib", || {
        for (receives, expected) in
            [(2 * WHOLE, Offload::DeviceAtomics), (2 * WHOLE - 1, Offload::Device)]
        {
            let ends = transports(3, &Settings { receives, ..settings() });
            assert_eq!(ends[0].caps(Peer(1)).offload, expected, "{receives} receives");
        }
    });
}
