//! Windows and their memory: its allocation, and its length on each rank.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

use super::synchronisation::{self, Open, Synchronisation};
use crate::environment::frees_objects;
use crate::error::call;
use crate::ffi::{self, MPI_Win};
use crate::plain::PlainData;
use crate::raw::traits::*;
use crate::topology::handle::CommunicatorHandle;
use crate::topology::{Communicator, check_rank};
use crate::{Address, Rank};

/// Memory of `T` on each rank of a communicator, accessible to all of them.
///
/// The owner accesses its part by [`Window::read`] and [`Window::write`], other ranks in an
/// [epoch](super#epochs). Errors of windows end the job, with an explanation.
///
/// All ranks must drop the window, as this is collective (MPI-5.0 §12.2.5). A rank that panics does
/// not take part, and neither does one that has finalized MPI.
///
/// ```no_run
/// use mpi::collective::SystemOperation;
/// use mpi::traits::*;
/// use mpi::window::Window;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mut counter = Window::<u64>::allocate(&world, 1);
/// let ticket = counter.lock_all(|epoch| epoch.fetch_and_op(1, 0, 0, SystemOperation::sum()));
/// println!("rank {} has ticket {ticket}", world.rank());
/// ```
#[derive(Debug)]
pub struct Window<T: PlainData> {
    pub(super) handle: MPI_Win,
    pub(super) rank: Rank,
    /// This rank's memory: aligned, and of the length below.
    pub(super) base: NonNull<T>,
    lengths: Lengths,
    /// Calls of MPI for a window come from one thread: `NonNull` is neither `Send` nor `Sync`.
    elements: PhantomData<T>,
}

/// The numbers of elements of all ranks.
#[derive(Debug)]
enum Lengths {
    /// All of this many ranks have the same.
    Same { ranks: usize, length: usize },
    /// By rank.
    Each(Vec<usize>),
}

/// How the memory is allocated.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Shared,
}

impl<T: PlainData> Window<T> {
    /// Allocates `length` elements on this rank, all bytes zero. Ranks may give different lengths.
    ///
    /// The call is collective (`MPI_Win_allocate`, MPI-5.0 §12.2.2).
    ///
    /// # Panics
    /// The call panics if ranks have types of different sizes, or if the memory has more than
    /// `isize::MAX` bytes.
    pub fn allocate<C: Communicator + ?Sized>(comm: &C, length: usize) -> Window<T> {
        Window::new(comm.as_handle(), length, Kind::Any)
    }

    /// Allocates `length` elements on this rank, all bytes zero, in memory that all ranks map. All
    /// ranks must be on one host (`Communicator::split_shared`).
    /// [`LockEpoch::shared`](super::LockEpoch::shared) accesses the memory of another rank by loads
    /// and stores.
    ///
    /// The call is collective (`MPI_Win_allocate_shared`, MPI-5.0 §12.2.3).
    ///
    /// # Panics
    /// As [`Window::allocate`].
    pub fn allocate_shared<C: Communicator + ?Sized>(comm: &C, length: usize) -> Window<T> {
        Window::new(comm.as_handle(), length, Kind::Shared)
    }

    fn new(comm: &CommunicatorHandle, length: usize, kind: Kind) -> Window<T> {
        const { assert!(size_of::<T>() > 0, "elements of a window have bytes") };
        let bytes = length.checked_mul(size_of::<T>()).and_then(|n| Address::try_from(n).ok());
        let bytes = bytes.unwrap_or_else(|| panic!("{length} elements have too many bytes"));
        synchronisation::watch_finalize();
        let mut handle = ffi::MPI_WIN_NULL;
        let mut base = ptr::null_mut::<T>();
        let unit = size_of::<T>() as Address;
        let address = (&raw mut base).cast::<c_void>();
        let info = ffi::MPI_INFO_NULL;
        let (raw, rank) = (comm.as_raw(), comm.rank());
        // SAFETY: the communicator is valid; the outputs are variables of their types.
        unsafe {
            match kind {
                Kind::Any => {
                    call!(MPI_Win_allocate_c(bytes, unit, info, raw, address, &mut handle));
                }
                Kind::Shared => {
                    call!(MPI_Win_allocate_shared_c(bytes, unit, info, raw, address, &mut handle));
                }
            }
        }
        let base =
            if length == 0 { NonNull::dangling() } else { clear(handle, rank, base, length) };
        // No rank can access the memory of another one before that is cleared: each waits here for
        // all.
        let lengths = Lengths::exchange::<T>(comm, length);
        Window { handle, rank, base, lengths, elements: PhantomData }
    }

