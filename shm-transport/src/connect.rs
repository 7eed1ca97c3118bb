//! Set-up: the transport of one rank, and rings on first use.
//!
//! A pair is set up by its sender alone: it takes memory for the ring's first
//! page, maps the ring, sets its bit in the receiver's bitmap and counts up the
//! receiver's arrivals. The receiver compares that count with each poll, maps
//! what is new, and finds frames that may have been there for long.

use std::time::{Duration, Instant};

use fabric::{Caps, Peer, PeerFailed};

use crate::bounce::{BouncePool, StoreTuner};
use crate::event_count::{self, EventCount};
use crate::recycle::RecycledBlocks;
use crate::ring::{Consumer, LINE, Producer};
use crate::segment::{Control, Segment, SegmentError};
use crate::single_copy::{self, Access, SingleCopy};
use crate::sync::{AtomicU32, Ordering};

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
    /// This rank's control block.
    pub(crate) own: &'static Control,
    /// World rank of each local rank.
    peers: Vec<Peer>,
    /// Local rank of each world rank; `NOT_LOCAL` for ranks of other hosts.
    locals: Vec<u32>,
    /// By world rank, so that a message needs one look-up.
    pub(crate) outbound: Vec<Option<Box<Outbound>>>,
    pub(crate) inbound: crate::poll::InboundRings,
    /// Local ranks that `inbound` has or had.
    accepted: Vec<u64>,
    /// First-time talkers seen so far.
    connects: u64,
    /// This rank's pool, once a large body was sent; `Some(None)` when there is none
    /// to be had.
    pub(crate) pool: Option<Option<BouncePool>>,
    pub(crate) recycled: RecycledBlocks,
    /// By local rank: not 0 while it is in a call of the library. Empty: not known.
    in_mpi: Vec<&'static AtomicU32>,
    /// Peers that had no room when last posted to.
    pub(crate) blocked: Vec<Peer>,
    /// By local rank: may their memory be read?
    pub(crate) access: Vec<Access>,
    /// This process takes part in membarrier.
    pub(crate) has_membarrier: bool,
    /// A frame has left since one has come: what comes next may be its answer, and a frame that leaves
    /// before that follows it in a stream.
    pub(crate) expects_reply: bool,
    /// Bodies are read while they are written: the ranks have processors of their own.
    pub(crate) pipelines: bool,
    caps: Caps,
}

/// From one call of the library to the next, where nothing is done in between.
const IN_MPI_GRACE: Duration = Duration::from_micros(1);
/// Bytes of a piece of a large message, where a ring has room for as many.
const PIECE_BYTES: usize = 256 << 10;
const NOT_LOCAL: u32 = u32::MAX;

/// What leads to a peer.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub producer: Producer,
    /// The peer's.
    pub event_count: &'static EventCount,
    pub caps: Caps,
    /// Its local rank.
    pub local: u32,
    /// The system has refused memory for longer laps.
    pub frozen: bool,
    pub tuner: StoreTuner,
    /// Frames that were to leave in a row since something was heard, of those that
    /// the difference matters to.
    pub streak: u32,
    /// What `InboundRings::heard` said then.
    pub heard: u32,
}

impl ShmTransport {
    /// `peers` are the world ranks of the segment's ranks, in their order, `in_mpi`
    /// words of theirs that are not 0 while they are in a call of the library (none
    /// at all if that is not known).
    pub fn new(
        segment: Segment,
        settings: Settings,
        peers: Vec<Peer>,
        in_mpi: Vec<&'static AtomicU32>,
    ) -> ShmTransport {
        assert_eq!(peers.len(), segment.size() as usize);
        let world = peers.iter().map(|peer| peer.0 as usize + 1).max().unwrap_or(0);
        let mut locals = vec![NOT_LOCAL; world];
        for (local, peer) in (0..).zip(&peers) {
            locals[peer.0 as usize] = local;
        }
        let own = segment.control(segment.me());
        let has_membarrier = event_count::register_membarrier();
        own.event_count.init(has_membarrier && settings.rare_sleeps);
        let get_min = match settings.single_copy {
            SingleCopy::Auto | SingleCopy::Readv => settings.get_min,
            SingleCopy::Off => u64::MAX,
        };
        if get_min != u64::MAX {
            single_copy::publish_probe(&own.probe, settings.single_copy);
        }
        // Pieces of larger messages are of this size: large enough for what each costs by itself
        // to be little beside it, and a small part of the pool.
        let frame = Producer::max_body(segment.lines())
            .min((settings.eager_max as usize).max(PIECE_BYTES) + LINE);
        let caps = Caps {
            frame,
            eager: (settings.eager_max as usize).min(frame - 8),
            get_min,
            put_min: u64::MAX,
        };
        ShmTransport {
            own,
            locals,
            outbound: std::iter::repeat_with(|| None).take(world).collect(),
            inbound: Default::default(),
            accepted: vec![0; peers.len().div_ceil(64)],
            connects: 0,
            pool: None,
            recycled: RecycledBlocks::new(peers.len()),
            in_mpi,
            blocked: Vec::new(),
            access: peers.iter().map(|_| Access::Unprobed).collect(),
            has_membarrier,
            expects_reply: false,
            pipelines: settings.rare_sleeps,
            caps,
            peers,
            segment,
        }
    }

