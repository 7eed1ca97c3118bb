//! The transport of one rank: its parts, its set-up, and rings on first use.
//!
//! A pair is set up by its sender alone. The sender takes memory for the ring's first page and maps
//! the ring. It sets its bit among the receiver's connect bits and increments the receiver's count
//! of connects. The receiver compares that count in each poll and maps what is new. Frames may have
//! waited there since before.
//!
//! `post` and `poll` are the data path; `transport` implements the trait.

use fabric::{Caps, Offload, Peer, PeerFailed};

use crate::blocks::BodyBlocks;
use crate::control::Control;
use crate::inbound::InboundRings;
use crate::outbound::Outbound;
use crate::outsiders::{Outsiders, outsider_bit};
use crate::peers::LocalPeers;
use crate::ring::{Consumer, LINE, Producer};
use crate::segment::{RingPlace, Segment, SegmentError};
use crate::single_copy::{self, Access, SingleCopy};
use crate::sync::{AtomicU32, Ordering};
use crate::window::WindowMaps;

/// Bytes of a piece of a large message, if a ring carries as many: large enough to hide the cost of
/// each piece, and a small part of the bounce pool.
const PIECE_BYTES: usize = 256 << 10;

/// The settings of a job.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Largest message sent eagerly, bytes.
    pub eager_max: u64,
    /// Smallest message that is pulled by a single copy, bytes.
    pub get_min: u64,
    /// Which kinds of single copy are tried.
    pub single_copy: SingleCopy,
    /// Waits are rare: the waiting rank executes the fence, not the sender of each message.
    pub rare_sleeps: bool,
}

/// The transport between the ranks of one host.
#[derive(Debug)]
pub struct ShmTransport {
    pub(crate) segment: Segment,
    /// This rank's control block.
    pub(crate) own: &'static Control,
    pub(crate) peers: LocalPeers,
    pub(crate) outsiders: Outsiders,
    /// By process number, so that a message needs one look-up.
    pub(crate) outbound: Vec<Option<Box<Outbound>>>,
    pub(crate) inbound: InboundRings,
    accepted: Accepted,
    /// Space for external bodies.
    pub(crate) blocks: BodyBlocks,
    /// The windows that are mapped here.
    pub(crate) windows: WindowMaps,
    /// Peers that had no space when last posted to.
    pub(crate) blocked: Vec<Peer>,
    /// By local rank: may its memory be read?
    pub(crate) access: Vec<Access>,
    /// This process takes part in membarrier.
    pub(crate) has_membarrier: bool,
    /// A frame has left since one has come: the next to come may be its reply.
    pub(crate) expects_reply: bool,
    /// Bodies outside of rings and announcements that this rank has posted; wraps.
    pub(crate) large_posts: u32,
    /// Messages that this rank has announced and that are not over.
    pub(crate) announced: u32,
    /// Bodies are read while they are written: the ranks have processors of their own.
    pub(crate) pipelines: bool,
    caps: Caps,
}

/// The peers whose connects this rank has seen.
#[derive(Debug)]
struct Accepted {
    /// By local rank, 64 to a word.
    bits: Vec<u64>,
    /// The count of connects that was seen.
    connects: u64,
}

impl ShmTransport {
    /// `peers` are the world ranks of the segment's ranks, in their order. `in_mpi` are words of
    /// theirs that are not 0 while they are in a call of the library; empty if that is not known.
    pub fn new(
        segment: Segment,
        settings: Settings,
        peers: Vec<Peer>,
        in_mpi: Vec<&'static AtomicU32>,
    ) -> ShmTransport {
        assert_eq!(peers.len(), segment.size() as usize);
        let peers = LocalPeers::new(peers, in_mpi);
        let own = segment.control(segment.me());
        let has_membarrier = fabric::membarrier::register();
        own.event_count.init(has_membarrier && settings.rare_sleeps);
        let caps = caps(&segment, &settings);
        if caps.get_min != u64::MAX {
            segment.permit_single_copy(settings.single_copy);
        }
        let ranks = peers.local_ranks();
        ShmTransport {
            own,
            outbound: std::iter::repeat_with(|| None).take(peers.world_ranks()).collect(),
            outsiders: Default::default(),
            inbound: Default::default(),
            accepted: Accepted { bits: vec![0; ranks.div_ceil(64)], connects: 0 },
            blocks: BodyBlocks::new(ranks),
            windows: WindowMaps::default(),
            blocked: Vec::new(),
            access: std::iter::repeat_with(|| Access::Unprobed).take(ranks).collect(),
            has_membarrier,
            expects_reply: false,
            large_posts: 0,
            announced: 0,
            pipelines: settings.rare_sleeps,
            caps,
            peers,
            segment,
        }
    }

    /// Tells this rank where it finds that others have ended, in a job that goes on without them:
    /// words that are not 0 then, in the order of the segment's ranks.
    pub fn watch_ends(&mut self, ended: Vec<&'static AtomicU32>) {
        self.peers.ended = ended;
    }

    /// The memory that this host's ranks share.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns whether this process takes part in the barriers of others (`fabric::membarrier`).
    pub fn has_membarrier(&self) -> bool {
        self.has_membarrier
    }

    /// Returns whether other ranks can attach this process's memory through XPMEM.
    pub fn has_xpmem(&self) -> bool {
        self.own.probe.segment.load(Ordering::Relaxed) != 0
    }

