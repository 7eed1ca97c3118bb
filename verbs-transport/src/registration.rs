//! Registrations of the user's memory: for one message, or kept as long as they are proven to be
//! of the memory that is there.
//!
//! Kept ones are of whole pages and do not overlap: one that would is made to hold both. Whoever
//! uses one holds it (`Arc`), so that one that is given up in the meantime ends with its
//! last transfer. Those that nobody uses are given up when their memory has left its address,
//! and otherwise the one not used for longest, when there are too many or too much is pinned.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use config::Registration;
use fabric::{Peer, UserBuf};
use rustc_hash::FxHashMap;
use rustix::process::{Resource, getrlimit};

use crate::ibv::layout::access;
use crate::ibv::{Mr, Pd};
use crate::settings::Settings;
use crate::uffd::{Generation, Uffd, WatchedRange, watch};
use crate::unavailable::Unavailable;

/// Ranges that could not be kept, which are not tried again soon.
const REFUSED: usize = 8;
/// So many registrations later they are.
const AGAIN: u64 = 16;

/// What the device may do to memory that is not pinned.
const ON_DEMAND: i32 = access::LOCAL_WRITE | access::REMOTE_READ | access::REMOTE_WRITE;

/// The registrations of a process.
#[derive(Debug)]
pub(crate) struct Registrations {
    pd: Arc<Pd>,
    way: Way,
    /// By the address of their first page.
    kept: BTreeMap<usize, Kept>,
    /// Pages of these, in bytes.
    bytes: usize,
    most: usize,
    most_bytes: usize,
    /// Counts what was asked for.
    turn: u64,
    /// Registrations made.
    made: u64,
    /// When `kept` was last searched for what is gone.
    swept: Option<Generation>,
    refused: [(Range<usize>, u64); REFUSED],
    /// What peers may read, with how many messages do so.
    lent: FxHashMap<(u32, Peer), (Arc<Mr>, u32)>,
}

/// What memory is registered for.
#[derive(Debug)]
enum Way {
    /// Each message, alone.
    Message,
    /// As long as it stays.
    Watched(&'static Uffd),
    /// Once, all of it: the device asks for pages when it needs them.
    Everything(Arc<Mr>),
}

#[derive(Debug)]
struct Kept {
    end: usize,
    access: i32,
    mr: Arc<Mr>,
    ticket: WatchedRange,
    used_at: u64,
}

impl Registrations {
    /// As the settings want it. An error when they name a way that there is not.
    pub(crate) fn new(pd: &Arc<Pd>, settings: &Settings) -> Result<Registrations, Unavailable> {
        // Half of what may be pinned is for slots and for messages that can't be kept.
        let pinned =
            getrlimit(Resource::Memlock).current.map_or(usize::MAX, |most| most as usize / 2);
        Ok(Registrations {
            pd: Arc::clone(pd),
            way: Way::choose(pd, settings.registration)?,
            kept: BTreeMap::new(),
            bytes: 0,
            most: settings.registrations,
            most_bytes: settings.registered_bytes.min(pinned),
            turn: 0,
            made: 0,
            swept: None,
            refused: std::array::from_fn(|_| (0..0, 0)),
            lent: FxHashMap::default(),
        })
    }

    /// How they are kept.
    pub(crate) fn mode(&self) -> Registration {
        match self.way {
            Way::Message => Registration::None,
            Way::Watched(_) => Registration::Userfaultfd,
            Way::Everything(_) => Registration::Odp,
        }
    }

    /// A registration that holds `memory`, for the length of one transfer.
    pub(crate) fn hold(&mut self, memory: UserBuf, access: i32) -> io::Result<Arc<Mr>> {
        let bytes = memory.addr() as usize..memory.addr() as usize + memory.len();
        let kept = match &self.way {
            Way::Message => None,
            Way::Everything(all) => (access & !ON_DEMAND == 0).then(|| Arc::clone(all)),
            Way::Watched(watch) => {
                let watch = *watch;
                self.kept_for(watch, pages(&bytes), access)
            }
        };
        kept.map_or_else(|| self.register(bytes, access), Ok)
    }

    /// The same, for a peer to read until [`Registrations::give_back`].
    pub(crate) fn lend(&mut self, peer: Peer, memory: UserBuf, access: i32) -> io::Result<u32> {
        let mr = self.hold(memory, access)?;
        let key = mr.rkey();
        self.lent.entry((key, peer)).or_insert((mr, 0)).1 += 1;
        Ok(key)
    }

    /// How many were made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// One message less is read by the peer.
    pub(crate) fn give_back(&mut self, peer: Peer, key: u32) {
        if let Some((_, messages)) = self.lent.get_mut(&(key, peer)) {
            *messages -= 1;
            if *messages == 0 {
                self.lent.remove(&(key, peer));
            }
        }
    }

