//! The conformance suite over TCP on this host's loopback interface: all ranks in this process,
//! each with a listener of its own.
//!
//! `VERBENA_TEST_SEED` sets another seed.

#[path = "verbs/faulty.rs"]
mod faulty;
#[path = "tcp/flush.rs"]
mod flush;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fabric::sim::Rng;
use fabric::{
    Body, GiveUp as _, Header, InProcessStore, Kind, OneSided, Peer, PeerFailed, Post, Rights,
    Sink, Store as _, Transfer, Transport, WaitOn,
};
use tcp_transport::{Settings, TcpTransport};
use tests::bytes::{Bytes, Shape};
use tests::conformance::{Job, Weather, garbage, one_sided, run_with, storm};
use tests::idle::readable;

use faulty::Faulty;

const SECRET: [u8; 32] = [3; 32];
/// A published address of multicast: nothing takes a connection there, and nothing refuses it.
const NOWHERE: &[u8] = &[9, 9, 4, 224, 0, 0, 1];

fn seed() -> u64 {
    std::env::var("VERBENA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_928)
}

/// The cases have messages of several times the eager limit; a smaller one makes them shorter.
fn on_loopback() -> Settings {
    let interfaces = Some("127.0.0.1".into());
    Settings { interfaces, eager_max: 32 << 10, ..Settings::default() }
}

fn small() -> Settings {
    Settings { eager_max: 1000, frame: 2000, ..on_loopback() }
}

fn transports(ranks: u32, settings: &Settings) -> Vec<TcpTransport> {
    let store = InProcessStore::default();
    let open = |rank| {
        TcpTransport::open(settings.clone(), Peer(rank), ranks, SECRET, Box::new(store.clone()))
            .expect("a transport")
    };
    (0..ranks).map(open).collect()
}

fn faulty(ranks: u32, settings: &Settings, seed: u64, every: u64) -> Vec<Faulty<TcpTransport>> {
    let faulty = |(rank, inner)| Faulty {
        inner,
        rng: Rng::new(seed * 16 + rank),
        ranks,
        every,
        polls_before_sleep: [0, 20][seed as usize % 2],
        idle: 0,
        interrupt: TcpTransport::interrupt,
    };
    (0..).zip(transports(ranks, settings)).map(faulty).collect()
}

/// A job whose ranks may sleep for as long as a dial takes.
fn job<T: fabric::HybridGet>(case: &str, seed: u64, transports: Vec<T>) -> Job<T> {
    let mut job = Job::new(case, seed, transports);
    job.nap(Duration::from_millis(100));
    job
}

/// What a rank is told.
#[derive(Default)]
struct Told {
    frames: Vec<(Peer, Vec<u8>)>,
    transfers: Vec<(u64, bool)>,
    failed: Vec<PeerFailed>,
}

impl Sink for Told {
    fn frame(&mut self, from: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.frames.push((from, body.wait_all().unwrap().to_vec()));
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        self.transfers.push((token, outcome.is_ok()));
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        self.failed.push(failed);
    }
}

fn post(transport: &mut TcpTransport, to: u32, body: &[u8]) -> Result<Post, PeerFailed> {
    let header = Header::new(Kind::Eager);
    transport.post(Peer(to), &header, body.len(), |slot| slot.copy_from_slice(body))
}

/// Posts a frame of one rank to another when they are connected; polls all until then.
fn send(all: &mut [TcpTransport], told: &mut [Told], (from, to): (usize, u32), body: &[u8]) {
    let began = Instant::now();
    while post(&mut all[from], to, body).expect("a peer") == Post::NoSpace {
        all.iter_mut().zip(&mut *told).for_each(|(transport, told)| _ = transport.poll(told));
        assert!(began.elapsed() < Duration::from_secs(15), "rank {to} is not reached");
    }
}

/// Polls all until the condition holds.
fn until(all: &mut [TcpTransport], told: &mut [Told], mut holds: impl FnMut(&[Told]) -> bool) {
    let began = Instant::now();
    while !holds(told) {
        for (transport, told) in all.iter_mut().zip(&mut *told) {
            transport.poll(told);
        }
        if began.elapsed() > Duration::from_secs(15) {
            let frames: Vec<usize> = told.iter().map(|told| told.frames.len()).collect();
            panic!("nothing happens any more; frames arrived: {frames:?}");
        }
    }
}

#[test]
fn as_configured_by_default() {
    run_with(|ranks| ranks == 2, seed(), |ranks, _| transports(ranks, &on_loopback()));
}

#[test]
fn with_small_frames() {
    // A rank alone sends nothing over a transport.
    run_with(|ranks| (2..=4).contains(&ranks), seed(), |ranks, _| transports(ranks, &small()));
}

#[test]
fn over_ipv6() {
    let settings = Settings { interfaces: Some("::1".into()), ..on_loopback() };
    let mut job = job("IPv6", seed(), transports(3, &settings));
    storm(&mut job, &Weather::default());
    job.end();
}

#[test]
fn encrypted_connections_that_break() {
    let settings = Settings { tls: true, ..on_loopback() };
    one_sided(seed(), transports(2, &settings));
    let mut broken = 0;
    for seed in seed()..seed() + 2 {
        let mut job = job("TLS", seed, faulty(3, &settings, seed, 12));
        storm(&mut job, &Weather { steps: 150, longest: 300_000, ..Weather::default() });
        broken += interruptions(&mut job);
        job.end();
    }
    assert!(broken > 0, "no connection was broken");
}

/// Large messages are divided among several connections, each of which breaks now and then.
#[test]
fn storms_over_several_connections_to_a_peer() {
    let (mut broken, mut most) = (0, 0);
    for seed in seed()..seed() + 6 {
        let ranks = [2, 3][seed as usize % 2];
        let tls = seed % 3 == 0;
        let settings = Settings { sockets: Some(4), tls, ..on_loopback() };
        let transports = faulty(ranks, &settings, seed, 30);
        let mut job = job("several connections to a peer", seed, transports);
        storm(&mut job, &Weather { steps: 200, longest: 2 << 20, ..Weather::default() });
        let connections = |rank| job.rank(rank).transport.inner.connections();
        most = most.max((0..ranks).map(connections).max().unwrap_or(0));
        broken += interruptions(&mut job);
        job.end();
    }
    assert!(broken >= 8, "too few connections were broken: {broken}");
    assert!(most > 2, "a peer has no more than one connection");
}

/// Descriptors are few: further connections to a peer are the first to go.
#[test]
fn several_connections_to_a_peer_take_none_from_others() {
    let settings = Settings { sockets: Some(4), connections: Some(2), ..on_loopback() };
    let mut job = job("few connections", seed(), faulty(4, &settings, seed(), 100));
    storm(&mut job, &Weather { steps: 200, longest: 1 << 20, ..Weather::default() });
    job.end();
}

/// Of the addresses of a peer one refuses, one never answers, at one another program answers, and
/// the last is its own.
#[test]
fn the_address_that_answers_is_used() {
    let mut store = InProcessStore::default();
    let open = |rank| {
        let store = Box::new(store.clone());
        TcpTransport::open(on_loopback(), Peer(rank), 2, SECRET, store).expect("a transport")
    };
    let (mut all, mut told) = (vec![open(0), open(1)], vec![Told::default(), Told::default()]);
    let port = all[1].listens_on()[0].port();
    let listen = |last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port));
    let (stranger, silent) = (listen(3).expect("a port"), listen(4).expect("a port"));
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().expect("a connection");
        let _ = stream.write_all(&[7; 64]);
    });
    // In each order the process's own address is the last: it is that of rank 0 too.
    let addresses = [1, 2, 3, 4].into_iter().flat_map(|last| [4, 127, 0, 0, last]);
    let text: Vec<u8> = port.to_le_bytes().into_iter().chain(addresses).collect();
    store.put("tcp/1", &text).expect("a store");
    send(&mut all, &mut told, (0, 1), b"found");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
    assert!(all[0].connections() == 1 && told[0].failed.is_empty());
    stranger.join().expect("the stranger");
    drop(silent);
}

