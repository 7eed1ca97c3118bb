//! Set-up: the transport of one rank, and rings on first use.

use fabric::{Limits, Lost, Peer};

use crate::ring::{Consumer, Producer};
use crate::segment::Segment;
use crate::sync::Ordering;
use crate::{single_copy, wake};

/// Whether large messages are copied once, by process_vm_readv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// Where the system allows it.
    Auto,
    /// Never.
    Off,
}

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Largest message sent eagerly, bytes.
    pub eager_max: u64,
    /// Smallest message that is pulled by a single copy, bytes.
    pub get_min: u64,
    /// See [`SingleCopy`].
    pub single_copy: SingleCopy,
    /// Sleeps are rare: pay for them at the sleeper, not with each message.
    pub rare_sleeps: bool,
}

/// The transport between the ranks of one host.
#[derive(Debug)]
pub struct ShmTransport {
    pub(crate) segment: Segment,
    /// World rank of each local rank.
    peers: Vec<Peer>,
    /// Local rank of each world rank; `NOBODY` for ranks of other hosts.
    locals: Vec<u32>,
    pub(crate) outbound: Vec<Option<Box<Outbound>>>,
    pub(crate) inbound: Vec<Inbound>,
    /// Local ranks that had no room when last posted to.
    pub(crate) blocked: Vec<u32>,
    /// First-time talkers seen so far.
    arrivals: u64,
    /// This process takes part in membarrier.
    pub(crate) registered: bool,
    limits: Limits,
    /// The limits of peers that single copies are forbidden with.
    pushed: Limits,
}

const NOBODY: u32 = u32::MAX;

/// What leads to a peer.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub producer: Option<Producer>,
    /// Single copies from this peer were refused.
    pub forbidden: bool,
}

/// What comes from a peer.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub peer: Peer,
    /// Its local rank.
    pub local: u32,
    pub consumer: Consumer,
}

impl ShmTransport {
    /// `peers` are the world ranks of the segment's ranks, in their order.
    pub fn new(segment: Segment, settings: Settings, peers: Vec<Peer>) -> ShmTransport {
        assert_eq!(peers.len(), segment.size() as usize);
        let mut locals = vec![NOBODY; peers.iter().map(|peer| peer.0 as usize + 1).max().unwrap_or(0)];
        for (local, peer) in peers.iter().enumerate() {
            locals[peer.0 as usize] = local as u32;
        }
        let own = segment.control(segment.me());
        own.pid.store(std::process::id(), Ordering::Release);
        let registered = wake::register();
        own.barrier.store(u32::from(registered && settings.rare_sleeps), Ordering::Release);
        let frame = Producer::max_body(segment.ring_bytes() / 64).min(segment.ring_bytes() as usize / 4);
        let get_from = match settings.single_copy {
            SingleCopy::Auto => settings.get_min,
            SingleCopy::Off => u64::MAX,
        };
        if get_from != u64::MAX {
            single_copy::permit();
        }
        let limits = Limits { frame, eager: (settings.eager_max as usize).min(frame - 8), get_from };
        let outbound = std::iter::repeat_with(|| None).take(peers.len()).collect();
        ShmTransport {
            segment,
            peers,
            locals,
            outbound,
            inbound: Vec::new(),
            blocked: Vec::new(),
            arrivals: 0,
            registered,
            limits,
            pushed: Limits { get_from: u64::MAX, ..limits },
        }
    }

    /// The local rank of a peer.
    #[inline]
    pub(crate) fn local(&self, peer: Peer) -> Option<u32> {
        self.locals.get(peer.0 as usize).copied().filter(|&local| local != NOBODY)
    }

    #[inline]
    pub(crate) fn limits_of(&self, peer: Peer) -> &Limits {
        let local = self.local(peer).unwrap_or(0);
        match self.outbound.get(local as usize) {
            Some(Some(outbound)) if outbound.forbidden => &self.pushed,
            _ => &self.limits,
        }
    }

    /// Never again a single copy from this peer.
    #[cold]
    pub(crate) fn forbid_single_copy(&mut self, local: u32) {
        self.outbound[local as usize].get_or_insert_with(Outbound::unconnected).forbidden = true;
    }

    /// Maps the ring to a peer and makes itself known to it.
    #[cold]
    pub(crate) fn connect(&mut self, peer: Peer) -> Result<u32, Lost> {
        let (me, lost) = (self.segment.me(), |why: String| Lost { peer, why });
        let local = self.local(peer).ok_or_else(|| lost("it is not on this host".into()))?;
        let memory = self.segment.ring(me, local).map_err(|error| lost(error.to_string()))?;
        let outbound = self.outbound[local as usize].get_or_insert_with(Outbound::unconnected);
        outbound.producer = Some(Producer::new(memory));
        // The bit before the count: whoever sees the count finds the bit.
        self.segment.talkers(local)[me as usize / 64].fetch_or(1 << (me % 64), Ordering::SeqCst);
        let theirs = self.segment.control(local);
        theirs.arrivals.fetch_add(1, Ordering::SeqCst);
        Ok(local)
    }

    /// True when a rank has talked to this one for the first time.
    #[inline]
    pub(crate) fn has_newcomers(&self) -> bool {
        self.segment.control(self.segment.me()).arrivals.load(Ordering::Acquire) != self.arrivals
    }

    /// Maps the rings of first-time talkers.
    #[cold]
    pub(crate) fn welcome(&mut self) -> Result<(), Lost> {
        let me = self.segment.me();
        // The count before the bits: a bit that comes later brings another count.
        self.arrivals = self.segment.control(me).arrivals.load(Ordering::SeqCst);
        for (index, word) in self.segment.talkers(me).iter().enumerate() {
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                let local = index as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let Some(&peer) = self.peers.get(local as usize) else { continue };
                if self.inbound.iter().any(|inbound| inbound.peer == peer) {
                    continue;
                }
                let memory = self.segment.ring(local, me).map_err(|error| Lost { peer, why: error.to_string() })?;
                self.inbound.push(Inbound { peer, local, consumer: Consumer::new(memory) });
            }
        }
        Ok(())
    }
}

impl Outbound {
    fn unconnected() -> Box<Outbound> {
        Box::new(Outbound { producer: None, forbidden: false })
    }
}
