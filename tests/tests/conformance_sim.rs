//! The conformance suite on the simulated fabric, in several kinds of weather.
//!
//! `VERBENA_TEST_SEED` runs it with another seed.

use fabric::sim::{Get, Options, fabric};
use fabric::{Limits, Peer};
use pt2pt::Settings;
use tests::conformance::{Job, Weather, dying_peer, garbage, run, storm};

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

/// Small frames, few slots, long delays, reads that do as they please.
const ROUGH: Options = Options {
    limits: Limits { frame: 512, eager: 200, get_from: 3000 },
    delay: 40,
    slots: 3,
    no_room: 300,
    get: Get::Whim,
    death: None,
};

fn suite(options: Options) {
    run(seed(), |ranks, seed| fabric(ranks, seed, options));
}

#[test]
fn quiet_fabric() {
    suite(Options::default());
}

#[test]
fn rough_fabric() {
    suite(ROUGH);
}

#[test]
fn smallest_frames_without_reads() {
    let limits = Limits { frame: 64, eager: 56, get_from: u64::MAX };
    suite(Options { limits, slots: 1, ..Options::default() });
}

#[test]
fn large_frames_and_late_reads() {
    let limits = Limits { frame: 16384, eager: 16376, get_from: 16377 };
    suite(Options { limits, get: Get::Later, delay: 10, ..Options::default() });
}

#[test]
fn reads_refused() {
    suite(Options { get: Get::Refused, delay: 3, ..Options::default() });
}

#[test]
fn storms() {
    for seed in seed()..seed() + 60 {
        let options = if seed % 2 == 0 { ROUGH } else { Options { get: Get::Whim, delay: 5, ..Options::default() } };
        let ranks = [2, 3, 5][seed as usize % 3];
        let settings = Settings { unexpected_bytes_per_peer: [1 << 20, 4096, 300][seed as usize / 2 % 3] };
        let mut job = Job::with_settings("storms", seed, fabric(ranks, seed, options), settings);
        storm(&mut job, &Weather { cancels: 20 + (seed % 5) as u32 * 40, longest: 20_000, ..Weather::default() });
        job.end();
    }
}

#[test]
fn a_peer_dies() {
    for seed in seed()..seed() + 60 {
        let death = Some((Peer(1), 1 + seed * 7919 % 6000));
        let options = Options { death, ..if seed % 2 == 0 { ROUGH } else { Options { get: Get::Later, ..ROUGH } } };
        let ranks = if seed % 3 == 0 { 2 } else { 4 };
        let mut job = Job::new("a peer dies", seed, fabric(ranks, seed, options));
        dying_peer(&mut job, 1);
        job.end();
    }
}

#[test]
fn a_peer_lies() {
    for seed in seed()..seed() + 20 {
        garbage(seed, fabric(3, seed, Options { get: Get::Refused, ..ROUGH }));
    }
}

#[test]
fn no_registration_is_left() {
    let mut job = Job::new("registrations", seed(), fabric(3, seed(), ROUGH));
    storm(&mut job, &Weather::default());
    job.quiet();
    assert_eq!(job.engine(0).transport().registered(), 0);
    job.end();
}

#[test]
fn four_thousand_ranks() {
    use pt2pt::Mode;
    use tests::bytes::Shape;
    use tests::conformance::pattern;
    let ranks = 4096;
    let mut job = Job::new("4,096 ranks", seed(), fabric(ranks, seed(), Options::default()));
    let mut pending = Vec::new();
    for (from, distance) in (0..ranks).flat_map(|rank| [1, 2, 64, 2048].map(|distance| (rank, distance))) {
        let to = (from + distance) % ranks;
        let id = u64::from(from) * 4096 + u64::from(distance);
        pending.push((
            from,
            id,
            job.send(Mode::Standard, Shape::Run, from, to, 1, id, 100),
            job.receive(to, pattern(from, 1), Shape::Run, 100),
        ));
    }
    for (from, id, send, receive) in pending {
        job.expect(&receive, from, 1, id, 100);
        job.sent(&send);
    }
    job.end();
}
