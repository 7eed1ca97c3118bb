//! What this rank is doing, for the launcher to read: one relaxed store at the
//! beginning and one at the end of each MPI call.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, Ordering};

use bootstrap::StatusEntry;

/// Where calls made before MPI_Init are recorded, for nobody.
static NOWHERE: StatusEntry = StatusEntry::detached();
static ENTRY: AtomicPtr<StatusEntry> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

/// From now on calls are recorded on the board.
pub(crate) fn attach(entry: &'static StatusEntry) {
    ENTRY.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    objects::callback::set_hook(|function| self::entry().user_callback(function));
}

/// This rank's line on the board.
#[inline]
pub fn entry() -> &'static StatusEntry {
    // SAFETY: the pointer is never null and only ever comes from a `&'static StatusEntry`.
    unsafe { &*ENTRY.load(Ordering::Relaxed) }
}
