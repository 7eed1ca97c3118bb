//! A window as the protocol sees it: the own memory, the other ranks', and the state of each target
//! that this rank has used.
//!
//! Displacements are bytes from the begin of the target's memory; in a dynamic window they are
//! addresses. Every access is checked at the origin, where the error can be named, and again at
//! the target, which trusts no peer.

use fabric::{OwnAtomics, Peer, Region, UserBuf};
use objects::{Class, Error, Group, Result};
use rustc_hash::FxHashMap;

use crate::attached::{self, Attached};
use crate::combine::{Executor, Sharing, WORD};
use crate::confirmation::Unconfirmed;
use crate::conflict::{Check, Hooks};
use crate::control::{Control, Fences, Use};
use crate::deferred::Deferred;
use crate::element::Element;
use crate::epoch::Epochs;
use crate::export::Export;
use crate::guard::Guard;
use crate::ledger::Ledger;
use crate::lock_queue::LockQueue;
use crate::mailbox::Mailbox;
use crate::records::Records;
use crate::steps::{StepRow, Steps};

/// The memory that a rank contributes.
#[derive(Debug)]
pub enum Memory {
    /// One range.
    Fixed(UserBuf),
    /// Ranges that are attached and detached.
    Dynamic(Vec<UserBuf>),
}

/// What a rank knows of another one in the window, or of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remote {
    /// Bytes of its memory; 0 in a dynamic window.
    pub size: u64,
    /// Its displacement unit, bytes.
    pub unit: u64,
    /// Its memory, where operations of this process access it by loads and stores.
    pub direct: Option<UserBuf>,
    /// Its memory, where the user may access it by loads and stores.
    pub shared: Option<UserBuf>,
    /// Its memory, where the transport reads and writes it within the call.
    pub region: Option<Region>,
    /// Its record, in windows whose memory or locks are shared.
    pub control: Option<Control>,
    /// Its mailbox, in windows over memory that other processes of its host do not map.
    pub mailbox: Option<Mailbox>,
    /// Where its steps are counted, if it and this rank share memory.
    pub steps: Option<StepRow>,
    /// What it has attached, in dynamic windows of which it and this rank share memory.
    pub attached: Option<Attached>,
    /// It is on another host: a device may access its memory.
    pub is_distant: bool,
}

/// What an origin knows of the memory of a distant target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Described {
    #[default]
    Unknown,
    /// Requested; until it comes, operations travel in frames.
    Requested,
    /// For the device: the memory, or the table of attached memory.
    Region(Region),
    /// No device can access it.
    Nothing,
}

/// How passive-target locks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockBy {
    /// In the target's record, by atomics.
    Memory,
    /// By a message to the target.
    Message,
}

/// Who changes elements of 8 aligned bytes in accumulates. All ranks of a window agree.
#[derive(Debug, Default)]
pub enum AtomicsBy {
    /// Processors of the target's host.
    #[default]
    Processors,
    /// Devices too, since they are atomic towards processors.
    Both,
    /// The device of the target alone; this is that of the own memory.
    Devices(Box<dyn OwnAtomics>),
}

/// The lock of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LockState {
    #[default]
    None,
    /// Requested by a message.
    Requested,
    /// A ticket was drawn.
    Ticket(u32),
    /// Held.
    Held,
}

/// The state of a target that this rank has used.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// Operations whose local memory is still in use.
    pub(crate) active: u32,
    /// Frames were sent that the target does not answer, and no flush has covered.
    pub(crate) is_dirty: bool,
    /// Operations in frames that the target answers, and has not.
    pub(crate) answered: u32,
    /// Flushes and unlocks that are not acknowledged.
    pub(crate) unacked: u32,
    /// A device has reported puts, of which this is the last byte, before they are in memory.
    pub(crate) unconfirmed: Option<Unconfirmed>,
    /// Atomics of a device that are under way.
    pub(crate) atomics: u32,
    pub(crate) lock: LockState,
    pub(crate) described: Described,
    /// The error of an operation that nothing has reported yet.
    pub(crate) lost: Option<Error>,
}

impl Target {
    /// Returns true while a flush has something to complete.
    pub(crate) fn is_used(&self) -> bool {
        self.active > 0 || self.is_dirty || self.unacked > 0 || self.unconfirmed.is_some()
    }

    /// Returns true while frames may be under way that the target has not handled.
    pub(crate) fn has_frames(&self) -> bool {
        self.is_dirty || self.answered > 0 || self.unacked > 0
    }
}

