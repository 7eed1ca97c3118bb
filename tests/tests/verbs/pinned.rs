//! How much of the program's memory is registered.

use std::time::{Duration, Instant};

use config::Registration;
use fabric::sim::Rng;
use fabric::{OneSided, Peer, Rights, Transfer, Transport as _};
use tests::bytes::{Bytes, Shape};
use tests::device;
use verbs_transport::{Settings, VerbsTransport};

use crate::full_queue::Seen;
use crate::stand_in::{SEED, alone, library, settings, transports};

const PAGE: usize = 4096;

/// The slices of a buffer in the heap, which begins within a page. Two adjacent ones have a page in
/// common.
#[test]
fn adjacent_slices_are_registered_once() {
    const SLICES: usize = 64;
    const SLICE: usize = 64 << 10;
    alone("pinned::adjacent_slices_are_registered_once", "", || {
        let mut ends = transports(2, &settings());
        let bytes = Bytes::new(Shape::Run, &vec![1; SLICES * SLICE + PAGE]);
        let memory = bytes.buffer().memory().expect("one run");
        let begin = (16 + PAGE - memory.addr() as usize % PAGE) % PAGE;
        let pinned = || device::number(&library(), c"verbs_device_all_pinned") as usize;
        let before = pinned();
        // The second time all are cached, whatever the order.
        for at in (0..SLICES).chain((0..SLICES).rev()) {
            let slice = memory.slice(begin + at * SLICE, SLICE);
            let region = ends[0].register(Peer(1), slice, Rights::Get).expect("a region");
            ends[0].release(Peer(1), region);
        }
        let pinned = (pinned() - before) << 10;
        if ends[0].registration() == Registration::None {
            return println!("skipped: nothing is cached here");
        }
        assert!(pinned <= 2 * SLICES * SLICE, "{pinned} bytes are pinned");
        // While the program changes its memory elsewhere, nothing is cached.
        let made = ends[0].registrations_made();
        assert!(made < 3 * SLICES as u64 / 2, "{made} registrations");
    });
}

/// Any slices, with either right: each is covered by what is registered for it, whatever was
/// before.
#[test]
fn slices_that_overlap_are_covered() {
    const PAGES: usize = 24;
    alone("pinned::slices_that_overlap_are_covered", "", || {
        let settings = Settings { connect_after: 0, registrations: 9, ..settings() };
        let mut ends = transports(2, &settings);
        let mut sinks = [Seen::default(), Seen::default()];
        let bytes = [1, 2].map(|value| Bytes::new(Shape::Run, &vec![value; PAGES * PAGE]));
        let memory = |at: usize| bytes[at].buffer().memory().expect("one run");
        let (mut rng, began) = (Rng::new(SEED), Instant::now());
        for round in 1..=600 {
            let from = rng.below((PAGES * PAGE) as u64 - 1) as usize;
            let len = 1 + rng.below((PAGES * PAGE - from).min(5 * PAGE) as u64) as usize;
            let [theirs, ours] = [0, 1].map(|at| memory(at).slice(from, len));
            let (rights, what) = match rng.chance(500) {
                true => (Rights::Get, OneSided::Get(ours)),
                false => (Rights::Put, OneSided::Put(ours)),
            };
            let region = ends[0].register(Peer(1), theirs, rights).expect("a region");
            while ends[1].one_sided(Peer(0), &region, 0, what, round) == Ok(Transfer::NoSpace) {
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            }
            while sinks[1].reads < round as usize {
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
                assert!(began.elapsed() < Duration::from_secs(60), "round {round}");
            }
            ends[0].release(Peer(1), region);
        }
        println!("{} registrations", ends[0].registrations_made());
    });
}

/// The memory of a window, which each origin asks for.
#[test]
fn one_registration_serves_all_peers() {
    alone("pinned::one_registration_serves_all_peers", "", || {
        let mut ends = transports(4, &Settings { registration: Registration::None, ..settings() });
        let bytes = Bytes::new(Shape::Run, &[1; 64 << 10]);
        let memory = || bytes.buffer().memory().expect("one run");
        let mut open =
            |peer| ends[0].register(Peer(peer), memory(), Rights::All).expect("a region");
        let regions = [1, 2, 3].map(&mut open);
        let other = open(1);
        assert_eq!(ends[0].registrations_made(), 1);
        for (region, peer) in regions.into_iter().zip(1..).chain([(other, 1)]) {
            ends[0].release(Peer(peer), region);
        }
        // It ended with its last user.
        ends[0].register(Peer(1), memory(), Rights::All).expect("a region");
        assert_eq!(ends[0].registrations_made(), 2);
    });
}

/// Short operations name slots of the transport, also where nothing can be cached. Each slot
/// returns: there are many more operations than slots.
#[test]
fn short_operations_need_no_registration() {
    const MOST: usize = 1 << 10;
    alone("pinned::short_operations_need_no_registration", "", || {
        let settings =
            Settings { connect_after: 0, registration: Registration::None, ..settings() };
        let mut ends = transports(2, &settings);
        let mut sinks = [Seen::default(), Seen::default()];
        let theirs = Bytes::new(Shape::Run, &[0; 2 * MOST]);
        let memory = theirs.memory();
        let region = ends[0].register(Peer(1), memory, Rights::All).expect("a region");
        let (mut rng, mut done) = (Rng::new(SEED), 0);
        let mut carry_out = |ends: &mut [VerbsTransport], what: OneSided, at: u64| {
            let began = Instant::now();
            done += 1;
            while ends[1].one_sided(Peer(0), &region, at, what, done) == Ok(Transfer::NoSpace) {
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            }
            while sinks[1].reads < done as usize {
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
                assert!(began.elapsed() < Duration::from_secs(60), "operation {done}");
            }
        };
        for round in 0..600_u64 {
            let len = 1 + rng.below(MOST as u64) as usize;
            let at = rng.below((2 * MOST - len) as u64 + 1);
            let sent: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            let (source, target) =
                (Bytes::new(Shape::Run, &sent), Bytes::new(Shape::Run, &vec![0; len]));
            carry_out(&mut ends, OneSided::Put(source.memory()), at);
            carry_out(&mut ends, OneSided::Get(target.memory()), at);
            assert_eq!(target.read(), sent, "round {round}: {len} bytes at {at}");
        }
        assert_eq!(ends[1].registrations_made(), 0);
        let long = Bytes::new(Shape::Run, &[1; MOST + 1]);
        carry_out(&mut ends, OneSided::Put(long.memory()), 0);
        assert_eq!(ends[1].registrations_made(), 1);
    });
}