    /// The memory that this host's ranks share.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether XPMEM is here and may be used: others may attach this process's memory.
    pub fn has_xpmem(&self) -> bool {
        self.own.probe.segment.load(Ordering::Relaxed) != 0
    }

    /// The local rank of a peer.
    pub(crate) fn local(&self, peer: Peer) -> Option<u32> {
        self.locals.get(peer.0 as usize).copied().filter(|&local| local != NOT_LOCAL)
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
        let lost = |why: String| PeerFailed { peer, why };
        let local = self.local(peer).ok_or_else(|| lost("it is not on this host".into()))?;
        let producer = self.producer(local).map_err(|error| lost(error.to_string()))?;
        let (me, theirs) = (self.segment.me(), self.segment.control(local));
        let outbound = Outbound {
            producer,
            event_count: &theirs.event_count,
            caps: self.caps,
            local,
            frozen: false,
            tuner: StoreTuner::default(),
            streak: 0,
            heard: 0,
        };
        self.outbound[peer.0 as usize] = Some(Box::new(outbound));
        if matches!(self.access[local as usize], Access::Refused) {
            self.refuse(peer, local);
        }
        self.segment.connect_bits(local)[me as usize / 64]
            .fetch_or(1 << (me % 64), Ordering::Relaxed);
        // Release: whoever sees the count finds the bit. Nobody has to be woken yet:
        // the first frame does that, behind a barrier that this is in front of.
        theirs.connects.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// This rank's pool, mapped when first asked for.
    pub(crate) fn map_pool(&mut self) -> Option<&mut BouncePool> {
        let segment = &self.segment;
        self.pool
            .get_or_insert_with(|| segment.pool(segment.me()).ok().map(BouncePool::new))
            .as_mut()
    }

    /// True when a peer is in a call of the library, so that it would answer soon.
    pub(crate) fn is_in_mpi(&self, local: u32) -> bool {
        self.in_mpi.get(local as usize).is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The same, or it is there in a moment. A single copy takes ten times as long.
    pub(crate) fn wait_until_in_mpi(&self, local: u32) -> bool {
        let mut since = None;
        while !self.is_in_mpi(local) {
            if since.get_or_insert_with(Instant::now).elapsed() > IN_MPI_GRACE {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    fn producer(&self, local: u32) -> Result<Producer, SegmentError> {
        let (end, me) = (self.segment.first_grains(), self.segment.me());
        self.segment.allocate(local, 0..end)?;
        Ok(Producer::new(self.segment.ring(me, local)?, end, self.peers[me as usize].0))
    }

    /// True when a rank has talked to this one for the first time.
    #[inline]
    pub(crate) fn has_new_peers(&self) -> bool {
        // Relaxed: `accept` looks again.
        self.own.connects.load(Ordering::Relaxed) != self.connects
    }

    /// Maps the rings of first-time talkers; gives those whose rings can't be.
    #[cold]
    pub(crate) fn accept(&mut self) -> Vec<PeerFailed> {
        let (me, mut lost) = (self.segment.me(), Vec::new());
        // Acquire, and the count before the bits: the bits of all counted are
        // there, and one that is set later brings another count.
        self.connects = self.own.connects.load(Ordering::Acquire);
        for (index, word) in self.segment.connect_bits(me).iter().enumerate() {
            let mut new = word.load(Ordering::Relaxed) & !self.accepted[index];
            self.accepted[index] |= new;
            while new != 0 {
                let local = index as u32 * 64 + new.trailing_zeros();
                new &= new - 1;
                let Some(&peer) = self.peers.get(local as usize) else { continue };
                match self.segment.ring(local, me) {
                    Ok(memory) => {
                        let event_count = &self.segment.control(local).event_count;
                        self.inbound.add(peer, local, event_count, Consumer::new(memory, peer.0));
                    }
                    Err(error) => lost.push(PeerFailed { peer, why: error.to_string() }),
                }
            }
        }
        lost
    }

    /// Whether a peer's memory may be read; tries it the first time.
    pub(crate) fn may_read(&mut self, peer: Peer, local: u32) -> bool {
        let access = &mut self.access[local as usize];
        if matches!(access, Access::Unprobed) {
            *access = Access::probe(&self.segment.control(local).probe);
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

    /// Never again a single copy from this peer.
    #[cold]
    pub(crate) fn refuse(&mut self, peer: Peer, local: u32) {
        self.access[local as usize] = Access::Refused;
        if let Some(Some(outbound)) = self.outbound.get_mut(peer.0 as usize) {
            outbound.caps.get_min = u64::MAX;
        }
    }
}
