//! Copies of sections that nonblocking and persistent calls use, by the request in Fortran.
//!
//! A nonblocking call's copy is stored back and freed when the request completes. A persistent
//! call's copy is loaded at each start, stored at each completion, and freed with the request.
//! Programs without such calls pay one load of a counter for each completion.

use std::collections::HashMap;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::section::{Copy, Section};

/// The copies of one request.
struct Entry {
    copies: Vec<Copy>,
    is_persistent: bool,
}

static ENTRIES: LazyLock<Mutex<HashMap<c_int, Entry>>> = LazyLock::new(Mutex::default);
/// The number of entries, to look at without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn entries() -> MutexGuard<'static, HashMap<c_int, Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if some request has copies.
#[inline]
pub(crate) fn any() -> bool {
    // Relaxed: the thread that completes a request has got its handle after its start.
    COUNT.load(Ordering::Relaxed) != 0
}

/// Keeps what a started call uses.
pub(crate) fn keep<const N: usize>(request: c_int, sections: [Section; N], is_persistent: bool) {
    let copies: Vec<Copy> = sections.into_iter().filter_map(Section::into_copy).collect();
    if copies.is_empty() {
        return;
    }
    let mut entries = entries();
    entries.insert(request, Entry { copies, is_persistent });
    COUNT.store(entries.len(), Ordering::Relaxed);
}

/// Before a persistent call starts.
pub(crate) fn starts(request: c_int) {
    if any()
        && let Some(entry) = entries().get_mut(&request)
    {
        entry.copies.iter_mut().for_each(|copy| copy.load());
    }
}

/// After a request has completed.
pub(crate) fn completed(request: c_int) {
    if !any() {
        return;
    }
    let mut entries = entries();
    let Some(entry) = entries.get_mut(&request) else { return };
    entry.copies.iter_mut().for_each(|copy| copy.store());
    if !entry.is_persistent {
        entries.remove(&request);
        COUNT.store(entries.len(), Ordering::Relaxed);
    }
}

/// After a request was freed. A nonblocking call may still use its copy, which stays for good.
pub(crate) fn freed(request: c_int) {
    if !any() {
        return;
    }
    let mut entries = entries();
    if let Some(entry) = entries.remove(&request)
        && !entry.is_persistent
    {
        std::mem::forget(entry);
    }
    COUNT.store(entries.len(), Ordering::Relaxed);
}
