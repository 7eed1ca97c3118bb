//! The verbs transport on the stand-in device (`verbs-device`): what real adapters do and Soft-RoCE
//! never shows. Each test runs in a process of its own, with options of its own for the device.

#[path = "verbs/by_device.rs"]
mod by_device;
#[path = "verbs/downed.rs"]
mod downed;
#[path = "verbs/dynamic.rs"]
mod dynamic;
#[path = "verbs/ended.rs"]
mod ended;
#[path = "verbs/faulty.rs"]
mod faulty;
#[path = "verbs/full_queue.rs"]
mod full_queue;
#[path = "verbs/given_up.rs"]
mod given_up;
#[path = "verbs/late_writes.rs"]
mod late_writes;
#[path = "verbs/locked_memory.rs"]
mod locked_memory;
#[path = "verbs/many_peers.rs"]
mod many_peers;
#[path = "verbs/moved.rs"]
mod moved;
#[path = "verbs/own_atomics.rs"]
mod own_atomics;
#[path = "verbs/path_mtu.rs"]
mod path_mtu;
#[path = "verbs/pinned.rs"]
mod pinned;
#[path = "verbs/refused.rs"]
mod refused;
#[path = "verbs/secondary.rs"]
mod secondary;
#[path = "verbs/seeds.rs"]
mod seeds;
#[path = "verbs/shares.rs"]
mod shares;
#[path = "verbs/stand_in.rs"]
mod stand_in;
#[path = "verbs/unreachable.rs"]
mod unreachable;

use std::path::Path;
use std::time::{Duration, Instant};

use config::Rendezvous;
use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Rights, Sink, Transfer, Transport, WaitOn,
};
use tests::conformance::{Job, Weather, one_sided, storm};
use tests::device;
use verbs_transport::{InProcessStore, Port, Rails, Selection, Settings, VerbsTransport};

use stand_in::{
    LIMIT, SEED, alone, alone_by_seed, control, faulty, library, settings, stormy, transports,
    weather,
};

#[test]
fn forks_are_prepared_only_where_the_kernel_does_not_copy() {
    let name = "forks_are_prepared_only_where_the_kernel_does_not_copy";
    alone(name, "copies=2", || {
        Port::choose(&settings()).expect("a port");
        assert_eq!(device::number(&library(), c"verbs_device_fork_inits"), 0);
    });
}

#[test]
fn forks_are_prepared_where_the_kernel_does_not_copy() {
    alone("forks_are_prepared_where_the_kernel_does_not_copy", "copies=0", || {
        Port::choose(&settings()).expect("a port");
        assert_eq!(device::number(&library(), c"verbs_device_fork_inits"), 1);
    });
}

#[test]
fn devices_of_other_kinds_are_passed_over() {
    let options = "devices=wire0/iwarp,elastic0/efa,stand0/roce";
    alone("devices_of_other_kinds_are_passed_over", options, || {
        assert_eq!(Port::choose(&settings()).expect("a port").device, "stand0");
        let named = Settings { device: Some("wire0".into()), ..settings() };
        let why = Port::choose(&named).expect_err("no InfiniBand").to_string();
        assert!(why.contains("wire0 is iWARP"), "{why}");
    });
}

/// Returns the ports that settings choose, and the reason.
fn selected(change: impl FnOnce(&mut Settings)) -> (Vec<String>, String) {
    let mut settings = settings();
    change(&mut settings);
    let Selection { ports, reason, .. } = Selection::new(&settings).expect("ports");
    let ports = ports.iter().map(|port| format!("{}:{}", port.device, port.number)).collect();
    (ports, reason.unwrap_or_default())
}

