//! TCP where descriptors are few and peers are many, and where strangers send hostile bytes.
//!
//! `VERBENA_TEST_HOSTILE` is the number of hostile connections (otherwise [`HOSTILE`]);
//! `VERBENA_TEST_SEED` repeats their bytes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use fabric::{Body, Header, InProcessStore, Kind, Peer, PeerFailed, Post, Sink, Store, Transport};
use fastrand::Rng;
use tcp_transport::{Settings, TcpTransport};
use tests::folder::Folder;

const SECRET: [u8; 32] = [5; 32];
/// Bytes of the first message of a connection.
const HELLO: usize = 52;
/// Hostile connections in a run.
const HOSTILE: u64 = 5_000;
/// Longest time of a test that does nothing any more.
const LIMIT: Duration = Duration::from_secs(120);
/// Descriptors of the process that has many peers.
const DESCRIPTORS: u32 = 256;
/// Its peers, if the system lets one process pretend so many; otherwise [`FEW_PEERS`].
const PEERS: u32 = 1000;
const FEW_PEERS: u32 = 150;
/// Messages to each of them.
const ROUNDS: u8 = 3;

#[derive(Default)]
struct Inbox {
    frames: Vec<(Peer, u8)>,
    failed: Vec<PeerFailed>,
}

impl Sink for Inbox {
    fn frame(&mut self, from: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.frames.push((from, body.wait_all().unwrap()[0]));
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failed: PeerFailed) {
        self.failed.push(failed);
    }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn open(rank: u32, size: u32, store: Box<dyn Store>) -> TcpTransport {
    let settings = Settings { interfaces: Some("127.0.0.1".into()), ..Settings::default() };
    TcpTransport::open(settings, Peer(rank), size, SECRET, store).expect("a transport")
}

/// Posts a message. Returns false if there is no space for it yet.
fn post(transport: &mut TcpTransport, to: Peer, byte: u8) -> bool {
    let header = Header::new(Kind::Eager);
    let posted = transport.post(to, &header, 100, |slot| slot.fill(byte));
    posted.unwrap_or_else(|failed| panic!("{failed}")) == Post::Sent
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count()
}

/// A child of this test: the process is killed and the folder removed when it ends.
struct Scene {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Scene {
    /// Starts a test of this file as a process with so many descriptors; a word for `ulimit -n`.
    fn start(&mut self, test: &str, descriptors: &str, peers: u32) {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")])
            .arg(program)
            .args([test, "--exact", "--ignored", "--nocapture", "--test-threads", "1"])
            .env("VERBENA_TEST_FOLDER", &self.folder)
            .env("VERBENA_TEST_PEERS", peers.to_string())
            .spawn();
        self.children.push(child.expect("a child"));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn few_descriptors_are_enough_for_many_peers() {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let hard: Option<u32> = line.split_whitespace().nth(4).and_then(|word| word.parse().ok());
    // A pretended peer has five descriptors.
    let peers = if hard.is_none_or(|hard| hard > 8 * PEERS) { PEERS } else { FEW_PEERS };
    let folder = std::env::temp_dir().join(format!("verbena-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut scene = Scene { folder, children: Vec::new() };
    scene.start("pretended_peers", "$(ulimit -H -n)", peers);
    scene.start("process_with_few_descriptors", &DESCRIPTORS.to_string(), peers);
    let ended = scene.children[1].wait().expect("a child");
    assert!(ended.success(), "the process with few descriptors: {ended}");
}

/// Part of [`few_descriptors_are_enough_for_many_peers`]: the peers.
#[test]
#[ignore = "a process of another test"]
fn pretended_peers() {
    let (folder, peers) = scene();
    let transport = |rank| open(rank, peers + 1, Box::new(Folder::from(folder.clone())));
    let mut all: Vec<TcpTransport> = (1..=peers).map(transport).collect();
    let mut inboxes: Vec<Inbox> = Vec::new();
    inboxes.resize_with(all.len(), Inbox::default);
    // The other test ends this process.
    loop {
        for (transport, inbox) in all.iter_mut().zip(&mut inboxes) {
            transport.poll(inbox);
            inbox.frames.retain(|&(from, byte)| !post(transport, from, byte));
        }
    }
}

/// Part of [`few_descriptors_are_enough_for_many_peers`].
#[test]
#[ignore = "a process of another test"]
fn process_with_few_descriptors() {
    let (folder, peers) = scene();
    let mut transport = open(0, peers + 1, Box::new(Folder::from(folder)));
    let mut inbox = Inbox::default();
    for round in 0..ROUNDS {
        let mut unsent: Vec<Peer> = (1..=peers).map(Peer).collect();
        let began = Instant::now();
        while inbox.frames.len() < peers as usize * (usize::from(round) + 1) {
            unsent.retain(|&to| !post(&mut transport, to, round));
            transport.poll(&mut inbox);
            assert!(began.elapsed() < LIMIT, "round {round}: {} answers", inbox.frames.len());
            assert!(inbox.failed.is_empty(), "{:?}", inbox.failed);
        }
    }
    for peer in 1..=peers {
        let rounds = inbox.frames.iter().filter(|(from, _)| from.0 == peer).map(|(_, byte)| *byte);
        assert!(rounds.eq(0..ROUNDS), "rank {peer}");
    }
    assert!(transport.connections_evicted() > 0);
    let program = std::fs::File::open("/dev/null");
    assert!(program.is_ok() && descriptors() <= DESCRIPTORS as usize, "the program has none left");
}

fn scene() -> (PathBuf, u32) {
    let folder = variable("VERBENA_TEST_FOLDER").expect("a folder");
    (folder, variable("VERBENA_TEST_PEERS").expect("a number of peers"))
}

#[test]
fn hostile_bytes_do_no_harm() {
    let since = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let seed: u64 = variable("VERBENA_TEST_SEED").unwrap_or(since);
    let count: u64 = variable("VERBENA_TEST_HOSTILE").unwrap_or(HOSTILE);
    println!("{count} hostile connections, seed {seed}");
    let store = InProcessStore::default();
    let mut all = [0, 1].map(|rank| open(rank, 2, Box::new(store.clone())));
    let mut inboxes = <[Inbox; 2]>::default();
    let address = all[0].listens_on()[0];
    let (left, is_over) = (AtomicU64::new(count), AtomicBool::new(false));
    let mut exchange = |all: &mut [TcpTransport; 2], byte: u8| {
        let mut unsent = vec![(1, Peer(0)), (0, Peer(1))];
        let began = Instant::now();
        while inboxes.iter().any(|inbox| inbox.frames.is_empty()) {
            unsent.retain(|&(from, to)| !post(&mut all[from], to, byte));
            all.iter_mut().zip(&mut inboxes).for_each(|(rank, inbox)| _ = rank.poll(inbox));
            assert!(began.elapsed() < LIMIT, "seed {seed}: the job stands still");
        }
        for (peer, inbox) in [1, 0].into_iter().zip(&mut inboxes) {
            // What a stranger sends never comes here.
            assert_eq!(std::mem::take(&mut inbox.frames), [(Peer(peer), byte)], "seed {seed}");
            assert!(inbox.failed.is_empty(), "seed {seed}: {:?}", inbox.failed);
        }
    };
    exchange(&mut all, 0);
    let (before, memory) = (descriptors(), resident());
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (left, is_over) = (&left, &is_over);
            scope.spawn(move || attack(address, Rng::with_seed(seed ^ number), left, is_over));
        }
        let mut byte = 0_u8;
        while left.load(Ordering::Relaxed) > 0 {
            byte = byte.wrapping_add(1);
            exchange(&mut all, byte);
        }
        is_over.store(true, Ordering::Relaxed);
        // Answers that strangers wait for.
        (0..100_000).for_each(|_| _ = all[0].poll(&mut Inbox::default()));
    });
    let began = Instant::now();
    while descriptors() > before {
        all.iter_mut().for_each(|rank| _ = rank.poll(&mut Inbox::default()));
        assert!(began.elapsed() < LIMIT, "seed {seed}: {before} descriptors, {}", descriptors());
    }
    exchange(&mut all, 9);
    let grown = resident().saturating_sub(memory);
    assert!(grown < 32 << 20, "seed {seed}: {count} connections cost {grown} bytes");
}

/// Returns the bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Makes hostile connections until none is left.
fn attack(address: SocketAddr, mut rng: Rng, left: &AtomicU64, is_over: &AtomicBool) {
    let mut kept = Vec::new();
    while left.load(Ordering::Relaxed) > 0 {
        let Ok(mut stranger) = TcpStream::connect(address) else {
            // Ports of closed connections come back after a while.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let _ = stranger.set_read_timeout(Some(Duration::from_millis(20)));
        let mut bytes: Vec<u8> = (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect();
        let kind = rng.u8(..6);
        if kind < 4 {
            // A Hello of rank 1 to rank 0, of any epoch.
            bytes.splice(..0, *b"vrt\x01\x01\0\0\0\0\0\0\0");
            bytes.resize(bytes.len().max(HELLO), 7);
            // Mostly of a stream that there may be.
            bytes[16..20].copy_from_slice(&u32::from(rng.u8(..10)).to_le_bytes());
        }
        if kind == 1 {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
        }
        if kind == 2 {
            bytes.truncate(HELLO);
        }
        let _ = stranger.write_all(&bytes);
        if kind == 2 && !is_over.load(Ordering::Relaxed) {
            reflect(&mut stranger, &mut rng);
        }
        match rng.u8(..8) {
            0 => _ = stranger.shutdown(Shutdown::Write),
            1 => kept.push(stranger),
            _ => {}
        }
        kept.drain(..kept.len().saturating_sub(50));
        // Both strangers may take the last one.
        let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }
}

/// Sends the listener's own challenge back as a proof, whole or in part.
fn reflect(stranger: &mut TcpStream, rng: &mut Rng) {
    let mut challenge = [0; 64];
    if stranger.read_exact(&mut challenge).is_ok() {
        let from = rng.usize(..=24);
        let _ = stranger.write_all(&challenge[from..from + 40]);
        // A frame for rank 0, had the proof been one.
        let mut record = [0; 16 + 32 + 100];
        (record[0], record[4], record[16]) = (132, 1, 1);
        let _ = stranger.write_all(&record);
    }
}
