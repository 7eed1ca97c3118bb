//! The conformance suite on shared memory: all ranks in this process, each with
//! its own mapping of one segment.
//!
//! `VERBENA_TEST_SEED` runs it with another seed.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use fabric::Peer;
use pt2pt::Mode;
use shm_transport::{Segment, Settings, ShmTransport, SingleCopy};
use tests::bytes::Shape;
use tests::conformance::{
    Job, Weather, garbage, one_sided_bytes, one_sided_in, pattern, run, storm,
};

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

const DEFAULT: Settings =
    Settings { eager_max: 8192, get_min: 32768, single_copy: SingleCopy::Auto, rare_sleeps: false };

fn transports(ranks: u32, ring_bytes: u64, settings: Settings) -> Vec<ShmTransport> {
    transports_of(ranks, ring_bytes, settings, &[])
}

/// As `transports`; the words `in_mpi` are not 0 while their ranks are in the library.
fn transports_of(
    ranks: u32,
    ring_bytes: u64,
    settings: Settings,
    in_mpi: &'static [AtomicU32],
) -> Vec<ShmTransport> {
    let file = Segment::file().expect("a memory file");
    let peers: Vec<Peer> = (0..ranks).map(Peer).collect();
    let join = |me| {
        let segment = Segment::attach(file.as_fd(), 0, me, ranks, ring_bytes, 1 << 20)
            .expect("the segment is mapped");
        ShmTransport::new(segment, settings, peers.clone(), in_mpi.iter().collect())
    };
    (0..ranks).map(join).collect()
}

#[test]
fn as_configured_by_default() {
    run(seed(), |ranks, _| transports(ranks, 1 << 16, DEFAULT));
}

#[test]
fn without_single_copy() {
    let settings = Settings { single_copy: SingleCopy::Off, ..DEFAULT };
    run(seed(), |ranks, _| transports(ranks, 1 << 16, settings));
}

#[test]
fn smallest_rings() {
    let settings = Settings { eager_max: 300, get_min: 3000, rare_sleeps: true, ..DEFAULT };
    run(seed(), |ranks, _| transports(ranks, 1 << 12, settings));
}

#[test]
fn a_receiver_that_waits_for_its_sender_to_leave_does_not_sleep() {
    static IN_MPI: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
    const LEN: usize = 1 << 20;
    let transports = transports_of(2, 1 << 16, DEFAULT, &IN_MPI);
    let mut job = Job::new("a sender that leaves", seed(), transports);
    let send = job.send(Mode::Standard, Shape::Run, 0, 1, 1, 7, LEN);
    let receive = job.receive(1, pattern(0, 1), Shape::Run, LEN);
    while job.rank(1).progress() {}
    assert!(job.rank(1).arm().is_none(), "the sender wakes nobody when it leaves");
    IN_MPI[0].store(0, Ordering::Relaxed);
    while job.rank(1).progress() {}
    assert!(job.rank(1).arm().is_some(), "the message is read");
    job.expect(&receive, 0, 1, 7, LEN);
    job.sent(&send);
    job.end();
}

#[test]
fn storms() {
    for seed in seed()..seed() + 30 {
        let ring_bytes = [1 << 12, 1 << 14, 1 << 16][seed as usize % 3];
        let mut job = Job::new("storms", seed, transports(4, ring_bytes, DEFAULT));
        storm(&mut job, &Weather::default());
        job.end();
    }
}

#[test]
fn a_peer_lies() {
    for seed in seed()..seed() + 10 {
        // A lie about an address to read from is the kernel's to refuse.
        garbage(seed, transports(3, 1 << 14, Settings { single_copy: SingleCopy::Off, ..DEFAULT }));
    }
}

#[test]
fn one_sided_access_to_a_window() {
    for (seed, single_copy) in (seed()..).zip([SingleCopy::Off, SingleCopy::Auto]) {
        for ranks in [2, 3, 5] {
            let settings = Settings { single_copy, ..DEFAULT };
            let mut transports = transports(ranks, 1 << 12, settings);
            let bytes = one_sided_bytes(ranks as usize);
            let segment = transports[0].segment();
            let range = segment.reserve_window(bytes as u64).expect("a window");
            segment.commit_window(range, 0..bytes as u64).expect("memory for the window");
            // One rank has mapped the window, as in MPI_Win_allocate_shared; others map on access.
            transports[1].map_window(range).expect("the window is mapped");
            let memory = transports[0].map_window(range).expect("the window is mapped");
            one_sided_in(seed, transports, memory);
        }
    }
}