#[test]
fn ports_are_chosen_by_network_and_list() {
    let options = "devices=eth0/roce,stand0/ib,stand1/ib ports=2";
    alone("ports_are_chosen_by_network_and_list", options, || {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        // The network with the most bandwidth; the ranks of a host take turns.
        let (ports, reason) = selected(|_| ());
        assert_eq!(ports, ["stand0:1", "stand0:2"]);
        assert!(reason.contains("not eth0:1, eth0:2 (in another network)"), "{reason}");
        assert!(reason.contains("not stand1:1, stand1:2 (verbs.max_rails = 2)"), "{reason}");
        let (ports, _) = selected(|settings| (settings.local_rank, settings.max_rails) = (3, 3));
        assert_eq!(ports, ["stand1:2", "stand0:1", "stand0:2"]);
        for (text, expected) in [
            ("stand1:2", &["stand1:2"][..]),
            ("eth0", &["eth0:1"]),
            ("stand*:2", &["stand0:2", "stand1:2"]),
            ("^stand?", &["eth0:1", "eth0:2"]),
            ("stand0:1,stand1:2", &["stand0:1", "stand1:2"]),
            ("stand0:1,eth0:2", &["stand0:1", "eth0:2"]),
        ] {
            let (ports, _) = selected(|settings| settings.devices = list(text));
            assert_eq!(ports, expected, "{text}");
        }
        let (ports, _) = selected(|settings| {
            (settings.devices, settings.local_rank) = (list("stand0:1,stand1:2"), 1);
        });
        assert_eq!(ports, ["stand1:2", "stand0:1"]);
        for (text, word) in
            [("stand7", "stand7"), ("^*", "excludes"), ("stand0:3", "must be 1 to 2")]
        {
            let settings = Settings { devices: list(text), ..settings() };
            let why = Selection::new(&settings).expect_err("no port").to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
    });
}

/// The first device is of the network that is taken, but lacks what every transport needs.
#[test]
fn adapters_without_shared_receive_queues_are_passed_over() {
    let options = "devices=eth0/roce,stand0/ib lacks_srq=eth0";
    alone("adapters_without_shared_receive_queues_are_passed_over", options, || {
        let (ports, reason) = selected(|_| ());
        assert_eq!(ports, ["stand0:1"]);
        assert!(reason.contains("eth0 has no shared receive queues"), "{reason}");
        let named = Settings { device: Some("eth0".into()), ..settings() };
        let why = Selection::new(&named).expect_err("no port").to_string();
        assert!(why.contains("eth0 has no shared receive queues"), "{why}");
    });
}

/// Devices fail that look usable: the next port is taken, then the next network.
#[test]
fn another_port_is_opened_if_the_first_one_fails() {
    let options = "devices=eth0/roce,eth1/roce,stand0/ib";
    let open = |settings: Settings| {
        Rails::open(settings, Peer(0), 2, [3; 32], Box::new(InProcessStore::default()))
    };
    let devices =
        |rails: &Rails| -> Vec<String> { rails.ports().map(|port| port.device.clone()).collect() };
    let name = "another_port_is_opened_if_the_first_one_fails";
    alone_by_seed(name, 1, &format!("{options} refuses_srq=eth0"), || {
        let rails = open(settings()).expect("the other port of the network");
        assert_eq!(devices(&rails), ["eth1"]);
        let reason = rails.reason().expect("a reason");
        assert!(reason.contains("not eth0:1 (the RDMA device eth0 cannot be used"), "{reason}");
        for devices in [vec!["eth0".into()], vec!["eth1".into(), "eth0".into()]] {
            let named = open(Settings { devices, ..settings() });
            let why = named.err().expect("a named port must work").to_string();
            assert!(why.contains("the RDMA device eth0 cannot be used"), "{why}");
        }
    });
    alone_by_seed(name, 2, &format!("{options} refuses_srq=eth0,eth1"), || {
        let rails = open(settings()).expect("the port of the other network");
        assert_eq!(devices(&rails), ["stand0"]);
        let reason = rails.reason().expect("a reason");
        assert!(reason.contains("not eth0:1") && reason.contains("not eth1:1"), "{reason}");
    });
    alone_by_seed(name, 3, &format!("{options} refuses_srq=eth0,eth1,stand0"), || {
        let why = open(settings()).err().expect("no port works").to_string();
        assert!(why.contains("the RDMA device eth0 cannot be used"), "{why}");
    });
}

/// A library before version 32 does not tell the type of a GID: sysfs does.
#[test]
fn old_libraries_find_the_same_gids() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("old-library");
    for device in ["stand0", "eth0"] {
        let types = root.join(device).join("ports/1/gid_attrs/types");
        std::fs::create_dir_all(&types).expect("a folder");
        for (index, name) in (0..).zip(["IB/RoCE v1\n", "RoCE v2\n"].repeat(2)) {
            std::fs::write(types.join(format!("{index}")), name).expect("a file");
        }
    }
    let options = format!("devices=stand0/ib,eth0/roce sysfs={}", root.display());
    alone("old_libraries_find_the_same_gids", &options, || {
        for (device, count) in [("stand0", 1), ("eth0", 4)] {
            let named = Settings { device: Some(device.into()), ..settings() };
            let port = Port::choose(&named).expect("a port");
            for index in 0..count {
                let [now, old] = [port.context.gid(1, index), port.context.gid_by_sysfs(1, index)]
                    .map(|entry| entry.expect("a table").expect("an entry"));
                assert_eq!((now.gid, now.gid_type), (old.gid, old.gid_type), "{device} {index}");
            }
        }
    });
}