#[test]
fn listeners_use_the_ports_of_the_range() {
    let first = transports(1, &on_loopback())[0].listens_on()[0].port().min(u16::MAX - 20);
    let range = first..=first + 20;
    let settings = Settings { ports: Some(range.clone()), ..on_loopback() };
    let (mut all, mut told) = (transports(3, &settings), Vec::new());
    told.resize_with(3, Told::default);
    assert!(all.iter().all(|rank| range.contains(&rank.listens_on()[0].port())));
    send(&mut all, &mut told, (0, 2), b"there");
    until(&mut all, &mut told, |told| told[2].frames.len() == 1);
}

/// One connection is enough for a near peer, unless more are requested.
#[test]
fn a_near_peer_has_one_connection() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    let memory = |len| Bytes::for_receive(Shape::Run, len);
    let (theirs, ours) = (memory(1 << 20), memory(1 << 20));
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Get).expect("a region");
    for token in 1..20 {
        let get = OneSided::Get(run(&ours));
        assert_eq!(all[0].one_sided(Peer(1), &region, 0, get, token), Ok(Transfer::Started));
        until(&mut all, &mut told, |told| told[0].transfers.last() == Some(&(token, true)));
    }
    assert!(all.iter().all(|transport| transport.connections() == 1));
}

/// Two ranks talk for so long that their sockets are not watched. Then a socket is full, another
/// rank has something, and one sleeps.
#[test]
fn a_socket_is_watched_again_when_it_must_be() {
    let (mut all, mut told) = (transports(3, &on_loopback()), Vec::new());
    told.resize_with(3, Told::default);
    let talk = |all: &mut Vec<TcpTransport>, told: &mut Vec<Told>| {
        for _ in 0..600 {
            for (from, to) in [(0, 1), (1, 0)] {
                let had = told[to as usize].frames.len();
                send(all, told, (from, to), b"word");
                until(all, told, |told| told[to as usize].frames.len() > had);
            }
        }
    };
    talk(&mut all, &mut told);
    let memory = || Bytes::for_receive(Shape::Run, 64 << 20);
    let (theirs, ours) = (memory(), memory());
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Put).expect("a region");
    let put = OneSided::Put(run(&ours));
    assert_eq!(all[0].one_sided(Peer(1), &region, 0, put, 1), Ok(Transfer::Started));
    until(&mut all, &mut told, |told| told[0].transfers == [(1, true)]);

    talk(&mut all, &mut told);
    send(&mut all, &mut told, (2, 0), b"third");
    until(&mut all, &mut told, |told| told[0].frames.last().is_some_and(|it| it.1 == b"third"));

    talk(&mut all, &mut told);
    let began = Instant::now();
    let fd = loop {
        all[0].poll(&mut told[0]);
        if let Some(WaitOn::Fd(fd)) = all[0].arm() {
            break fd;
        }
        assert!(began.elapsed() < Duration::from_secs(15), "the rank does not sleep");
    };
    assert!(readable(&[fd], Duration::ZERO).is_empty());
    assert_eq!(post(&mut all[1], 0, b"wake"), Ok(Post::Sent));
    all[1].poll(&mut told[1]);
    assert_eq!(readable(&[fd], Duration::from_secs(10)), [0], "a message wakes nobody");
    until(&mut all, &mut told, |told| told[0].frames.last().is_some_and(|it| it.1 == b"wake"));
}

