//! Copies of sections that nonblocking and persistent calls use, by the request in Fortran.
//!
//! A nonblocking call's copy is stored back and freed when the request completes. A persistent
//! call's copy is loaded at each start, stored at each completion, and freed with the request. That
//! of a partitioned call is loaded by partitions as they become ready, and each partition is stored
//! once, when it is found to have arrived or at the completion. If a request is freed while it is
//! active, MPI still uses the copy, which is never freed. Programs without such calls pay one load
//! of a counter for each completion.
//!
//! A copy is stored when a call first reports the completion, which may be MPI_Request_get_status.
//! The request remains then, but the program may write the section, and no later call stores it.
//!
//! MPI may give the integer of a completed request to another thread's before the completing call
//! returns. Calls that may free a request therefore find its entry first (`Kept`), and remove that
//! entry alone. MPICH has one handle for all operations that are complete when they start. An entry
//! that another one replaces therefore belongs to a completed operation, and is stored then. The
//! map is locked before an entry, never after it, and neither during a call.

use std::collections::HashMap;
use std::ops::Range;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::copy::Copy;
use crate::section::Section;

/// The copies of one request.
struct Entry {
    copies: Vec<Copy>,
    /// Sections whose types are freed with the entry.
    #[expect(dead_code, reason = "kept to be dropped")]
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

/// An entry, which lives until the map and all calls that found it have dropped it.
type Shared = Arc<Mutex<Entry>>;

static ENTRIES: LazyLock<Mutex<HashMap<c_int, Shared>>> = LazyLock::new(Mutex::default);
/// The number of entries, to look at without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of a request before a call that may free it.
pub(crate) struct Kept {
    request: c_int,
    entry: Option<Shared>,
}

/// Finds the entry of a request.
#[inline]
pub(crate) fn kept(request: c_int) -> Kept {
    let entry = if any() { lock(&ENTRIES).get(&request).cloned() } else { None };
    Kept { request, entry }
}

/// Finds and removes the entry of a request before MPI_Request_free. MPI may give the integer to a
/// new request while the operation still uses the copy.
pub(crate) fn taken(request: c_int) -> Kept {
    let kept = kept(request);
    kept.remove();
    kept
}

/// Finds the entries of some requests; returns nothing if no request has one.
#[inline]
pub(crate) fn all_kept(requests: &[c_int]) -> Vec<Kept> {
    if !any() {
        return Vec::new();
    }
    let entries = lock(&ENTRIES);
    let kept = |&request| Kept { request, entry: entries.get(&request).cloned() };
    requests.iter().map(kept).collect()
}

/// Calls `with` with the entry of a request that is not freed meanwhile, if it has one.
fn with_entry(request: c_int, with: impl FnOnce(&mut Entry)) {
    if let Some(entry) = kept(request).entry {
        with(&mut lock(&entry));
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
    let is_active = matches!(kind, Kind::Once);
    let entry = Arc::new(Mutex::new(Entry { copies, types, kind, is_active }));
    let mut entries = lock(&ENTRIES);
    let replaced = entries.insert(request, entry);
    COUNT.store(entries.len(), Ordering::Relaxed);
    if let Some(replaced) = &replaced {
        // Under the map's lock: the call that waits for it finds the new entry, and may return.
        lock(replaced).store();
    }
    drop(entries);
    // Not under the lock: its types are freed.
    drop(replaced);
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

impl Kept {
    /// The request, as it was before the call.
    pub(crate) fn request(&self) -> c_int {
        self.request
    }

    /// After the call has completed the request.
    pub(crate) fn completed(&self) {
        let Some(shared) = &self.entry else { return };
        let mut entry = lock(shared);
        entry.store();
        let is_once = matches!(entry.kind, Kind::Once);
        drop(entry);
        if is_once {
            self.remove();
        }
    }

    /// After the call has freed the request. An active operation may still use its copy, which
    /// stays for good.
    pub(crate) fn freed(self) {
        let Some(shared) = self.entry else { return };
        let is_active = lock(&shared).is_active;
        if is_active {
            std::mem::forget(shared);
        }
    }

    /// After a call that has not freed the request: makes the entry that of the request again.
    pub(crate) fn put_back(self) {
        if let Some(shared) = self.entry {
            let mut entries = lock(&ENTRIES);
            entries.insert(self.request, shared);
            COUNT.store(entries.len(), Ordering::Relaxed);
        }
    }

    /// Removes the entry, unless that of a new request with the same integer has replaced it.
    fn remove(&self) {
        let Some(shared) = &self.entry else { return };
        let mut entries = lock(&ENTRIES);
        if entries.get(&self.request).is_some_and(|present| Arc::ptr_eq(present, shared)) {
            entries.remove(&self.request);
            COUNT.store(entries.len(), Ordering::Relaxed);
        }
    }
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

#[cfg(test)]
mod tests {
    use std::os::raw::c_void;

    use super::*;
    use crate::descriptor::Descriptor;

    /// A descriptor of every second number of an array, as a compiler passes it.
    #[repr(C)]
    struct EverySecond {
        base: *mut c_void,
        elem_len: usize,
        version: i32,
        rank: u8,
        rest: [u8; 3],
        dimension: [isize; 3],
    }

    /// A copy of the numbers 0 and 2, which the call has made `results`.
    fn copy_of(array: &mut [i32; 4], results: [i32; 2]) -> Copy {
        let described = EverySecond {
            base: array.as_mut_ptr().cast(),
            elem_len: 4,
            version: 0,
            rank: 1,
            rest: [0; 3],
            dimension: [0, 2, 8],
        };
        // SAFETY: laid out as the compiler's descriptor of one dimension.
        let descriptor = unsafe { &*(&raw const described).cast::<Descriptor>() };
        let mut copy = Copy::of(descriptor, true);
        // SAFETY: the copy has eight bytes, aligned for any number.
        unsafe { copy.address().cast::<[i32; 2]>().write(results) };
        copy
    }

    fn starts_once(request: c_int, array: &mut [i32; 4], results: [i32; 2]) {
        insert(request, vec![copy_of(array, results)], Vec::new(), Kind::Once);
    }

    /// Another thread's request gets the integer before the call that completed the first returns.
    #[test]
    fn a_completion_leaves_a_new_request_with_the_same_integer_alone() {
        const REQUEST: c_int = 0x1001;
        let (mut first, mut second) = ([0; 4], [0; 4]);
        starts_once(REQUEST, &mut first, [1, 2]);
        let kept = kept(REQUEST);
        starts_once(REQUEST, &mut second, [3, 4]);
        kept.completed();
        assert_eq!((first, second), ([1, 0, 2, 0], [0; 4]));
        super::kept(REQUEST).completed();
        assert_eq!(second, [3, 0, 4, 0]);
        assert!(super::kept(REQUEST).entry.is_none());
    }

    #[test]
    fn a_freed_request_leaves_a_new_one_with_the_same_integer_alone() {
        const REQUEST: c_int = 0x1002;
        let (mut first, mut second) = ([0; 4], [0; 4]);
        starts_once(REQUEST, &mut first, [1, 2]);
        let taken = taken(REQUEST);
        starts_once(REQUEST, &mut second, [3, 4]);
        taken.freed();
        kept(REQUEST).completed();
        assert_eq!((first, second), ([0; 4], [3, 0, 4, 0]));
    }

    #[test]
    fn a_request_that_was_not_freed_keeps_its_entry() {
        const REQUEST: c_int = 0x1003;
        let mut array = [0; 4];
        starts_once(REQUEST, &mut array, [1, 2]);
        taken(REQUEST).put_back();
        kept(REQUEST).completed();
        assert_eq!(array, [1, 0, 2, 0]);
    }

    /// MPICH's operations that are complete when they start have one handle.
    #[test]
    fn operations_of_one_handle_are_all_stored() {
        const REQUEST: c_int = 0x1004;
        let (mut first, mut second) = ([0; 4], [0; 4]);
        starts_once(REQUEST, &mut first, [1, 2]);
        starts_once(REQUEST, &mut second, [3, 4]);
        assert_eq!(first, [1, 0, 2, 0]);
        first[0] = 9;
        kept(REQUEST).completed();
        kept(REQUEST).completed();
        assert_eq!((first, second), ([9, 0, 2, 0], [3, 0, 4, 0]));
    }

    #[test]
    fn requests_of_an_array_have_entries_of_their_own() {
        const REQUESTS: [c_int; 3] = [0x1005, 0x1006, 0x1007];
        let (mut first, mut last) = ([0; 4], [0; 4]);
        starts_once(REQUESTS[0], &mut first, [1, 2]);
        starts_once(REQUESTS[2], &mut last, [3, 4]);
        let kept = all_kept(&REQUESTS);
        kept[1].completed();
        kept[2].completed();
        assert_eq!((first, last), ([0; 4], [3, 0, 4, 0]));
        super::kept(REQUESTS[0]).completed();
        assert_eq!(first, [1, 0, 2, 0]);
    }

    #[test]
    fn a_copy_is_freed_with_its_request_unless_that_is_active() {
        const REQUEST: c_int = 0x1008;
        let mut array = [0; 4];
        let is_alive_after = |before: fn(c_int), array: &mut [i32; 4]| {
            insert(REQUEST, vec![copy_of(array, [1, 2])], Vec::new(), Kind::Persistent);
            before(REQUEST);
            let taken = taken(REQUEST);
            let entry = taken.entry.as_ref().map(Arc::downgrade).expect("an entry");
            taken.freed();
            entry.strong_count() != 0
        };
        let completes = |request| {
            starts(request);
            kept(request).completed();
        };
        assert!(!is_alive_after(|_| (), &mut array), "never started");
        assert!(!is_alive_after(completes, &mut array), "complete");
        assert!(is_alive_after(starts, &mut array), "active");
    }
}