/// Processes of a host that sleep are woken by different processors.
#[test]
fn processes_take_turns_at_completion_vectors() {
    alone("processes_take_turns_at_completion_vectors", "vectors=3", || {
        for local_rank in [1, 2, 4] {
            transports(1, &Settings { local_rank, ..settings() });
        }
        assert_eq!(device::number(&library(), c"verbs_device_vectors"), 1 << 1 | 1 << 2);
    });
}

/// Returns transports over all ports, with the primary one in turns.
fn rails(ranks: u32, settings: &Settings) -> Vec<Rails> {
    let store = InProcessStore::default();
    let open = |rank| {
        let settings = Settings { max_rails: 4, local_rank: rank, ..settings.clone() };
        Rails::open(settings, Peer(rank), ranks, [3; 32], Box::new(store.clone()))
            .expect("a transport")
    };
    (0..ranks).map(open).collect()
}

/// Two ports of one device, whose addresses change both: no port takes the events of the other one.
#[test]
fn each_port_of_a_device_gets_its_events() {
    alone("each_port_of_a_device_gets_its_events", "devices=stand0/roce ports=2", || {
        let mut rails = rails(2, &settings());
        let addresses = |rails: &[Rails]| -> Vec<_> {
            rails.iter().flat_map(Rails::ports).map(|port| port.address).collect()
        };
        let before = addresses(&rails);
        assert_eq!(before.len(), 4);
        control("move=1 move=2");
        let began = Instant::now();
        while addresses(&rails).iter().zip(&before).any(|(now, before)| now == before) {
            assert!(began.elapsed() < LIMIT / 10, "{before:?}, now {:?}", addresses(&rails));
            for rails in &mut rails {
                rails.poll(&mut Frames(0));
                let _ = rails.arm();
                std::thread::sleep(Duration::from_millis(1));
                rails.disarm();
            }
        }
    });
}

/// Large reads and writes over all ports, with writes that are placed late.
#[test]
fn large_transfers_are_striped() {
    let options = "devices=stand0/ib,stand1/ib ports=2 place=1000 early=1";
    alone("large_transfers_are_striped", options, || {
        for rendezvous in [Rendezvous::Read, Rendezvous::Write] {
            let settings = Settings { rendezvous, connect_after: 0, ..settings() };
            let mut job = Job::new("several rails", SEED, rails(3, &settings));
            job.nap(Duration::from_millis(100));
            storm(&mut job, &Weather { steps: 60, longest: 1 << 20, ..Weather::default() });
            job.end();
        }
    });
}