/// A window.
#[derive(Debug)]
pub struct Window {
    pub(crate) id: u64,
    pub(crate) rank: u32,
    pub(crate) peers: Group,
    pub(crate) memory: Memory,
    pub(crate) remotes: Vec<Remote>,
    /// The records of all ranks of this host.
    records: Vec<Control>,
    pub(crate) fences: Fences,
    pub(crate) lock_by: LockBy,
    /// Several processes access the memory of a rank.
    is_shared: bool,
    /// The user has not promised to do without locks.
    pub(crate) has_locks: bool,
    pub(crate) targets: FxHashMap<u32, Target>,
    pub(crate) epochs: Epochs,
    pub(crate) locks: LockQueue,
    pub(crate) steps: Steps,
    /// This rank's memory as described to origins on other hosts.
    pub(crate) exports: FxHashMap<Peer, Export>,
    /// An access that a target has refused.
    pub(crate) refused: Option<Error>,
    /// Operations were sent in frames that no flush of all targets has completed, or a target has
    /// refused one. While false there is nothing to flush.
    pub(crate) has_frames: bool,
    pub(crate) atomics: AtomicsBy,
    /// Accesses that wait in this rank's mailbox.
    pub(crate) deferred: Deferred,
    /// Accesses are checked (`rma.check`).
    pub(crate) check: Option<Box<Check>>,
}

impl Window {
    /// Makes a window that all ranks know by `id`. `remotes` has an entry for each rank of `peers`.
    pub fn new(
        (id, rank): (u64, u32),
        peers: Group,
        memory: Memory,
        mut remotes: Vec<Remote>,
        lock_by: LockBy,
    ) -> Window {
        assert_eq!(peers.size() as usize, remotes.len());
        let is_shared = remotes.iter().any(|remote| remote.direct.is_some());
        if let (Memory::Fixed(own), Some(remote)) = (&memory, remotes.get_mut(rank as usize)) {
            remote.direct = Some(*own);
        }
        let steps = Steps::new(remotes.get(rank as usize).and_then(|remote| remote.steps));
        Window {
            id,
            rank,
            peers,
            memory,
            records: remotes.iter().filter_map(|remote| remote.control).collect(),
            fences: Fences::Equal,
            remotes,
            lock_by,
            is_shared,
            has_locks: true,
            targets: FxHashMap::default(),
            epochs: Epochs::default(),
            locks: LockQueue::default(),
            steps,
            exports: FxHashMap::default(),
            refused: None,
            has_frames: false,
            atomics: AtomicsBy::Processors,
            deferred: Deferred::default(),
            check: None,
        }
    }

    /// Makes fences cheap where they are often: the processes of all ranks are registered
    /// (`fabric::membarrier`).
    pub fn fence_unequally(&mut self) {
        self.fences = Fences::Unequal;
    }

    /// Has the general path refuse locks (the hint no_locks).
    pub fn forbid_locks(&mut self) {
        self.has_locks = false;
    }

    /// Sets who changes elements of 8 bytes in accumulates.
    pub fn change_words_by(&mut self, atomics: AtomicsBy) {
        self.atomics = atomics;
    }

