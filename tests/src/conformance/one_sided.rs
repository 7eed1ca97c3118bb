//! Memory of one rank that all others write, read and change at once.

use fabric::sim::Rng;
use fabric::{
    Atomic, Body, Header, OneSided, Peer, PeerFailed, Region, Rights, Sink, Transfer, Transport,
    UserBuf,
};

use super::job::pattern_bytes;
use crate::bytes::{Bytes, Shape};

/// Bytes that each rank has for itself; two words for all are in front.
const AREA: usize = 3 << 20;
const WORDS: usize = 16;
/// The operations of each rank of each kind.
const ROUNDS: u64 = 40;

/// The results of one rank's transfers.
#[derive(Default)]
struct Ended {
    tokens: Vec<u64>,
}

impl Sink for Ended {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        outcome.expect("nobody has died");
        self.tokens.push(token);
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

/// Bytes of rank 0 that the other `ranks - 1` ranks access.
pub fn one_sided_bytes(ranks: usize) -> usize {
    WORDS + (ranks - 1) * AREA
}

/// All ranks access user memory of rank 0; see [`one_sided_in`].
pub fn one_sided<T: Transport>(seed: u64, transports: Vec<T>) {
    let all = Bytes::for_receive(Shape::Run, one_sided_bytes(transports.len()));
    one_sided_in(seed, transports, all.buffer().memory().expect("one run"));
}

/// All other ranks access `memory` of rank 0, [`one_sided_bytes`] of zeros. Puts and gets of an
/// area arrive whole; additions and swaps of one word by all ranks at once lose nothing.
pub fn one_sided_in<T: Transport>(seed: u64, mut transports: Vec<T>, memory: UserBuf) {
    let ranks = transports.len();
    let regions: Vec<Region> = (1..ranks as u32)
        .map(|rank| {
            transports[0]
                .register(Peer(rank), memory, Rights::All)
                .expect("memory can be registered")
        })
        .collect();
    let mut rng = Rng::new(seed);
    for (rank, region) in (1..).zip(&regions) {
        areas(&mut transports, rank, region, &mut rng);
    }
    counters(&mut transports, &regions);
    let sum = (1..ranks as u64).map(|rank| rank * ROUNDS).sum::<u64>();
    let word = |at: usize| {
        let mut bytes = [0; 8];
        memory.read(at, &mut bytes);
        u64::from_ne_bytes(bytes)
    };
    assert_eq!(
        (word(0), word(8)),
        (sum, (ranks as u64 - 1) * ROUNDS),
        "additions or swaps are missing"
    );
    for (rank, region) in (1..).zip(regions) {
        transports[0].release(Peer(rank), region);
    }
}

/// One transfer of `rank`; true when it was done or begun.
fn begin<T: Transport>(
    transport: &mut T,
    region: &Region,
    at: usize,
    what: OneSided,
    token: u64,
) -> Option<bool> {
    match transport.one_sided(Peer(0), region, at as u64, what, token).expect("nobody has died") {
        Transfer::Done => Some(true),
        Transfer::Started => Some(false),
        Transfer::NoSpace => None,
        Transfer::Refused => panic!("a one-sided transfer is refused"),
    }
}

/// One transfer of `rank`, to its end.
fn whole<T: Transport>(
    transports: &mut [T],
    rank: usize,
    region: &Region,
    at: usize,
    what: OneSided,
) {
    let (mut began, mut ended) = (None, Ended::default());
    while began != Some(true) && ended.tokens.is_empty() {
        if began.is_none() {
            began = begin(&mut transports[rank], region, at, what, 7);
        }
        transports[0].poll(&mut Ended::default());
        transports[rank].poll(&mut ended);
    }
}

/// Random parts of a rank's area, written and read back.
fn areas<T: Transport>(transports: &mut [T], rank: usize, region: &Region, rng: &mut Rng) {
    for _ in 0..12 {
        let len =
            [1 + rng.below(9), 1 + rng.below(70_000), AREA as u64][rng.below(3) as usize] as usize;
        let at = WORDS + (rank - 1) * AREA + rng.below((AREA - len) as u64 + 1) as usize;
        let data = Bytes::new(Shape::Run, &pattern_bytes(rng.bits(), len));
        let back = Bytes::for_receive(Shape::Run, len);
        let memory = |bytes: &Bytes| -> UserBuf { bytes.buffer().memory().expect("one run") };
        whole(transports, rank, region, at, OneSided::Put(memory(&data)));
        whole(transports, rank, region, at, OneSided::Get(memory(&back)));
        assert!(back.read() == data.read(), "{len} bytes at {at} came back damaged");
    }
}

/// Every rank adds to the first word and counts the second up by swaps, all at once.
fn counters<T: Transport>(transports: &mut [T], regions: &[Region]) {
    struct Counter {
        old: Bytes,
        expected: u64,
        added: u64,
        swapped: u64,
        is_under_way: bool,
    }
    let start = |_: &Region| Counter {
        old: Bytes::for_receive(Shape::Run, 8),
        expected: 0,
        added: 0,
        swapped: 0,
        is_under_way: false,
    };
    let mut counters: Vec<Counter> = regions.iter().map(start).collect();
    while counters.iter().any(|counter| counter.swapped < ROUNDS) {
        transports[0].poll(&mut Ended::default());
        for (at, counter) in counters.iter_mut().enumerate() {
            let (transport, mut ended) = (&mut transports[at + 1], Ended::default());
            transport.poll(&mut ended);
            let mut is_over = !ended.tokens.is_empty();
            if !counter.is_under_way && counter.swapped < ROUNDS {
                let memory = counter.old.buffer().memory().expect("one run");
                let (word, atomic) = match counter.added < ROUNDS {
                    true => (0, Atomic::Add(at as u64 + 1)),
                    false => (
                        8,
                        Atomic::CompareSwap {
                            expected: counter.expected,
                            new: counter.expected + 1,
                        },
                    ),
                };
                let began =
                    begin(transport, &regions[at], word, OneSided::Atomic(atomic, memory), 1);
                counter.is_under_way = began.is_some();
                is_over |= began == Some(true);
            }
            if is_over && counter.is_under_way {
                counter.is_under_way = false;
                let old = u64::from_ne_bytes(counter.old.read().try_into().expect("8 bytes"));
                if counter.added < ROUNDS {
                    counter.added += 1;
                } else if old == counter.expected {
                    (counter.swapped, counter.expected) = (counter.swapped + 1, old + 1);
                } else {
                    counter.expected = old;
                }
            }
        }
    }
}
