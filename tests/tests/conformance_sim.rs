//! The conformance suite on the simulated fabric, in several kinds of weather.
//!
//! `VERBENA_TEST_SEED` runs it with another seed.

use fabric::sim::{Manner, Options, fabric};
use fabric::{Caps, Offload, Peer};
use pt2pt::{Mode, Settings};
use tests::bytes::Shape;
use tests::conformance::{Job, Weather, dying_peer, garbage, one_sided, pattern, run, storm};

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

/// Small frames, few slots, long delays, reads that do as they please.
const ROUGH: Options = Options {
    caps: Caps {
        frame: 512,
        eager: 200,
        get_min: 3000,
        put_min: u64::MAX,
        offload: Offload::Processor,
        late_puts: false,
    },
    max_delay: 40,
    max_in_flight: 3,
    no_space_permille: 300,
    one_sided: Manner::Whim,
    death: None,
    cut: None,
};

/// The same cases with writes in place of reads.
const ROUGH_WRITES: Options =
    Options { caps: Caps { get_min: u64::MAX, put_min: 3000, ..ROUGH.caps }, ..ROUGH };

/// The same cases with eager messages that the receiver may read.
const ROUGH_GETS: Options =
    Options { caps: Caps { eager: 400, get_min: 100, ..ROUGH.caps }, ..ROUGH };

/// The same cases where no memory can be read.
const ROUGH_REFUSALS: Options = Options { one_sided: Manner::Refused, ..ROUGH_GETS };

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
fn rough_fabric_with_writes() {
    suite(ROUGH_WRITES);
}

#[test]
fn rough_fabric_with_short_reads() {
    suite(ROUGH_GETS);
}

#[test]
fn rough_fabric_with_short_reads_that_are_refused() {
    suite(ROUGH_REFUSALS);
}

#[test]
fn writes_at_once() {
    let caps = Caps { get_min: u64::MAX, put_min: 1025, ..Options::default().caps };
    suite(Options { caps, ..Options::default() });
}

#[test]
fn smallest_frames_without_reads() {
    let caps = Caps {
        frame: 64,
        eager: 56,
        get_min: u64::MAX,
        put_min: u64::MAX,
        ..Options::default().caps
    };
    suite(Options { caps, max_in_flight: 1, ..Options::default() });
}

#[test]
fn large_frames_and_late_reads() {
    let caps = Caps {
        frame: 16384,
        eager: 16376,
        get_min: 16377,
        put_min: u64::MAX,
        ..Options::default().caps
    };
    suite(Options { caps, one_sided: Manner::Later, max_delay: 10, ..Options::default() });
}

#[test]
fn reads_refused() {
    suite(Options { one_sided: Manner::Refused, max_delay: 3, ..Options::default() });
}

#[test]
fn reads_that_sender_and_receiver_share() {
    for options in [Options { max_delay: 10, ..Options::default() }, ROUGH] {
        suite(Options { one_sided: Manner::Hybrid, ..options });
    }
}

#[test]
fn halves_that_sender_and_receiver_copy() {
    for options in [Options { max_delay: 10, ..Options::default() }, ROUGH, ROUGH_GETS] {
        suite(Options { one_sided: Manner::Cooperative, ..options });
    }
}

#[test]
fn a_receiver_gets_both_halves_from_a_sender_that_has_gone() {
    for seed in seed()..seed() + 30 {
        let options =
            Options { one_sided: Manner::Cooperative, max_delay: seed % 10, ..Options::default() };
        let mut job = Job::new("a sender that has gone", seed, fabric(2, seed, options));
        let receive = job.receive(1, pattern(0, 1), Shape::Run, 100_000);
        let send = job.send(Mode::Standard, Shape::Run, 0, 1, 1, seed, 100_000);
        (0..100).for_each(|_| _ = job.rank(1).progress());
        let is_refused = job.rank(1).pt2pt.active() > 0;
        job.sent(&send);
        job.expect(&receive, 0, 1, seed, 100_000);
        assert!(is_refused || job.rank(0).transport.frames() == 3, "Rts, Cts, Done");
        job.end();
    }
}

#[test]
fn data_of_an_announced_message_is_kept_until_its_receive_comes() {
    let caps = Caps { eager: 4096, get_min: 1000, ..Options::default().caps };
    for seed in seed()..seed() + 30 {
        let options = Options { caps, max_delay: seed % 10, ..Options::default() };
        let mut job = Job::new("no receive", seed, fabric(2, seed, options));
        let send = job.send(Mode::Standard, Shape::Run, 0, 1, 1, seed, 3000);
        let waiting = job.send(Mode::Synchronous, Shape::Run, 0, 1, 2, seed, 3000);
        for _ in 0..50 {
            _ = job.rank(1).progress();
            _ = job.rank(0).progress();
        }
        assert_eq!(job.rank(0).pt2pt.active(), 1, "only the synchronous one waits for a receive");
        for (tag, send) in [(1, send), (2, waiting)] {
            let receive = job.receive(1, pattern(0, tag), Shape::Run, 3000);
            job.sent(&send);
            job.expect(&receive, 0, tag, seed, 3000);
        }
        job.end();
    }
}

