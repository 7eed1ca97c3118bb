//! Epochs: scopes in which a rank accesses the memory of others (MPI-5.0 §12.5).
//!
//! An epoch passes itself to a closure for a lifetime `'scope` that is longer than the closure
//! runs, and ends only after the epoch was closed. Buffers are borrowed for `'scope`, so that they
//! exist outside of the closure, and Rust code cannot use them before the epoch is over.
//! `std::thread::scope` works the same way.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;

use super::synchronisation::{Open, Synchronisation};
use super::{PlainData, Window};
use crate::Rank;
use crate::ffi;
use crate::topology::traits::Group;

/// Whether other ranks can access the target's memory in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// All others that lock it shared can. Only accumulates and the operations that are atomic then
    /// give a defined result for elements that several ranks change.
    Shared,
    /// None can.
    Exclusive,
}

/// An epoch: operations can be started, and complete when it ends.
#[derive(Debug)]
pub struct Epoch<'scope, 'env: 'scope, T: PlainData> {
    pub(super) window: &'scope Window<T>,
    /// The only target, unless all are.
    target: Option<Rank>,
    /// Both lifetimes are invariant: the closure cannot choose shorter ones.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// An epoch under locks: operations can also be completed before it ends.
#[derive(Debug)]
pub struct LockEpoch<'scope, 'env: 'scope, T: PlainData>(Epoch<'scope, 'env, T>);

impl<T: PlainData> Window<T> {
    /// Runs `work` between two fences: each rank can access the memory of all. All ranks call it;
    /// operations that they start are complete on all sides when it returns (`MPI_Win_fence`,
    /// MPI-5.0 §12.5.1).
    ///
    /// ```no_run
    /// # use mpi::window::Window;
    /// # fn example(window: &mut Window<f64>) {
    /// let right = (window.rank() + 1) % window.size();
    /// let border = [1.5, 2.5];
    /// window.fence(|epoch| epoch.put(&border, right, 0));
    /// println!("{:?}", &window.read()[..2]);
    /// # }
    /// ```
    pub fn fence<'env, R>(
        &mut self,
        work: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> R,
    ) -> R {
        self.within(Synchronisation::Fence, None, work)
    }

    /// Exposes this rank's memory to the ranks of `origins`, and runs `work`, which can access the
    /// memory of `targets`. Waits until the operations of both are complete (`MPI_Win_post`,
    /// `MPI_Win_start`, `MPI_Win_complete`, `MPI_Win_wait`, MPI-5.0 §12.5.2).
    ///
    /// Each rank of `origins` must make this rank one of its targets, and each of `targets` must
    /// make it one of its origins. Either group may be empty.
    pub fn access<'env, R>(
        &mut self,
        origins: &(impl Group + ?Sized),
        targets: &(impl Group + ?Sized),
        work: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> R,
    ) -> R {
        let groups = Synchronisation::Groups(origins.as_raw(), targets.as_raw());
        self.within(groups, None, work)
    }

    /// Runs `work` under a lock of one rank's memory, which takes no part in it (`MPI_Win_lock`,
    /// MPI-5.0 §12.5.3).
    ///
    /// # Panics
    /// The call panics if the window has no such rank.
    pub fn lock<'env, R>(
        &mut self,
        rank: Rank,
        lock: Lock,
        work: impl for<'scope> FnOnce(&'scope LockEpoch<'scope, 'env, T>) -> R,
    ) -> R {
        self.length(rank);
        let kind = match lock {
            Lock::Shared => ffi::MPI_LOCK_SHARED,
            Lock::Exclusive => ffi::MPI_LOCK_EXCLUSIVE,
        };
        self.within_locks(Synchronisation::Lock(kind, rank), Some(rank), work)
    }

    /// Runs `work` under a shared lock of each rank's memory (`MPI_Win_lock_all`, MPI-5.0 §12.5.3).
    pub fn lock_all<'env, R>(
        &mut self,
        work: impl for<'scope> FnOnce(&'scope LockEpoch<'scope, 'env, T>) -> R,
    ) -> R {
        self.within_locks(Synchronisation::LockAll, None, work)
    }

    fn within_locks<'env, R>(
        &mut self,
        locks: Synchronisation,
        target: Option<Rank>,
        work: impl for<'scope> FnOnce(&'scope LockEpoch<'scope, 'env, T>) -> R,
    ) -> R {
        // The epoch is dropped after the lock is released, and before the window.
        let epoch = LockEpoch(Epoch::new(self, target));
        let _open = Open::new(self.handle, locks);
        work(&epoch)
    }

    fn within<'env, R>(
        &mut self,
        synchronisation: Synchronisation,
        target: Option<Rank>,
        work: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> R,
    ) -> R {
        let epoch = Epoch::new(self, target);
        let _open = Open::new(self.handle, synchronisation);
        work(&epoch)
    }
}

impl<'scope, 'env, T: PlainData> Epoch<'scope, 'env, T> {
    fn new(window: &'scope Window<T>, target: Option<Rank>) -> Epoch<'scope, 'env, T> {
        Epoch { window, target, scope: PhantomData, env: PhantomData }
    }

    /// Returns this rank in the communicator of the window.
    pub fn rank(&self) -> Rank {
        self.window.rank()
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> Rank {
        self.window.size()
    }

    /// Returns the number of elements of a rank.
    ///
    /// # Panics
    /// The call panics if the window has no such rank.
    #[track_caller]
    pub fn length(&self, rank: Rank) -> usize {
        self.window.length(rank)
    }

    /// Checks that an operation can access these elements, and returns their displacement.
    #[track_caller]
    pub(super) fn place(&self, rank: Rank, offset: usize, length: usize) -> crate::Address {
        if let Some(target) = self.target {
            assert!(rank == target, "access to rank {rank} under a lock: must be to rank {target}");
        }
        self.window.displacement(rank, offset, length)
    }
}

impl<'scope, 'env, T: PlainData> Deref for LockEpoch<'scope, 'env, T> {
    type Target = Epoch<'scope, 'env, T>;

    fn deref(&self) -> &Epoch<'scope, 'env, T> {
        &self.0
    }
}
