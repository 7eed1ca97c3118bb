//! Opens, closes and deletes files (MPI-5.0 §14.2).
//!
//! Steps of an open, the same on all members, with one exchange after each:
//! 1. Each checks its arguments.
//! 2. Rank 0 opens, and creates if asked for; it makes the shared pointer if all are on one host.
//! 3. The others open without creating. In append mode each finds the end of the file.
//!
//! Only rank 0 creates, so that MPI_MODE_EXCL holds for the group as a whole. Between hosts a
//! fourth step makes the shared pointer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use objects::{Class, Error, Info, Result};

use crate::aggregators::{self, Place};
use crate::agreement::{agree, agree_with, first_error};
use crate::amode::{APPEND, Amode, CREATE, DELETE_ON_CLOSE, EXCL, WRONLY};
use crate::disk::{Direct, Disk, OpenHow, unlink};
use crate::file::File;
use crate::file_system::is_lustre;
use crate::hints::Hints;
use crate::lustre;
use crate::members::{Exchange, Members};
use crate::shared_pointer::{SharedPointer, Words};
use crate::shared_word::{Announcement, SharedWords};
use crate::spare;
use crate::statistics::Counts;

/// Prefixes of names that select a driver in ROMIO; here the file system is found by itself.
const PREFIXES: [&str; 12] = [
    "ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:", "beegfs:", "pvfs2:", "unifyfs:", "daos:",
    "testfs:", "ime:",
];

/// What the members of an open call give.
pub struct OpenArgs {
    /// The name of the file.
    pub path: PathBuf,
    /// MPI_MODE_ constants.
    pub amode: i32,
    /// Hints.
    pub info: Info,
}

/// What the members agreed on before any opens.
struct Checked {
    path: PathBuf,
    amode: Amode,
    hints: Hints,
    /// Where each member runs.
    places: Vec<Place>,
}

/// A file that this member has opened, and the shared pointer if it is in memory.
type Opened = (Disk, Option<Words>);

/// Opens a file (MPI_File_open). Collective; `args` is an error that this member's caller found.
pub fn open(members: Arc<dyn Members>, args: Result<OpenArgs>) -> Result<File> {
    let checked = check(&*members, args)?;
    let (mine, announcement) = open_first(&*members, &checked)?;
    let mine = match members.rank() {
        0 => mine,
        rank => open_here(&checked, rank).map(|disk| {
            let words = announcement.map(|at| Words::Mapped(SharedWords::announced(at)));
            (disk, words)
        }),
    };
    let mine = mine.and_then(|opened| Ok((start_of(&opened.0, checked.amode)?, opened)));
    agree(&*members, mine.as_ref().map(|_| ()).map_err(Clone::clone))?;
    let (start, (disk, words)) = mine?;
    let words = match words {
        Some(words) => words,
        None => Words::Remote(members.remote_words()?),
    };
    let shared = SharedPointer::new(words);
    let file = File::new(disk, checked.amode, (members, checked.places), shared, checked.hints);
    file.go_to(start)?;
    Ok(file)
}

/// Checks the arguments. Collective.
fn check(members: &dyn Members, args: Result<OpenArgs>) -> Result<Checked> {
    let mine = args.and_then(|args| {
        let mut hints = Hints::new(members.size());
        hints.update(&args.info)?;
        Ok((strip_prefix(&args.path).to_owned(), Amode::new(args.amode)?, hints))
    });
    let bits = mine.as_ref().map_or(0, |(_, amode, _)| amode.bits());
    let told = [&bits.to_ne_bytes()[..], &members.place().encode()].concat();
    let all = agree_with(members, mine.as_ref().map(|_| ()).map_err(Clone::clone), &told)?;
    let (path, amode, mut hints) = mine?;
    let mut places = Vec::new();
    for (rank, one) in all.chunks_exact(4 + Place::SIZE).enumerate() {
        if one[..4] != all[..4] {
            let text = format!(
                "amode of rank {rank} differs from rank 0's: must be the same on all ranks"
            );
            return Err(Error::new(Class::NotSame, text));
        }
        places.push(Place::decode(&one[4..]));
    }
    hints.adopt_hosts(&aggregators::hosts(&places));
    Ok(Checked { path, amode, hints, places })
}

/// Lets rank 0 open; returns what it opened, or else an error that no member uses, and where the
/// shared pointer is if it lies in memory. Collective.
fn open_first(
    members: &dyn Members,
    checked: &Checked,
) -> Result<(Result<Opened>, Option<Announcement>)> {
    let one_host = aggregators::hosts(&checked.places).len() == 1;
    let mut mine = Err(Error::internal("rank 0 opens first"));
    let mut told = [0; 4 + Announcement::SIZE];
    if members.rank() == 0 {
        mine = open_here(checked, 0).and_then(|disk| {
            let words = match members.size() {
                1 => Some(Words::Own(Default::default())),
                _ if !one_host => None,
                _ => {
                    let words = SharedWords::make()?;
                    told[4..].copy_from_slice(&words.announcement().encode());
                    Some(Words::Mapped(words))
                }
            };
            Ok((disk, words))
        });
        let class = mine.as_ref().map_or_else(|error| error.class() as i32, |_| 0);
        told[..4].copy_from_slice(&class.to_ne_bytes());
    }
    if members.size() == 1 {
        return Ok((Ok(mine?), None));
    }
    let bytes = members.run(Exchange::Broadcast { root: 0, bytes: told.to_vec() })?.bytes;
    told.copy_from_slice(&bytes);
    match i32::from_ne_bytes(std::array::from_fn(|i| told[i])) {
        0 => {
            let at = Announcement::decode(&std::array::from_fn(|i| told[4 + i]));
            Ok((mine, one_host.then_some(at)))
        }
        class => {
            let mine = if members.rank() == 0 { mine.map(|_| ()) } else { Ok(()) };
            Err(first_error(members, mine, 0, class)?)
        }
    }
}

