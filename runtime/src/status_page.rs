//! This rank's entry on the status page, from which the launcher reads what the rank is doing. Each
//! MPI call makes one relaxed store at its beginning and one at its end.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, Ordering};

use bootstrap::StatusEntry;

/// The entry that calls before MPI_Init write to; never read.
static DETACHED: StatusEntry = StatusEntry::detached();
static ENTRY: AtomicPtr<StatusEntry> = AtomicPtr::new((&raw const DETACHED).cast_mut());

/// Records calls on the status page from now on.
pub(crate) fn attach(entry: &'static StatusEntry) {
    ENTRY.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    objects::callback::set_hook(|function| self::entry().user_callback(function));
}

/// Returns this rank's entry on the status page.
#[inline]
pub fn entry() -> &'static StatusEntry {
    // SAFETY: the pointer is never null and only ever comes from a `&'static StatusEntry`.
    unsafe { &*ENTRY.load(Ordering::Relaxed) }
}
