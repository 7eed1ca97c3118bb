//! Dynamically connected transport: peers without a connection are read, written and changed
//! through their targets.

use std::time::{Duration, Instant};

use config::{DynamicTransport, Rendezvous};
use fabric::{
    Body, Header, OneSided, Peer, PeerFailed, Region, Rights, Sink, Transfer, Transport, UserBuf,
};
use tests::bytes::{Bytes, Shape};
use tests::conformance::{Job, one_sided, storm};
use verbs_transport::{Settings, VerbsTransport};

use crate::stand_in::{LIMIT, SEED, alone, faulty, settings, transports, weather};

/// More peers than a process has initiators.
const RANKS: usize = 12;
const BYTES: usize = 200_000;

/// Settings with which no message makes a connection.
fn dynamic() -> Settings {
    Settings { dynamic: DynamicTransport::On, connect_after: u32::MAX, ..settings() }
}

/// Counts operations that end.
#[derive(Default)]
struct Ended(usize);

impl Sink for Ended {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}

    fn transferred(&mut self, _: u64, outcome: Result<(), PeerFailed>) {
        outcome.expect("the peer is there");
        self.0 += 1;
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// Memory of a process that all others access.
fn memory(fill: u8) -> Bytes {
    Bytes::new(Shape::Run, &vec![fill; BYTES])
}

fn buffer(of: &Bytes) -> UserBuf {
    of.buffer().memory().expect("one run")
}

/// Begins an operation of the first process as soon as there is space.
fn begin(ends: &mut [VerbsTransport], to: usize, region: &Region, at: u64, what: OneSided) {
    let began = Instant::now();
    while ends[0].one_sided(Peer(to as u32), region, at, what, 1) != Ok(Transfer::Started) {
        ends.iter_mut().for_each(|end| _ = end.poll(&mut Ended::default()));
        assert!(began.elapsed() < LIMIT, "{}", ends[0].explain());
    }
}

/// Polls until so many operations of the first process have ended.
fn wait(ends: &mut [VerbsTransport], ended: &mut Ended, count: usize) {
    let began = Instant::now();
    while ended.0 < count {
        ends[0].poll(ended);
        ends[1..].iter_mut().for_each(|end| _ = end.poll(&mut Ended::default()));
        assert!(began.elapsed() < LIMIT, "{} of {count}: {}", ended.0, ends[0].explain());
    }
}

/// A device acknowledges writes long before they are in memory. An operation ends only then.
#[test]
fn many_peers_are_written_and_read_without_a_connection() {
    let name = "dynamic::many_peers_are_written_and_read_without_a_connection";
    alone(name, "dc=1 place=50000 early=1", || {
        let mut ends = transports(RANKS as u32, &dynamic());
        let targets: Vec<Bytes> = (0..RANKS).map(|_| memory(0)).collect();
        let regions: Vec<Region> = (1..RANKS)
            .map(|rank| ends[rank].register(Peer(0), buffer(&targets[rank]), Rights::All))
            .map(|region| region.expect("a region"))
            .collect();
        for round in 1..=3 {
            let (source, mut ended) = (memory(round), Ended::default());
            for (rank, region) in (1..).zip(&regions) {
                begin(&mut ends, rank, region, 0, OneSided::Put(buffer(&source)));
            }
            wait(&mut ends, &mut ended, RANKS - 1);
            for target in &targets[1..] {
                assert!(target.read().iter().all(|&byte| byte == round), "not in memory");
            }
            let copies: Vec<Bytes> = (1..RANKS).map(|_| memory(0)).collect();
            for ((rank, region), copy) in (1..).zip(&regions).zip(&copies) {
                begin(&mut ends, rank, region, 0, OneSided::Get(buffer(copy)));
            }
            wait(&mut ends, &mut ended, 2 * (RANKS - 1));
            for copy in &copies {
                assert!(copy.read().iter().all(|&byte| byte == round), "other bytes were read");
            }
        }
        assert_eq!(ends[0].dynamic_operations(), Some([6 * (RANKS as u64 - 1), 0]));
        assert_eq!(ends[0].connections(), 0, "a peer has a connection");
    });
}

/// One peer has operations without end. Those of all others end meanwhile.
#[test]
fn endpoints_take_turns_at_initiators() {
    alone("dynamic::endpoints_take_turns_at_initiators", "dc=1", || {
        const EACH: usize = 100;
        let mut ends = transports(RANKS as u32, &dynamic());
        let (targets, source) = ((0..RANKS).map(|_| memory(0)).collect::<Vec<_>>(), memory(1));
        let mut ended = Ended::default();
        for (rank, target) in targets.iter().enumerate().skip(1) {
            let region = ends[rank].register(Peer(0), buffer(target), Rights::Put).expect("one");
            for at in 0..EACH {
                let part = OneSided::Put(buffer(&source).slice(at * 8, 8));
                begin(&mut ends, rank, &region, at as u64 * 8, part);
            }
        }
        wait(&mut ends, &mut ended, EACH * (RANKS - 1));
        for target in &targets[1..] {
            assert!(target.read()[..8 * EACH].iter().all(|&byte| byte == 1), "bytes are missing");
        }
        assert_eq!(ends[0].connections(), 0, "a peer has a connection");
    });
}

#[test]
fn words_are_changed_without_a_connection() {
    alone("dynamic::words_are_changed_without_a_connection", "dc=1 late=300", || {
        for ranks in [2, 4] {
            one_sided(SEED, transports(ranks, &dynamic()));
        }
    });
}

/// A process without a target is reached as before.
#[test]
fn peers_without_a_target_get_connections() {
    alone("dynamic::peers_without_a_target_get_connections", "dc=1", || {
        let off = Settings { dynamic: DynamicTransport::Off, ..dynamic() };
        let mut ends = transports(1, &dynamic());
        ends.truncate(0);
        let store = verbs_transport::InProcessStore::default();
        for (rank, settings) in [dynamic(), off].into_iter().enumerate() {
            let store = Box::new(store.clone());
            let end = VerbsTransport::open(settings, Peer(rank as u32), 2, [3; 32], store);
            ends.push(end.expect("a transport"));
        }
        assert_eq!(ends[1].dynamic_operations(), None);
        let (target, source) = (memory(0), memory(1));
        let region = ends[1].register(Peer(0), buffer(&target), Rights::Put).expect("a region");
        begin(&mut ends, 1, &region, 0, OneSided::Put(buffer(&source)));
        wait(&mut ends, &mut Ended::default(), 1);
        assert!(target.read().iter().all(|&byte| byte == 1), "bytes are missing");
        assert!(ends[0].is_connected(Peer(1)), "the peer has no connection");
    });
}

/// Storms in which initiators fail: their operations go on through connections, and the targets
/// are used again.
#[test]
fn initiators_fail() {
    let options = "dc=1 loss=3000 broken=2000 place=1000 early=1 late=500 lots=200";
    alone("dynamic::initiators_fail", options, || {
        let mut sum = [0; 2];
        for (connections, connect_after, rendezvous) in [
            (1, u32::MAX, Rendezvous::Read),
            (1, 3, Rendezvous::Write),
            (2, 1, Rendezvous::Read),
            (3, 0, Rendezvous::Write),
        ] {
            let few = Settings {
                connections,
                connect_after,
                rendezvous,
                ack_timeout: 8,
                retries: 6,
                eager_rdma_threshold: 4,
                eager_max: 2000,
                get_min: 3000,
                ..dynamic()
            };
            let mut job = Job::new("initiators fail", SEED, faulty(5, &few, 10));
            job.nap(Duration::from_millis(100));
            storm(&mut job, &weather(250));
            for rank in 0..5 {
                let ended = job.rank(rank).transport.inner.dynamic_operations();
                let ended = ended.expect("dynamically connected transport");
                sum.iter_mut().zip(ended).for_each(|(sum, count)| *sum += count);
            }
            job.end();
        }
        println!("{} operations ended, {} initiators failed", sum[0], sum[1]);
        assert!(sum[0] > 0 && sum[1] > 0, "{sum:?}");
    });
}