/// A get is divided; one part of it, or all, lies outside of what is registered.
#[test]
fn a_divided_get_is_refused_once() {
    let settings = Settings { sockets: Some(4), ..on_loopback() };
    let (mut all, mut told) = (transports(2, &settings), vec![Told::default(), Told::default()]);
    let memory = |len| Bytes::for_receive(Shape::Run, len);
    const LEN: usize = 1 << 20;
    let (theirs, ours) = (memory(LEN), memory(LEN));
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Get).expect("a region");
    let get = OneSided::Get(run(&ours));
    let mut token = 0;
    let mut ends_with = |all: &mut Vec<TcpTransport>, at: u64, is_right: bool| {
        token += 1;
        assert_eq!(all[0].one_sided(Peer(1), &region, at, get, token), Ok(Transfer::Started));
        until(all, &mut told, |told| told[0].transfers.last() == Some(&(token, is_right)));
        assert_eq!(told[0].transfers.len() as u64, token, "a get is reported once");
    };
    let began = Instant::now();
    while all[0].connections() < 4 {
        ends_with(&mut all, 0, true);
        assert!(began.elapsed() < Duration::from_secs(15), "{} connections", all[0].connections());
    }
    // Otherwise the end of the registration would copy the parts.
    let began = Instant::now();
    while all[1].unacknowledged() > 10_000 {
        for rank in &mut all {
            rank.poll(&mut Told::default());
        }
        assert!(began.elapsed() < Duration::from_secs(15), "parts are not acknowledged");
    }
    ends_with(&mut all, 4096, false);
    ends_with(&mut all, u64::MAX / 2, false);
    ends_with(&mut all, 0, true);
    let memory = Bytes::for_receive(Shape::Run, LEN);
    let get = OneSided::Get(run(&memory));
    assert_eq!(all[0].one_sided(Peer(1), &region, 0, get, 100), Ok(Transfer::Started));
    drop(all.pop());
    until(&mut all, &mut told[..1], |told| !told[0].failed.is_empty());
    let ends: Vec<_> = told[0].transfers.iter().filter(|(token, _)| *token == 100).collect();
    assert_eq!(ends, [&(100, false)]);
}

