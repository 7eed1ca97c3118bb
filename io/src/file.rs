//! An open file, as one member of its group sees it.
//!
//! The state of a member ([`State`]) is small and locked only to read or change it, never while
//! data moves. A collective call makes the same collective steps on each member, whatever fails on
//! one: the members agree on the outcome in the end, and a failure of one is an error of all.
//!
//! Collective accesses that were started run one after the other ([`File::group`] waits for the
//! last), so that the members make the same exchanges in the same order. At most one of them is a
//! split collective.
//!
//! In atomic mode an access locks the range of the file that it spans. With the hint
//! `romio_ds_write=enable` a write locks the range of each call of the system that it makes; a
//! write to a file that one process has opened alone locks against its other threads ([`Locking`]).

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use objects::{Class, Datatype, Error, Info, Result};

use crate::access::{Direction, Position};
use crate::aggregators::Place;
use crate::agreement::{agree, agree_same};
use crate::amode::{Amode, SEQUENTIAL, UNIQUE_OPEN};
use crate::collective::Reasons;
use crate::datarep::{Datarep, UserData};
use crate::disk::Disk;
use crate::file_system::{FileSystem, Kind};
use crate::hints::{Hints, Switch};
use crate::members::Members;
use crate::pending::{Outcome, Pending};
use crate::range_locks::{Locking, RangeLocks};
use crate::report;
use crate::shared_pointer::SharedPointer;
use crate::sieve::{Sieve, Target};
use crate::statistics::{Access, Statistics};
use crate::view::View;
use crate::{transfer, uring};

/// An open file.
pub struct File {
    pub(crate) disk: Arc<Disk>,
    pub(crate) amode: Amode,
    pub(crate) members: Arc<dyn Members>,
    /// Where each member runs.
    pub(crate) places: Vec<Place>,
    pub(crate) shared: SharedPointer,
    pub(crate) state: Mutex<State>,
    pub(crate) statistics: Statistics,
    /// Why collective accesses were carried out as they were.
    pub(crate) reasons: Reasons,
    /// Some transfer went on after its call.
    pub(crate) has_background: AtomicBool,
    file_system: FileSystem,
    pub(crate) range_locks: Arc<RangeLocks>,
    /// The collective access that was started last.
    pub(crate) started: Mutex<Option<Arc<Pending>>>,
}

/// What a member may change.
pub(crate) struct State {
    pub(crate) view: Arc<View>,
    /// The individual pointer, etypes.
    pub(crate) position: i64,
    atomic: bool,
    pub(crate) split: Option<Split>,
    pub(crate) hints: Hints,
}

/// A split collective that has begun.
pub(crate) struct Split {
    pub(crate) direction: Direction,
    pub(crate) kind: SplitKind,
    pub(crate) pending: Arc<Pending>,
}

/// Which pair of calls a split collective is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitKind {
    /// At an explicit offset.
    At,
    /// At the individual pointer.
    All,
    /// In order of rank at the shared pointer.
    Ordered,
}

