//! Code that the test programs of this folder share: ranks in one process and their messages.

#![allow(dead_code, unreachable_pub)] // each program uses a part

use std::os::fd::{AsFd, OwnedFd};

use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Region, Sink, Transfer, Transport,
    UserBuf,
};
use shm_transport::{Segment, Settings, ShmTransport, SingleCopy};

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