fn interruptions(job: &mut Job<Faulty<TcpTransport>>) -> u64 {
    (0..job.size()).map(|rank| job.rank(rank).transport.inner.interruptions()).sum()
}

#[test]
fn storms_over_connections_that_break() {
    let mut broken = 0;
    for seed in seed()..seed() + 8 {
        let ranks = [2, 4][seed as usize % 2];
        let settings = if seed % 3 == 0 { small() } else { on_loopback() };
        let transports = faulty(ranks, &settings, seed, 12);
        let mut job = job("connections that break", seed, transports);
        let longest = [20_000, 1 << 20][seed as usize / 2 % 2];
        storm(&mut job, &Weather { steps: 300, longest, ..Weather::default() });
        broken += interruptions(&mut job);
        job.end();
    }
    assert!(broken >= 8, "too few connections were broken: {broken}");
}

#[test]
fn memory_of_others() {
    for ranks in [2, 5] {
        one_sided(seed(), transports(ranks, &on_loopback()));
        one_sided(seed(), faulty(ranks, &on_loopback(), seed(), 500));
    }
}

#[test]
fn a_peer_lies() {
    for seed in seed()..seed() + 3 {
        garbage(seed, transports(3, &on_loopback()));
    }
}

#[test]
fn more_peers_than_connections() {
    let settings = Settings { connections: Some(4), ..on_loopback() };
    let ranks = 9;
    let (mut all, mut told) = (transports(ranks, &settings), Vec::new());
    told.resize_with(ranks as usize, Told::default);
    for round in 0..20_u8 {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let mut unsent: Vec<(u32, u32)> = pairs.filter(|(from, to)| from != to).collect();
        let wanted = (ranks as usize - 1) * (usize::from(round) + 1);
        let began = Instant::now();
        while told.iter().any(|told| told.frames.len() < wanted) {
            unsent.retain(|&(from, to)| {
                post(&mut all[from as usize], to, &[round; 30]).expect("a peer") == Post::NoSpace
            });
            all.iter_mut().zip(&mut told).for_each(|(transport, told)| _ = transport.poll(told));
            assert!(began.elapsed() < Duration::from_secs(15), "not sent: {unsent:?}");
        }
    }
    let began = Instant::now();
    while all.iter().any(|transport| transport.connections() > 4) {
        all.iter_mut().zip(&mut told).for_each(|(transport, told)| _ = transport.poll(told));
        assert!(began.elapsed() < Duration::from_secs(20), "too many connections stay");
    }
    for told in &told {
        for from in 0..ranks {
            let bodies = told.frames.iter().filter(|(peer, _)| peer.0 == from);
            assert!(bodies.map(|(_, body)| usize::from(body[0])).is_sorted());
        }
        assert!(told.failed.is_empty());
    }
    assert!(all.iter().any(|transport| transport.connections_evicted() > 0));
}

