//! The endpoint: owns the transports of a process and chooses one for each peer.
//!
//! States ([`Transports`]): a process alone in its job has no transport. In a job on one host it
//! has the intra-host transport. Over several hosts it has an inter-host transport, and the
//! intra-host one if its host has other ranks. Only [`Endpoint::add_inter`] and
//! [`Endpoint::add_intra`] change the state, when processes of other jobs are met; those of this
//! host may be reached by the intra-host transport, too. An enum, not `dyn`: the hot path costs one
//! predictable branch, and the multi-host path is out of line. Towards protocols the endpoint is a
//! [`Transport`] itself, so that a protocol runs on a single device in tests.

pub mod inter;
mod multi_host;
mod traffic;

use crate::header::Header;
use crate::local_ranks::LocalRanks;
use crate::transport::{
    Caps, GetOrPush, HybridGet, Offload, OneSided, Peer, PeerFailed, Placed, Post, Region, Rights,
    Sink, Slot, Transfer, Transport, WaitOn,
};
use crate::user_buf::UserBuf;

use self::multi_host::MultiHost;
pub use self::traffic::Traffic;

/// The transports of one process: `Intra` reaches ranks of the same host, `Inter` the others.
#[derive(Debug)]
pub struct Endpoint<Intra, Inter> {
    transports: Transports<Intra, Inter>,
}

/// Which transports there are.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one of it, and a box would cost each message a load"
)]
#[derive(Debug)]
enum Transports<Intra, Inter> {
    /// The process is alone in its job: messages to itself never come here.
    None,
    /// Every peer is on this host.
    Intra(Intra),
    /// Some peers are on other hosts.
    MultiHost(Box<MultiHost<Intra, Inter>>),
}

const NO_CAPS: Caps = Caps {
    frame: 64,
    eager: 56,
    get_min: u64::MAX,
    put_min: u64::MAX,
    offload: Offload::Processor,
    late_puts: false,
};

#[cold]
fn no_transport(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "this process is alone in its job and has no transport".into() }
}

impl<Intra: HybridGet, Inter: HybridGet> Endpoint<Intra, Inter> {
    /// Makes the endpoint of a process that is alone in its job.
    pub fn alone() -> Self {
        Endpoint { transports: Transports::None }
    }

    /// Makes the endpoint of a job on one host.
    pub fn single_host(intra: Intra) -> Self {
        Endpoint { transports: Transports::Intra(intra) }
    }

    /// Makes the endpoint of a job over several hosts. `local_ranks` are those of this host;
    /// `intra` may be missing if this process is the only one of them.
    pub fn multi_host(
        local_ranks: impl Into<LocalRanks>,
        intra: Option<Intra>,
        inter: Inter,
    ) -> Self {
        let multi_host = MultiHost::new(local_ranks.into(), intra, inter);
        Endpoint { transports: Transports::MultiHost(Box::new(multi_host)) }
    }

    /// Adds the inter-host transport of a job that has had none, to reach processes of other jobs.
    /// `local_ranks` are the processes of this job on this host.
    pub fn add_inter(&mut self, local_ranks: impl Into<LocalRanks>, inter: Inter) {
        let intra = match std::mem::replace(&mut self.transports, Transports::None) {
            Transports::None => None,
            Transports::Intra(intra) => Some(intra),
            Transports::MultiHost(before) => {
                debug_assert!(false, "the job has an inter-host transport");
                self.transports = Transports::MultiHost(before);
                return;
            }
        };
        let multi_host = MultiHost::new(local_ranks.into(), intra, inter);
        self.transports = Transports::MultiHost(Box::new(multi_host));
    }

    /// Gives a job with an inter-host transport the intra-host one, which it has lacked.
    pub fn add_intra(&mut self, intra: Intra) {
        match &mut self.transports {
            Transports::MultiHost(multi_host) => multi_host.add_intra(intra),
            _ => debug_assert!(false, "the job has no inter-host transport"),
        }
    }

