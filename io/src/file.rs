//! An open file, as one member of its group sees it.
//!
//! The state of a member ([`State`]) is small and locked only to read or change it, never while
//! data moves. A collective call makes the same collective steps on each member, whatever fails on
//! one: the members agree on the outcome in the end, and a failure of one is an error of all.
//!
//! States of split collectives: at most one is active at a time. The begin call does the whole
//! access, which the standard permits, and keeps its outcome for the end call.
//!
//! In atomic mode an access locks the range of the file that it spans, against other processes by
//! locks of the system and against other threads by a lock of this file. Writes do so too with the
//! hint `romio_ds_write=enable`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use objects::{Class, Datatype, Error, Info, Result};

use crate::access::{Coordination, Direction, Position};
use crate::amode::{Amode, SEQUENTIAL};
use crate::collective::{Decision, Summary, aggregators, decide};
use crate::datarep::{Datarep, UserData};
use crate::disk::Disk;
use crate::file_system::{FileSystem, Kind};
use crate::hints::{Hints, Switch};
use crate::members::{Members, agree, agree_same, agree_with, first_error};
use crate::pending::{Outcome, Pending};
use crate::shared_pointer::SharedPointer;
use crate::sieve::{Sieve, Target};
use crate::statistics::{Access, Statistics};
use crate::transfer;
use crate::two_phase::TwoPhase;
use crate::view::View;
use crate::workers;

/// An open file.
pub struct File {
    pub(crate) disk: Disk,
    pub(crate) amode: Amode,
    pub(crate) members: Box<dyn Members>,
    /// A number for the host of each member.
    hosts: Vec<u32>,
    pub(crate) shared: SharedPointer,
    pub(crate) state: Mutex<State>,
    pub(crate) statistics: Statistics,
    file_system: FileSystem,
    /// Held while a locked access moves data.
    locked_access: Mutex<()>,
}

/// What a member may change.
pub(crate) struct State {
    pub(crate) view: Arc<View>,
    /// The individual pointer, etypes.
    pub(crate) position: i64,
    atomic: bool,
    split: Option<Split>,
    pub(crate) hints: Hints,
}

/// A checked access: through which view, from which packed byte on, and the user's data.
type Wanted = (Arc<View>, u64, UserData);

