//! Operations on the memory of other ranks (MPI-5.0 §12.3).
//!
//! Offsets and lengths are numbers of elements. All operations check their range first and panic if
//! the target has fewer elements, or if it is not the rank of the lock.

#![allow(unsafe_code)]

use std::ptr;

use super::synchronisation::expect_completed;
use super::{Epoch, Integer, LockEpoch, PlainData};
use crate::Rank;
use crate::collective::SystemOperation;
use crate::datatype::SystemDatatype;
use crate::datatype::traits::*;
use crate::error::{call, try_call};
use crate::ffi::{self, MPI_Op, MPI_Win};
use crate::plain;
use crate::raw::traits::*;

/// Operations that complete when the epoch ends. Until then MPI owns their buffers:
///
/// ```compile_fail,E0502
/// # use mpi::window::Window;
/// fn first(window: &mut Window<f64>) {
///     let mut copy = [0.0; 4];
///     window.fence(|epoch| {
///         epoch.get(&mut copy, 0, 0);
///         println!("{}", copy[0]);
///     });
/// }
/// ```
///
/// Changing what is put is refused likewise:
///
/// ```compile_fail,E0506
/// # use mpi::window::Window;
/// fn change(window: &mut Window<f64>) {
///     let mut values = [0.0; 4];
///     window.lock_all(|epoch| {
///         epoch.put(&values, 0, 0);
///         values[0] = 1.0;
///     });
/// }
/// ```
///
/// Buffers outlive the epoch. One that the closure owns does not:
///
/// ```compile_fail,E0597
/// # use mpi::window::Window;
/// fn put(window: &mut Window<f64>) {
///     window.fence(|epoch| {
///         let values = [0.0; 4];
///         epoch.put(&values, 0, 0);
///     });
/// }
/// ```
///
/// Outside of the closure, no operation can be started:
///
/// ```compile_fail
/// # use mpi::window::Window;
/// fn put(window: &mut Window<f64>, values: &[f64]) {
///     let epoch = window.fence(|epoch| epoch);
///     epoch.put(values, 0, 0);
/// }
/// ```
impl<'scope, T: PlainData> Epoch<'scope, '_, T> {
    /// Writes elements to a rank's memory (`MPI_Put`, MPI-5.0 §12.3.1).
    #[track_caller]
    pub fn put(&self, elements: &'scope [T], rank: Rank, offset: usize) {
        let place = self.place(rank, offset, elements.len());
        let (address, count) = (elements.pointer(), elements.large_count());
        let datatype = T::equivalent_datatype();
        let (datatype, win) = (datatype.as_raw(), self.window.handle);
        // SAFETY: the target has as many elements there; the buffer is borrowed until the epoch is
        // closed.
        unsafe {
            call!(MPI_Put_c(address, count, datatype, rank, place, count, datatype, win));
        }
    }

    /// Reads elements from a rank's memory (`MPI_Get`, MPI-5.0 §12.3.2).
    #[track_caller]
    pub fn get(&self, elements: &'scope mut [T], rank: Rank, offset: usize) {
        let place = self.place(rank, offset, elements.len());
        // SAFETY: the target has as many elements there; the buffer is borrowed mutably until the
        // epoch is closed.
        unsafe { read_into(elements, rank, place, self.window.handle) };
    }
}

/// Operations whose effect on each element is atomic, for numbers. They complete when the epoch
/// ends.
impl<'scope, T> Epoch<'scope, '_, T>
where
    T: PlainData + Equivalence<Out = SystemDatatype>,
{
    /// Combines each element of a rank's memory with one of `elements` (`MPI_Accumulate`, MPI-5.0
    /// §12.3.4).
    #[track_caller]
    pub fn accumulate(
        &self,
        elements: &'scope [T],
        rank: Rank,
        offset: usize,
        operation: SystemOperation,
    ) {
        self.update(elements, rank, offset, operation.as_raw());
    }

    /// Writes elements as [`Epoch::put`] does, but each atomically (`MPI_REPLACE`, MPI-5.0
    /// §12.3.4).
    #[track_caller]
    pub fn replace(&self, elements: &'scope [T], rank: Rank, offset: usize) {
        self.update(elements, rank, offset, ffi::MPI_REPLACE);
    }

    #[track_caller]
    fn update(&self, elements: &'scope [T], rank: Rank, offset: usize, op: MPI_Op) {
        let place = self.place(rank, offset, elements.len());
        let (address, count) = (elements.pointer(), elements.large_count());
        let datatype = T::equivalent_datatype();
        let (datatype, win) = (datatype.as_raw(), self.window.handle);
        // SAFETY: as for `put`. An operation that does not suit the datatype is an error of MPI.
        unsafe {
            call!(MPI_Accumulate_c(
                address, count, datatype, rank, place, count, datatype, op, win
            ));
        }
    }

    /// Combines each element of a rank's memory with one of `elements`, and writes those that were
    /// there to `previous` (`MPI_Get_accumulate`, MPI-5.0 §12.3.4).
    ///
    /// # Panics
    /// The call panics if the buffers have different lengths.
    #[track_caller]
    pub fn get_accumulate(
        &self,
        elements: &'scope [T],
        previous: &'scope mut [T],
        rank: Rank,
        offset: usize,
        operation: SystemOperation,
    ) {
        assert!(
            elements.len() == previous.len(),
            "a buffer of {} elements for the previous ones: must have {}",
            previous.len(),
            elements.len()
        );
        let place = self.place(rank, offset, elements.len());
        let (from, count) = (elements.pointer(), elements.large_count());
        let to = previous.pointer_mut();
        let datatype = T::equivalent_datatype();
        let (datatype, op) = (datatype.as_raw(), operation.as_raw());
        let win = self.window.handle;
        // SAFETY: as for `put` and `get`; both buffers have `count` elements.
        unsafe {
            call!(MPI_Get_accumulate_c(
                from, count, datatype, to, count, datatype, rank, place, count, datatype, op, win
            ));
        }
    }
}

