//! Registrations of the user's memory: for one message, or cached as long as the kernel proves
//! that their pages are still at their addresses.
//!
//! Cached registrations are of whole pages. Two may have one page in common, in which one buffer
//! ends and the next begins, but none holds another one: therefore those that begin later also end
//! later, and the last one that begins before a buffer is the one that may hold it. A registration
//! that would overlap others further replaces them by one for all of it. A user of a registration
//! holds it (`Arc`). An evicted one therefore ends with its last transfer. A registration that is
//! not in use is dropped when its memory has left its address. The least recently used one is
//! dropped when there are too many or too much is pinned.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};

use config::Registration;
use fabric::{Peer, UserBuf};
use rustc_hash::FxHashMap;
use rustix::process::{Resource, getrlimit};

use crate::ibv::layout::access;
use crate::ibv::{Mr, Pd};
use crate::settings::Settings;
use crate::uffd::{Generation, Uffd, WatchedRange, uffd};
use crate::unavailable::Unavailable;

/// Most ranges that are remembered as not cacheable.
const MAX_REFUSED: usize = 8;
/// Requests after which such a range is tried again.
const RETRY_AFTER: u64 = 16;

/// Rights of the device to memory that is not pinned.
const ON_DEMAND: i32 = access::LOCAL_WRITE | access::REMOTE_READ | access::REMOTE_WRITE;

/// The registrations of a process.
#[derive(Debug)]
pub(crate) struct Registrations {
    pd: Arc<Pd>,
    mode: RegistrationMode,
    /// By the address of the first page.
    cache: BTreeMap<usize, Cached>,
    /// Bytes of all cached registrations.
    bytes: usize,
    max: usize,
    max_bytes: usize,
    /// Number of requests, the clock of the cache.
    requests: u64,
    /// Registrations made.
    made: u64,
    /// When the cache was last searched for what is invalid.
    swept: Option<Generation>,
    /// Ranges that could not be cached, and the request from which they are tried again.
    refused: [(Range<usize>, u64); MAX_REFUSED],
    /// Memory that peers may access.
    exported: FxHashMap<(u32, Peer), Export>,
    /// Registrations of exported memory that cannot be cached: each serves all peers with the same
    /// rights, since its owner must not free the memory while one of them may access it.
    shared: FxHashMap<Exported, Weak<Mr>>,
}

/// The bytes and the rights of an export.
type Exported = (Range<usize>, i32);

/// Memory that a peer may access.
#[derive(Debug)]
struct Export {
    mr: Arc<Mr>,
    what: Exported,
    /// The messages that access it.
    messages: u32,
}

/// How long memory is kept registered.
#[derive(Debug)]
enum RegistrationMode {
    /// For one message.
    PerMessage,
    /// Until userfaultfd reports a change.
    Watched(&'static Uffd),
    /// For ever and all of it: the device requests pages when it needs them.
    OnDemand(Arc<Mr>),
}

/// A cached registration.
#[derive(Debug)]
struct Cached {
    end: usize,
    access: i32,
    mr: Arc<Mr>,
    range: WatchedRange,
    used_at: u64,
}

impl Registrations {
    /// As the settings want it. An error when they name a way that there is not.
    pub(crate) fn new(pd: &Arc<Pd>, settings: &Settings) -> Result<Registrations, Unavailable> {
        // Half of what may be pinned is for slots and for messages that cannot be cached.
        let pinned =
            getrlimit(Resource::Memlock).current.map_or(usize::MAX, |limit| limit as usize / 2);
        Ok(Registrations {
            pd: Arc::clone(pd),
            mode: RegistrationMode::choose(pd, settings.registration)?,
            cache: BTreeMap::new(),
            bytes: 0,
            max: settings.registrations,
            max_bytes: settings.registered_bytes.min(pinned),
            requests: 0,
            made: 0,
            swept: None,
            refused: std::array::from_fn(|_| (0..0, 0)),
            exported: FxHashMap::default(),
            shared: FxHashMap::default(),
        })
    }

    /// Returns how registrations are kept.
    pub(crate) fn mode(&self) -> Registration {
        match self.mode {
            RegistrationMode::PerMessage => Registration::None,
            RegistrationMode::Watched(_) => Registration::Userfaultfd,
            RegistrationMode::OnDemand(_) => Registration::Odp,
        }
    }