    /// Sends to a process of another job by the intra-host transport from now on, which reaches it.
    pub fn add_local(&mut self, peer: Peer) {
        match &mut self.transports {
            Transports::MultiHost(multi_host) => multi_host.add_local(peer),
            _ => debug_assert!(false, "the job has no inter-host transport"),
        }
    }

    /// Returns the transport to ranks of this host, if there is one.
    pub fn intra(&self) -> Option<&Intra> {
        match &self.transports {
            Transports::None => None,
            Transports::Intra(intra) => Some(intra),
            Transports::MultiHost(multi_host) => multi_host.intra(),
        }
    }

    /// Returns the transport to ranks of this host, to map memory with it.
    pub fn intra_mut(&mut self) -> Option<&mut Intra> {
        match &mut self.transports {
            Transports::None => None,
            Transports::Intra(intra) => Some(intra),
            Transports::MultiHost(multi_host) => multi_host.intra_mut(),
        }
    }

    /// Returns the transport to other hosts, if the job has some.
    pub fn inter(&self) -> Option<&Inter> {
        match &self.transports {
            Transports::MultiHost(multi_host) => Some(multi_host.inter()),
            _ => None,
        }
    }

    /// Returns the transport to other hosts, to give up a peer.
    pub fn inter_mut(&mut self) -> Option<&mut Inter> {
        match &mut self.transports {
            Transports::MultiHost(multi_host) => Some(multi_host.inter_mut()),
            _ => None,
        }
    }

    /// Returns true if all ranks of the job are on this host and there are several.
    pub fn is_single_host(&self) -> bool {
        matches!(self.transports, Transports::Intra(_))
    }

    /// Returns what was sent so far; counted only in jobs over several hosts.
    pub fn traffic(&self) -> Option<&Traffic> {
        match &self.transports {
            Transports::MultiHost(multi_host) => Some(multi_host.traffic()),
            _ => None,
        }
    }

    /// Polls where all ranks are on one host. Out of line, as [`MultiHost`] is: neither path saves
    /// the other's registers.
    #[inline(never)]
    fn poll_intra(&mut self, sink: &mut impl Sink) -> bool {
        match &mut self.transports {
            Transports::Intra(intra) => intra.poll(sink),
            _ => false,
        }
    }
}

impl<Intra: HybridGet, Inter: HybridGet> Transport for Endpoint<Intra, Inter> {
    #[inline]
    fn caps(&self, peer: Peer) -> &Caps {
        // One branch on the path that matters most.
        if let Transports::Intra(intra) = &self.transports {
            return intra.caps(peer);
        }
        match &self.transports {
            Transports::MultiHost(multi_host) => multi_host.caps(peer),
            _ => &NO_CAPS,
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
        if let Transports::Intra(intra) = &mut self.transports {
            return intra.post(peer, header, len, fill);
        }
        match &mut self.transports {
            Transports::MultiHost(multi_host) => multi_host.post(peer, header, len, fill),
            _ => Err(no_transport(peer)),
        }
    }

    fn begin_batch(&mut self, peer: Peer) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.begin_batch(peer),
            Transports::MultiHost(multi_host) => multi_host.begin_batch(peer),
        }
    }

    fn end_batch(&mut self, peer: Peer) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.end_batch(peer),
            Transports::MultiHost(multi_host) => multi_host.end_batch(peer),
        }
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        match &mut self.transports {
            Transports::MultiHost(multi_host) => multi_host.poll(sink),
            _ => self.poll_intra(sink),
        }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        match &mut self.transports {
            Transports::None => None,
            Transports::Intra(intra) => intra.register(peer, memory, rights),
            Transports::MultiHost(multi_host) => multi_host.register(peer, memory, rights),
        }
    }

    fn release(&mut self, peer: Peer, region: Region) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.release(peer, region),
            Transports::MultiHost(multi_host) => multi_host.release(peer, region),
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
        match &mut self.transports {
            Transports::None => Err(no_transport(peer)),
            Transports::Intra(intra) => intra.one_sided(peer, region, at, what, token),
            Transports::MultiHost(multi_host) => {
                multi_host.one_sided(peer, region, at, what, token)
            }
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        match &mut self.transports {
            Transports::None => Some(WaitOn::Nothing),
            Transports::Intra(intra) => intra.arm(),
            Transports::MultiHost(multi_host) => multi_host.arm(),
        }
    }

    fn disarm(&mut self) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.disarm(),
            Transports::MultiHost(multi_host) => multi_host.disarm(),
        }
    }

    fn flush(&mut self) -> bool {
        match &mut self.transports {
            Transports::None => true,
            Transports::Intra(intra) => intra.flush(),
            Transports::MultiHost(multi_host) => multi_host.flush(),
        }
    }
}

