//! The conformance suite on InfiniBand or RoCE: all ranks in this process, each with its own device
//! context, alternating between the devices that `VERBENA_TEST_DEVICES` names.
//!
//! It runs where there is RDMA (`cargo xtask vm` makes Soft-RoCE), and otherwise prints the reason.
//! `VERBENA_TEST_LIBRARY` names another libibverbs: `cargo xtask test --only verbs-device` runs it
//! on the stand-in. `VERBENA_TEST_SEED` sets another seed.

#[path = "verbs/faulty.rs"]
mod faulty;
#[path = "verbs/registration.rs"]
mod registration;

use std::time::Duration;

use config::Rendezvous;
use fabric::sim::Rng;
use fabric::{
    Atomic, Body, Header, HybridGet, OneSided, Peer, PeerFailed, Rights, Sink, Transfer, Transport,
    WaitOn,
};
use tests::conformance::{Job, Weather, garbage, one_sided, run, run_with, storm};
use verbs_transport::{InProcessStore, Rails, Settings, VerbsTransport};

use faulty::Faulty;

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

/// Returns the settings of all tests but for what they change.
fn defaults() -> Settings {
    Settings { library: std::env::var("VERBENA_TEST_LIBRARY").ok(), ..Settings::default() }
}

/// Returns the devices to use; `None` if there is no RDMA and none was named.
fn devices() -> Option<Vec<String>> {
    if let Ok(names) = std::env::var("VERBENA_TEST_DEVICES") {
        return Some(names.split([',', ' ']).map(str::to_owned).collect());
    }
    match verbs_transport::Port::choose(&defaults()) {
        Ok(port) => Some(vec![port.device]),
        Err(why) => {
            eprintln!("not run: {why}");
            None
        }
    }
}