    /// Returns a registration that covers `memory`, for the length of one transfer.
    pub(crate) fn acquire(&mut self, memory: UserBuf, access: i32) -> io::Result<Arc<Mr>> {
        let bytes = bytes(memory);
        self.lasting(&bytes, access).map_or_else(|| self.register(bytes, access), Ok)
    }

    /// Registers `memory` for a peer until [`Registrations::withdraw`], and returns the key.
    pub(crate) fn export(&mut self, peer: Peer, memory: UserBuf, access: i32) -> io::Result<u32> {
        let what = (bytes(memory), access);
        let mr = match self.lasting(&what.0, access) {
            Some(mr) => mr,
            None => self.shared(what.clone())?,
        };
        let key = mr.rkey();
        let export = Export { mr, what, messages: 0 };
        self.exported.entry((key, peer)).or_insert(export).messages += 1;
        Ok(key)
    }

    /// Returns the number of registrations made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Ends one message's use of an exported registration.
    pub(crate) fn withdraw(&mut self, peer: Peer, key: u32) {
        let Some(export) = self.exported.get_mut(&(key, peer)) else { return };
        export.messages -= 1;
        if export.messages == 0
            && let Some(Export { mr, what, .. }) = self.exported.remove(&(key, peer))
        {
            drop(mr);
            if self.shared.get(&what).is_some_and(|mr| mr.strong_count() == 0) {
                self.shared.remove(&what);
            }
        }
    }

    /// Drops registrations whose memory has left its address. Cheap when none has.
    pub(crate) fn sweep(&mut self) {
        let RegistrationMode::Watched(uffd) = &self.mode else { return };
        let now = uffd.generation();
        if now.is_some() && now != self.swept {
            self.swept = now;
            let bytes = &mut self.bytes;
            self.cache.retain(|start, cached| {
                let is_valid = cached.range.is_valid();
                *bytes -= if is_valid { 0 } else { cached.end - start };
                is_valid
            });
        }
    }

    /// Returns a registration that outlives the message; `None` if there can be none.
    fn lasting(&mut self, bytes: &Range<usize>, access: i32) -> Option<Arc<Mr>> {
        match &self.mode {
            RegistrationMode::PerMessage => None,
            RegistrationMode::OnDemand(all) => (access & !ON_DEMAND == 0).then(|| Arc::clone(all)),
            RegistrationMode::Watched(uffd) => {
                let uffd = *uffd;
                self.cached(uffd, pages(bytes), access)
            }
        }
    }

    /// Returns the registration of memory that peers may access, made if there is none.
    fn shared(&mut self, what: Exported) -> io::Result<Arc<Mr>> {
        if let Some(mr) = self.shared.get(&what).and_then(Weak::upgrade) {
            return Ok(mr);
        }
        let mr = self.register(what.0.clone(), what.1)?;
        self.shared.insert(what, Arc::downgrade(&mr));
        Ok(mr)
    }

    /// Returns a cached registration of these pages, made if need be; `None` if they cannot be
    /// cached.
    fn cached(&mut self, uffd: &'static Uffd, pages: Range<usize>, access: i32) -> Option<Arc<Mr>> {
        self.requests += 1;
        uffd.settled()?;
        self.sweep();
        let before = self.cache.range_mut(..=pages.start).next_back();
        let covers = |cached: &Cached| pages.end <= cached.end && access & !cached.access == 0;
        match before.filter(|(_, cached)| covers(cached)) {
            Some((_, cached)) if cached.range.is_valid() => {
                cached.used_at = self.requests;
                Some(Arc::clone(&cached.mr))
            }
            _ => self.insert(uffd, pages, access),
        }
    }

    #[cold]
    fn insert(&mut self, uffd: &'static Uffd, pages: Range<usize>, access: i32) -> Option<Arc<Mr>> {
        let is_refused = |(range, retry_at): &(Range<usize>, u64)| {
            range.start <= pages.start && pages.end <= range.end && self.requests < *retry_at
        };
        if pages.len() > self.max_bytes || self.refused.iter().any(is_refused) {
            return None;
        }
        if !uffd.watch(&pages) {
            self.refused[self.requests as usize % MAX_REFUSED] =
                (pages, self.requests + RETRY_AFTER);
            return None;
        }
        // The memory of merged registrations may go at any time, unlike the buffer.
        let now = uffd.settled()?;
        self.sweep();
        let (range, access) = self.merge(pages, access);
        while self.bytes + range.len() > self.max_bytes || self.cache.len() >= self.max {
            self.evict_lru()?;
        }
        let mr = self.register(range.clone(), access).ok()?;
        // A registration whose memory has changed meanwhile still serves this transfer.
        if let Some(watched) = uffd.track(&range, now) {
            self.bytes += range.len();
            let cached = Cached {
                end: range.end,
                access,
                mr: Arc::clone(&mr),
                range: watched,
                used_at: self.requests,
            };
            self.cache.insert(range.start, cached);
        }
        Some(mr)
    }

