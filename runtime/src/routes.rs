//! Routes: which transport carries what goes to a peer.
//!
//! An enum, not `dyn`: the hot path pays one predictable branch. A process
//! alone in its job has no transport at all.

use fabric::{
    Caps, Header, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot, Transfer,
    Transport, UserBuf, WaitOn,
};
use shm_transport::ShmTransport;

use crate::hosts::Hosts;

/// All the ways out of this process.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one of it, and a box would cost each message a load"
)]
pub enum Routes {
    /// The only process of its job: messages to itself never come here.
    Alone,
    /// Every peer is on this node.
    Shm(ShmTransport),
    /// Some are on others.
    Hosts(Box<Hosts>),
}

const NO_LIMITS: Caps = Caps { frame: 64, eager: 56, get_min: u64::MAX, put_min: u64::MAX };

#[cold]
fn no_route(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "this process is alone in its job and has no transport".into() }
}

impl Routes {
    /// The way to ranks of this host, if there are others.
    pub(crate) fn within(&self) -> Option<&ShmTransport> {
        match self {
            Routes::Alone => None,
            Routes::Shm(shm) => Some(shm),
            Routes::Hosts(hosts) => hosts.within(),
        }
    }

    /// Where all ranks are on one host. Out of line, as `Hosts` is: neither way pays for the other's registers.
    #[inline(never)]
    fn poll_near(&mut self, sink: &mut impl Sink) -> bool {
        match self {
            Routes::Shm(shm) => shm.poll(sink),
            _ => false,
        }
    }
}

impl Transport for Routes {
    #[inline]
    fn caps(&self, peer: Peer) -> &Caps {
        // One question on the way that matters most.
        if let Routes::Shm(shm) = self {
            return shm.caps(peer);
        }
        match self {
            Routes::Hosts(hosts) => hosts.caps(peer),
            _ => &NO_LIMITS,
        }
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        if let Routes::Shm(shm) = self {
            return shm.post(peer, header, len, fill);
        }
        match self {
            Routes::Hosts(hosts) => hosts.post(peer, header, len, fill),
            _ => Err(no_route(peer)),
        }
    }

    fn gather(&mut self, peer: Peer, more: bool) {
        if let Routes::Hosts(hosts) = self {
            hosts.gather(peer, more);
        }
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        match self {
            Routes::Hosts(hosts) => hosts.poll(sink),
            near => near.poll_near(sink),
        }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        match self {
            Routes::Shm(shm) => shm.register(peer, memory, rights),
            Routes::Hosts(hosts) => hosts.register(peer, memory, rights),
            Routes::Alone => None,
        }
    }

    fn release(&mut self, peer: Peer, region: Region) {
        match self {
            Routes::Shm(shm) => shm.release(peer, region),
            Routes::Hosts(hosts) => hosts.release(peer, region),
            Routes::Alone => {}
        }
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        match self {
            Routes::Shm(shm) => shm.one_sided(peer, region, at, what, token),
            Routes::Hosts(hosts) => hosts.one_sided(peer, region, at, what, token),
            Routes::Alone => Err(no_route(peer)),
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        match self {
            Routes::Shm(shm) => shm.arm(),
            Routes::Hosts(hosts) => hosts.arm(),
            Routes::Alone => Some(WaitOn::Nothing),
        }
    }

    fn disarm(&mut self) {
        match self {
            Routes::Shm(shm) => shm.disarm(),
            Routes::Hosts(hosts) => hosts.disarm(),
            Routes::Alone => {}
        }
    }

    fn flush(&mut self) -> bool {
        match self {
            Routes::Shm(shm) => shm.flush(),
            Routes::Hosts(hosts) => hosts.flush(),
            Routes::Alone => true,
        }
    }
}