fn transports(devices: &[String], ranks: u32, settings: &Settings) -> Vec<VerbsTransport> {
    let store = InProcessStore::default();
    let open = |rank: u32| {
        let device = Some(devices[rank as usize % devices.len()].clone());
        let settings = Settings { device, ..settings.clone() };
        VerbsTransport::open(settings, Peer(rank), ranks, [3; 32], Box::new(store.clone()))
            .expect("a transport")
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
    suite(&defaults());
}

#[test]
fn by_writes() {
    let Some(devices) = devices() else { return };
    let settings = Settings { rendezvous: Rendezvous::Write, ..defaults() };
    run_with(|ranks| ranks == 2, seed(), |ranks, _| transports(&devices, ranks, &settings));
}

#[test]
fn without_reads_or_writes() {
    suite(&Settings { rendezvous: Rendezvous::Copy, ..defaults() });
}

#[test]
fn smallest_windows() {
    suite(&Settings { credits: 4, eager_max: 2000, get_min: 3000, ..defaults() });
}

/// Returns transports whose processes poll for some time before they sleep, so that peers may
/// write to them.
fn polling(
    devices: &[String],
    ranks: u32,
    settings: &Settings,
    seed: u64,
) -> Vec<Faulty<VerbsTransport>> {
    let interrupt = VerbsTransport::interrupt;
    let faulty = |(rank, inner)| Faulty {
        inner,
        rng: Rng::new(seed + rank),
        ranks,
        every: 0,
        polls_before_sleep: 50,
        idle: 0,
        interrupt,
    };
    (0..).zip(transports(devices, ranks, settings)).map(faulty).collect()
}

/// Short frames go by eager RDMA from the first on.
#[test]
fn eager_rdma_wherever_possible() {
    let Some(devices) = devices() else { return };
    let small = Settings { credits: 4, eager_max: 2000, get_min: 3000, ..defaults() };
    for settings in [defaults(), small] {
        let settings = Settings { eager_rdma_threshold: 0, ..settings };
        run_with(
            |ranks| ranks == 2,
            seed(),
            |ranks, _| polling(&devices, ranks, &settings, seed()),
        );
    }
}

/// Several ranks share few rings, which go from peer to peer.
#[test]
fn rings_change_hands() {
    let Some(devices) = devices() else { return };
    for eager_rdma_peers in [1, 2] {
        let settings =
            Settings { eager_rdma_peers, eager_rdma_threshold: 4, credits: 8, ..defaults() };
        let mut job =
            Job::new("rings change hands", seed(), polling(&devices, 5, &settings, seed()));
        job.nap(Duration::from_millis(200));
        storm(&mut job, &Weather::default());
        println!("{} frames written", written(&mut job, 5, |faulty| &faulty.inner));
        job.end();
    }
}

/// Returns the number of frames that the ranks have written.
fn written<T: HybridGet>(job: &mut Job<T>, ranks: u32, inner: fn(&T) -> &VerbsTransport) -> u64 {
    let written = (0..ranks).map(|rank| inner(&job.rank(rank).transport).frames_written()).sum();
    assert!(written > 0, "nothing was written");
    written
}

#[test]
fn one_connection_at_a_time() {
    let Some(devices) = devices() else { return };
    let settings = Settings { connections: 1, credits: 8, eager_rdma_threshold: 0, ..defaults() };
    let mut job = Job::new("one connection at a time", seed(), transports(&devices, 4, &settings));
    job.nap(Duration::from_millis(200));
    storm(&mut job, &Weather { steps: 200, ..Weather::default() });
    job.end();
}

/// Every message goes by datagrams, also the largest.
#[test]
fn datagrams_alone() {
    let settings = Settings { connect_after: u32::MAX, rendezvous: Rendezvous::Copy, ..defaults() };
    let Some(devices) = devices() else { return };
    for ranks in [2, 5] {
        let mut job = Job::new("datagrams alone", seed(), transports(&devices, ranks, &settings));
        job.nap(Duration::from_millis(100));
        storm(&mut job, &Weather { steps: 300, longest: 200_000, ..Weather::default() });
        for rank in 0..ranks {
            let transport = &job.rank(rank).transport;
            assert_eq!(transport.connections(), 0);
            assert!(transport.datagrams_sent() > 0);
        }
        job.end();
    }
}

#[test]
fn storms() {
    let Some(devices) = devices() else { return };
    let mut coalesced = 0;
    for seed in seed()..seed() + 4 {
        let rendezvous = [Rendezvous::Read, Rendezvous::Write][seed as usize % 2];
        let (credits, eager_rdma_threshold) =
            ([4, 8, 32][seed as usize % 3], [64, 0][seed as usize / 2 % 2]);
        let settings = Settings { credits, eager_rdma_threshold, rendezvous, ..defaults() };
        let mut job = Job::new("storms", seed, transports(&devices, 4, &settings));
        storm(&mut job, &Weather::default());
        coalesced += (0..4).map(|rank| job.rank(rank).transport.frames_coalesced()).sum::<u64>();
        job.end();
    }
    println!("{coalesced} frames were coalesced");
    assert!(coalesced > 0, "no frame was coalesced");
}

#[test]
fn a_peer_lies() {
    let Some(devices) = devices() else { return };
    for seed in seed()..seed() + 3 {
        let settings = Settings { rendezvous: Rendezvous::Copy, ..defaults() };
        garbage(seed, transports(&devices, 3, &settings));
    }
}

#[test]
fn rma() {
    let Some(devices) = devices() else { return };
    for ranks in [2, 4] {
        one_sided(seed(), transports(&devices, ranks, &defaults()));
    }
}

/// Outcomes of transfers.
#[derive(Default)]
struct Outcomes(Vec<(u64, Result<(), PeerFailed>)>);

impl Sink for Outcomes {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        self.0.push((token, outcome));
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

/// Reads and writes are repeated; an addition under way fails, since it may have been done.
#[test]
fn transfers_whose_connection_breaks() {
    let Some(devices) = devices() else { return };
    let [mut ours, mut theirs] =
        <[_; 2]>::try_from(transports(&devices, 2, &defaults())).ok().expect("two");
    let bytes = |len| tests::bytes::Bytes::for_receive(tests::bytes::Shape::Run, len);
    let (all, word, data) = (bytes(2 << 20), bytes(8), bytes(1 << 20));
    let memory = |bytes: &tests::bytes::Bytes| bytes.buffer().memory().expect("one run");
    let region = theirs.register(Peer(0), memory(&all), Rights::All).expect("memory is registered");
    let (mut added, mut failed, mut written) = (0, 0, 0);
    for round in 0..60 {
        let mut recorded = Outcomes::default();
        let put = loop {
            let put = ours.one_sided(Peer(1), &region, 1 << 20, OneSided::Put(memory(&data)), 1);
            if put != Ok(Transfer::NoSpace) {
                break put;
            }
            ours.poll(&mut recorded);
            theirs.poll(&mut Outcomes::default());
        };
        let add =
            ours.one_sided(Peer(1), &region, 0, OneSided::Atomic(Atomic::Add(1), memory(&word)), 2);
        assert_eq!((put, add), (Ok(Transfer::Started), Ok(Transfer::Started)));
        (0..round % 30).for_each(|_| _ = ours.poll(&mut recorded));
        if round % 2 == 0 {
            ours.interrupt(Peer(1));
        }
        while recorded.0.len() < 2 {
            ours.poll(&mut recorded);
            theirs.poll(&mut Outcomes::default());
        }
        for (token, outcome) in recorded.0 {
            match (token, outcome.is_ok()) {
                (1, true) => written += 1,
                (2, true) => added += 1,
                (2, false) => failed += 1,
                other => panic!("{other:?}: {outcome:?}"),
            }
        }
    }
    let sum = u64::from_ne_bytes(std::array::from_fn(|at| all.read()[at]));
    println!("{added} additions were done, {failed} failed, {sum} were counted");
    assert!(written == 60 && added + failed == 60 && failed > 0, "{written} {added} {failed}");
    assert!((added..=added + failed).contains(&sum));
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn a_peer_without_communication_costs_64_bytes_at_most() {
    let Some(devices) = devices() else { return };
    let settings = Settings { device: Some(devices[0].clone()), connections: 1, ..defaults() };
    let open = |size| {
        let before = resident();
        let transport = VerbsTransport::open(
            settings.clone(),
            Peer(0),
            size,
            [3; 32],
            Box::new(InProcessStore::default()),
        );
        (transport.expect("a transport"), resident() - before)
    };
    const MANY: usize = 16 * 4096;
    let (_first, _) = open(2);
    let (_few, least) = open(2);
    let (_many, most) = open(2 + MANY as u32);
    let each = most.saturating_sub(least) as f64 / MANY as f64;
    println!(
        "{each:.1} bytes for each of {MANY} peers; {least} for a transport with receives for one"
    );
    assert!(each <= 64.0, "{each} bytes for a peer");
}

/// Returns transports with the frames of each rank on one device and parts of reads on all.
fn rails(devices: &[String], ranks: u32) -> Vec<Rails> {
    let store = InProcessStore::default();
    let open = |rank: u32| {
        let mut rails = devices.to_vec();
        rails.rotate_left(rank as usize % devices.len());
        let settings = Settings { device: Some(rails.remove(0)), rails, ..defaults() };
        Rails::open(settings, Peer(rank), ranks, [3; 32], Box::new(store.clone()))
            .expect("a transport")
    };
    (0..ranks).map(open).collect()
}

/// Large messages over all devices, while connections of secondary ports break.
#[test]
fn several_rails() {
    let Some(devices) = devices().filter(|devices| devices.len() > 1) else { return };
    let mut job = Job::new("several rails", seed(), rails(&devices, 3));
    job.nap(Duration::from_millis(200));
    storm(&mut job, &Weather { steps: 300, longest: 1 << 20, ..Weather::default() });
    let read: u64 = (0..3).map(|rank| job.rank(rank).transport.bytes_on_secondary_ports()).sum();
    println!("{read} bytes read through secondary ports");
    assert!(read > 0, "nothing went through a secondary port");
    job.end();
    // A secondary device that is gone is gone for good; no peer fails by that.
    type Fault = fn(&mut Rails, Peer);
    let faults: [(&str, Fault); 2] = [
        ("rails that break", |rails, peer| rails.secondary()[0].interrupt(peer)),
        ("rails that go", |rails, _| rails.secondary()[0].remove_device()),
    ];
    for (name, interrupt) in faults {
        let faulty = |(rank, inner)| Faulty {
            inner,
            rng: Rng::new(rank),
            ranks: 2,
            every: 12,
            polls_before_sleep: 0,
            idle: 0,
            interrupt,
        };
        let transports = (0..).zip(rails(&devices, 2)).map(faulty).collect();
        let mut job = Job::new(name, seed(), transports);
        job.nap(Duration::from_millis(200));
        storm(&mut job, &Weather { steps: 300, longest: 1 << 20, ..Weather::default() });
        job.end();
    }
}

#[test]
fn connections_that_break() {
    let Some(devices) = devices() else { return };
    let (mut broken, mut coalesced) = (0, 0);
    for seed in seed()..seed() + 6 {
        let ranks = [2, 4][seed as usize % 2];
        let rendezvous = [Rendezvous::Write, Rendezvous::Read][seed as usize / 3 % 2];
        // Two of every four use eager RDMA.
        let (credits, eager_rdma_threshold) =
            ([4, 32][seed as usize / 2 % 2], [0, 64][seed as usize / 2 % 2]);
        let settings = Settings { credits, eager_rdma_threshold, rendezvous, ..defaults() };
        let interrupt = VerbsTransport::interrupt;
        let polls_before_sleep = [20, 0][seed as usize / 2 % 2];
        let rng = |rank| Rng::new(seed * 16 + rank);
        let faulty = |(rank, inner)| Faulty {
            inner,
            rng: rng(rank),
            ranks,
            every: 12,
            polls_before_sleep,
            idle: 0,
            interrupt,
        };
        let transports = (0..).zip(transports(&devices, ranks, &settings)).map(faulty);
        let mut job = Job::new("connections that break", seed, transports.collect());
        job.nap(Duration::from_millis(200));
        storm(&mut job, &Weather { steps: 300, ..Weather::default() });
        broken +=
            (0..ranks).map(|rank| job.rank(rank).transport.inner.interruptions()).sum::<u64>();
        if eager_rdma_threshold == 0 {
            println!("{} frames written", written(&mut job, ranks, |faulty| &faulty.inner));
        }
        coalesced +=
            (0..ranks).map(|rank| job.rank(rank).transport.inner.frames_coalesced()).sum::<u64>();
        job.end();
    }
    println!("{broken} connections broken, {coalesced} frames coalesced");
    assert!(broken > 0, "no connection was broken");
    assert!(coalesced > 0, "no frame was coalesced");
}

/// The report to a rank about a peer that ends without notice.
#[derive(Default)]
struct Failures {
    frames: usize,
    failed: Vec<u64>,
    peers: Vec<PeerFailed>,
}

impl Sink for Failures {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
        self.frames += 1;
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        assert!(outcome.is_err(), "a dead peer's memory was read");
        self.failed.push(token);
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        self.peers.push(failure);
    }
}

#[test]
fn a_peer_that_is_gone_fails_in_time() {
    let Some(devices) = devices() else { return };
    let settings = Settings {
        reconnect_timeout: Duration::from_secs(2),
        ack_timeout: 8,
        retries: 1,
        connect_after: 0,
        ..defaults()
    };
    let [mut ours, mut theirs] =
        <[_; 2]>::try_from(transports(&devices, 2, &settings)).ok().expect("two");
    let (mut recorded, mut other) = (Failures::default(), Failures::default());
    let header = Header::new(fabric::Kind::Data);
    let bytes = tests::bytes::Bytes::for_receive(tests::bytes::Shape::Run, 100_000);
    let memory = bytes.buffer().memory().expect("one run");
    let region = theirs.register(Peer(0), memory, Rights::Get).expect("memory is registered");
    // A peer that never had a connection may compute for as long as it likes.
    while other.frames == 0 || !ours.is_connected(Peer(1)) {
        let _ = ours.post(Peer(1), &header, 0, |_| ());
        ours.poll(&mut recorded);
        theirs.poll(&mut other);
    }
    drop(theirs);
    let began = std::time::Instant::now();
    let into = tests::bytes::Bytes::for_receive(tests::bytes::Shape::Run, 100_000);
    let into = (into.buffer().memory().expect("one run"), into);
    assert_eq!(
        ours.one_sided(Peer(1), &region, 0, OneSided::Get(into.0), 77),
        Ok(Transfer::Started)
    );
    while recorded.peers.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "the failure is not noticed");
        ours.poll(&mut recorded);
        if let Some(WaitOn::Fd(fd)) = ours.arm() {
            tests::idle::until_readable(&[fd], Duration::from_secs(5));
        }
        ours.disarm();
    }
    println!("{} after {:?}", recorded.peers[0], began.elapsed());
    assert_eq!((recorded.peers[0].peer, recorded.failed.as_slice()), (Peer(1), [77].as_slice()));
    assert!(ours.post(Peer(1), &header, 0, |_| ()).is_err());
    assert!(ours.flush());
}