    /// Gives up what has left its address. Cheap when nothing has.
    pub(crate) fn sweep(&mut self) {
        let Way::Watched(watch) = &self.way else { return };
        let now = watch.moment();
        if now.is_some() && now != self.swept {
            self.swept = now;
            let bytes = &mut self.bytes;
            self.kept.retain(|start, kept| {
                let is_valid = kept.ticket.is_valid();
                *bytes -= if is_valid { 0 } else { kept.end - start };
                is_valid
            });
        }
    }

    /// A kept registration, made if need be; `None` where nothing can be kept.
    fn kept_for(
        &mut self,
        watch: &'static Uffd,
        pages: Range<usize>,
        access: i32,
    ) -> Option<Arc<Mr>> {
        self.turn += 1;
        watch.settled()?;
        self.sweep();
        let before = self.kept.range_mut(..=pages.start).next_back();
        match before.filter(|(_, kept)| pages.end <= kept.end && access & !kept.access == 0) {
            Some((_, kept)) if kept.ticket.is_valid() => {
                kept.used_at = self.turn;
                Some(Arc::clone(&kept.mr))
            }
            _ => self.keep(watch, pages, access),
        }
    }

    #[cold]
    fn keep(&mut self, watch: &'static Uffd, pages: Range<usize>, access: i32) -> Option<Arc<Mr>> {
        let is_refused = |(range, again): &(Range<usize>, u64)| {
            range.start <= pages.start && pages.end <= range.end && self.turn < *again
        };
        if pages.len() > self.most_bytes || self.refused.iter().any(is_refused) {
            return None;
        }
        if !watch.cover(&pages) {
            self.refused[self.turn as usize % REFUSED] = (pages, self.turn + AGAIN);
            return None;
        }
        // What is absorbed may go at any time, unlike the buffer.
        let now = watch.settled()?;
        self.sweep();
        let (range, access) = self.absorb(pages, access);
        while self.bytes + range.len() > self.most_bytes || self.kept.len() >= self.most {
            self.give_up_oldest()?;
        }
        let mr = self.register(range.clone(), access).ok()?;
        // What has changed in the meantime still serves this transfer.
        if let Some(ticket) = watch.keep(&range, now) {
            self.bytes += range.len();
            let kept =
                Kept { end: range.end, access, mr: Arc::clone(&mr), ticket, used_at: self.turn };
            self.kept.insert(range.start, kept);
        }
        Some(mr)
    }

    /// Gives up what overlaps `pages`, and says what holds all of it, with all rights; just
    /// `pages` if that would be too much.
    fn absorb(&mut self, pages: Range<usize>, access: i32) -> (Range<usize>, i32) {
        let (mut range, mut rights) = (pages.clone(), access);
        while let Some((&start, kept)) = self.kept.range(..pages.end).next_back()
            && kept.end > pages.start
        {
            range = range.start.min(start)..range.end.max(kept.end);
            rights |= kept.access;
            self.bytes -= kept.end - start;
            self.kept.remove(&start);
        }
        if range.len() > self.most_bytes { (pages, access) } else { (range, rights) }
    }

    /// `None` when all are in use.
    fn give_up_oldest(&mut self) -> Option<()> {
        let idle = self.kept.iter().filter(|(_, kept)| Arc::strong_count(&kept.mr) == 1);
        let (&start, kept) = idle.min_by_key(|(_, kept)| kept.used_at)?;
        self.bytes -= kept.end - start;
        self.kept.remove(&start);
        Some(())
    }

    /// A new registration, if need be at the price of all that nobody uses.
    fn register(&mut self, bytes: Range<usize>, access: i32) -> io::Result<Arc<Mr>> {
        self.made += 1;
        let mut registered = Mr::register_range(&self.pd, bytes.clone(), access);
        if registered.is_err() && self.give_up_oldest().is_some() {
            while self.give_up_oldest().is_some() {}
            registered = Mr::register_range(&self.pd, bytes, access);
        }
        registered.map(Arc::new)
    }
}

impl Way {
    fn choose(pd: &Arc<Pd>, wanted: Registration) -> Result<Way, Unavailable> {
        let missing = |way, why| Err(Unavailable::Registration { way, why });
        if matches!(wanted, Registration::Auto | Registration::Userfaultfd) {
            match watch() {
                Ok(watch) => return Ok(Way::Watched(watch)),
                Err(_) if wanted == Registration::Auto => {}
                Err(why) => {
                    return missing(
                        "userfaultfd",
                        format!("the system does not let us watch memory ({why})"),
                    );
                }
            }
        }
        if wanted != Registration::None && pd.context().pages_on_demand() {
            match Mr::register_everything(pd, ON_DEMAND) {
                Ok(all) => return Ok(Way::Everything(Arc::new(all))),
                Err(_) if wanted == Registration::Auto => {}
                Err(error) => return missing("odp", format!("the device refuses it ({error})")),
            }
        }
        match wanted {
            Registration::Odp => missing("odp", "the RDMA device does not page on demand".into()),
            _ => Ok(Way::Message),
        }
    }
}

/// The pages that hold these bytes.
fn pages(bytes: &Range<usize>) -> Range<usize> {
    let page = rustix::param::page_size();
    bytes.start / page * page..bytes.end.next_multiple_of(page)
}