/// Rank 0 wants to close its connection to rank 1 in favour of rank 2, and reads rank 1's request
/// together with its answer to the Bye: the connection stays, and the request is served.
#[test]
fn a_request_that_crosses_a_bye_is_served() {
    let settings = Settings { connections: Some(1), ..on_loopback() };
    let (mut all, mut told) = (transports(3, &settings), Vec::new());
    told.resize_with(3, Told::default);
    let memory = |len| Bytes::for_receive(Shape::Run, len);
    let (theirs, ours) = (memory(100_000), memory(100_000));
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[0].register(Peer(1), run(&theirs), Rights::Get).expect("a region");
    send(&mut all, &mut told, (0, 1), b"there");
    send(&mut all, &mut told, (1, 0), b"there");
    until(&mut all, &mut told, |told| told[0].frames.len() + told[1].frames.len() == 2);
    send(&mut all, &mut told, (1, 0), b"acknowledged");
    until(&mut all, &mut told, |told| told[0].frames.len() == 2);
    let (mut rest, mut rest_told) = (vec![all.remove(1)], vec![told.remove(1)]);
    send(&mut all, &mut told, (1, 0), b"another");
    until(&mut all, &mut told, |told| told[0].frames.len() == 3);
    assert_eq!(all[0].connections_evicted(), 1);
    std::thread::sleep(Duration::from_millis(20));
    let begun = rest[0].one_sided(Peer(0), &region, 0, OneSided::Get(run(&ours)), 1);
    assert_eq!(begun, Ok(Transfer::Started));
    for _ in 0..1000 {
        rest[0].poll(&mut rest_told[0]);
    }
    std::thread::sleep(Duration::from_millis(20));
    all.append(&mut rest);
    told.append(&mut rest_told);
    until(&mut all, &mut told, |told| told[2].transfers == [(1, true)]);
}

/// The bytes of a put arrive together with the end of the connection. Its answer is the position
/// that the next one begins with.
#[test]
fn a_put_is_complete_although_its_connection_ends() {
    let (mut all, mut told) = (transports(3, &on_loopback()), Vec::new());
    told.resize_with(3, Told::default);
    let memory = |len| Bytes::for_receive(Shape::Run, len);
    let (theirs, ours) = (memory(100), memory(100));
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Put).expect("a region");
    send(&mut all, &mut told, (0, 1), b"there");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
    // Rank 1 looks at another connection first, and knows of the end when it reads the bytes.
    send(&mut all, &mut told, (2, 1), b"there");
    until(&mut all, &mut told, |told| told[1].frames.len() == 2);
    let begun = all[0].one_sided(Peer(1), &region, 0, OneSided::Put(run(&ours)), 1);
    assert_eq!(begun, Ok(Transfer::Started));
    all[0].interrupt(Peer(1));
    std::thread::sleep(Duration::from_millis(20));
    until(&mut all, &mut told, |told| told[0].transfers == [(1, true)]);
}

/// Large messages between more processes than one connection each serves.
#[test]
fn storms_over_one_connection() {
    for seed in seed()..seed() + 4 {
        let settings = Settings { connections: Some(1), ..small() };
        let ranks = [3, 5][seed as usize % 2];
        let transports = faulty(ranks, &settings, seed, [0, 200][seed as usize / 2 % 2]);
        let mut job = job("one connection", seed, transports);
        storm(&mut job, &Weather { steps: 300, longest: 100_000, ..Weather::default() });
        let evicted: u64 =
            (0..ranks).map(|rank| job.rank(rank).transport.inner.connections_evicted()).sum();
        assert!(evicted > 0, "no connection was closed");
        job.end();
    }
}