#[test]
fn without_a_device_peers_without_communication_fail_too() {
    let Some(devices) = devices() else { return };
    let mut all = transports(&devices, 3, &defaults());
    let (mut recorded, mut other) = (Failures::default(), Failures::default());
    let header = Header::new(fabric::Kind::Data);
    while other.frames == 0 {
        let _ = all[0].post(Peer(1), &header, 0, |_| ());
        all[0].poll(&mut recorded);
        all[1].poll(&mut other);
    }
    all[0].remove_device();
    all[0].poll(&mut recorded);
    let failed: Vec<Peer> = recorded.peers.iter().map(|failure| failure.peer).collect();
    assert_eq!(failed, [Peer(1), Peer(2)]);
    let name = format!("the RDMA device {} of this host has failed or was removed", devices[0]);
    assert!(
        recorded.peers.iter().all(|failure| failure.why.contains(&name)),
        "{}",
        recorded.peers[0]
    );
    assert!((1..3).all(|peer| all[0].post(Peer(peer), &header, 0, |_| ()).is_err()));
    assert!(matches!(all[0].arm(), Some(WaitOn::Nothing)), "it does not let the process sleep");
    assert!(all[0].flush());
}

#[test]
fn settings_that_differ_work_or_are_named() {
    let Some(devices) = devices() else { return };
    let open = |settings: [Settings; 2]| {
        let store = InProcessStore::default();
        let mut rank = 0..2;
        settings.map(|settings| {
            let rank = rank.next().expect("two");
            let device = Some(devices[rank as usize % devices.len()].clone());
            let settings = Settings { device, ..settings };
            VerbsTransport::open(settings, Peer(rank), 2, [3; 32], Box::new(store.clone()))
                .expect("a transport")
        })
    };
    let other = Settings { credits: 4, get_min: 100_000, connections: 7, retries: 3, ..defaults() };
    let mut job = Job::new("settings that differ", seed(), open([defaults(), other]).into());
    storm(&mut job, &Weather::default());
    job.end();
    let other = Settings { eager_max: 2000, ..defaults() };
    let mut ends = open([defaults(), other]);
    let mut recorded = [Failures::default(), Failures::default()];
    let _ = ends[0].post(Peer(1), &Header::new(fabric::Kind::Data), 0, |_| ());
    let began = std::time::Instant::now();
    while recorded.iter().any(|recorded| recorded.peers.is_empty()) {
        assert!(began.elapsed() < Duration::from_secs(60), "the failure is not noticed");
        ends.iter_mut().zip(&mut recorded).for_each(|(end, recorded)| _ = end.poll(recorded));
    }
    for (recorded, [theirs, ours]) in recorded.iter().zip([[2000, 8192], [8192, 2000]]) {
        let expected = format!("verbs.eager_max = {theirs}, this process with {ours}");
        assert!(recorded.peers[0].why.contains(&expected), "{}", recorded.peers[0]);
    }
}
