//! Allocation of collective segments (see [`fabric::coll_segment`]) to communicators.
//!
//! If all ranks are on one host, MPI_COMM_WORLD has the first segment of rank 0, and each rank owns
//! more for other communicators. A process that proposes a context id reserves one of its segments
//! with it, so the agreed id names the segment. The members use it only if its owner is one of
//! them, since disjoint groups of one call share an id.
//!
//! In a job over several hosts, the ranks of each host share a segment for MPI_COMM_WORLD: the
//! first one of the lowest of them. Other communicators have none there.
//!
//! Intercommunicators and communicators of one process have no segment.
//! If segments use flags, communicators of more than [`MAX_FLAGS_RANKS`] have none. A communicator
//! that is made while all segments of its proposer are in use has none. These use messages.

use collectives::{HostSegment, Thresholds};
use fabric::Peer;
use fabric::coll_segment::MAX_FLAGS_RANKS;
use objects::{Class, Comm, Error, Result};
use shm_transport::{COLL_SEGMENTS, Segment, SyncKind};

use crate::context_id;

/// The collective segments that a process owns.
pub(crate) struct CollSegments {
    /// This process's rank in MPI_COMM_WORLD.
    rank: u32,
    /// How members count arrivals in this job; `None` if there are no segments.
    sync: Option<SyncKind>,
    own: [OwnSegment; COLL_SEGMENTS as usize],
}

#[derive(Clone, Copy, Default)]
struct OwnSegment {
    /// Reserved with a proposal that has not ended, or in use until the job ends.
    is_reserved: bool,
    /// The number of leases: one for each member of each communicator that had it.
    leases: u64,
}

impl CollSegments {
    /// Returns the segments of a process, all of them free.
    pub(crate) fn new(rank: u32, thresholds: &Thresholds) -> CollSegments {
        let counter = thresholds.oversubscribed_max.map(|_| SyncKind::Counter);
        let flags = thresholds.shm_max.map(|_| SyncKind::Flags);
        let of_host = thresholds.host_segment.map(|segment| match segment {
            HostSegment::Counter { .. } => SyncKind::Counter,
            HostSegment::Flags { .. } => SyncKind::Flags,
        });
        let sync = counter.or(flags).or(of_host).filter(|_| thresholds.shm);
        CollSegments { rank, sync, own: [OwnSegment::default(); COLL_SEGMENTS as usize] }
    }

    /// Reserves the first free segment of this process; returns its index.
    pub(crate) fn reserve(&mut self, host: Option<&Segment>) -> Option<u32> {
        let (host, sync) = (host?, self.sync?);
        let is_free = |own: &OwnSegment, index| {
            !own.is_reserved && host.renew_coll_segment(sync, index, own.leases)
        };
        let (own, index) =
            self.own.iter_mut().zip(0..).find(|(own, index)| is_free(own, *index))?;
        own.is_reserved = true;
        Some(index)
    }

    /// Frees the segment that was reserved with a proposal that the members did not take.
    pub(crate) fn unreserve(&mut self, proposal: u64) {
        if let Some((_, index)) = context_id::segment(proposal) {
            self.own[index as usize].is_reserved = false;
        }
    }

    /// Gives a communicator the segment that its context id names, if any; MPI_ERR_NO_MEM if this
    /// process cannot map the segment.
    pub(crate) fn attach(&mut self, host: Option<&Segment>, comm: &mut Comm) -> Result<()> {
        let Some((owner, index)) = context_id::segment(comm.context()) else { return Ok(()) };
        let is_for_comm = self.can_have_segment(comm.size()) && comm.group().contains(Peer(owner));
        if owner == self.rank {
            let own = &mut self.own[index as usize];
            own.is_reserved = false;
            own.leases += if is_for_comm { comm.size().into() } else { 0 };
        }
        if is_for_comm { self.lease(host, owner, index, comm) } else { Ok(()) }
    }

    /// Gives MPI_COMM_WORLD its segment.
    pub(crate) fn attach_world(&mut self, host: Option<&Segment>, world: &mut Comm) -> Result<()> {
        if !self.can_have_segment(world.size()) {
            return Ok(());
        }
        self.own[0].is_reserved = self.rank == 0;
        self.lease(host, 0, 0, world)
    }

    /// Gives MPI_COMM_WORLD of a job over several hosts the segment of this host's ranks, of which
    /// this process is number `me` of `size`.
    pub(crate) fn attach_host(
        &mut self,
        host: Option<&Segment>,
        (me, size): (u32, u32),
        world: &mut Comm,
    ) -> Result<()> {
        if !self.can_have_segment(size) {
            return Ok(());
        }
        let members: Vec<u32> = (0..size).collect();
        self.lease_to(host, (0, 0), (&members, me), world)
    }

    /// Returns true if a communicator of `size` processes can have a segment.
    fn can_have_segment(&self, size: u32) -> bool {
        let can = |sync| sync == SyncKind::Counter || size <= MAX_FLAGS_RANKS;
        size > 1 && self.sync.is_some_and(can)
    }

    /// Maps a segment for a communicator.
    fn lease(&self, host: Option<&Segment>, owner: u32, index: u32, comm: &mut Comm) -> Result<()> {
        let members: Vec<u32> = comm.group().iter().map(|peer| peer.0).collect();
        let me = comm.rank();
        self.lease_to(host, (owner, index), (&members, me), comm)
    }

    /// Maps a segment whose members, `me` among them, are ranks of this host.
    fn lease_to(
        &self,
        host: Option<&Segment>,
        (owner, index): (u32, u32),
        (members, me): (&[u32], u32),
        comm: &mut Comm,
    ) -> Result<()> {
        let (Some(sync), Some(host)) = (self.sync, host) else { return Ok(()) };
        let segment = host
            .coll_segment(sync, owner, index, members, me)
            .map_err(|error| Error::new(Class::NoMem, error.to_string()))?;
        segment.into_iter().for_each(|segment| comm.set_coll_segment(segment));
        Ok(())
    }
}