/// A peer fails while data of gets arrives: each get ends, once. The last piece of one is mostly
/// half there.
#[test]
fn gets_end_with_their_peer() {
    for sockets in [1, 4] {
        for round in 0..20_usize {
            let settings = Settings { sockets: Some(sockets), ..on_loopback() };
            let (mut all, mut told) =
                (transports(2, &settings), vec![Told::default(), Told::default()]);
            let memory = |len| Bytes::for_receive(Shape::Run, len);
            let len = 300_000 + round * 10_000;
            let (theirs, ours) = (memory(len), memory(len));
            let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
            let region = all[1].register(Peer(0), run(&theirs), Rights::Get).expect("a region");
            let get = OneSided::Get(run(&ours));
            assert_eq!(all[0].one_sided(Peer(1), &region, 0, get, 0), Ok(Transfer::Started));
            until(&mut all, &mut told, |told| told[0].transfers == [(0, true)]);
            let gets = 1..9;
            for token in gets.clone() {
                let begun = all[0].one_sided(Peer(1), &region, 0, get, token);
                assert_eq!(begun, Ok(Transfer::Started));
            }
            for _ in 0..2 + round % 3 {
                all.iter_mut().zip(&mut told).for_each(|(rank, told)| _ = rank.poll(told));
            }
            all[0].give_up(Peer(1), "a test has ended it");
            all[0].poll(&mut told[0]);
            let mut tokens: Vec<u64> = told[0].transfers.iter().map(|(token, _)| *token).collect();
            tokens.sort_unstable();
            assert!(tokens.iter().copied().eq(0..gets.end), "round {round}: {tokens:?}");
        }
    }
}

#[test]
fn a_process_that_ends_without_notice_has_failed() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    send(&mut all, &mut told, (0, 1), b"there");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
    all.truncate(1);
    told.truncate(1);
    until(&mut all, &mut told, |told| !told[0].failed.is_empty());
    let text = told[0].failed[0].to_string();
    assert!(text.ends_with("its process has ended: it refuses connections"), "{text}");
    assert!(post(&mut all[0], 1, b"there").is_err());
}

/// The system of a process that computes takes connections, and the process answers much later
/// than a peer that cannot be reached is given up.
#[test]
fn a_process_that_computes_is_waited_for() {
    let settings = Settings { reconnect_timeout: Duration::from_secs(1), ..on_loopback() };
    let (mut all, mut told) = (transports(2, &settings), vec![Told::default(), Told::default()]);
    assert_eq!(post(&mut all[0], 1, b"first"), Ok(Post::NoSpace));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(12) {
        all[0].poll(&mut told[0]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(told[0].failed.is_empty(), "{:?}", told[0].failed);
    send(&mut all, &mut told, (0, 1), b"first");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
}

#[test]
fn a_process_that_ends_in_order_is_not_missed() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    send(&mut all, &mut told, (1, 0), b"last");
    until(&mut all, &mut told, |told| told[0].frames.len() == 1);
    while !all[1].flush() {
        all[1].poll(&mut told[1]);
    }
    all.truncate(1);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        all[0].poll(&mut told[0]);
    }
    assert!(told[0].failed.is_empty() && all[0].connections() == 0);
}

