//! The conformance suite on InfiniBand or RoCE: all ranks in this process, each with its
//! own device context, on the devices that `VERBENA_TEST_DEVICES` names (in turn).
//!
//! Runs where there is RDMA (`cargo xtask vm` makes Soft-RoCE); elsewhere it says why not.
//! `VERBENA_TEST_SEED` runs it with another seed.

use std::time::Duration;

use fabric::knobs::Rendezvous;
use fabric::sim::Rng;
use fabric::{Header, Limits, Lost, Memory, Peer, Post, Region, Sink, Slot, Transfer, Transport, WaitOn};
use tests::conformance::{Job, Weather, garbage, run, storm};
use verbs_transport::{Settings, Together, VerbsTransport};

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

/// The devices to use; `None` where there is no RDMA and none was asked for.
fn devices() -> Option<Vec<String>> {
    if let Ok(names) = std::env::var("VERBENA_TEST_DEVICES") {
        return Some(names.split([',', ' ']).map(str::to_owned).collect());
    }
    match verbs_transport::Port::choose(&Settings::default()) {
        Ok(port) => Some(vec![port.device]),
        Err(why) => {
            eprintln!("not run: {why}");
            None
        }
    }
}

fn transports(devices: &[String], ranks: u32, settings: &Settings) -> Vec<VerbsTransport> {
    let store = Together::default();
    let open = |rank: u32| {
        let device = Some(devices[rank as usize % devices.len()].clone());
        let settings = Settings { device, ..settings.clone() };
        VerbsTransport::open(settings, Peer(rank), ranks, [3; 32], Box::new(store.clone())).expect("a transport")
    };
    (0..ranks).map(open).collect()
}

fn suite(settings: &Settings) {
    if let Some(devices) = devices() {
        run(seed(), |ranks, _| transports(&devices, ranks, settings));
    }
}

#[test]
fn as_configured_by_default() {
    suite(&Settings::default());
}

#[test]
fn without_reads() {
    suite(&Settings { rendezvous: Rendezvous::Copy, ..Settings::default() });
}

#[test]
fn smallest_windows() {
    suite(&Settings { credits: 4, eager_max: 2000, get_min: 3000, ..Settings::default() });
}

#[test]
fn one_connection_at_a_time() {
    let Some(devices) = devices() else { return };
    let settings = Settings { connections: 1, credits: 8, ..Settings::default() };
    let mut job = Job::new("one connection at a time", seed(), transports(&devices, 4, &settings));
    job.nap(Duration::from_millis(200));
    storm(&mut job, &Weather { steps: 200, ..Weather::default() });
    job.end();
}

#[test]
fn storms() {
    let Some(devices) = devices() else { return };
    for seed in seed()..seed() + 4 {
        let settings = Settings { credits: [4, 8, 32][seed as usize % 3], ..Settings::default() };
        let mut job = Job::new("storms", seed, transports(&devices, 4, &settings));
        storm(&mut job, &Weather::default());
        job.end();
    }
}

#[test]
fn a_peer_lies() {
    let Some(devices) = devices() else { return };
    for seed in seed()..seed() + 3 {
        let settings = Settings { rendezvous: Rendezvous::Copy, ..Settings::default() };
        garbage(seed, transports(&devices, 3, &settings));
    }
}

/// What the kernel counts as this process's memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn a_peer_never_talked_to_costs_64_bytes_at_most() {
    let Some(devices) = devices() else { return };
    let settings = Settings { device: Some(devices[0].clone()), connections: 1, ..Settings::default() };
    let open = |size| {
        let before = resident();
        let transport = VerbsTransport::open(settings.clone(), Peer(0), size, [3; 32], Box::new(Together::default()));
        (transport.expect("a transport"), resident() - before)
    };
    const MANY: usize = 16 * 4096;
    let (_first, _) = open(2);
    let (_few, least) = open(2);
    let (_many, most) = open(2 + MANY as u32);
    let each = most.saturating_sub(least) as f64 / MANY as f64;
    println!("{each:.1} bytes for each of {MANY} peers; {least} for a transport with receives for one");
    assert!(each <= 64.0, "{each} bytes for a peer");
}

/// A transport whose connections break now and then.
struct Shaky {
    verbs: VerbsTransport,
    rng: Rng,
    ranks: u32,
    /// One of so many polls breaks a connection.
    every: u64,
}