impl<Intra: HybridGet, Inter: HybridGet> HybridGet for Endpoint<Intra, Inter> {
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        match &mut self.transports {
            Transports::None => Err(no_transport(peer)),
            Transports::Intra(intra) => intra.get_or_push(peer, region, into, token),
            Transports::MultiHost(multi_host) => multi_host.get_or_push(peer, region, into, token),
        }
    }

    fn get_remainder(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        match &mut self.transports {
            Transports::None => Err(no_transport(peer)),
            Transports::Intra(intra) => intra.get_remainder(peer, region, at, into),
            Transports::MultiHost(multi_host) => multi_host.get_remainder(peer, region, at, into),
        }
    }

    fn prefers_get(&self, peer: Peer, bytes: u64) -> bool {
        match &self.transports {
            Transports::None => false,
            Transports::Intra(intra) => intra.prefers_get(peer, bytes),
            Transports::MultiHost(multi_host) => multi_host.prefers_get(peer, bytes),
        }
    }

    fn get_now(&mut self, peer: Peer, region: &Region, at: u64, into: UserBuf) -> Transfer {
        match &mut self.transports {
            Transports::None => Transfer::Refused,
            Transports::Intra(intra) => intra.get_now(peer, region, at, into),
            Transports::MultiHost(multi_host) => multi_host.get_now(peer, region, at, into),
        }
    }

    fn offer(&mut self, peer: Peer, memory: UserBuf) -> Option<Region> {
        match &mut self.transports {
            Transports::None => None,
            Transports::Intra(intra) => intra.offer(peer, memory),
            Transports::MultiHost(multi_host) => multi_host.offer(peer, memory),
        }
    }

    fn withdraw(&mut self, peer: Peer) -> bool {
        match &mut self.transports {
            Transports::None => true,
            Transports::Intra(intra) => intra.withdraw(peer),
            Transports::MultiHost(multi_host) => multi_host.withdraw(peer),
        }
    }

    fn end_offer(&mut self, peer: Peer) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.end_offer(peer),
            Transports::MultiHost(multi_host) => multi_host.end_offer(peer),
        }
    }

    fn end_message(&mut self, peer: Peer, region: &Region) {
        match &mut self.transports {
            Transports::None => {}
            Transports::Intra(intra) => intra.end_message(peer, region),
            Transports::MultiHost(multi_host) => multi_host.end_message(peer, region),
        }
    }

    fn place(&mut self, peer: Peer, offer: &Region, from: UserBuf) -> Placed {
        match &mut self.transports {
            Transports::None => Placed::Refused,
            Transports::Intra(intra) => intra.place(peer, offer, from),
            Transports::MultiHost(multi_host) => multi_host.place(peer, offer, from),
        }
    }

    fn get_unexpected(&mut self, peer: Peer, region: &Region, bytes: usize) -> Option<Box<[u8]>> {
        match &mut self.transports {
            Transports::None => None,
            Transports::Intra(intra) => intra.get_unexpected(peer, region, bytes),
            Transports::MultiHost(multi_host) => multi_host.get_unexpected(peer, region, bytes),
        }
    }
}

#[cfg(test)]
mod tests;
