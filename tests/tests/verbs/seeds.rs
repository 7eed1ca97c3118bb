//! Storms on the stand-in device with every fault at random moments. A seed chooses devices,
//! faults, settings and moments. Each test run has the same few seeds, and others that follow from
//! the time; `VERBENA_TEST_SEEDS=FIRST..END` runs these alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use config::{DynamicTransport, Rendezvous};
use fabric::sim::Rng;
use fabric::{HybridGet, Peer};
use tests::conformance::{Job, Weather, storm};
use verbs_transport::{InProcessStore, Rails, Settings, VerbsTransport};

use crate::faulty::Faulty;
use crate::stand_in::{SEEDS_VARIABLE, alone_by_seed, control, settings, transports};

const NAME: &str = "seeds::every_fault_at_random_moments";
/// The first seeds, which each test run has.
const FIRST_SEEDS: u64 = 6;
/// Further seeds of a test run, and of how many: all of these have passed.
const MORE_SEEDS: u64 = 14;
const ALL_SEEDS: u64 = 1000;
/// Storms at the same time. They sleep most of it.
const AT_ONCE: usize = 4;
/// Moments of a storm at which something happens; then it may come to its end.
const MOST_MOMENTS: usize = 40;
/// Steps of a storm.
const STEPS: usize = 150;

#[test]
fn every_fault_at_random_moments() {
    let seeds = Mutex::new(seeds().into_iter());
    let next = || seeds.lock().expect("no storm holds it").next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    storm_of(seed);
                }
            });
        }
    });
}

/// Returns the seeds of this run.
fn seeds() -> Vec<u64> {
    if let Ok(text) = std::env::var(SEEDS_VARIABLE) {
        let ends = text
            .split_once("..")
            .and_then(|(first, end)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?));
        return ends.expect("VERBENA_TEST_SEEDS must be FIRST..END").collect();
    }
    let minutes = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() / 60;
    let more = (0..MORE_SEEDS).map(|at| (minutes * MORE_SEEDS + at) % ALL_SEEDS);
    (0..FIRST_SEEDS).chain(more.filter(|&seed| seed >= FIRST_SEEDS)).collect()
}

fn storm_of(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut options = format!("seed={seed} {}", faults(&mut rng));
    let is_dynamic = Rng::new(seed ^ 1 << 42).chance(500);
    if is_dynamic {
        options += " dc=1";
    }
    alone_by_seed(NAME, seed, &options, || {
        let mut rng = Rng::new(seed ^ 1 << 40);
        let several = rng.chance(250);
        // Whole windows of 32 frames for one peer, or two, or all.
        let receives = pick(&mut Rng::new(seed ^ 1 << 41), &[64, 90, 2048]);
        let dynamic = if is_dynamic { DynamicTransport::On } else { DynamicTransport::Off };
        let settings = Settings { receives, dynamic, ..chosen(&mut rng) };
        println!("seed {seed}: {options}, several ports: {several}, {settings:?}");
        let ranks = 2 + rng.below(4) as u32;
        let moments: Vec<&str> = MOMENTS
            .iter()
            .copied()
            .filter(|words| options.contains("ports=2") || !words.contains("=2"))
            .collect();
        let every = pick(&mut rng, &[0, 0, 40, 200]);
        if several {
            let rails = wrapped(rails(ranks, &settings), every, interrupt_primary);
            run(seed, rails, &moments, rng, |faulty| faulty.inner.explain());
        } else {
            let transports =
                wrapped(transports(ranks, &settings), every, VerbsTransport::interrupt);
            run(seed, transports, &moments, rng, |faulty| faulty.inner.explain());
        }
    });
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    rng.pick(of).expect("a choice")
}