    /// Returns the method of single copy from the memory of a rank of this host, once it has
    /// started; otherwise why there is none, with the remedy.
    pub fn single_copy_from(&self, peer: Peer) -> Result<&'static str, String> {
        let local = self.peers.local(peer).ok_or("the rank is on another host")?;
        single_copy::describe(&self.control(local).probe)
    }

    /// Returns whether a peer is a process of another job.
    #[inline]
    pub(crate) fn is_outsider(&self, peer: Peer) -> bool {
        self.peers.local(peer).is_some_and(|local| local >= self.segment.size())
    }

    #[inline]
    pub(crate) fn caps_of(&self, peer: Peer) -> &Caps {
        match self.outbound.get(peer.0 as usize) {
            Some(Some(outbound)) => &outbound.caps,
            _ => &self.caps,
        }
    }

    /// Maps the ring to a peer and makes this rank known to it.
    #[cold]
    pub(crate) fn connect(&mut self, peer: Peer) -> Result<(), PeerFailed> {
        let failed = |why: String| PeerFailed { peer, why };
        let local =
            self.peers.local(peer).ok_or_else(|| failed("it is not on this host".into()))?;
        let ring = self.outgoing(local).map_err(|error| failed(error.to_string()))?;
        let (me, theirs) = (self.segment.me(), self.control(local));
        let outbound = Outbound::new(ring, &theirs.event_count, self.caps, local);
        self.outbound[peer.0 as usize] = Some(Box::new(outbound));
        if matches!(self.access[local as usize], Access::Refused) {
            self.refuse(peer, local);
        }
        if local < self.segment.size() {
            let bits = self.segment.connect_bits(local);
            bits[me as usize / 64].fetch_or(1 << (me % 64), Ordering::Relaxed);
        } else {
            theirs.outsiders.fetch_or(outsider_bit(self.number()), Ordering::Relaxed);
        }
        // Release: a receiver that sees the count finds the bit. The first frame wakes it, after a
        // fence that orders this store too.
        theirs.connects.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn outgoing(&self, local: u32) -> Result<(Producer, RingPlace), SegmentError> {
        let (end, own) = (self.segment.first_lap_granules(), self.number());
        let place = match self.outsiders.find(&self.segment, local) {
            (segment, rank) if local < self.segment.size() => segment.ring(self.segment.me(), rank),
            (segment, rank) => segment.outsider_ring(own, rank),
        };
        place.allocate(0..end)?;
        Ok((Producer::new(place.map()?, end, own.0), place))
    }

    /// Returns the process number of this rank.
    pub(crate) fn number(&self) -> Peer {
        self.peers.world(self.segment.me()).unwrap_or(Peer(u32::MAX))
    }

    /// Returns whether a rank has connected since the last [`ShmTransport::accept`].
    #[inline]
    pub(crate) fn has_new_peers(&self) -> bool {
        // Relaxed: `accept` looks again.
        self.own.connects.load(Ordering::Relaxed) != self.accepted.connects
    }

    /// Lets the next poll look for ranks that have connected.
    pub(crate) fn accept_next_time(&mut self) {
        // Another number than that of all connects.
        self.accepted.connects = u64::MAX;
    }

    /// Maps the rings of ranks that have connected; returns those whose rings cannot be mapped.
    #[cold]
    pub(crate) fn accept(&mut self) -> Vec<PeerFailed> {
        let (me, mut failed) = (self.segment.me(), Vec::new());
        // Acquire, and the count before the bits: the bits of all counted ranks are seen, and a
        // later bit brings another count.
        self.accepted.connects = self.own.connects.load(Ordering::Acquire);
        for (index, word) in self.segment.connect_bits(me).iter().enumerate() {
            let mut new = word.load(Ordering::Relaxed) & !self.accepted.bits[index];
            self.accepted.bits[index] |= new;
            while new != 0 {
                let local = index as u32 * 64 + new.trailing_zeros();
                new &= new - 1;
                let Some(peer) = self.peers.world(local) else { continue };
                match self.segment.ring(local, me).map() {
                    Ok(memory) => {
                        let control = self.segment.control(local);
                        self.inbound.add(peer, local, control, Consumer::new(memory, peer.0));
                    }
                    Err(error) => failed.push(PeerFailed { peer, why: error.to_string() }),
                }
            }
        }
        self.accept_outsiders(&mut failed);
        failed
    }

    /// Returns whether a peer's memory may be read; probes it the first time.
    pub(crate) fn may_read(&mut self, peer: Peer, local: u32) -> bool {
        let access = &mut self.access[local as usize];
        if matches!(access, Access::Unprobed) {
            let (segment, rank) = self.outsiders.find(&self.segment, local);
            *access = Access::probe(&segment.control(rank).probe);
        }
        match access {
            Access::Unprobed => false,
            Access::Refused => {
                self.refuse(peer, local);
                false
            }
            Access::Attached(_) | Access::Readv(_) => true,
        }
    }

    /// Ends single copies from this peer for good.
    #[cold]
    pub(crate) fn refuse(&mut self, peer: Peer, local: u32) {
        self.access[local as usize] = Access::Refused;
        if let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) {
            outbound.caps.get_min = u64::MAX;
        }
        if let Some(inbound) = self.inbound.ring_from_mut(local) {
            inbound.end_gets();
        }
    }
}

/// Returns what a route carries before anything is known about the peer.
fn caps(segment: &Segment, settings: &Settings) -> Caps {
    let frame = Producer::max_body(segment.ring_lines())
        .min((settings.eager_max as usize).max(PIECE_BYTES) + LINE);
    Caps {
        frame,
        eager: (settings.eager_max as usize).min(frame - 8),
        get_min: match settings.single_copy {
            SingleCopy::Auto | SingleCopy::Readv => settings.get_min,
            SingleCopy::Off => u64::MAX,
        },
        put_min: u64::MAX,
        offload: Offload::Processor,
        late_puts: false,
    }
}