#[test]
fn what_was_flushed_arrives_after_the_process_has_ended() {
    for round in 0..20 {
        let (mut all, mut told) =
            (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
        // The receive queue of the one that ends is not empty: its system resets the connection.
        send(&mut all, &mut told, (0, 1), &[1; 100]);
        send(&mut all, &mut told, (1, 0), &[2; 20_000]);
        let mut last = all.pop().expect("two ranks");
        let began = Instant::now();
        while !last.flush() {
            last.poll(&mut told[1]);
            all[0].poll(&mut told[0]);
            assert!(began.elapsed() < Duration::from_secs(30), "round {round}");
        }
        for _ in 0..round {
            let _ = post(&mut all[0], 1, &[1; 100]);
        }
        drop(last);
        until(&mut all, &mut told[..1], |told| told[0].frames.len() == 1);
    }
}

/// As sessions do: both sides have said that they end, and then one sends more.
#[test]
fn what_was_sent_after_a_flush_arrives() {
    let mut rng = Rng::new(seed());
    for round in 0..150 {
        let (mut all, mut told) =
            (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
        send(&mut all, &mut told, (0, 1), &[1]);
        until(&mut all, &mut told, |told| told[1].frames.len() == 1);
        send(&mut all, &mut told, (1, 0), &[2]);
        until(&mut all, &mut told, |told| told[0].frames.len() == 1);
        let began = Instant::now();
        let mut flush = |all: &mut [TcpTransport], told: &mut [Told], rank: usize| {
            while !all[rank].flush() {
                all[rank].poll(&mut told[rank]);
                if rng.chance(300) {
                    all[1 - rank].poll(&mut told[1 - rank]);
                }
                assert!(began.elapsed() < Duration::from_secs(30), "round {round}");
            }
            (0..rng.below(4)).for_each(|_| _ = all[rank].poll(&mut told[rank]));
        };
        flush(&mut all, &mut told, 0);
        flush(&mut all, &mut told, 1);
        send(&mut all, &mut told, (1, 0), &[3]);
        flush(&mut all, &mut told, 1);
        drop(all.pop());
        until(&mut all, &mut told[..1], |told| told[0].frames.len() == 2);
    }
}

/// A program that is told that a frame was sent may compute for long.
#[test]
fn a_frame_is_sent_over_a_connection_alone() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    for round in 1..=2 {
        assert_eq!(post(&mut all[0], 1, b"there"), Ok(Post::NoSpace), "round {round}");
        send(&mut all, &mut told, (0, 1), b"there");
        // Rank 0 does not poll any more.
        until(&mut all[1..], &mut told[1..], |told| told[0].frames.len() == round);
        all[0].interrupt(Peer(1));
    }
}

/// One thread sleeps; what another one begins needs no poll, or wakes the sleeper.
#[test]
fn a_sleeper_learns_what_other_threads_begin() {
    let mut store = InProcessStore::default();
    let open = |rank| {
        let store = Box::new(store.clone());
        TcpTransport::open(on_loopback(), Peer(rank), 3, SECRET, store).expect("a transport")
    };
    let (mut all, mut told) = (vec![open(0), open(1)], vec![Told::default(), Told::default()]);
    store.put("tcp/2", NOWHERE).expect("a store");
    send(&mut all, &mut told, (0, 1), b"there");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
    let sleep = |all: &mut [TcpTransport], told: &mut [Told]| {
        let began = Instant::now();
        loop {
            all[0].poll(&mut told[0]);
            if let Some(WaitOn::Fd(fd)) = all[0].arm()
                && readable(&[fd], Duration::ZERO).is_empty()
            {
                return fd;
            }
            assert!(began.elapsed() < Duration::from_secs(15), "the rank does not sleep");
        }
    };
    sleep(&mut all, &mut told);
    for _ in 0..2 {
        let posted = all[0].post(Peer(1), &Header::new(Kind::Rts), 8, |slot| slot.fill(0));
        assert_eq!(posted, Ok(Post::Sent));
    }
    until(&mut all[1..], &mut told[1..], |told| told[0].frames.len() == 3);

    let fd = sleep(&mut all, &mut told);
    assert_eq!(post(&mut all[0], 2, b"there"), Ok(Post::NoSpace));
    assert_eq!(readable(&[fd], Duration::from_secs(10)), [0], "a dial wakes nobody");

    all[0].give_up(Peer(2), "a test has ended it");
    let memory = || Bytes::for_receive(Shape::Run, 50_000);
    let (theirs, ours) = (memory(), memory());
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Get).expect("a region");
    let get = OneSided::Get(run(&ours));
    assert_eq!(all[0].one_sided(Peer(1), &region, 0, get, 1), Ok(Transfer::Started));
    let fd = sleep(&mut all, &mut told);
    // Reads are short while a get is awaited: one poll does not take all of this.
    while post(&mut all[1], 0, &[5; 30_000]).expect("a peer") == Post::Sent {}
    until(&mut all[..1], &mut told[..1], |told| !told[0].frames.is_empty());
    assert_eq!(readable(&[fd], Duration::from_secs(10)), [0], "bytes that are left wake nobody");
}

