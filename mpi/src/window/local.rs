//! A rank's own memory, while no other rank accesses it.
//!
//! Both guards hold the exclusive lock of the memory, also the one that only reads: under a shared
//! lock, other ranks could write what a slice shows. A rank that only needs a copy of elements, and
//! must not wait for others, takes it in an epoch ([`super::LockEpoch::fetch`]).

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;

use super::synchronisation::{Open, Synchronisation};
use super::{PlainData, Window};
use crate::ffi;

/// A rank's own memory, for reading. Dropping it releases the lock.
#[derive(Debug)]
pub struct LocalRead<'w, T: PlainData>(Local<'w, T>);

/// A rank's own memory, for reading and writing. Dropping it releases the lock.
#[derive(Debug)]
pub struct LocalWrite<'w, T: PlainData>(Local<'w, T>);

#[derive(Debug)]
struct Local<'w, T: PlainData> {
    base: *mut T,
    length: usize,
    _lock: Open,
    /// The window outlives the guard, and cannot be used otherwise.
    window: PhantomData<&'w mut Window<T>>,
}

impl<T: PlainData> Window<T> {
    /// Waits until no epoch of another rank holds a lock of this rank's memory, and borrows it for
    /// reading (`MPI_Win_lock`, exclusive, MPI-5.0 §12.5.3).
    ///
    /// Ranks that lock this memory wait until the guard is dropped. An epoch cannot begin at this
    /// rank before that:
    ///
    /// ```compile_fail,E0499
    /// fn sum(window: &mut mpi::window::Window<f64>) {
    ///     let own = window.read();
    ///     window.fence(|epoch| {});
    ///     println!("{}", own[0]);
    /// }
    /// ```
    ///
    /// Within an epoch there is no guard:
    ///
    /// ```compile_fail,E0501
    /// fn sum(window: &mut mpi::window::Window<f64>) {
    ///     window.lock_all(|epoch| println!("{}", window.read()[0]));
    /// }
    /// ```
    ///
    /// A slice of the memory does not outlive the guard:
    ///
    /// ```compile_fail,E0505
    /// fn first(window: &mut mpi::window::Window<f64>) {
    ///     let own = window.read();
    ///     let first = &own[0];
    ///     drop(own);
    ///     println!("{first}");
    /// }
    /// ```
    pub fn read(&mut self) -> LocalRead<'_, T> {
        LocalRead(self.local())
    }

    /// Waits until no epoch of another rank holds a lock of this rank's memory, and borrows it for
    /// writing (`MPI_Win_lock`, exclusive, MPI-5.0 §12.5.3).
    pub fn write(&mut self) -> LocalWrite<'_, T> {
        LocalWrite(self.local())
    }

    fn local(&mut self) -> Local<'_, T> {
        let own = Synchronisation::Lock(ffi::MPI_LOCK_EXCLUSIVE, self.rank);
        let lock = Open::new(self.handle, own);
        let length = self.length(self.rank);
        Local { base: self.base.as_ptr(), length, _lock: lock, window: PhantomData }
    }
}

impl<T: PlainData> Deref for LocalRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.elements()
    }
}

impl<T: PlainData> Deref for LocalWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.elements()
    }
}

impl<T: PlainData> DerefMut for LocalWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.elements_mut()
    }
}

impl<T: PlainData> Local<'_, T> {
    fn elements(&self) -> &[T] {
        // SAFETY: the window has this many elements there, all with a value, and lives while it is
        // borrowed. No other rank writes them: locks are refused while this one is held; a put of
        // a fence or an access epoch reaches a rank only after that has called fence or post
        // (MPI-5.0 §12.5), for which the window is borrowed.
        unsafe { slice::from_raw_parts(self.base, self.length) }
    }

    fn elements_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `elements`; for the same reasons no other rank reads them, and the guard
        // is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.base, self.length) }
    }
}