/// Opens the file on this member.
fn open_here(checked: &Checked, rank: u32) -> Result<Disk> {
    let Checked { path, amode, hints, .. } = checked;
    let access = match (amode.reads(), amode.writes()) {
        (true, true) => libc::O_RDWR,
        (true, false) => libc::O_RDONLY,
        (false, _) => libc::O_WRONLY,
    };
    let create = match rank {
        0 if amode.has(EXCL) && amode.has(CREATE) => libc::O_CREAT | libc::O_EXCL,
        0 if amode.has(CREATE) => libc::O_CREAT,
        _ => 0,
    };
    debug_assert!(amode.has(WRONLY) || amode.reads());
    if path.as_os_str().is_empty() {
        return Err(Error::new(Class::BadFile, "invalid file name: it is empty"));
    }
    let create = if create != 0 { create_striped(checked, create)? } else { 0 };
    let how = OpenHow { flags: access | create, mode: hints.file_perm, direct: hints.direct };
    let disk = Disk::open(path, how)?;
    if disk.is_folder()? {
        let text = format!("cannot open {}: it is a directory", path.display());
        return Err(Error::new(Class::BadFile, text));
    }
    Ok(disk)
}

/// Creates a file of Lustre with the stripes that hints ask for; returns what is left to create. A
/// layout that is refused leaves the system's: hints are no commands.
fn create_striped(checked: &Checked, create: i32) -> Result<i32> {
    let Checked { path, hints, .. } = checked;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let layout = lustre::layout(hints.striping_unit, hints.striping_factor);
    let Some(layout) = layout.filter(|_| is_lustre(folder.unwrap_or(Path::new(".")))) else {
        return Ok(create);
    };
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | lustre::DELAY_CREATE;
    let how = OpenHow { flags, mode: hints.file_perm, direct: Direct::default() };
    match Disk::open(path, how) {
        Ok(disk) => {
            disk.set_layout(&layout);
            Ok(0)
        }
        // Its layout stays.
        Err(error) if error.class() == Class::FileExists => Ok(create),
        Err(error) => Err(error),
    }
}

/// Returns the name without a prefix of ROMIO's, unless a file has the whole name.
fn strip_prefix(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let stripped = PREFIXES.iter().find_map(|prefix| bytes.strip_prefix(prefix.as_bytes()));
    match stripped {
        Some(rest) if !path.exists() => Path::new(OsStr::from_bytes(rest)),
        _ => path,
    }
}

/// Returns where the pointers of a file that was just opened stand, bytes.
fn start_of(disk: &Disk, amode: Amode) -> Result<i64> {
    if amode.has(APPEND) { disk.size() } else { Ok(0) }
}

impl File {
    /// Sets the pointers of a file that was just opened. Collective.
    fn go_to(&self, start: i64) -> Result<()> {
        if !self.amode.has(APPEND) {
            return Ok(());
        }
        self.state().position = start;
        let first = self.members.rank() == 0;
        agree(self.group(), if first { self.shared.store(start) } else { Ok(()) })
    }

    /// Waits until all members are done with the file, the first part of MPI_File_close; after an
    /// error the file stays open. Returns what each member did. Collective.
    pub fn begin_close(&self) -> Result<Vec<Counts>> {
        let counts = self.statistics.counts(self.disk.calls()).encode();
        // A file system of the network reports what it could not write when data is flushed.
        let flushed = self.check_no_split().and_then(|()| match self.is_of_network() {
            true if self.amode.writes() => self.disk.sync(),
            _ => Ok(()),
        });
        let all = agree_with(self.group(), flushed, &counts)?;
        Ok(all.chunks_exact(Counts::SIZE).map(Counts::decode).collect())
    }

    /// Deletes the file if that was asked for, the second part of MPI_File_close. The descriptor is
    /// closed when the last access has ended. Collective.
    pub fn end_close(&self) -> Result<()> {
        spare::clear();
        let freed = self.shared.free();
        if !self.amode.has(DELETE_ON_CLOSE) {
            return freed;
        }
        let first = self.members.rank() == 0;
        agree(self.group(), if first { unlink(self.path()) } else { Ok(()) }).and(freed)
    }
}

/// Deletes a file (MPI_File_delete).
pub fn delete(path: &Path) -> Result<()> {
    unlink(strip_prefix(path))
}
