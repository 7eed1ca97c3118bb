//! Routes: which transport carries what goes to a peer.
//!
//! An enum, not `dyn`: the hot path pays one predictable branch. A process
//! alone in its job has no transport at all.

use fabric::{Header, Limits, Lost, Memory, Peer, Post, Region, Sink, Slot, Transfer, Transport, WaitOn};
use shm_transport::ShmTransport;

/// All the ways out of this process.
#[allow(clippy::large_enum_variant, reason = "there is one of it, and a box would cost each message a load")]
pub enum Routes {
    /// The only process of its job: messages to itself never come here.
    Alone,
    /// Every peer is on this node.
    Shm(ShmTransport),
}

const NO_LIMITS: Limits = Limits { frame: 64, eager: 56, get_from: u64::MAX };

#[cold]
fn no_route(peer: Peer) -> Lost {
    Lost { peer, why: "this process is alone in its job and has no transport".into() }
}

impl Transport for Routes {
    #[inline]
    fn limits(&self, peer: Peer) -> &Limits {
        match self {
            Routes::Shm(shm) => shm.limits(peer),
            Routes::Alone => &NO_LIMITS,
        }
    }

    #[inline]
    fn post(&mut self, peer: Peer, header: &Header, len: usize, fill: impl FnOnce(&mut Slot)) -> Result<Post, Lost> {
        match self {
            Routes::Shm(shm) => shm.post(peer, header, len, fill),
            Routes::Alone => Err(no_route(peer)),
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        match self {
            Routes::Shm(shm) => shm.poll(sink),
            Routes::Alone => false,
        }
    }

    fn register(&mut self, peer: Peer, memory: Memory) -> Option<Region> {
        match self {
            Routes::Shm(shm) => shm.register(peer, memory),
            Routes::Alone => None,
        }
    }

    fn release(&mut self, peer: Peer, region: Region) {
        if let Routes::Shm(shm) = self {
            shm.release(peer, region);
        }
    }

    fn get(&mut self, peer: Peer, region: &Region, from: u64, into: Memory, token: u64) -> Result<Transfer, Lost> {
        match self {
            Routes::Shm(shm) => shm.get(peer, region, from, into, token),
            Routes::Alone => Err(no_route(peer)),
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        match self {
            Routes::Shm(shm) => shm.arm(),
            Routes::Alone => Some(WaitOn::Nothing),
        }
    }

    fn disarm(&mut self) {
        if let Routes::Shm(shm) = self {
            shm.disarm();
        }
    }

    fn flush(&mut self) -> bool {
        match self {
            Routes::Shm(shm) => shm.flush(),
            Routes::Alone => true,
        }
    }
}