/// Each of two ports carries half of a large transfer. Writes are acknowledged before they are in
/// memory, but a write through a secondary port is not complete before it is there.
#[test]
fn ports_share_the_bytes() {
    let options = "devices=stand0/ib,stand1/ib place=200000 early=1";
    alone("ports_share_the_bytes", options, || {
        const BYTES: usize = 1 << 20;
        #[derive(Default)]
        struct Counts {
            frames: usize,
            ended: usize,
        }
        impl Sink for Counts {
            fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
                self.frames += 1;
            }
            fn transferred(&mut self, _: u64, outcome: Result<(), PeerFailed>) {
                outcome.expect("the peer is there");
                self.ended += 1;
            }
            fn peer_failed(&mut self, failure: PeerFailed) {
                panic!("{failure}");
            }
        }
        let [mut ours, mut theirs] = <[_; 2]>::try_from(rails(2, &settings())).ok().expect("two");
        let bytes = |fill| tests::bytes::Bytes::new(tests::bytes::Shape::Run, &vec![fill; BYTES]);
        let (target, copy) = (bytes(0), bytes(0));
        let memory = |of: &tests::bytes::Bytes| of.buffer().memory().expect("one run");
        let region = theirs.register(Peer(0), memory(&target), Rights::All).expect("a region");
        let (mut recorded, mut other) = (Counts::default(), Counts::default());
        let began = Instant::now();
        // Begins a transfer, waits for its end, and sends a frame after it.
        let mut transfer = |what: OneSided| -> u64 {
            let before = (ours.bytes_on_secondary_ports(), recorded.ended, other.frames);
            let mut poll = |ours: &mut Rails| {
                ours.poll(&mut recorded);
                theirs.poll(&mut other);
                assert!(began.elapsed() < LIMIT, "a transfer does not end");
                (recorded.ended, other.frames)
            };
            while ours.one_sided(Peer(1), &region, 0, what, 1) != Ok(Transfer::Started) {
                poll(&mut ours);
            }
            while poll(&mut ours).0 == before.1 {}
            let header = Header::new(Kind::Data);
            while ours.post(Peer(1), &header, 0, |_| ()) != Ok(Post::Sent) {
                poll(&mut ours);
            }
            while poll(&mut ours).1 == before.2 {}
            ours.bytes_on_secondary_ports() - before.0
        };
        let mut shared = 0;
        for round in 1..=20 {
            let source = bytes(round);
            let written = transfer(OneSided::Put(memory(&source)));
            assert!(target.read().iter().all(|&byte| byte == round), "round {round}");
            let read = transfer(OneSided::Get(memory(&copy)));
            assert!(copy.read().iter().all(|&byte| byte == round), "round {round}");
            // The first ones find a secondary port that is not connected yet.
            let half = BYTES as u64 / 2;
            assert!([written, read].iter().all(|bytes| [0, half].contains(bytes)));
            let is_shared = written == half && read == half;
            assert!(is_shared || shared == 0, "round {round}: {written} and {read} bytes");
            shared += usize::from(is_shared);
        }
        assert!(shared > 0, "nothing was shared");
    });
}

#[test]
fn limited_members_meet_where_they_are_full_members() {
    alone("limited_members_meet_where_they_are_full_members", "pkeys=7fff,8001", || {
        stormy(2, &settings(), 0, 100);
    });
}

#[test]
fn networks_with_route_headers() {
    alone("networks_with_route_headers", "devices=stand0/grh", || {
        stormy(2, &settings(), 0, 200);
    });
}

/// Adapters take receives in advance. A queue pair that is destroyed too early takes them with it,
/// and after some connections none is left.
#[test]
fn receives_outlive_connections() {
    alone("receives_outlive_connections", "prefetch=3 late=3000", || {
        let small = Settings { credits: 4, eager_rdma_peers: 0, ..settings() };
        stormy(2, &small, 12, 600);
    });
}

#[test]
fn refused_receives_are_posted_again() {
    alone("refused_receives_are_posted_again", "refuse=300000", || {
        let small = Settings { credits: 4, ..settings() };
        stormy(3, &small, 0, 300);
    });
}

#[test]
fn sends_overtake_writes() {
    alone("sends_overtake_writes", "place=3000 overtake=1", || {
        for credits in [4, 32] {
            let often = Settings { eager_rdma_threshold: 0, credits, ..settings() };
            let written = stormy(3, &often, 0, 400);
            assert!(written > 0, "nothing was written");
            stormy(3, &often, 40, 400);
        }
    });
}

#[test]
fn completions_come_late_and_in_lots() {
    alone("completions_come_late_and_in_lots", "late=2000 lots=500 rnr=20000 prefetch=2", || {
        for ranks in [2, 4] {
            stormy(ranks, &Settings { eager_rdma_threshold: 0, ..settings() }, 0, 300);
        }
        one_sided(SEED, transports(2, &settings()));
    });
}

/// Tests the suite: a rank that would not sleep is not at rest, however long nothing arrives.
#[test]
fn processes_poll_for_long_before_they_sleep() {
    alone("processes_poll_for_long_before_they_sleep", "late=30000", || {
        let mut ends = faulty(2, &settings(), 0);
        ends.iter_mut().for_each(|end| end.polls_before_sleep = 50_000);
        let mut job = Job::new("long polls", SEED, ends);
        job.nap(Duration::from_millis(100));
        storm(&mut job, &weather(100));
        job.end();
    });
}

#[test]
fn packets_are_lost_and_queue_pairs_fail() {
    let options = "loss=5000 broken=3000 place=1000 prefetch=2 late=500";
    alone("packets_are_lost_and_queue_pairs_fail", options, || {
        let quick = Settings { ack_timeout: 8, retries: 6, eager_rdma_threshold: 0, ..settings() };
        stormy(3, &quick, 0, 400);
    });
}