    /// Removes the registrations that overlap `pages`, but not those of neighbours. Returns the
    /// range and rights that cover all of them, or just `pages` if that would be too much.
    fn merge(&mut self, pages: Range<usize>, access: i32) -> (Range<usize>, i32) {
        let (mut range, mut rights) = (pages.clone(), access);
        let overlapping = |cache: &BTreeMap<usize, Cached>, range: &Range<usize>| {
            let before_end = cache.range(..range.end).rev().map(|(&start, it)| start..it.end);
            let mut overlapping = before_end.take_while(|other| other.end > range.start);
            overlapping.find(|other| !are_neighbours(range, other))
        };
        while let Some(other) = overlapping(&self.cache, &range)
            && let Some(cached) = self.cache.remove(&other.start)
        {
            range = range.start.min(other.start)..range.end.max(other.end);
            rights |= cached.access;
            self.bytes -= other.len();
        }
        if range.len() > self.max_bytes { (pages, access) } else { (range, rights) }
    }

    /// Evicts the registration used least recently; `None` if all are in use.
    fn evict_lru(&mut self) -> Option<()> {
        let idle = self.cache.iter().filter(|(_, cached)| Arc::strong_count(&cached.mr) == 1);
        let (&start, cached) = idle.min_by_key(|(_, cached)| cached.used_at)?;
        self.bytes -= cached.end - start;
        self.cache.remove(&start);
        Some(())
    }

    /// Evicts all cached registrations that are not in use. Returns whether there were any.
    #[cold]
    pub(crate) fn evict_idle(&mut self) -> bool {
        let has_evicted = self.evict_lru().is_some();
        while self.evict_lru().is_some() {}
        has_evicted
    }

    /// Makes a registration. If the system refuses, evicts all that are not in use and tries
    /// again.
    fn register(&mut self, bytes: Range<usize>, access: i32) -> io::Result<Arc<Mr>> {
        self.made += 1;
        let mut registered = Mr::register_range(&self.pd, bytes.clone(), access);
        if registered.is_err() && self.evict_idle() {
            registered = Mr::register_range(&self.pd, bytes, access);
        }
        registered.map(Arc::new)
    }
}

impl RegistrationMode {
    fn choose(pd: &Arc<Pd>, wanted: Registration) -> Result<RegistrationMode, Unavailable> {
        let missing = |mode, why| Err(Unavailable::Registration { mode, why });
        if matches!(wanted, Registration::Auto | Registration::Userfaultfd) {
            match uffd() {
                Ok(uffd) => return Ok(RegistrationMode::Watched(uffd)),
                Err(_) if wanted == Registration::Auto => {}
                Err(why) => {
                    return missing(
                        "userfaultfd",
                        format!("the system refuses userfaultfd ({why})"),
                    );
                }
            }
        }
        if wanted != Registration::None && pd.context().pages_on_demand() {
            match Mr::register_everything(pd, ON_DEMAND) {
                Ok(all) => return Ok(RegistrationMode::OnDemand(Arc::new(all))),
                Err(_) if wanted == Registration::Auto => {}
                Err(error) => return missing("odp", format!("the device refuses it ({error})")),
            }
        }
        match wanted {
            Registration::Odp => missing("odp", "the RDMA device has no on-demand paging".into()),
            _ => Ok(RegistrationMode::PerMessage),
        }
    }
}

/// Returns the addresses of a buffer.
fn bytes(memory: UserBuf) -> Range<usize> {
    memory.addr() as usize..memory.addr() as usize + memory.len()
}

/// Returns whether two ranges of pages that overlap have one page in common, and neither holds the
/// other.
fn are_neighbours(one: &Range<usize>, other: &Range<usize>) -> bool {
    let (first, last) = if one.start < other.start { (one, other) } else { (other, one) };
    first.start < last.start
        && first.end < last.end
        && first.end - last.start == rustix::param::page_size()
}

/// Returns the pages that hold these bytes.
fn pages(bytes: &Range<usize>) -> Range<usize> {
    let page = rustix::param::page_size();
    bytes.start / page * page..bytes.end.next_multiple_of(page)
}
