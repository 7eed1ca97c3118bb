//! Allocation of collective segments (see [`fabric::coll_segment`]) to communicators.
//!
//! The members of a communicator that are on one host share a segment. MPI_COMM_WORLD has the first
//! segment of the lowest rank of each host, and each rank owns more for other communicators. A
//! process that proposes a context id reserves one of its segments with it, so the largest proposal
//! of a host names the segment there. The members use it only if its owner is one of them, since
//! disjoint groups of one call share an agreement.
//!
//! Intercommunicators have no segment, and where a communicator has one member on a host, the host
//! has none. If segments use flags, more than [`MAX_FLAGS_RANKS`] members have none. Where all
//! segments of the proposer are in use, there is none. These use messages.

use collectives::{HostSegment, Thresholds};
use fabric::Peer;
use fabric::coll_segment::MAX_FLAGS_RANKS;
use objects::{Class, Comm, Error, Result};
use shm_transport::{COLL_SEGMENTS, Segment, SyncKind};

use crate::context_id;

/// This process's host.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    /// The memory of its ranks.
    pub(crate) segment: &'a Segment,
    /// The numbers of its processes, in rising order.
    pub(crate) numbers: &'a [u32],
}

impl Host<'_> {
    /// Returns the local rank of a process of this host.
    fn local_rank(&self, peer: Peer) -> Option<u32> {
        self.numbers.binary_search(&peer.0).ok().map(|local| local as u32)
    }

    /// Returns the local ranks of a communicator's members on this host, in the order of its ranks.
    fn members(&self, comm: &Comm) -> Vec<u32> {
        comm.group().iter().filter_map(|peer| self.local_rank(peer)).collect()
    }
}

/// The collective segments that a process owns.
pub(crate) struct CollSegments {
    /// This process's number.
    number: u32,
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
    pub(crate) fn new(number: u32, thresholds: &Thresholds) -> CollSegments {
        let counter = thresholds.oversubscribed_max.map(|_| SyncKind::Counter);
        let flags = thresholds.shm_max.map(|_| SyncKind::Flags);
        let of_host = thresholds.host_segment.map(|segment| match segment {
            HostSegment::Counter { .. } => SyncKind::Counter,
            HostSegment::Flags { .. } => SyncKind::Flags,
        });
        let sync = counter.or(flags).or(of_host).filter(|_| thresholds.shm);
        CollSegments { number, sync, own: [OwnSegment::default(); COLL_SEGMENTS as usize] }
    }

    /// Reserves the first free segment of this process; returns its index.
    pub(crate) fn reserve(&mut self, host: Option<Host>) -> Option<u32> {
        let (host, sync) = (host?, self.sync?);
        let is_free = |own: &OwnSegment, index| {
            !own.is_reserved && host.segment.renew_coll_segment(sync, index, own.leases)
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

    /// Frees the segment that the largest proposal of this host names, if it is this process's own:
    /// the communicator takes none.
    pub(crate) fn decline(&mut self, proposal: u64) {
        if context_id::segment(proposal).is_some_and(|(owner, _)| owner == self.number) {
            self.unreserve(proposal);
        }
    }

    /// Gives a communicator the segment that the largest proposal of this host names, if any;
    /// MPI_ERR_NO_MEM if this process cannot map the segment.
    pub(crate) fn attach(
        &mut self,
        host: Option<Host>,
        comm: &mut Comm,
        proposal: u64,
    ) -> Result<()> {
        let (Some(host), Some((owner, index))) = (host, context_id::segment(proposal)) else {
            return Ok(());
        };
        let members = host.members(comm);
        let local = host.local_rank(Peer(owner)).filter(|local| members.contains(local));
        let local = local.filter(|_| self.can_have_segment(members.len()));
        if owner == self.number {
            let own = &mut self.own[index as usize];
            own.is_reserved = false;
            own.leases += if local.is_some() { members.len() as u64 } else { 0 };
        }
        match local {
            Some(owner) => self.lease(host, (owner, index), &members, comm),
            None => Ok(()),
        }
    }

    /// Gives MPI_COMM_WORLD its segment.
    pub(crate) fn attach_world(&mut self, host: Option<Host>, world: &mut Comm) -> Result<()> {
        let Some(host) = host else { return Ok(()) };
        let members = host.members(world);
        if !self.can_have_segment(members.len()) {
            return Ok(());
        }
        self.own[0].is_reserved = host.numbers[0] == self.number;
        self.lease(host, (0, 0), &members, world)
    }

    /// Returns true if so many members on a host can have a segment.
    fn can_have_segment(&self, members: usize) -> bool {
        let can = |sync| sync == SyncKind::Counter || members <= MAX_FLAGS_RANKS as usize;
        members > 1 && self.sync.is_some_and(can)
    }

    /// Maps a segment, by the local rank of its owner and its index there, for the local ranks
    /// `members`, this process among them.
    fn lease(
        &self,
        host: Host,
        (owner, index): (u32, u32),
        members: &[u32],
        comm: &mut Comm,
    ) -> Result<()> {
        let own = host.local_rank(Peer(self.number));
        let me = members.iter().position(|member| Some(*member) == own);
        let (Some(sync), Some(me)) = (self.sync, me) else { return Ok(()) };
        let segment = host
            .segment
            .coll_segment(sync, owner, index, members, me as u32)
            .map_err(|error| Error::new(Class::NoMem, error.to_string()))?;
        segment.into_iter().for_each(|segment| comm.set_coll_segment(segment));
        Ok(())
    }
}