#[test]
fn datagrams_are_lost_and_come_late() {
    let options = "loss=50000 late=2000 lots=500 refuse=100000";
    alone("datagrams_are_lost_and_come_late", options, || {
        let copied =
            Settings { connect_after: u32::MAX, rendezvous: Rendezvous::Copy, ..settings() };
        for ranks in [2, 4] {
            stormy(ranks, &copied, 0, 300);
        }
    });
}

/// Peers get connections and lose them, by traffic, faults, and operations that need one.
#[test]
fn few_connections_change_hands() {
    let options = "loss=3000 broken=1000 prefetch=2 late=500 rnr=2000";
    alone("few_connections_change_hands", options, || {
        for (connections, connect_after, every) in [(1, 0, 0), (1, 3, 30), (2, 1, 0), (3, 0, 60)] {
            let few = Settings {
                connections,
                connect_after,
                ack_timeout: 8,
                retries: 6,
                eager_rdma_threshold: 4,
                ..settings()
            };
            stormy(5, &few, every, 250);
        }
    });
}

/// Runs so many rounds in which all ranks send 8 bytes to all others. Returns the time of each
/// round and the connections of all ranks.
fn all_to_all(ranks: u32, settings: &Settings, rounds: usize) -> (Duration, u32) {
    let mut ends = transports(ranks, settings);
    let mut began = Instant::now();
    let mut sinks: Vec<Frames> = (0..ranks).map(|_| Frames::default()).collect();
    let header = Header::new(Kind::Data);
    for round in 0..rounds + 3 {
        if round == 3 {
            // Without what is done once.
            began = Instant::now();
        }
        let mut left: Vec<Vec<u32>> =
            (0..ranks).map(|me| (1..ranks).map(|step| (me + step) % ranks).collect()).collect();
        let expected = (round + 1) * (ranks as usize - 1);
        while left.iter().any(|left| !left.is_empty()) || sinks.iter().any(|sink| sink.0 < expected)
        {
            for ((end, sink), left) in ends.iter_mut().zip(&mut sinks).zip(&mut left) {
                left.retain(|&peer| {
                    let posted = end.post(Peer(peer), &header, 8, |slot| slot.fill(7));
                    posted.expect("a peer") == Post::NoSpace
                });
                end.poll(sink);
            }
            assert!(began.elapsed() < LIMIT, "round {round} does not end");
        }
    }
    let time = began.elapsed() / rounds as u32;
    (time, ends.iter().map(VerbsTransport::connections).sum())
}

#[test]
fn a_limit_of_connections_costs_little() {
    alone("a_limit_of_connections_costs_little", "", || {
        let [mut all, mut few] = [Duration::MAX; 2];
        for _ in 0..3 {
            let (time, connections) = all_to_all(16, &settings(), 40);
            assert_eq!(connections, 16 * 15);
            all = all.min(time);
            let limited = Settings { connections: 2, ..settings() };
            let (time, connections) = all_to_all(16, &limited, 40);
            assert!(connections <= 16 * 2, "{connections} connections");
            few = few.min(time);
        }
        println!("8 bytes among 16 ranks: {all:?}; with 2 connections each {few:?}");
        // Far from what a connection for each message would take, on any machine.
        assert!(few < 5 * all, "{few:?} with 2 connections, {all:?} without a limit");
    });
}

#[test]
fn memory_does_not_grow_with_peers() {
    const MIB: usize = 1 << 20;
    alone("memory_does_not_grow_with_peers", "", || {
        for size in [2, 1000, 10_000] {
            let store = Box::new(InProcessStore::default());
            let transport = VerbsTransport::open(settings(), Peer(0), size, [3; 32], store);
            let [now, most] = transport.expect("a transport").pinned_bytes();
            println!("{size} processes: {now} bytes pinned at start, at most {most}");
            assert!(now <= 16 * MIB && most <= 64 * MIB, "{now} bytes at start, at most {most}");
        }
    });
}

/// Counts frames, and nothing else may happen.
#[derive(Default)]
struct Frames(usize);

