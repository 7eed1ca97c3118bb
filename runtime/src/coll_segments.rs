//! Which communicators have an arena: memory in which their members meet (see [`fabric::coll_segment`]).
//!
//! MPI_COMM_WORLD has the first one of rank 0 from the beginning, where all ranks are on one host. Where they take turns on its
//! processors they meet in turns, else arenas are flat. Each rank has some more for other communicators. Whoever proposes a context id offers one of its own with
//! it (see `communicator`), so the id that members agree on says whether they have an arena, and which. They have it if
//! its owner is one of them: others may have been given the same id. Its states stand in `shm-transport/src/segment.rs`;
//! what the owner alone knows of them is here.
//!
//! What has none: intercommunicators, communicators of one process, or of more than [`MAX_FLAGS_RANKS`] where arenas are flat, those that are made when their proposers' arenas are all in use,
//! and all in jobs over several hosts. Then messages do.

use collectives::Thresholds;
use fabric::Peer;
use fabric::coll_segment::MAX_FLAGS_RANKS;
use objects::{Class, Comm, Error, Result};
use shm_transport::{COLL_SEGMENTS, SyncKind};

use crate::communicator::segment_in;
use crate::process::Core;

/// What a process knows of its own arenas.
pub(crate) struct CollSegments {
    /// How ranks of this job meet in arenas; `None`: not at all.
    sync: Option<SyncKind>,
    own: [Own; COLL_SEGMENTS as usize],
}

#[derive(Clone, Copy, Default)]
struct Own {
    /// Offered with a proposal whose end is not known, or given away for ever.
    is_offered: bool,
    /// How often it was leased: once by each member of each communicator that had it.
    leases: u64,
}

impl CollSegments {
    pub(crate) fn new(thresholds: &Thresholds) -> CollSegments {
        let in_turns = thresholds.oversubscribed_max.map(|_| SyncKind::Counter);
        let sync =
            in_turns.or(thresholds.shm_max.map(|_| SyncKind::Flags)).filter(|_| thresholds.shm);
        CollSegments { sync, own: [Own::default(); COLL_SEGMENTS as usize] }
    }

    /// True where a communicator of so many processes has one, if there is one.
    fn are_for(&self, size: u32) -> bool {
        size > 1
            && self.sync.is_some_and(|sync| sync == SyncKind::Counter || size <= MAX_FLAGS_RANKS)
    }
}

impl Core {
    /// The first of this process's arenas that nobody has.
    pub(crate) fn reserve_segment(&mut self) -> Option<u32> {
        let shm = self.stack.endpoint.intra().filter(|_| self.stack.endpoint.is_single_host())?;
        let CollSegments { sync, own } = &mut self.coll_segments;
        let sync = (*sync)?;
        let mut own = own.iter_mut().zip(0..);
        let free = own.find(|(own, index)| {
            !own.is_offered && shm.segment().renew_coll_segment(sync, *index, own.leases)
        });
        let (own, index) = free?;
        own.is_offered = true;
        Some(index)
    }

    /// Others' proposal was taken: what was offered with this one is free again.
    pub(crate) fn unreserve_segment(&mut self, proposal: u64) {
        if let Some((_, index)) = segment_in(proposal) {
            self.coll_segments.own[index as usize].is_offered = false;
        }
    }

    /// Gives a communicator whose context was agreed on its arena, if it has one. MPI_ERR_NO_MEM when others have
    /// it, and this process can't have it in its memory.
    pub(crate) fn attach_segment(&mut self, comm: &mut Comm) -> Result<()> {
        let Some((owner, index)) = segment_in(comm.context()) else { return Ok(()) };
        let meets = self.coll_segments.are_for(comm.size()) && comm.group().contains(Peer(owner));
        if owner == self.job.rank {
            let own = &mut self.coll_segments.own[index as usize];
            *own = Own {
                is_offered: false,
                leases: own.leases + if meets { comm.size().into() } else { 0 },
            };
        }
        if meets { self.lease(owner, index, comm) } else { Ok(()) }
    }

    /// The same for one on its way to the user.
    pub(crate) fn with_segment(&mut self, mut comm: Comm) -> Result<Comm> {
        self.attach_segment(&mut comm)?;
        Ok(comm)
    }

    /// Gives MPI_COMM_WORLD its arena.
    pub(crate) fn attach_world_segment(&mut self) -> Result<()> {
        let mut world = self.world.clone();
        if self.coll_segments.are_for(world.size()) {
            self.coll_segments.own[0].is_offered = self.job.rank == 0;
            self.lease(0, 0, &mut world)?;
        }
        self.world = world;
        Ok(())
    }

    fn lease(&self, owner: u32, index: u32, comm: &mut Comm) -> Result<()> {
        let endpoint = &self.stack.endpoint;
        let shm = endpoint.intra().filter(|_| endpoint.is_single_host());
        let (Some(sync), Some(shm)) = (self.coll_segments.sync, shm) else {
            return Ok(());
        };
        let members: Vec<u32> = comm.group().iter().map(|peer| peer.0).collect();
        let segment = shm.segment().coll_segment(sync, owner, index, &members, comm.rank());
        if let Some(segment) =
            segment.map_err(|error| Error::new(Class::NoMem, error.to_string()))?
        {
            comm.set_coll_segment(segment);
        }
        Ok(())
    }
}
