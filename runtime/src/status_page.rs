//! What this rank is doing, for the launcher to read: one relaxed store at the
//! beginning and one at the end of each MPI call.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, Ordering};

use bootstrap::Entry;

/// Where calls made before MPI_Init are recorded, for nobody.
static NOWHERE: Entry = Entry::detached();
static ENTRY: AtomicPtr<Entry> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

/// From now on calls are recorded on the board.
pub(crate) fn attach(entry: &'static Entry) {
    ENTRY.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
    objects::callback::set_hook(|function| self::entry().around(function));
}

/// This rank's line on the board.
#[inline]
pub fn entry() -> &'static Entry {
    // SAFETY: the pointer is never null and only ever comes from a `&'static Entry`.
    unsafe { &*ENTRY.load(Ordering::Relaxed) }
}
