//! This rank's entry on the status page, which tells the launcher what the rank is doing: one
//! relaxed store at the beginning and one at the end of each MPI call.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, Ordering};

use bootstrap::StatusEntry;

/// Takes calls that are made before MPI_Init; never read.
static NOWHERE: StatusEntry = StatusEntry::detached();
static ENTRY: AtomicPtr<StatusEntry> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

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