impl Sink for Frames {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
        self.0 += 1;
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// Checks numbered frames, whose bodies are their numbers.
#[derive(Default)]
struct Numbered(u64);

impl Sink for Numbered {
    fn frame(&mut self, _: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        assert_eq!(header.length, self.0, "not the next frame");
        body.for_each_chunk(body.len(), |_, part| {
            assert!(part.iter().all(|&byte| u64::from(byte) == self.0), "another frame's body");
        })
        .unwrap();
        self.0 += 1;
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// A connection sends frames again that have arrived by datagrams meanwhile. Their slots must keep
/// them until the device has sent them: here all are lost at first.
#[test]
fn acknowledged_frames_are_kept_while_the_device_sends_them() {
    alone("acknowledged_frames_are_kept_while_the_device_sends_them", "", || {
        const FRAMES: u64 = 8;
        let quick = Settings { connect_after: 1, ack_timeout: 8, ..settings() };
        let [mut from, mut to] = <[_; 2]>::try_from(transports(2, &quick)).ok().expect("two");
        let (mut none, mut frames) = (Numbered::default(), Numbered::default());
        let began = Instant::now();
        let mut next = 0;
        let mut post_until = |from: &mut VerbsTransport, end: u64| {
            while next < end {
                // Longer than what a request carries itself, and one packet.
                let header = Header { length: next, ..Header::new(Kind::Data) };
                let posted = from.post(Peer(1), &header, 800, |slot| slot.fill(next as u8));
                match posted.expect("a peer") {
                    Post::Sent => next += 1,
                    Post::NoSpace => return false,
                }
            }
            true
        };
        // The first frame requests a connection, whose reply comes before the acknowledgement of
        // the others.
        while !post_until(&mut from, FRAMES) {
            from.poll(&mut none);
        }
        while frames.0 < FRAMES {
            to.poll(&mut frames);
            assert!(began.elapsed() < LIMIT, "{} frames have arrived", frames.0);
        }
        (0..100).for_each(|_| _ = to.poll(&mut frames));
        control("loss=1000000");
        while !from.is_connected(Peer(1)) {
            from.poll(&mut none);
            assert!(began.elapsed() < LIMIT, "there is no connection");
        }
        (0..100).for_each(|_| _ = from.poll(&mut none));
        post_until(&mut from, 2 * FRAMES);
        control("loss=0");
        while frames.0 < 2 * FRAMES || !post_until(&mut from, 2 * FRAMES) {
            from.poll(&mut none);
            to.poll(&mut frames);
            assert!(began.elapsed() < LIMIT, "{} frames have arrived", frames.0);
        }
    });
}

/// Sends a frame from one end to the other.
fn exchange(ends: &mut [VerbsTransport], from: usize, limit: Duration) {
    let (began, to) = (Instant::now(), 1 - from);
    let mut sinks = [Frames::default(), Frames::default()];
    let header = Header::new(Kind::Data);
    let mut is_sent = false;
    while sinks[to].0 == 0 {
        assert!(began.elapsed() < limit, "nothing arrives from rank {from}");
        if !is_sent {
            let post = ends[from].post(Peer(to as u32), &header, 0, |_| ());
            is_sent = post.expect("a peer") == Post::Sent;
        }
        for (end, sink) in ends.iter_mut().zip(&mut sinks) {
            end.poll(sink);
            // As a process that waits: events are looked at before a sleep.
            let _ = matches!(end.arm(), Some(WaitOn::Fd(_)));
            end.disarm();
        }
    }
}

fn ports_move(name: &str, options: &str) {
    alone(name, options, || {
        let store = InProcessStore::default();
        let names = ["stand0", "stand1"];
        let open = |rank: usize| {
            let settings = Settings { device: Some(names[rank].into()), ..settings() };
            let store = Box::new(store.clone());
            VerbsTransport::open(settings, Peer(rank as u32), 2, [3; 32], store)
        };
        let mut ends = [0, 1].map(|rank| open(rank).expect("a transport"));
        // Before the first contact, between frames, and both at once.
        let limit = Duration::from_secs(30);
        for moved in ["stand1", "stand1", "stand0"] {
            control(&format!("device={moved} move=1"));
            exchange(&mut ends, 0, limit);
            exchange(&mut ends, 1, limit);
        }
        control("move=1");
        exchange(&mut ends, 1, limit);
        exchange(&mut ends, 0, limit);
    });
}

#[test]
fn peers_learn_new_lids() {
    ports_move("peers_learn_new_lids", "devices=stand0/ib,stand1/ib");
}

#[test]
fn peers_learn_new_gids() {
    ports_move("peers_learn_new_gids", "devices=stand0/roce,stand1/roce");
}

/// A port gets a second address, whose entry of the table comes first: the former one stays in use,
/// and no connection is closed. When the former one is gone, another one is taken.
#[test]
fn an_address_that_is_added_replaces_none() {
    alone("an_address_that_is_added_replaces_none", "devices=stand0/roce", || {
        let mut ends = transports(2, &Settings { connect_after: 0, ..settings() });
        let limit = Duration::from_secs(10);
        let exchange_both = |ends: &mut [VerbsTransport]| {
            for from in [0, 1] {
                exchange(ends, from, limit);
            }
        };
        while !ends[0].is_connected(Peer(1)) {
            exchange_both(&mut ends);
        }
        let address = |ends: &[VerbsTransport]| {
            ends.iter().map(|end| (end.port().address, end.port().gid_index)).collect::<Vec<_>>()
        };
        let before = address(&ends);
        control("second=1");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(200) {
            exchange_both(&mut ends);
            assert!(ends.iter().all(|end| end.connections() == 1), "a connection is closed");
        }
        assert_eq!(address(&ends), before);
        control("move=1");
        while address(&ends).iter().zip(&before).any(|(now, before)| now == before) {
            assert!(began.elapsed() < limit, "the port keeps an address that is gone");
            exchange_both(&mut ends);
        }
    });
}

#[test]
fn a_port_is_queried_only_after_silence() {
    alone("a_port_is_queried_only_after_silence", "", || {
        let queries = || device::number(&library(), c"verbs_device_port_queries");
        let mut ends = transports(2, &settings());
        exchange(&mut ends, 0, Duration::from_secs(10));
        let before = queries();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2500) {
            exchange(&mut ends, 0, Duration::from_secs(10));
            (0..4096).for_each(|_| _ = ends[0].poll(&mut Frames::default()));
        }
        assert_eq!(queries() - before, 0, "the port is queried in spite of traffic");
        while began.elapsed() < Duration::from_millis(5500) {
            ends[0].poll(&mut Frames::default());
        }
        assert!(queries() > before, "a removed device would not be noticed");
    });
}

/// A query is a command of the adapter's firmware, and all processes get its events.
#[test]
fn only_the_first_process_of_a_host_queries_the_port() {
    alone("only_the_first_process_of_a_host_queries_the_port", "", || {
        let second = Settings { local_rank: 1, ..settings() };
        let mut ends = transports(2, &second);
        exchange(&mut ends, 0, Duration::from_secs(10));
        let before = device::number(&library(), c"verbs_device_port_queries");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2500) {
            ends.iter_mut().for_each(|end| _ = end.poll(&mut Frames::default()));
        }
        assert_eq!(device::number(&library(), c"verbs_device_port_queries"), before);
    });
}

#[test]
fn a_device_that_fails_is_named() {
    alone("a_device_that_fails_is_named", "", || {
        #[derive(Default)]
        struct Failed(Vec<PeerFailed>);
        impl Sink for Failed {
            fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}
            fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
            fn peer_failed(&mut self, failure: PeerFailed) {
                self.0.push(failure);
            }
        }
        let mut ends = transports(3, &settings());
        exchange(&mut ends[..2], 0, Duration::from_secs(10));
        control("fatal=1");
        let (mut failed, began) = (Failed::default(), Instant::now());
        while failed.0.len() < 2 && began.elapsed() < Duration::from_secs(10) {
            ends[0].poll(&mut failed);
        }
        assert!(failed.0.iter().all(|failure| failure.why.contains("stand0")), "{:?}", failed.0);
        assert_eq!(failed.0.len(), 2);
    });
}

#[test]
fn a_port_that_goes_down_comes_back() {
    alone("a_port_that_goes_down_comes_back", "devices=stand0/ib,stand1/ib", || {
        let quick = Settings { ack_timeout: 8, ..settings() };
        let mut job = Job::new("a port down", SEED, transports(2, &quick));
        let flap = std::thread::spawn(|| {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(20));
                control("down=1");
                std::thread::sleep(Duration::from_millis(20));
                control("up=1");
            }
        });
        job.nap(Duration::from_millis(500));
        storm(&mut job, &weather(300));
        flap.join().expect("the thread");
        job.end();
    });
}