    /// Returns what changes elements in the memory of a rank that this process accesses itself.
    pub(crate) fn executor(&self, rank: u32) -> Executor<'_> {
        let device = match &self.atomics {
            AtomicsBy::Devices(own) if rank == self.rank => Some(&**own),
            _ => None,
        };
        Executor {
            sharing: self.sharing(rank),
            has_long_words: self.has_long_words(rank),
            has_device_words: self.has_device_words(),
            device,
        }
    }

    /// Returns which processes access the memory of a rank that this process accesses itself.
    fn sharing(&self, rank: u32) -> Sharing<'_> {
        match self.records_of(rank) {
            _ if !self.is_shared => Sharing::Alone,
            Some(records) => Sharing::Guarded(Guard::new(records, &self.records)),
            None => Sharing::Unguarded,
        }
    }

    /// Returns whether devices change elements of 8 bytes.
    #[inline(always)]
    fn has_device_words(&self) -> bool {
        !matches!(self.atomics, AtomicsBy::Processors)
    }

    /// Returns the records that matter at a target, if there are any.
    pub(crate) fn records_of(&self, target: u32) -> Option<Records> {
        let record = |rank: u32| self.remotes.get(rank as usize)?.control;
        let (own, target) = (record(self.rank)?, record(target)?);
        Some(Records { own, target, first: *self.records.first()?, fences: self.fences })
    }

    /// Returns the records of a target, where accesses to its memory by processor atomics have to
    /// be kept apart from long ones.
    pub(crate) fn records_of_words(&self, target: u32) -> Option<Records> {
        let has_long = self.is_shared && self.has_long_words(target);
        if has_long { self.records_of(target) } else { None }
    }

    /// Returns whether accesses to words of a target may be long: none is in memory of a word.
    fn has_long_words(&self, target: u32) -> bool {
        self.is_dynamic() || self.remotes[target as usize].size > WORD as u64
    }

    /// Returns the records of a target whose lock is in memory, and may be taken.
    pub(crate) fn records_of_lock(&self, target: u32) -> Option<Records> {
        let may_lock = self.lock_by == LockBy::Memory && self.has_locks;
        if may_lock { self.records_of(target) } else { None }
    }

    /// Returns whether a ticket of a target's lock may begin.
    pub(crate) fn is_turn(&self, target: u32, ticket: u32, exclusive: bool) -> bool {
        let Some(Records { target, first, .. }) = self.records_of(target) else { return false };
        if !target.is_turn(ticket) {
            return false;
        }
        if !exclusive || first.readers_have_left() {
            return true;
        }
        first.record_left_readers(&self.records);
        !self.records.iter().any(|record| record.reads(target.rank()))
    }

    /// Begins a use of the window by this rank.
    pub(crate) fn begin_use(&self, what: Use) {
        if let Some(first) = self.records.first() {
            first.begin_use(what, self.fences);
        }
    }

    /// Returns a rank that holds the lock of a target, for reports.
    pub(crate) fn holder(&self, target: u32) -> Option<u32> {
        let control = self.remotes.get(target as usize)?.control?;
        let reader = || self.records.iter().find(|record| record.reads(target)).map(Control::rank);
        control.holder().or_else(reader)
    }

    /// Returns whether processors must not change some elements.
    pub(crate) fn leaves_words(&self) -> bool {
        matches!(self.atomics, AtomicsBy::Devices(_))
    }

    /// Returns whether the target has to change elements that this process could access itself: by
    /// its device.
    pub(crate) fn leaves_to_device(&self, target: u32, element: Option<&Element>) -> bool {
        matches!(self.atomics, AtomicsBy::Devices(_))
            && target != self.rank
            && element.is_some_and(|element| element.size == 8)
    }

    /// Has all accesses checked; `name` describes the window in reports.
    pub fn check_accesses(&mut self, hooks: Hooks, name: String) {
        self.epochs.check_all();
        self.check = Some(Box::new(Check { hooks, ledger: Ledger::default(), name }));
    }

    /// Replaces the description of the window in reports, if its accesses are checked.
    pub fn describe_as(&mut self, name: String) {
        if let Some(check) = &mut self.check {
            check.name = name;
        }
    }

    /// Returns the accesses that are open, if they are checked.
    pub(crate) fn ledger(&mut self) -> Option<&mut Ledger> {
        self.check.as_deref_mut().map(|check| &mut check.ledger)
    }

    /// Ends the passive accesses of an origin to this rank's memory, if accesses are checked;
    /// `returns`: only those that return data.
    pub(crate) fn end_passive(&mut self, origin: u32, returns: bool) {
        if let Some(ledger) = self.ledger() {
            ledger.flushed(origin, returns);
        }
    }

    /// Ends a fence epoch and, unless `is_last`, makes the next one possible.
    pub(crate) fn end_fence(&mut self, is_last: bool) {
        self.epochs.fence(is_last);
        if let Some(ledger) = self.ledger() {
            ledger.fenced();
        }
    }

    /// Returns the number of ranks.
    pub(crate) fn size(&self) -> u32 {
        self.peers.size()
    }

    /// Returns the process of a rank.
    pub(crate) fn peer(&self, rank: u32) -> Result<Peer> {
        self.peers.peer_of(rank).ok_or_else(|| {
            let text = format!("invalid rank {rank}: must be 0 to {}", self.size() - 1);
            Error::new(Class::Rank, text)
        })
    }

    /// Returns whether an access waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.deferred.waiting.is_empty()
    }

    /// Returns whether an operation waits, is under way, or has an error that nothing has reported.
    pub(crate) fn has_unfinished(&self) -> bool {
        let is_unfinished = |target: &Target| target.is_used() || target.lost.is_some();
        self.has_waiting() || self.refused.is_some() || self.targets.values().any(is_unfinished)
    }

    /// Returns the state of a target, which is made on first use.
    pub(crate) fn target(&mut self, rank: u32) -> &mut Target {
        self.targets.entry(rank).or_default()
    }

    /// Returns true for windows without memory of their own.
    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self.memory, Memory::Dynamic(_))
    }

    /// Returns `len` bytes at `disp` of this rank's memory; `None` if they are not in it.
    pub(crate) fn locate(&self, disp: i64, len: usize) -> Option<UserBuf> {
        match &self.memory {
            Memory::Fixed(memory) => part(*memory, disp, len),
            Memory::Dynamic(ranges) => attached::locate(ranges, disp as u64, len),
        }
    }

    /// Returns memory of a rank like [`Window::locate`], where this process has it.
    pub(crate) fn locate_at(&self, rank: u32, disp: i64, len: usize) -> Option<UserBuf> {
        if rank == self.rank {
            return self.locate(disp, len);
        }
        part(self.remotes[rank as usize].direct?, disp, len)
    }

    /// Returns true if ranks map memory of each other.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns true if this process accesses the rank's memory itself.
    pub(crate) fn is_direct(&self, rank: u32) -> bool {
        rank == self.rank || self.remotes[rank as usize].direct.is_some()
    }

    /// Checks that the bytes `low .. high` from `disp` on are in the target's memory; a dynamic
    /// window is checked at its target.
    pub(crate) fn check_range(
        &self,
        target: u32,
        disp: i64,
        (low, high): (i64, i64),
    ) -> Result<()> {
        if low == high || self.is_dynamic() && target != self.rank {
            return Ok(());
        }
        let (begin, end) = (disp.checked_add(low), disp.checked_add(high));
        let size = self.remotes[target as usize].size;
        let is_inside = match (begin, end) {
            (Some(begin), Some(end)) if self.is_dynamic() => {
                self.locate(begin, (end - begin) as usize).is_some()
            }
            (Some(begin), Some(end)) => begin >= 0 && end as u64 <= size,
            _ => false,
        };
        if is_inside {
            return Ok(());
        }
        let limit = match self.is_dynamic() {
            true => "no attached memory of this rank has them".to_owned(),
            false => format!("the window of rank {target} has {size} bytes"),
        };
        Err(Error::new(
            Class::RmaRange,
            format!(
                "invalid target memory, bytes {} to {}: {limit}",
                i128::from(disp) + i128::from(low),
                i128::from(disp) + i128::from(high)
            ),
        ))
    }

    /// Returns the memory of another rank of this host that the transport accesses within the
    /// call, and its begin as a displacement. The bytes `low .. high` from `disp` on are in it.
    pub(crate) fn region_of(
        &self,
        rank: u32,
        disp: i64,
        (low, high): (i64, i64),
    ) -> Option<(Region, i64)> {
        let remote = &self.remotes[rank as usize];
        let Some(attached) = &remote.attached else {
            return remote.region.map(|region| (region, 0));
        };
        let (begin, end) = (disp.checked_add(low)?, disp.checked_add(high)?);
        let (region, base) = attached.find(begin as u64, end as u64)?;
        Some((region, base as i64))
    }

    /// Attaches memory to a dynamic window. `region` describes it for ranks of this host.
    pub(crate) fn attach(&mut self, memory: UserBuf, region: Option<Region>) -> Result<()> {
        let Memory::Dynamic(attached) = &mut self.memory else { return Err(not_dynamic()) };
        let overlaps = |other: &UserBuf| {
            memory.addr() < other.addr() + other.len() as u64
                && other.addr() < memory.addr() + memory.len() as u64
        };
        if let Some(other) = attached.iter().find(|other| overlaps(other)) {
            return Err(Error::new(
                Class::RmaAttach,
                format!(
                    "memory overlaps what is attached: {} bytes at {:#x} and {} bytes at {:#x}",
                    memory.len(),
                    memory.addr(),
                    other.len(),
                    other.addr()
                ),
            ));
        }
        attached.push(memory);
        if let (Some(table), Some(region)) = (&self.remotes[self.rank as usize].attached, region) {
            table.add(memory, &region);
        }
        Ok(())
    }

    /// Detaches the memory that begins at `base`.
    pub(crate) fn detach(&mut self, base: u64) -> Result<()> {
        let Memory::Dynamic(attached) = &mut self.memory else { return Err(not_dynamic()) };
        let found = attached.iter().position(|memory| memory.addr() == base).ok_or_else(|| {
            let text = format!("no memory is attached that begins at {base:#x}");
            Error::new(Class::RmaAttach, text)
        })?;
        attached.swap_remove(found);
        if let Some(table) = &self.remotes[self.rank as usize].attached {
            table.remove(base);
        }
        Ok(())
    }

    /// Returns the memory of a rank, if the user can access it by loads and stores.
    pub fn shared(&self, rank: u32) -> Option<UserBuf> {
        match &self.memory {
            Memory::Fixed(memory) if rank == self.rank => Some(*memory),
            _ => self.remotes.get(rank as usize)?.shared,
        }
    }

    /// Returns size in bytes and displacement unit of a rank's memory.
    pub fn extent(&self, rank: u32) -> Option<(u64, u64)> {
        self.remotes.get(rank as usize).map(|remote| (remote.size, remote.unit))
    }

    /// Returns the processes of the window.
    pub fn peers(&self) -> &Group {
        &self.peers
    }
}

fn part(memory: UserBuf, disp: i64, len: usize) -> Option<UserBuf> {
    let begin = usize::try_from(disp).ok()?;
    (begin <= memory.len() && len <= memory.len() - begin).then(|| memory.slice(begin, len))
}

fn not_dynamic() -> Error {
    Error::new(
        Class::RmaFlavor,
        "the window is not dynamic: must be made by MPI_Win_create_dynamic",
    )
}