/// Returns devices and faults.
fn faults(rng: &mut Rng) -> String {
    let mut words = vec![format!(
        "devices={}",
        pick(
            rng,
            &["stand0/ib", "stand0/grh", "stand0/roce", "stand0/ib,stand1/ib", "a/roce,b/roce"]
        )
    )];
    let choices: [(&str, &[u32]); 13] = [
        ("ports", &[1, 1, 2]),
        ("loss", &[0, 1000, 5000, 20_000]),
        ("late", &[0, 300, 2000]),
        ("lots", &[0, 100, 500]),
        ("place", &[0, 300, 3000]),
        ("early", &[0, 1]),
        ("overtake", &[0, 1]),
        ("prefetch", &[0, 1, 4]),
        ("rnr", &[0, 2000, 20_000]),
        ("refuse", &[0, 20_000, 200_000]),
        ("broken", &[0, 300, 2000]),
        ("inline", &[64, 220]),
        ("reads", &[1, 4, 16]),
    ];
    words.extend(choices.iter().map(|(name, values)| format!("{name}={}", pick(rng, values))));
    words.push(pick(rng, &["pkeys=ffff", "pkeys=7fff,8001", "atomics=0"]).into());
    words.join(" ")
}

/// Returns settings.
fn chosen(rng: &mut Rng) -> Settings {
    let all = [Rendezvous::Auto, Rendezvous::Read, Rendezvous::Write, Rendezvous::Copy];
    let (eager_max, get_min) = pick(rng, &[(2000, 3000), (8192, 16_384)]);
    Settings {
        credits: pick(rng, &[4, 8, 32]),
        connections: pick(rng, &[1, 2, 128]),
        connect_after: pick(rng, &[0, 1, 4, 64]),
        eager_rdma_threshold: pick(rng, &[0, 4, 64]),
        eager_rdma_peers: pick(rng, &[0, 1, 2, 8]),
        rendezvous: pick(rng, &all),
        ack_timeout: 8,
        retries: 6,
        eager_max,
        get_min,
        ..settings()
    }
}

fn rails(ranks: u32, settings: &Settings) -> Vec<Rails> {
    let store = InProcessStore::default();
    let open = |rank| {
        let settings = Settings { max_rails: 4, local_rank: rank, ..settings.clone() };
        Rails::open(settings, Peer(rank), ranks, [3; 32], Box::new(store.clone()))
    };
    (0..ranks).map(|rank| open(rank).expect("a transport")).collect()
}

/// Returns the transports with connections that break at random polls, in processes that poll for
/// some time before they sleep.
fn wrapped<T>(transports: Vec<T>, every: u64, interrupt: fn(&mut T, Peer)) -> Vec<Faulty<T>> {
    let ranks = transports.len() as u32;
    let wrap = |(rank, inner)| Faulty {
        inner,
        rng: Rng::new(rank),
        ranks,
        every,
        polls_before_sleep: 50,
        idle: 0,
        interrupt,
    };
    (0..).zip(transports).map(wrap).collect()
}

fn interrupt_primary(rails: &mut Rails, peer: Peer) {
    rails.primary().interrupt(peer);
}

/// A storm during which ports go down and move, and faults change.
fn run<T: HybridGet>(
    seed: u64,
    transports: Vec<T>,
    moments: &[&str],
    mut rng: Rng,
    explain: fn(&T) -> String,
) {
    // Some are striped where there are several ports.
    let longest = pick(&mut rng, &[60_000, 600_000]);
    let mut job = Job::new("every fault", seed, transports);
    job.nap(Duration::from_millis(500));
    job.explain_by(explain);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MOST_MOMENTS {
                std::thread::sleep(Duration::from_micros(rng.below(60_000)));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                control(pick(&mut rng, moments));
            }
            moments.iter().filter(|what| what.starts_with("up=")).for_each(|what| control(what));
        });
        storm(&mut job, &Weather { steps: STEPS, longest, ..Weather::default() });
        is_over.store(true, Ordering::Relaxed);
    });
    job.end();
}

/// What happens at a random moment. A port that is down comes up with one of the others.
const MOMENTS: [&str; 12] = [
    "down=1",
    "up=1",
    "up=1",
    "move=1 up=1",
    "down=2",
    "up=2",
    "move=2 up=2",
    "broken=20000",
    "broken=300",
    "loss=200000",
    "loss=1000",
    "up=1 loss=0 broken=0",
];