#[test]
fn a_receiver_takes_what_a_sender_does_not_push_that_has_gone() {
    for (seed, rounds) in (seed()..seed() + 30).zip([0, 1, 2].into_iter().cycle()) {
        let options =
            Options { one_sided: Manner::Hybrid, max_delay: seed % 10, ..Options::default() };
        let mut job = Job::new("a sender that has gone", seed, fabric(2, seed, options));
        let receive = job.receive(1, pattern(0, 1), Shape::Run, 100_000);
        let send = job.send(Mode::Standard, Shape::Run, 0, 1, 1, seed, 100_000);
        (0..100).for_each(|_| _ = job.rank(1).progress());
        (0..rounds).for_each(|_| _ = job.rank(0).progress());
        (0..200).for_each(|_| _ = job.rank(1).progress());
        assert_eq!(job.rank(1).pt2pt.active(), 0, "it waits for the sender");
        job.expect(&receive, 0, 1, seed, 100_000);
        job.sent(&send);
        if rounds == 0 {
            assert_eq!(job.rank(0).transport.frames(), 3, "Rts, Cts, Done");
        }
        job.end();
    }
}

#[test]
fn storms() {
    for seed in seed()..seed() + 60 {
        let tame = Options { one_sided: Manner::Whim, max_delay: 5, ..Options::default() };
        let halves = Options { one_sided: Manner::Cooperative, ..ROUGH_GETS };
        let refused = Options { one_sided: Manner::Refused, ..ROUGH_GETS };
        let options = [ROUGH, tame, ROUGH_WRITES, ROUGH_GETS, halves, refused][seed as usize % 6];
        let ranks = [2, 3, 5][seed as usize / 6 % 3];
        let settings =
            Settings { unexpected_bytes_per_peer: [1 << 20, 4096, 300][seed as usize / 2 % 3] };
        let mut job = Job::with_settings("storms", seed, fabric(ranks, seed, options), settings);
        storm(
            &mut job,
            &Weather {
                cancels: 20 + (seed % 5) as u32 * 40,
                longest: 20_000,
                ..Weather::default()
            },
        );
        job.end();
    }
}

#[test]
fn a_peer_dies() {
    for seed in seed()..seed() + 60 {
        let death = Some((Peer(1), 1 + seed * 7919 % 6000));
        let manners = [Manner::Whim, Manner::Later, Manner::Whim, Manner::Cooperative];
        let one_sided = manners[seed as usize % 4];
        let options = Options {
            death,
            one_sided,
            ..[ROUGH, ROUGH_WRITES, ROUGH_GETS][seed as usize / 2 % 3]
        };
        let ranks = if seed % 3 == 0 { 2 } else { 4 };
        let mut job = Job::new("a peer dies", seed, fabric(ranks, seed, options));
        dying_peer(&mut job, 1);
        job.end();
    }
}

#[test]
fn a_peer_lies() {
    for seed in seed()..seed() + 20 {
        garbage(seed, fabric(3, seed, Options { one_sided: Manner::Refused, ..ROUGH }));
    }
}

#[test]
fn memory_of_others() {
    for (seed, manner) in (seed()..).zip([Manner::Immediate, Manner::Later]) {
        let options = Options { one_sided: manner, ..ROUGH };
        for ranks in [2, 5] {
            one_sided(seed, fabric(ranks, seed, options));
        }
    }
}

#[test]
fn no_registration_is_left() {
    let manners = [Manner::Hybrid, Manner::Cooperative];
    let fixed = manners.map(|one_sided| Options { one_sided, ..ROUGH });
    for options in [ROUGH, ROUGH_WRITES, ROUGH_GETS].into_iter().chain(fixed) {
        let mut job = Job::new("registrations", seed(), fabric(3, seed(), options));
        storm(&mut job, &Weather::default());
        job.quiet();
        assert_eq!(job.rank(0).transport.registered(), 0);
        job.end();
    }
}

#[test]
fn four_thousand_ranks() {
    let ranks = 4096;
    let mut job = Job::new("4,096 ranks", seed(), fabric(ranks, seed(), Options::default()));
    let mut pending = Vec::new();
    for (from, distance) in
        (0..ranks).flat_map(|rank| [1, 2, 64, 2048].map(|distance| (rank, distance)))
    {
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