    /// Returns this rank in the communicator of the window.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> Rank {
        self.lengths.ranks() as Rank
    }

    /// Returns the number of elements of a rank.
    ///
    /// # Panics
    /// The call panics if the window has no such rank.
    #[track_caller]
    pub fn length(&self, rank: Rank) -> usize {
        self.lengths.of(rank)
    }

    /// Returns the displacement of `length` elements from `offset` on, all of which a rank has.
    #[track_caller]
    pub(super) fn displacement(&self, rank: Rank, offset: usize, length: usize) -> Address {
        let limit = self.lengths.of(rank);
        assert!(
            length <= limit && offset <= limit - length,
            "access to {length} elements from element {offset} on of rank {rank}: must be within \
             its {limit}"
        );
        // Memory has at most isize::MAX bytes.
        offset as Address
    }
}

/// Sets this rank's memory to zero.
#[track_caller]
fn clear<T: PlainData>(handle: MPI_Win, rank: Rank, base: *mut T, length: usize) -> NonNull<T> {
    let base = NonNull::new(base).expect("memory of a window has no address");
    assert!(base.is_aligned(), "memory of a window is not aligned for its elements");
    let _lock = Open::new(handle, Synchronisation::Lock(ffi::MPI_LOCK_EXCLUSIVE, rank));
    // SAFETY: the memory has this many elements, of which zero is a value. By the lock no other
    // rank accesses it.
    unsafe { base.write_bytes(0, length) };
    base
}

impl Lengths {
    /// Tells all ranks the length, and waits for theirs.
    fn exchange<T>(comm: &CommunicatorHandle, length: usize) -> Lengths {
        let own = [length, size_of::<T>()];
        let mut all = vec![[0; 2]; comm.size() as usize];
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let (datatype, comm) = (ffi::MPI_UINT64_T, comm.as_raw());
        // SAFETY: `own` has two numbers, and `all` two of each rank; usize has the size of u64.
        unsafe { call!(MPI_Allgather_c(from, 2, datatype, to, 2, datatype, comm)) };
        for (rank, &[_, size]) in all.iter().enumerate() {
            assert!(
                size == size_of::<T>(),
                "elements of {size} bytes at rank {rank} of a window: must be {} as here",
                size_of::<T>()
            );
        }
        if all.iter().all(|&[theirs, _]| theirs == length) {
            return Lengths::Same { ranks: all.len(), length };
        }
        Lengths::Each(all.iter().map(|&[length, _]| length).collect())
    }

    fn ranks(&self) -> usize {
        match self {
            Lengths::Same { ranks, .. } => *ranks,
            Lengths::Each(lengths) => lengths.len(),
        }
    }

    #[track_caller]
    fn of(&self, rank: Rank) -> usize {
        check_rank(rank, self.ranks() as Rank);
        match self {
            Lengths::Same { length, .. } => *length,
            Lengths::Each(lengths) => lengths[rank as usize],
        }
    }
}

// SAFETY: the window frees its handle when it is dropped.
unsafe impl<T: PlainData> AsRaw for Window<T> {
    type Raw = MPI_Win;

    fn as_raw(&self) -> MPI_Win {
        self.handle
    }
}

impl<T: PlainData> Drop for Window<T> {
    fn drop(&mut self) {
        // The ranks that a panicking one leaves alone would wait for it here.
        if !frees_objects() {
            return;
        }
        // SAFETY: the handle is the window's own. Epochs and guards borrow the window, so that none
        // is open; a lock of a guard that was leaked is an error of the call.
        unsafe { call!(MPI_Win_free(&mut self.handle)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_each_rank() {
        let same = Lengths::Same { ranks: 3, length: 7 };
        assert_eq!((same.ranks(), same.of(0), same.of(2)), (3, 7, 7));
        let each = Lengths::Each(vec![1, 0]);
        assert_eq!((each.ranks(), each.of(0), each.of(1)), (2, 1, 0));
    }

    #[test]
    #[should_panic(expected = "invalid rank -1: must be 0 to 2")]
    fn a_negative_rank_is_refused() {
        Lengths::Same { ranks: 3, length: 7 }.of(-1);
    }
}
