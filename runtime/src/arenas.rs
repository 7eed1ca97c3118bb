//! Which communicators have an arena: memory in which their members meet (see [`fabric::coll_segment`]).
//!
//! MPI_COMM_WORLD has the first one of rank 0 from the beginning, where all ranks are on one host. Where they take turns on its
//! processors they meet in turns, else arenas are flat. Each rank has some more for other communicators. Whoever proposes a context id offers one of its own with
//! it (see `communicator`), so the id that members agree on says whether they have an arena, and which. They have it if
//! its owner is one of them: others may have been given the same id. Its states stand in `shm-transport/src/arena.rs`;
//! what the owner alone knows of them is here.
//!
//! What has none: intercommunicators, communicators of one process, or of more than [`FEW`] where arenas are flat, those that are made when their proposers' arenas are all in use,
//! and all in jobs over several hosts. Then messages do.

use collectives::Thresholds;
use fabric::Peer;
use fabric::coll_segment::FEW;
use objects::{Class, Comm, Error, Result};
use shm_transport::{ARENAS, Meetings};

use crate::communicator::arena_in;
use crate::process::Core;
use crate::routes::Routes;

/// What a process knows of its own arenas.
pub(crate) struct Arenas {
    /// How ranks of this job meet in arenas; `None`: not at all.
    meetings: Option<Meetings>,
    own: [Own; ARENAS as usize],
}

#[derive(Clone, Copy, Default)]
struct Own {
    /// Offered with a proposal whose end is not known, or given away for ever.
    is_offered: bool,
    /// How often it was leased: once by each member of each communicator that had it.
    leases: u64,
}

impl Arenas {
    pub(crate) fn new(thresholds: &Thresholds) -> Arenas {
        let in_turns = thresholds.crowded_short.map(|_| Meetings::InTurns);
        let meetings = in_turns
            .or(thresholds.flat_short.map(|_| Meetings::Flat))
            .filter(|_| thresholds.arenas);
        Arenas { meetings, own: [Own::default(); ARENAS as usize] }
    }

    /// True where a communicator of so many processes has one, if there is one.
    fn are_for(&self, size: u32) -> bool {
        size > 1
            && self.meetings.is_some_and(|meetings| meetings == Meetings::InTurns || size <= FEW)
    }
}

impl Core {
    /// The first of this process's arenas that nobody has.
    pub(crate) fn offer_arena(&mut self) -> Option<u32> {
        let Routes::Shm(shm) = self.engine.transport() else { return None };
        let Arenas { meetings, own } = &mut self.arenas;
        let meetings = (*meetings)?;
        let mut own = own.iter_mut().zip(0..);
        let free = own.find(|(own, index)| {
            !own.is_offered && shm.segment().renew_arena(meetings, *index, own.leases)
        });
        let (own, index) = free?;
        own.is_offered = true;
        Some(index)
    }

    /// Others' proposal was taken: what was offered with this one is free again.
    pub(crate) fn withdraw_arena(&mut self, proposal: u64) {
        if let Some((_, index)) = arena_in(proposal) {
            self.arenas.own[index as usize].is_offered = false;
        }
    }

    /// Gives a communicator whose context was agreed on its arena, if it has one. MPI_ERR_NO_MEM when others have
    /// it, and this process can't have it in its memory.
    pub(crate) fn give_arena(&mut self, comm: &mut Comm) -> Result<()> {
        let Some((owner, index)) = arena_in(comm.context()) else { return Ok(()) };
        let meets = self.arenas.are_for(comm.size()) && comm.group().contains(Peer(owner));
        if owner == self.job.rank {
            let own = &mut self.arenas.own[index as usize];
            *own = Own {
                is_offered: false,
                leases: own.leases + if meets { comm.size().into() } else { 0 },
            };
        }
        if meets { self.lease(owner, index, comm) } else { Ok(()) }
    }

    /// The same for one on its way to the user.
    pub(crate) fn with_arena(&mut self, mut comm: Comm) -> Result<Comm> {
        self.give_arena(&mut comm)?;
        Ok(comm)
    }

    /// Gives MPI_COMM_WORLD its arena.
    pub(crate) fn open_arenas(&mut self) -> Result<()> {
        let mut world = self.world.clone();
        if self.arenas.are_for(world.size()) {
            self.arenas.own[0].is_offered = self.job.rank == 0;
            self.lease(0, 0, &mut world)?;
        }
        self.world = world;
        Ok(())
    }

    fn lease(&self, owner: u32, index: u32, comm: &mut Comm) -> Result<()> {
        let (Some(meetings), Routes::Shm(shm)) = (self.arenas.meetings, self.engine.transport())
        else {
            return Ok(());
        };
        let members: Vec<u32> = comm.group().iter().map(|peer| peer.0).collect();
        let arena = shm.segment().arena(meetings, owner, index, &members, comm.rank());
        if let Some(arena) = arena.map_err(|error| Error::new(Class::NoMem, error.to_string()))? {
            comm.set_arena(arena);
        }
        Ok(())
    }
}