impl Transport for Shaky {
    fn limits(&self, peer: Peer) -> &Limits {
        self.verbs.limits(peer)
    }

    fn post(&mut self, peer: Peer, header: &Header, len: usize, fill: impl FnOnce(&mut Slot)) -> Result<Post, Lost> {
        self.verbs.post(peer, header, len, fill)
    }

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.rng.below(self.every) == 0 {
            self.verbs.interrupt(Peer(self.rng.below(self.ranks.into()) as u32));
        }
        self.verbs.poll(sink)
    }

    fn register(&mut self, peer: Peer, memory: Memory) -> Option<Region> {
        self.verbs.register(peer, memory)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.verbs.release(peer, region);
    }

    fn get(&mut self, peer: Peer, region: &Region, from: u64, into: Memory, token: u64) -> Result<Transfer, Lost> {
        self.verbs.get(peer, region, from, into, token)
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        self.verbs.arm()
    }

    fn disarm(&mut self) {
        self.verbs.disarm();
    }

    fn flush(&mut self) -> bool {
        self.verbs.flush()
    }
}

#[test]
fn connections_that_break() {
    let Some(devices) = devices() else { return };
    for seed in seed()..seed() + 6 {
        let ranks = [2, 4][seed as usize % 2];
        let settings = Settings { credits: [4, 32][seed as usize / 2 % 2], ..Settings::default() };
        let shaky = |(rank, verbs)| Shaky { verbs, rng: Rng::new(seed * 16 + rank), ranks, every: 12 };
        let transports = (0..).zip(transports(&devices, ranks, &settings)).map(shaky);
        let mut job = Job::new("connections that break", seed, transports.collect());
        job.nap(Duration::from_millis(200));
        storm(&mut job, &Weather { steps: 300, ..Weather::default() });
        let broken: u64 = (0..ranks).map(|rank| job.engine(rank).transport().verbs.interruptions()).sum();
        println!("{broken} connections broken");
        assert!(broken >= 3, "hardly a connection was broken: {broken}");
        job.end();
    }
}

/// What a rank hears of a peer that ends without a word.
#[derive(Default)]
struct Obituary {
    frames: usize,
    failed: Vec<u64>,
    lost: Vec<Lost>,
}

impl Sink for Obituary {
    fn frame(&mut self, _: Peer, _: &Header, _: &[u8]) {
        self.frames += 1;
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), Lost>) {
        assert!(outcome.is_err(), "a dead peer's memory was read");
        self.failed.push(token);
    }

    fn lost(&mut self, lost: Lost) {
        self.lost.push(lost);
    }
}

#[test]
fn a_peer_that_is_gone_is_lost_in_time() {
    let Some(devices) = devices() else { return };
    let settings = Settings { lost_after: Duration::from_secs(2), ack_timeout: 8, retries: 1, ..Settings::default() };
    let [mut ours, mut theirs] = <[_; 2]>::try_from(transports(&devices, 2, &settings)).ok().expect("two");
    let (mut heard, mut other) = (Obituary::default(), Obituary::default());
    let header = Header::new(fabric::Kind::Data);
    let bytes = tests::bytes::Bytes::room(tests::bytes::Shape::Run, 100_000);
    let memory = bytes.buffer().memory().expect("one run");
    let region = theirs.register(Peer(0), memory).expect("memory is registered");
    while other.frames == 0 {
        let _ = ours.post(Peer(1), &header, 0, |_| ());
        ours.poll(&mut heard);
        theirs.poll(&mut other);
    }
    drop(theirs);
    let began = std::time::Instant::now();
    let into = tests::bytes::Bytes::room(tests::bytes::Shape::Run, 100_000);
    let into = (into.buffer().memory().expect("one run"), into);
    assert_eq!(ours.get(Peer(1), &region, 0, into.0, 77), Ok(Transfer::Started));
    while heard.lost.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody notices");
        ours.poll(&mut heard);
        if let Some(WaitOn::Fd(fd)) = ours.arm() {
            tests::idle::until_readable(&[fd], Duration::from_secs(5));
        }
        ours.disarm();
    }
    println!("{} after {:?}", heard.lost[0], began.elapsed());
    assert_eq!((heard.lost[0].peer, heard.failed.as_slice()), (Peer(1), [77].as_slice()));
    assert!(ours.post(Peer(1), &header, 0, |_| ()).is_err());
    assert!(ours.flush());
}
