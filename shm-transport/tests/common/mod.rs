//! Code that the test programs of this folder share: ranks in one process and their messages.

#![allow(dead_code, unreachable_pub)] // each program uses a part

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Region, Sink, Transfer, Transport,
    UserBuf,
};
use shm_transport::{Home, Segment, Settings, ShmTransport, SingleCopy};

pub const SETTINGS: Settings =
    Settings { eager_max: 1 << 20, get_min: 1, single_copy: SingleCopy::Auto, rare_sleeps: true };
pub const RING: u64 = 16 << 10;
pub const POOL: u64 = 1 << 20;

/// Bytes of a control block of a `pair`.
pub const BLOCK: u64 = 192;
/// Offset of rank 0's count of connects.
pub const CONNECTS: u64 = 64 + BLOCK + 64;

/// Frames that have arrived and are not yet looked at.
#[derive(Default)]
pub struct Inbox {
    pub frames: Vec<(Peer, Header, Vec<u8>)>,
    pub lost: Vec<PeerFailed>,
}

impl Sink for Inbox {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let body = body.wait_all().unwrap();
        self.frames.push((from, *header, body.to_vec()));
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {
        panic!("nothing is transferred in the background");
    }
    fn peer_failed(&mut self, lost: PeerFailed) {
        self.lost.push(lost);
    }
}

/// World ranks that are not the local ones.
pub fn peer(local: u32) -> Peer {
    Peer(3 + 2 * local)
}

pub fn join(
    file: &OwnedFd,
    me: u32,
    size: u32,
    ring_bytes: u64,
    settings: Settings,
) -> ShmTransport {
    let segment = Segment::attach(file.as_fd(), 0, me, size, ring_bytes, POOL)
        .expect("the segment is mapped");
    ShmTransport::new(segment, settings, (0..size).map(peer).collect(), Vec::new())
}

/// Both ranks of a segment of two, in this thread.
pub fn pair() -> (OwnedFd, ShmTransport, ShmTransport) {
    let file = Segment::file().unwrap();
    let [first, second] = [0, 1].map(|me| join(&file, me, 2, RING, SETTINGS));
    (file, first, second)
}

pub fn body(tag: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(31) ^ tag.wrapping_mul(7)) as u8).collect()
}

pub fn post(transport: &mut ShmTransport, to: Peer, tag: u64, len: usize) -> Post {
    let header = Header { context: tag, ..Header::new(Kind::Eager) };
    transport
        .post(to, &header, len, |slot| slot.copy_from_slice(&body(tag, len)))
        .expect("the peer is there")
}

pub fn region(bytes: &[u8]) -> Region {
    Region { addr: bytes.as_ptr() as u64, keys: [0; 4] }
}

/// Reads `len` bytes of rank 1 as rank 0.
pub fn get(
    transport: &mut ShmTransport,
    region: &Region,
    from: u64,
    len: usize,
) -> (Transfer, Vec<u8>) {
    let mut bytes = vec![0; len];
    // SAFETY: valid for writes until `get` returns, which is never with `Started`.
    let into = unsafe { UserBuf::new(bytes.as_mut_ptr(), len) };
    (transport.one_sided(peer(1), region, from, OneSided::Get(into), 0).unwrap(), bytes)
}

/// Lengths of messages of all ways of transport.
pub const LENGTHS: [usize; 12] =
    [0, 8, 24, 100, 767, 900, 1500, 2048, 5000, 70_000, 300_000, (1 << 20) - 64];

/// The ranks of a job, with the process numbers from `first` on.
pub fn job(first: u32, size: u32, ring_bytes: u64) -> Vec<ShmTransport> {
    let file = Segment::file().unwrap();
    let rank = |me| {
        let segment = Segment::attach(file.as_fd(), 0, me, size, ring_bytes, POOL);
        let peers = (first..first + size).map(Peer).collect();
        ShmTransport::new(segment.unwrap(), SETTINGS, peers, Vec::new())
    };
    (0..size).map(rank).collect()
}

pub fn home(of: &ShmTransport) -> Home {
    let home = of.home().expect("this process can open its own files");
    Home::decode(&home.encode()).unwrap()
}

/// Sends so many messages from one to the other, which receives meanwhile.
pub fn send_all(from: &mut ShmTransport, to: &mut ShmTransport, ends: [Peer; 2], rounds: u64) {
    let (mut inbox, mut sent, begun) = (Inbox::default(), 0, Instant::now());
    while inbox.frames.len() < rounds as usize {
        let len = LENGTHS[sent as usize % LENGTHS.len()].min(from.caps(ends[1]).frame);
        if sent < rounds && post(from, ends[1], sent, len) == Post::Sent {
            sent += 1;
        }
        to.poll(&mut inbox);
        assert!(begun.elapsed() < Duration::from_secs(30) && inbox.lost.is_empty());
    }
    for (tag, (sender, header, bytes)) in (0..).zip(&inbox.frames) {
        let len = LENGTHS[tag as usize % LENGTHS.len()].min(from.caps(ends[1]).frame);
        assert_eq!((*sender, header.context), (ends[0], tag));
        assert_eq!(*bytes, body(tag, len), "message {tag}");
    }
}
