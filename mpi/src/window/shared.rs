//! Loads and stores in the memory of a rank of the same host.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::{ptr, slice};

use super::{LockEpoch, PlainData};
use crate::error::call;
use crate::plain::{self, load_shared, store_shared};
use crate::{Address, Rank};

/// The memory of a rank of the same host, while this rank holds a lock of it.
///
/// Other ranks may write it at the same time. Therefore elements are copied, and never borrowed.
/// Elements of up to 8 bytes are not torn, but an order among elements needs
/// [`LockEpoch::sync`] and a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'scope, T: PlainData> {
    /// Aligned, and of `length` elements until the epoch ends.
    base: *mut T,
    length: usize,
    elements: PhantomData<&'scope [Cell<T>]>,
}

impl<'scope, T: PlainData> LockEpoch<'scope, '_, T> {
    /// Returns the memory of a rank, or `None` if this rank has not mapped it
    /// (`MPI_Win_shared_query`, MPI-5.0 §12.2.3).
    ///
    /// It is mapped in windows of [`Window::allocate_shared`](super::Window::allocate_shared), and
    /// in others if the library can.
    ///
    /// ```compile_fail
    /// # use mpi::window::Window;
    /// fn keep(window: &mut Window<f64>) {
    ///     let memory = window.lock_all(|epoch| epoch.shared(0));
    ///     println!("{}", memory.unwrap().load(0));
    /// }
    /// ```
    #[track_caller]
    pub fn shared(&self, rank: Rank) -> Option<Shared<'scope, T>> {
        self.place(rank, 0, 0);
        let length = self.length(rank);
        let (mut bytes, mut unit): (Address, Address) = (0, 0);
        let mut base = ptr::null_mut::<T>();
        let address = (&raw mut base).cast::<c_void>();
        let win = self.window.handle;
        // SAFETY: the outputs are variables of their types.
        unsafe { call!(MPI_Win_shared_query_c(win, rank, &mut bytes, &mut unit, address)) };
        if length == 0 || base.is_null() || (bytes as usize) < length * size_of::<T>() {
            return None;
        }
        assert!(base.is_aligned(), "memory of a window is not aligned for its elements");
        // The lock may be delayed until the first operation (MPI-5.0 §12.5.3).
        self.fetch(rank, 0, 1);
        Some(Shared { base, length, elements: PhantomData })
    }
}

impl<T: PlainData> Shared<'_, T> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns an element.
    ///
    /// # Panics
    /// The call panics if there is no such element.
    #[inline]
    #[track_caller]
    pub fn load(&self, index: usize) -> T {
        let mut value = plain::zero();
        // SAFETY: the element is there until the epoch ends. This process borrows the memory of the
        // window nowhere else while an epoch is open, and accesses it by atomics.
        unsafe { load_shared(self.at(index, 1), slice::from_mut(&mut value)) };
        value
    }

    /// Writes an element.
    ///
    /// # Panics
    /// The call panics if there is no such element.
    #[inline]
    #[track_caller]
    pub fn store(&self, index: usize, value: T) {
        // SAFETY: as for `load`. No rank borrows the memory: that takes an exclusive lock.
        unsafe { store_shared(slice::from_ref(&value), self.at(index, 1)) };
    }

    /// Copies as many elements as `to` has, from `index` on.
    ///
    /// # Panics
    /// The call panics if there are fewer elements.
    #[track_caller]
    pub fn copy_to(&self, index: usize, to: &mut [T]) {
        // SAFETY: as for `load`; as many elements are there.
        unsafe { load_shared(self.at(index, to.len()), to) };
    }

    /// Writes elements from `index` on.
    ///
    /// # Panics
    /// The call panics if there are fewer elements.
    #[track_caller]
    pub fn copy_from(&self, index: usize, from: &[T]) {
        // SAFETY: as for `store`; as many elements are there.
        unsafe { store_shared(from, self.at(index, from.len())) };
    }

    /// Returns where an element lies, that has `length` from it on.
    #[inline]
    #[track_caller]
    fn at(&self, index: usize, length: usize) -> *mut T {
        assert!(
            length <= self.length && index <= self.length - length,
            "access to {length} elements from element {index} on: must be within {}",
            self.length
        );
        // SAFETY: the element is there, or the end of all.
        unsafe { self.base.add(index) }
    }
}
