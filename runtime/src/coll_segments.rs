//! Which communicators have a collective segment (see [`fabric::coll_segment`]).
//!
//! MPI_COMM_WORLD has the first one of rank 0 from the beginning, if all ranks are on one host.
//! Each rank owns some more for other communicators. A process that proposes a context id reserves
//! one of its own with it, so the id on which the members agree says which segment they have. They
//! have it if its owner is a member: disjoint groups of one call share an id. The states of a
//! segment stand in `shm-transport/src/coll_segment.rs`; what only the owner knows stands here.
//!
//! These have none, and use messages: intercommunicators, communicators of one process, or of more
//! than [`MAX_FLAGS_RANKS`] where segments have flags, communicators made while all segments of
//! their proposers are in use, and all communicators of jobs over several hosts.

use collectives::Thresholds;
use fabric::Peer;
use fabric::coll_segment::MAX_FLAGS_RANKS;
use objects::{Class, Comm, Error, Result};
use shm_transport::{COLL_SEGMENTS, Segment, SyncKind};

use crate::context_id;

/// What a process knows of its own collective segments.
pub(crate) struct CollSegments {
    /// This process's rank in MPI_COMM_WORLD.
    rank: u32,
    /// How the ranks of this job count who has arrived; `None`: there are no segments.
    sync: Option<SyncKind>,
    own: [Own; COLL_SEGMENTS as usize],
}

#[derive(Clone, Copy, Default)]
struct Own {
    /// Reserved with a proposal whose outcome is not known, or in use until the job ends.
    is_reserved: bool,
    /// How often it was leased: once by each member of each communicator that had it.
    leases: u64,
}

impl CollSegments {
    /// The segments of a process, none of them in use.
    pub(crate) fn new(rank: u32, thresholds: &Thresholds) -> CollSegments {
        let counter = thresholds.oversubscribed_max.map(|_| SyncKind::Counter);
        let flags = thresholds.shm_max.map(|_| SyncKind::Flags);
        let sync = counter.or(flags).filter(|_| thresholds.shm);
        CollSegments { rank, sync, own: [Own::default(); COLL_SEGMENTS as usize] }
    }

    /// Reserves the first free segment of this process in the host's memory.
    pub(crate) fn reserve(&mut self, host: Option<&Segment>) -> Option<u32> {
        let (host, sync) = (host?, self.sync?);
        let is_free =
            |own: &Own, index| !own.is_reserved && host.renew_coll_segment(sync, index, own.leases);
        let (own, index) =
            self.own.iter_mut().zip(0..).find(|(own, index)| is_free(own, *index))?;
        own.is_reserved = true;
        Some(index)
    }

    /// Frees what was reserved with a proposal that the members did not take.
    pub(crate) fn unreserve(&mut self, proposal: u64) {
        if let Some((_, index)) = context_id::segment(proposal) {
            self.own[index as usize].is_reserved = false;
        }
    }

    /// Gives a communicator the segment that its context id names, if any. MPI_ERR_NO_MEM if the
    /// other members have it, and this process cannot map it.
    pub(crate) fn attach(&mut self, host: Option<&Segment>, comm: &mut Comm) -> Result<()> {
        let Some((owner, index)) = context_id::segment(comm.context()) else { return Ok(()) };
        let is_for_comm = self.serve(comm.size()) && comm.group().contains(Peer(owner));
        if owner == self.rank {
            let own = &mut self.own[index as usize];
            own.is_reserved = false;
            own.leases += if is_for_comm { comm.size().into() } else { 0 };
        }
        if is_for_comm { self.lease(host, owner, index, comm) } else { Ok(()) }
    }

    /// Gives MPI_COMM_WORLD its segment.
    pub(crate) fn attach_world(&mut self, host: Option<&Segment>, world: &mut Comm) -> Result<()> {
        if !self.serve(world.size()) {
            return Ok(());
        }
        self.own[0].is_reserved = self.rank == 0;
        self.lease(host, 0, 0, world)
    }

    /// True if a communicator of so many processes can have a segment.
    fn serve(&self, size: u32) -> bool {
        let can = |sync| sync == SyncKind::Counter || size <= MAX_FLAGS_RANKS;
        size > 1 && self.sync.is_some_and(can)
    }

    fn lease(&self, host: Option<&Segment>, owner: u32, index: u32, comm: &mut Comm) -> Result<()> {
        let (Some(sync), Some(host)) = (self.sync, host) else { return Ok(()) };
        let members: Vec<u32> = comm.group().iter().map(|peer| peer.0).collect();
        let segment = host
            .coll_segment(sync, owner, index, &members, comm.rank())
            .map_err(|error| Error::new(Class::NoMem, error.to_string()))?;
        segment.into_iter().for_each(|segment| comm.set_coll_segment(segment));
        Ok(())
    }
}