/// Completion of operations before the epoch ends. Their buffers remain borrowed.
impl<'scope, 'env, T: PlainData> LockEpoch<'scope, 'env, T> {
    /// Waits until all operations of this rank on the memory of `rank` are complete there
    /// (`MPI_Win_flush`, MPI-5.0 §12.5.4).
    #[track_caller]
    pub fn flush(&self, rank: Rank) {
        self.place(rank, 0, 0);
        // SAFETY: the epoch holds a lock of the rank.
        expect_completed(unsafe { try_call!(MPI_Win_flush(rank, self.window.handle)) });
    }

    /// Waits until all operations of this rank are complete (`MPI_Win_flush_all`, MPI-5.0 §12.5.4).
    pub fn flush_all(&self) {
        // SAFETY: the epoch holds a lock.
        expect_completed(unsafe { try_call!(MPI_Win_flush_all(self.window.handle)) });
    }

    /// Orders loads and stores of [`Shared`](super::Shared) memory before this call and after it,
    /// also with those of other ranks that call it, and a barrier between (`MPI_Win_sync`, MPI-5.0
    /// §12.5.4).
    pub fn sync(&self) {
        // SAFETY: the window is valid.
        unsafe { call!(MPI_Win_sync(self.window.handle)) };
    }

    /// Reads elements of a rank's memory and waits for them (`MPI_Get`, MPI-5.0 §12.3.2).
    #[track_caller]
    pub fn fetch(&self, rank: Rank, offset: usize, length: usize) -> Vec<T> {
        let place = self.place(rank, offset, length);
        let mut elements = vec![plain::zero(); length];
        // SAFETY: the target has as many elements there. The flush completes the operation before
        // the buffer is returned, or ends the program.
        unsafe { read_into(&mut elements, rank, place, self.window.handle) };
        self.flush(rank);
        elements
    }
}

/// Atomic operations on one element, complete when they return.
impl<T> LockEpoch<'_, '_, T>
where
    T: PlainData + Equivalence<Out = SystemDatatype>,
{
    /// Combines an element with `value`, and returns what it was before (`MPI_Fetch_and_op`,
    /// MPI-5.0 §12.3.4).
    #[track_caller]
    pub fn fetch_and_op(
        &self,
        value: T,
        rank: Rank,
        offset: usize,
        operation: SystemOperation,
    ) -> T {
        self.fetch_and(value, rank, offset, operation.as_raw())
    }

    /// Replaces an element by `value`, and returns what it was before (`MPI_REPLACE`, MPI-5.0
    /// §12.3.4).
    #[track_caller]
    pub fn swap(&self, value: T, rank: Rank, offset: usize) -> T {
        self.fetch_and(value, rank, offset, ffi::MPI_REPLACE)
    }

    /// Returns an element, read atomically (`MPI_NO_OP`, MPI-5.0 §12.3.4).
    #[track_caller]
    pub fn load(&self, rank: Rank, offset: usize) -> T {
        self.fetch_and(plain::zero(), rank, offset, ffi::MPI_NO_OP)
    }

    #[track_caller]
    fn fetch_and(&self, value: T, rank: Rank, offset: usize, op: MPI_Op) -> T {
        let place = self.place(rank, offset, 1);
        let mut previous = value;
        let (from, to) = (ptr::from_ref(&value).cast(), ptr::from_mut(&mut previous).cast());
        let datatype = T::equivalent_datatype().as_raw();
        // SAFETY: the target has the element. The flush completes the operation while both
        // variables live, or ends the program.
        unsafe {
            call!(MPI_Fetch_and_op(from, to, datatype, rank, place, op, self.window.handle));
        }
        self.flush(rank);
        previous
    }

    /// Replaces an element by `new` if it is `expected`; returns what it was before
    /// (`MPI_Compare_and_swap`, MPI-5.0 §12.3.4).
    #[track_caller]
    pub fn compare_and_swap(&self, expected: T, new: T, rank: Rank, offset: usize) -> T
    where
        T: Integer,
    {
        let place = self.place(rank, offset, 1);
        let mut previous = expected;
        let (new, expected) = (ptr::from_ref(&new).cast(), ptr::from_ref(&expected).cast());
        let to = ptr::from_mut(&mut previous).cast();
        let datatype = T::equivalent_datatype().as_raw();
        let win = self.window.handle;
        // SAFETY: as for `fetch_and`; the flush comes while all three variables live.
        unsafe {
            call!(MPI_Compare_and_swap(new, expected, to, datatype, rank, place, win));
        }
        self.flush(rank);
        previous
    }
}

/// Starts to read elements of a rank's memory.
///
/// # Safety
/// The target has as many elements from the displacement on. Until the operation
/// is complete, the buffer has no other use.
#[track_caller]
unsafe fn read_into<T: PlainData>(elements: &mut [T], rank: Rank, place: isize, win: MPI_Win) {
    let (address, count) = (elements.pointer_mut(), elements.large_count());
    let datatype = T::equivalent_datatype();
    let datatype = datatype.as_raw();
    // SAFETY: by the caller. Any bytes are valid elements.
    unsafe {
        call!(MPI_Get_c(address, count, datatype, rank, place, count, datatype, win));
    }
}