impl File {
    pub(crate) fn new(
        disk: Disk,
        amode: Amode,
        (members, places): (Arc<dyn Members>, Vec<Place>),
        shared: SharedPointer,
        mut hints: Hints,
    ) -> File {
        let file_system = FileSystem::of(&disk);
        hints.adopt(&file_system, disk.direct());
        let view = Arc::new(View::whole());
        let state = State { view, position: 0, atomic: false, split: None, hints };
        let (state, started, range_locks) = (Mutex::new(state), Mutex::default(), Arc::default());
        let (disk, statistics) = (Arc::new(disk), Statistics::new());
        File {
            disk,
            amode,
            members,
            places,
            shared,
            state,
            statistics,
            reasons: Reasons::default(),
            has_background: AtomicBool::new(false),
            file_system,
            range_locks,
            started,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the members, when all collective accesses that were started are done: the members
    /// make their exchanges in one order.
    pub(crate) fn group(&self) -> &dyn Members {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(pending) = started {
            self.members.wait(&pending);
        }
        &*self.members
    }

    /// Makes progress until an access is done.
    pub fn wait(&self, pending: &Arc<Pending>) {
        self.members.wait(pending);
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.disk.path()
    }

    /// Returns the access mode.
    pub fn amode(&self) -> Amode {
        self.amode
    }

    /// Returns the view.
    pub fn view(&self) -> Arc<View> {
        self.state().view.clone()
    }

    /// Returns the hints in use.
    pub fn info(&self) -> Result<Info> {
        self.state().hints.to_info()
    }

    /// Takes over hints (MPI_File_set_info). Collective.
    pub fn set_info(&self, info: Result<Info>) -> Result<()> {
        let mine = info.and_then(|info| self.state().hints.update(&info));
        agree(self.group(), mine)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> Result<i64> {
        self.disk.size()
    }

    /// Returns what is used for the file and why, for `--explain`.
    pub fn explain(&self) -> String {
        let text = report::explain(self.path(), &self.state().hints, self.reasons.texts());
        match self.has_background.load(Relaxed) {
            true => format!("{text}; nonblocking accesses {}", uring::describe()),
            false => text,
        }
    }

    /// Sets the size in bytes (MPI_File_set_size). Collective.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.resize(size, Disk::set_size)
    }

    /// Reserves space (MPI_File_preallocate). Collective.
    pub fn preallocate(&self, size: i64) -> Result<()> {
        self.resize(size, Disk::preallocate)
    }

    fn resize(&self, size: i64, call: impl Fn(&Disk, i64) -> Result<()>) -> Result<()> {
        let checked = self.check_writable().and_then(|()| match size {
            0.. => Ok(()),
            _ => Err(Error::new(Class::Arg, format!("invalid size {size}: must not be negative"))),
        });
        agree_same(self.group(), checked, &size.to_ne_bytes(), "the size")?;
        let first = self.members.rank() == 0;
        agree(self.group(), if first { call(&self.disk, size) } else { Ok(()) })
    }

    /// Writes the data of all members to the device (MPI_File_sync). Collective.
    pub fn sync(&self) -> Result<()> {
        // Rank 0 is the first: the others then find nothing left to write, on one host.
        let first = self.members.rank() == 0;
        let sync = |mine: bool| match mine && self.amode.writes() {
            true => self.disk.sync(),
            false => Ok(()),
        };
        agree(self.group(), self.check_no_split().and_then(|()| sync(first)))?;
        agree(self.group(), sync(!first))?;
        if self.is_of_network() {
            // A client looks for what others wrote when it gets a lock.
            let _ = self.range_locks.lock(&self.disk, (0, 1), false);
        }
        Ok(())
    }

    /// Returns true if this host's copy of the file may be old, and writes may fail later.
    pub(crate) fn is_of_network(&self) -> bool {
        self.file_system.kind == Kind::Nfs
    }

    /// Returns true if the file lies in this host's memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.file_system.kind == Kind::Memory
    }

    /// Returns true in atomic mode.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    /// Switches atomic mode (MPI_File_set_atomicity). Collective.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        // A file system without locks says so now and not in the first access.
        let lock = || self.range_locks.lock(&self.disk, (0, 1), self.amode.writes());
        let works = if atomic { lock().map(|_| ()) } else { Ok(()) };
        agree_same(self.group(), works, &[atomic.into()], "the flag")?;
        self.state().atomic = atomic;
        Ok(())
    }