/// Strangers connect, send garbage, and stay.
#[test]
fn strangers_do_no_harm() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    let address = all[0].listens_on()[0];
    let mut rng = Rng::new(seed());
    let mut open = Vec::new();
    for round in 0..400_usize {
        let mut stranger = TcpStream::connect(address).expect("the listener");
        let len = [0, 3, 52, 200][round % 4];
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        if round % 3 == 0 && len >= 52 {
            // Plausible: the start of a Hello of rank 1 to rank 0.
            bytes[..12].copy_from_slice(b"vrt\x01\x01\0\0\0\0\0\0\0");
        }
        let _ = stranger.write_all(&bytes);
        if round % 2 == 0 {
            open.push(stranger);
        }
        if round % 20 == 0 {
            send(&mut all, &mut told, (1, 0), &[7; 8]);
        }
        for _ in 0..3 {
            all[0].poll(&mut told[0]);
            all[1].poll(&mut told[1]);
        }
    }
    until(&mut all, &mut told, |told| told[0].frames.len() == 20);
    assert!(told[0].frames.iter().all(|(from, body)| *from == Peer(1) && body == &[7; 8]));
    assert!(told.iter().all(|told| told.failed.is_empty()));
    // One that recorded nothing but the port gets no answer that it could use.
    let mut stranger = TcpStream::connect(address).expect("the listener");
    stranger.write_all(&[0; 52]).expect("a fresh connection");
    stranger.set_read_timeout(Some(Duration::from_millis(10))).expect("a socket");
    let mut answer = [0; 1];
    let mut closed = false;
    for _ in 0..500 {
        all[0].poll(&mut told[0]);
        closed |= !matches!(stranger.read(&mut answer), Err(error)
            if error.kind() == std::io::ErrorKind::WouldBlock);
        if closed {
            break;
        }
    }
    assert!(closed, "the connection is still open");
}

/// A process that knows another secret reaches nothing.
#[test]
fn another_job_is_refused() {
    let store = InProcessStore::default();
    let open = |rank, secret| {
        let store = Box::new(store.clone());
        TcpTransport::open(on_loopback(), Peer(rank), 2, secret, store).expect("a transport")
    };
    let mut all = [open(0, SECRET), open(1, [9; 32])];
    let mut told = [Told::default(), Told::default()];
    let _ = (post(&mut all[0], 1, b"secret"), post(&mut all[1], 0, b"secret"));
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        for (transport, told) in all.iter_mut().zip(&mut told) {
            transport.poll(told);
        }
    }
    assert!(told.iter().all(|told| told.frames.is_empty()));
    assert!(all.iter().all(|transport| transport.connections() == 0));
}

/// A get of memory that is not registered is refused, and the peer is alive.
#[test]
fn a_get_needs_a_registration() {
    let (mut all, mut told) =
        (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
    let memory = |len| Bytes::for_receive(Shape::Run, len);
    let (theirs, ours) = (memory(1000), memory(100));
    let run = |bytes: &Bytes| bytes.buffer().memory().expect("one run");
    let region = all[1].register(Peer(0), run(&theirs), Rights::Get).expect("a region");
    let get = OneSided::Get(run(&ours));
    for (at, token, is_right) in [(900, 1, true), (901, 2, false), (u64::MAX, 3, false)] {
        let begun = all[0].one_sided(Peer(1), &region, at, get, token);
        assert_eq!(begun, Ok(Transfer::Started));
        until(&mut all, &mut told, |told| told[0].transfers.last() == Some(&(token, is_right)));
    }
    all[1].release(Peer(0), region);
    assert_eq!(all[0].one_sided(Peer(1), &region, 0, get, 4), Ok(Transfer::Started));
    until(&mut all, &mut told, |told| told[0].transfers.last() == Some(&(4, false)));
    assert_eq!(post(&mut all[0], 1, b"still"), Ok(Post::Sent));
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
}