/// A split collective that has begun.
struct Split {
    direction: Direction,
    kind: SplitKind,
    outcome: Outcome,
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
        (members, hosts): (Box<dyn Members>, Vec<u32>),
        shared: SharedPointer,
        mut hints: Hints,
    ) -> File {
        let file_system = FileSystem::of(&disk);
        hints.adopt(&file_system);
        let view = Arc::new(View::whole());
        let state = State { view, position: 0, atomic: false, split: None, hints };
        let (state, locked_access) = (Mutex::new(state), Mutex::new(()));
        let statistics = Statistics::new();
        File { disk, amode, members, hosts, shared, state, statistics, file_system, locked_access }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
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
        agree(&*self.members, mine)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> Result<i64> {
        self.disk.size()
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
        agree_same(&*self.members, checked, &size.to_ne_bytes(), "the size")?;
        let first = self.members.rank() == 0;
        agree(&*self.members, if first { call(&self.disk, size) } else { Ok(()) })
    }

    /// Writes the data of all members to the device (MPI_File_sync). Collective.
    pub fn sync(&self) -> Result<()> {
        // Rank 0 is the first: the others then find nothing left to write, on one host.
        let first = self.members.rank() == 0;
        let sync = |mine: bool| match mine && self.amode.writes() {
            true => self.disk.sync(),
            false => Ok(()),
        };
        agree(&*self.members, self.check_no_split().and_then(|()| sync(first)))?;
        agree(&*self.members, sync(!first))?;
        if self.file_system.kind == Kind::Nfs {
            // A client looks for what others wrote when it gets a lock.
            let _one_thread = self.locked_access.lock();
            let _ = self.disk.lock(0, 1, false);
        }
        Ok(())
    }

    /// Returns true in atomic mode.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    /// Switches atomic mode (MPI_File_set_atomicity). Collective.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        // A file system without locks says so now and not in the first access.
        let works =
            if atomic { self.disk.lock(0, 1, self.amode.writes()).map(|_| ()) } else { Ok(()) };
        agree_same(&*self.members, works, &[atomic.into()], "the flag")?;
        self.state().atomic = atomic;
        Ok(())
    }

    /// Sets the view (MPI_File_set_view); both pointers go to its start. `disp` `None`: that of the
    /// shared pointer, in sequential mode. Collective.
    pub fn set_view(
        &self,
        disp: Option<i64>,
        types: Result<(Datatype, Datatype)>,
        datarep: Result<Datarep>,
        info: Result<Info>,
    ) -> Result<()> {
        let mine = self.new_view(disp, types, datarep, info).and_then(|new| {
            if self.members.rank() == 0 {
                self.shared.clear_next()?;
            }
            Ok(new)
        });
        let summary = mine.as_ref().map_or([0; 2], |(view, _)| {
            let hash = |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte));
            [view.etype_bytes(), view.datarep.name().bytes().fold(0, hash)]
        });
        let summary = summary.map(u64::to_ne_bytes).concat();
        let outcome = mine.as_ref().map(|_| ()).map_err(Clone::clone);
        let what = "the etype's extent or the data representation";
        agree_same(&*self.members, outcome, &summary, what)?;
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
        let disp = match (disp, self.amode.has(SEQUENTIAL)) {
            (Some(disp), _) => disp,
            (None, true) => self.view().byte_offset(self.shared.load()?)?,
            (None, false) => {
                return Err(Error::new(
                    Class::Arg,
                    "invalid displacement MPI_DISPLACEMENT_CURRENT: it needs MPI_MODE_SEQUENTIAL",
                ));
            }
        };
        let view = View::new(disp, etype, filetype, datarep?, self.amode.writes())?;
        Ok((view, hints))
    }

    /// Reads or writes and returns when that is done. Collective if so coordinated; `data` is then
    /// an error that the caller found before, so that all members hear of it.
    pub fn access(
        &self,
        direction: Direction,
        position: Position,
        coordination: Coordination,
        data: Result<UserData>,
    ) -> Outcome {
        if coordination == Coordination::Independent {
            return data
                .map_or_else(Outcome::failed, |data| self.one_access(direction, position, &data));
        }
        let mine = self.check_no_split().and(data).and_then(|data| {
            let (view, packed) = self.begin_access(direction, position, &data)?;
            Ok((view, packed, data))
        });
        self.together(direction, mine).unwrap_or_else(Outcome::failed)
    }

    /// Carries out a collective access as the members decide. Collective.
    fn together(&self, direction: Direction, mine: Result<Wanted>) -> Result<Outcome> {
        let (summary, mine) = match mine.and_then(|mine| Ok((self.summary(&mine)?, mine))) {
            Ok((summary, mine)) => (summary, Ok(mine)),
            Err(error) => {
                (Summary { class: error.class() as i32, ..Summary::default() }, Err(error))
            }
        };
        let hints = self.state().hints.clone();
        let switch = if direction == Direction::Write { hints.cb_write } else { hints.cb_read };
        match (decide(&*self.members, summary, &hints, switch)?, mine) {
            (Decision::Failed { rank, class }, mine) => {
                Err(first_error(&*self.members, mine.map(|_| ()), rank, class)?)
            }
            (_, Err(error)) => Err(error),
            (Decision::Direct, Ok((view, packed, data))) => {
                Ok(self.agree_on(self.transfer(&view, packed, &data, direction)))
            }
            (Decision::Aggregate(domains), Ok((view, packed, data))) => {
                let (disk, members, buffer) = (&self.disk, &*self.members, &data.buffer);
                let view = &*view;
                let locks = (hints.ds_write == Switch::Enable).then_some(&self.locked_access);
                let aggregators = &aggregators(&self.hosts, domains.aggregators)[..];
                let all =
                    TwoPhase { disk, members, view, packed, buffer, domains, aggregators, locks };
                let start = Instant::now();
                let (bytes, result) = all.run(direction);
                let (pieces, time) = (view.pieces_of(bytes), start.elapsed());
                self.statistics.add(direction, &Access { bytes, pieces, aggregated: true, time });
                // An aggregator that failed may have had data of any member.
                agree(members, result)?;
                Ok(Outcome { bytes, error: None })
            }
        }
    }

    /// Returns what this member wants, for the others.
    fn summary(&self, (view, packed, data): &Wanted) -> Result<Summary> {
        let len = view.datarep.file_bytes(data)?;
        let (start, end) = view.span(*packed, len)?;
        Ok(Summary {
            class: 0,
            // Conversions of one member may fail, and must not keep the others waiting.
            eligible: view.datarep.is_native()
                && view.is_disjoint(*packed, len)
                && !view.is_empty()
                && !self.atomicity(),
            start,
            end,
            len,
            pieces: view.pieces_of(len),
        })
    }

    /// Makes the failure of one member an error of all. Collective.
    fn agree_on(&self, mine: Outcome) -> Outcome {
        let result = mine.error.map_or(Ok(()), Err);
        Outcome { bytes: mine.bytes, error: agree(&*self.members, result).err() }
    }

    fn one_access(&self, direction: Direction, position: Position, data: &UserData) -> Outcome {
        match self.begin_access(direction, position, data) {
            Ok((view, packed)) => self.transfer(&view, packed, data, direction),
            Err(error) => Outcome::failed(error),
        }
    }

    /// Checks an access and moves its pointer; returns the view and the packed byte.
    fn begin_access(
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

    /// Reads or writes in order of rank at the shared pointer. Collective.
    pub fn access_ordered(&self, direction: Direction, data: Result<UserData>) -> Outcome {
        let view = self.view();
        let mine = self
            .check_no_split()
            .and_then(|()| self.check_mode(direction, true))
            .and(data)
            .and_then(|data| Ok((view.etypes(view.datarep.file_bytes(&data)?)?, data)));
        let etypes = mine.as_ref().map(|(etypes, _)| *etypes).map_err(Clone::clone);
        let (before, mine) = match (self.reserve_ordered(etypes), mine) {
            (Ok(before), Ok((_, data))) => (before, data),
            (Err(error), _) | (_, Err(error)) => return Outcome::failed(error),
        };
        let outcome = match view.packed(before) {
            Ok(packed) => self.transfer(&view, packed, &mine, direction),
            Err(error) => Outcome::failed(error),
        };
        self.agree_on(outcome)
    }

    /// Returns where this member's part begins, and moves the shared pointer past all parts. An
    /// error of one member is an error of all. Collective.
    fn reserve_ordered(&self, mine: Result<i64>) -> Result<i64> {
        let etypes = *mine.as_ref().unwrap_or(&0);
        let all = agree_with(&*self.members, mine.map(|_| ()), &etypes.to_ne_bytes())?;
        let parts =
            || all.chunks_exact(8).map(|word| i64::from_ne_bytes(std::array::from_fn(|i| word[i])));
        let (mut word, mut moved) = ([0; 12], Ok(()));
        if self.members.rank() == 0 {
            let total = parts().try_fold(0i64, |sum, part| sum.checked_add(part));
            let first = total.ok_or_else(too_far).and_then(|total| {
                let first = self.shared.fetch_add(total)?;
                first.checked_add(total).map(|_| first).ok_or_else(too_far)
            });
            match first {
                Ok(first) => word[..8].copy_from_slice(&first.to_ne_bytes()),
                Err(error) => {
                    word[8..].copy_from_slice(&(error.class() as i32).to_ne_bytes());
                    moved = Err(error);
                }
            }
        }
        self.members.broadcast(0, &mut word)?;
        let class = i32::from_ne_bytes(std::array::from_fn(|i| word[8 + i]));
        if class != 0 {
            return Err(first_error(&*self.members, moved, 0, class)?);
        }
        let first = i64::from_ne_bytes(std::array::from_fn(|i| word[i]));
        let before = parts()
            .take(self.members.rank() as usize)
            .try_fold(first, |sum, part| sum.checked_add(part));
        before.ok_or_else(too_far)
    }

    /// Starts a read or write that goes on after the call.
    pub fn start(
        self: &Arc<File>,
        direction: Direction,
        position: Position,
        data: UserData,
    ) -> Result<Arc<Pending>> {
        let (view, packed) = self.begin_access(direction, position, &data)?;
        if view.datarep.is_users() {
            // A user's conversion runs on the user's thread.
            let outcome = self.transfer(&view, packed, &data, direction);
            return Ok(Arc::new(Pending::finished(outcome)));
        }
        let pending = Arc::new(Pending::begin());
        let (file, promise) = (self.clone(), pending.clone());
        workers::run(Box::new(move || {
            promise.finish(file.transfer(&view, packed, &data, direction));
        }));
        Ok(pending)
    }

    /// Moves the data of one access, and counts it.
    fn transfer(&self, view: &View, packed: u64, data: &UserData, direction: Direction) -> Outcome {
        let start = Instant::now();
        let outcome = self.transfer_uncounted(view, packed, data, direction);
        let (bytes, time) = (outcome.bytes, start.elapsed());
        let access = Access { bytes, pieces: view.pieces_of(bytes), aggregated: false, time };
        self.statistics.add(direction, &access);
        outcome
    }

    /// Moves the data of one access, as one step if it is locked.
    fn transfer_uncounted(
        &self,
        view: &View,
        packed: u64,
        data: &UserData,
        direction: Direction,
    ) -> Outcome {
        let state = self.state();
        let writes = direction == Direction::Write;
        let locked = state.atomic || writes && state.hints.ds_write == Switch::Enable;
        let sieve = Sieve::new(&state.hints, locked && self.amode.reads());
        drop(state);
        let target = Target { disk: &self.disk, view, sieve };
        if !locked || data.buffer.is_empty() {
            return transfer::run(target, packed, data, direction);
        }
        let _one_thread = self.locked_access.lock().unwrap_or_else(PoisonError::into_inner);
        let span = view.datarep.file_bytes(data).and_then(|len| view.span(packed, len));
        let lock = span.and_then(|(start, end)| {
            self.disk.lock(start, end - start, direction == Direction::Write)
        });
        match lock {
            Ok(_lock) => transfer::run(target, packed, data, direction),
            Err(error) => Outcome::failed(error),
        }
    }

    /// Performs the begin call of a split collective. Collective.
    pub fn begin_split(
        &self,
        kind: SplitKind,
        direction: Direction,
        offset: i64,
        data: Result<UserData>,
    ) -> Result<()> {
        self.check_no_split()?;
        let outcome = match kind {
            SplitKind::At => {
                self.access(direction, Position::At(offset), Coordination::Collective, data)
            }
            SplitKind::All => {
                self.access(direction, Position::Individual, Coordination::Collective, data)
            }
            SplitKind::Ordered => self.access_ordered(direction, data),
        };
        self.state().split = Some(Split { direction, kind, outcome });
        Ok(())
    }

    /// Performs the end call of a split collective.
    pub fn end_split(&self, kind: SplitKind, direction: Direction) -> Outcome {
        let mut state = self.state();
        match &state.split {
            Some(split) if (split.kind, split.direction) == (kind, direction) => {}
            Some(_) => {
                return Outcome::failed(Error::new(
                    Class::Other,
                    "the split collective that is active was begun by another call",
                ));
            }
            None => {
                let text = "no split collective is active on this file";
                return Outcome::failed(Error::new(Class::Other, text));
            }
        }
        match state.split.take() {
            Some(split) => split.outcome,
            None => Outcome::failed(Error::internal("a split collective vanished")),
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

    fn check_mode(&self, direction: Direction, shared: bool) -> Result<()> {
        if direction == Direction::Write {
            self.check_writable()?;
        } else if !self.amode.reads() {
            let text = format!("cannot read {}: it was opened with MPI_MODE_WRONLY", self.path());
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
                format!("cannot change {}: it was opened with MPI_MODE_RDONLY", self.path()),
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