    /// Sets the view (MPI_File_set_view); both pointers go to its start. `disp` `None`: that of the
    /// shared pointer, in sequential mode, once all members have come. Collective.
    pub fn set_view(
        &self,
        disp: Option<i64>,
        types: Result<(Datatype, Datatype)>,
        datarep: Result<Datarep>,
        info: Result<Info>,
    ) -> Result<()> {
        // All members make these exchanges, whatever each passes.
        let here = self.amode.has(SEQUENTIAL).then(|| self.shared_byte()).transpose()?;
        let mine = self.new_view(disp.or(here), types, datarep, info).and_then(|new| {
            if self.members.rank() == 0 {
                self.shared.clear_next()?;
            }
            Ok(new)
        });
        let summary = mine.as_ref().map_or([0; 2], |(view, _)| {
            let hash = |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte));
            let name = view.datarep.name().as_encoded_bytes();
            [view.etype_bytes(), name.iter().copied().fold(0, hash)]
        });
        let summary = summary.map(u64::to_ne_bytes).concat();
        let outcome = mine.as_ref().map(|_| ()).map_err(Clone::clone);
        let what = "the etype's extent or the data representation";
        agree_same(self.group(), outcome, &summary, what)?;
        let (view, hints) = mine?;
        let mut state = self.state();
        (state.view, state.position, state.hints) = (Arc::new(view), 0, hints);
        self.shared.switch();
        Ok(())
    }

    fn new_view(
        &self,
        disp: Option<i64>,
        types: Result<(Datatype, Datatype)>,
        datarep: Result<Datarep>,
        info: Result<Info>,
    ) -> Result<(View, Hints)> {
        self.check_no_split()?;
        let mut hints = self.state().hints.clone();
        hints.update(&info?)?;
        let (etype, filetype) = types?;
        let disp = disp.ok_or_else(|| {
            let text =
                "invalid displacement MPI_DISPLACEMENT_CURRENT: it needs MPI_MODE_SEQUENTIAL";
            Error::new(Class::Arg, text)
        })?;
        let view = View::new(disp, etype, filetype, datarep?, self.amode.writes())?;
        Ok((view, hints))
    }

    /// Checks an access and moves its pointer; returns the view and the packed byte.
    pub(crate) fn begin_access(
        &self,
        direction: Direction,
        position: Position,
        data: &UserData,
    ) -> Result<(Arc<View>, u64)> {
        self.check_mode(direction, position == Position::Shared)?;
        let mut state = self.state();
        let view = state.view.clone();
        let etypes = view.etypes(view.datarep.file_bytes(data)?)?;
        let offset = match position {
            Position::At(offset) => offset,
            Position::Individual => {
                let here = state.position;
                state.position = here.checked_add(etypes).ok_or_else(too_far)?;
                here
            }
            Position::Shared => {
                drop(state);
                self.shared.fetch_add(etypes)?
            }
        };
        let packed = view.packed(offset)?;
        Ok((view, packed))
    }

    /// Moves the data of one access, and counts it.
    pub(crate) fn transfer(
        &self,
        view: &View,
        packed: u64,
        data: &UserData,
        direction: Direction,
    ) -> Outcome {
        let start = Instant::now();
        let outcome = self.transfer_uncounted(view, packed, data, direction);
        let (bytes, time) = (outcome.bytes, start.elapsed());
        let access = Access { bytes, pieces: view.pieces_of(bytes), aggregated: false, time };
        self.statistics.add(direction, &access);
        outcome
    }

    /// Returns what an access locks.
    pub(crate) fn locking(&self, direction: Direction) -> Locking {
        let state = self.state();
        // Without another writer only writes of this process's threads are lost in a hole. A write
        // that a hint keeps from taking holes along locks too: one that began before it may do so.
        let is_alone = self.members.size() == 1 && self.amode.has(UNIQUE_OPEN);
        let keeps_holes = is_alone && self.amode.reads() && !state.view.is_contiguous();
        match (state.atomic, direction, state.hints.ds_write) {
            (true, ..) => Locking::Access,
            (false, Direction::Write, Switch::Enable) => Locking::Calls,
            (false, Direction::Write, _) if keeps_holes => Locking::Threads,
            _ => Locking::Nothing,
        }
    }

    /// Moves the data of one access, as one step in atomic mode.
    fn transfer_uncounted(
        &self,
        view: &View,
        packed: u64,
        data: &UserData,
        direction: Direction,
    ) -> Outcome {
        let locking = self.locking(direction);
        let keeps_holes = locking != Locking::Nothing && self.amode.reads();
        let sieve = Sieve::new(&self.state().hints, keeps_holes);
        let target = Target { disk: &self.disk, view, sieve, locks: &self.range_locks, locking };
        if locking != Locking::Access || data.buffer.is_empty() {
            return transfer::run(target, packed, data, direction);
        }
        let span = view.datarep.file_bytes(data).and_then(|len| view.span(packed, len));
        let is_write = direction == Direction::Write;
        match span.and_then(|span| self.range_locks.lock(&self.disk, span, is_write)) {
            Ok(_lock) => transfer::run(target, packed, data, direction),
            Err(error) => Outcome::failed(error),
        }
    }

    pub(crate) fn check_no_split(&self) -> Result<()> {
        match self.state().split {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Class::Other,
                "a split collective is active on this file: it must be ended first",
            )),
        }
    }

    pub(crate) fn check_mode(&self, direction: Direction, shared: bool) -> Result<()> {
        if direction == Direction::Write {
            self.check_writable()?;
        } else if !self.amode.reads() {
            let path = self.path().display();
            let text = format!("cannot read {path}: it was opened with MPI_MODE_WRONLY");
            return Err(Error::new(Class::Access, text));
        }
        if self.amode.has(SEQUENTIAL) && !shared {
            return Err(sequential());
        }
        Ok(())
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.amode.writes() {
            true => Ok(()),
            false => Err(Error::new(
                Class::ReadOnly,
                format!(
                    "cannot change {}: it was opened with MPI_MODE_RDONLY",
                    self.path().display()
                ),
            )),
        }
    }
}

#[cold]
pub(crate) fn sequential() -> Error {
    Error::new(
        Class::UnsupportedOperation,
        "the file was opened with MPI_MODE_SEQUENTIAL: only the shared pointer can be used, \
         without seeks",
    )
}

#[cold]
pub(crate) fn too_far() -> Error {
    Error::new(Class::Arg, "invalid file offset: the access ends beyond 2^63 bytes")
}
