//! Copies of sections that nonblocking and persistent calls use, by the request in Fortran.
//!
//! A nonblocking call's copy is stored back and freed when the request completes. A persistent
//! call's copy is loaded at each start, stored at each completion, and freed with the request. That
//! of a partitioned call is loaded by partitions as they become ready, and each partition is stored
//! once, when it is found to have arrived or at the completion. Programs without such calls pay one
//! load of a counter for each completion.
//!
//! A copy is stored when a call first reports the completion, which may be MPI_Request_get_status.
//! The request remains then, but the program may write the section, and no later call stores it.

use std::collections::HashMap;
use std::ops::Range;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::copy::Copy;
use crate::section::Section;

/// The copies of one request.
struct Entry {
    copies: Vec<Copy>,
    /// Sections whose types are freed with the entry.
    types: Vec<Section>,
    kind: Kind,
    /// MPI uses the copies: from the start until a call reports the completion.
    is_active: bool,
}

/// How often a request uses its copies.
enum Kind {
    /// Until it completes.
    Once,
    /// From each start to the completion.
    Persistent,
    /// As `Persistent`, but by partitions.
    Partitioned {
        /// Bytes of a partition.
        bytes: usize,
        /// The partitions that were stored since the start.
        stored: Vec<bool>,
    },
}

static ENTRIES: LazyLock<Mutex<HashMap<c_int, Entry>>> = LazyLock::new(Mutex::default);
/// The number of entries, to look at without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn entries() -> MutexGuard<'static, HashMap<c_int, Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `with` with the entry of a request, if it has one.
fn with_entry(request: c_int, with: impl FnOnce(&mut Entry)) {
    if any()
        && let Some(entry) = entries().get_mut(&request)
    {
        with(entry);
    }
}

/// True if some request has copies.
#[inline]
pub(crate) fn any() -> bool {
    // Relaxed: the thread that completes a request has got its handle after its start.
    COUNT.load(Ordering::Relaxed) != 0
}

/// Keeps what a started call uses.
pub(crate) fn keep<const N: usize>(request: c_int, sections: [Section; N], is_persistent: bool) {
    let kind = if is_persistent { Kind::Persistent } else { Kind::Once };
    insert(
        request,
        sections.into_iter().filter_map(Section::into_copy).collect(),
        Vec::new(),
        kind,
    );
}

/// As `keep`, for accesses of files: some MPI libraries do not keep a type that such a call uses.
pub(crate) fn keep_with_types<const N: usize>(request: c_int, sections: [Section; N]) {
    let (types, copied): (Vec<Section>, Vec<Section>) =
        sections.into_iter().partition(Section::has_type);
    insert(request, copied.into_iter().filter_map(Section::into_copy).collect(), types, Kind::Once);
}

/// Keeps what a partitioned call uses, whose partitions have `bytes` bytes.
pub(crate) fn keep_partitions(request: c_int, section: Section, partitions: c_int, bytes: usize) {
    let stored = vec![false; usize::try_from(partitions).unwrap_or(0)];
    let copies = section.into_copy().into_iter().collect();
    insert(request, copies, Vec::new(), Kind::Partitioned { bytes, stored });
}

fn insert(request: c_int, copies: Vec<Copy>, types: Vec<Section>, kind: Kind) {
    if copies.is_empty() && types.is_empty() {
        return;
    }
    let mut entries = entries();
    let is_active = matches!(kind, Kind::Once);
    entries.insert(request, Entry { copies, types, kind, is_active });
    COUNT.store(entries.len(), Ordering::Relaxed);
}

/// Before a persistent call starts.
pub(crate) fn starts(request: c_int) {
    with_entry(request, |entry| {
        entry.is_active = true;
        match &mut entry.kind {
            Kind::Partitioned { stored, .. } => stored.fill(false),
            _ => entry.copies.iter_mut().for_each(Copy::load),
        }
    });
}

/// Before a partition is sent.
pub(crate) fn ready(request: c_int, partition: c_int) {
    with_entry(request, |entry| {
        if let Some(range) = entry.range(partition) {
            entry.copies.iter_mut().for_each(|copy| copy.load_bytes(range.clone()));
        }
    });
}

/// After a partition has arrived.
pub(crate) fn arrived(request: c_int, partition: c_int) {
    with_entry(request, |entry| entry.store_partition(partition));
}

/// After a call has reported that a request is complete, and has left it as it is.
pub(crate) fn reported(request: c_int) {
    with_entry(request, Entry::store);
}

/// After a call has completed a request.
pub(crate) fn completed(request: c_int) {
    if !any() {
        return;
    }
    let mut entries = entries();
    let Some(entry) = entries.get_mut(&request) else { return };
    entry.store();
    if matches!(entry.kind, Kind::Once) {
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
        && matches!(entry.kind, Kind::Once)
        && entry.is_active
    {
        std::mem::forget(entry);
    }
    COUNT.store(entries.len(), Ordering::Relaxed);
}

impl Entry {
    /// The bytes of a partition.
    fn range(&self, partition: c_int) -> Option<Range<usize>> {
        let Kind::Partitioned { bytes, stored } = &self.kind else { return None };
        let at = usize::try_from(partition).ok().filter(|at| *at < stored.len())?;
        Some(at * bytes..(at + 1) * bytes)
    }

    /// Stores the copies of a completed operation, once: the program may write the sections
    /// afterwards. A persistent request that was not started has nothing to store.
    fn store(&mut self) {
        match &self.kind {
            _ if !self.is_active => return,
            Kind::Partitioned { stored, .. } => {
                let partitions = stored.len() as c_int;
                (0..partitions).for_each(|partition| self.store_partition(partition));
            }
            _ => self.copies.iter_mut().for_each(Copy::store),
        }
        self.is_active = false;
    }

    /// Stores a partition of an active request, once: the program may write it afterwards.
    fn store_partition(&mut self, partition: c_int) {
        if !self.is_active {
            return;
        }
        let Some(range) = self.range(partition) else { return };
        let Kind::Partitioned { stored, .. } = &mut self.kind else { return };
        if !std::mem::replace(&mut stored[partition as usize], true) {
            self.copies.iter_mut().for_each(|copy| copy.store_bytes(range.clone()));
        }
    }
}
