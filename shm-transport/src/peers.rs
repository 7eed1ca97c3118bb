//! The ranks of this host: their process numbers, and whether they are inside the library.

use std::time::{Duration, Instant};

use fabric::Peer;

use crate::sync::{AtomicU32, Ordering};

/// How long to wait for a peer that is between two calls of the library.
const IN_MPI_GRACE: Duration = Duration::from_micros(1);
/// Local rank of the ranks of other hosts.
const NOT_LOCAL: u32 = u32::MAX;
/// Local rank of the processes that were forgotten.
const FORGOTTEN: u32 = u32::MAX - 1;
/// In the place of a process that was forgotten.
const NOBODY: Peer = Peer(u32::MAX);

/// The ranks of a segment, then the processes of other jobs that were met.
#[derive(Debug)]
pub(crate) struct LocalPeers {
    /// World rank of each local rank, or `NOBODY`.
    by_local: Vec<Peer>,
    /// Local rank of each world rank, `NOT_LOCAL` or `FORGOTTEN`.
    by_world: Vec<u32>,
    /// By local rank: not 0 while it is in a call of the library. Empty if not known.
    in_mpi: Vec<&'static AtomicU32>,
    /// By local rank: not 0 once its process has ended. Empty if not known.
    pub ended: Vec<&'static AtomicU32>,
}

impl LocalPeers {
    pub(crate) fn new(by_local: Vec<Peer>, in_mpi: Vec<&'static AtomicU32>) -> LocalPeers {
        let world = by_local.iter().map(|peer| peer.0 as usize + 1).max().unwrap_or(0);
        let mut by_world = vec![NOT_LOCAL; world];
        for (local, peer) in (0..).zip(&by_local) {
            by_world[peer.0 as usize] = local;
        }
        LocalPeers { by_local, by_world, in_mpi, ended: Vec::new() }
    }

    /// Adds a process of another job; returns its local rank.
    pub(crate) fn add(&mut self, peer: Peer) -> u32 {
        let vacant = self.by_local.iter().position(|other| *other == NOBODY);
        let local = vacant.unwrap_or(self.by_local.len());
        match self.by_local.get_mut(local) {
            Some(place) => *place = peer,
            None => self.by_local.push(peer),
        }
        let local = local as u32;
        let world = self.by_world.len().max(peer.0 as usize + 1);
        self.by_world.resize(world, NOT_LOCAL);
        self.by_world[peer.0 as usize] = local;
        local
    }

    /// Forgets a process of another job, which has ended. The next one to be added has its local
    /// rank.
    pub(crate) fn forget(&mut self, local: u32) {
        let peer = std::mem::replace(&mut self.by_local[local as usize], NOBODY);
        self.by_world[peer.0 as usize] = FORGOTTEN;
    }

    /// Returns whether a process was forgotten: what is sent to it is lost.
    #[inline]
    pub(crate) fn is_forgotten(&self, peer: Peer) -> bool {
        self.by_world.get(peer.0 as usize) == Some(&FORGOTTEN)
    }

    /// Returns the number of ranks of this host, with the places of processes that were forgotten.
    pub(crate) fn local_ranks(&self) -> usize {
        self.by_local.len()
    }

    /// Returns the number of world ranks up to the highest of this host.
    pub(crate) fn world_ranks(&self) -> usize {
        self.by_world.len()
    }

    /// Returns the world rank of a local rank.
    pub(crate) fn world(&self, local: u32) -> Option<Peer> {
        self.by_local.get(local as usize).copied().filter(|peer| *peer != NOBODY)
    }

    /// Returns the local rank of a peer, `None` if it is not on this host or was forgotten.
    pub(crate) fn local(&self, peer: Peer) -> Option<u32> {
        self.by_world.get(peer.0 as usize).copied().filter(|&local| local < FORGOTTEN)
    }

    /// Returns whether a local rank is in a call of the library now or within [`IN_MPI_GRACE`]. A
    /// single copy takes ten times as long as that grace.
    pub(crate) fn wait_until_in_mpi(&self, local: u32) -> bool {
        if local as usize >= self.in_mpi.len() {
            return false;
        }
        let mut since = None;
        while !self.is_in_mpi(local) {
            if since.get_or_insert_with(Instant::now).elapsed() > IN_MPI_GRACE {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Returns whether a local rank is in a call of the library now.
    pub(crate) fn is_in_mpi(&self, local: u32) -> bool {
        self.in_mpi.get(local as usize).is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}
