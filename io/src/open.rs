//! Opens, closes and deletes files (MPI-5.0 §14.2).
//!
//! Steps of an open, the same on all members: agree on the arguments; rank 0 opens, and creates if
//! asked for; the others hear of it and open without creating; all agree on the outcome. Only rank
//! 0 creates, so that MPI_MODE_EXCL holds for the group as a whole.

use std::path::Path;

use objects::{Class, Error, Info, Result};

use crate::amode::{APPEND, Amode, CREATE, DELETE_ON_CLOSE, EXCL, WRONLY};
use crate::disk::{Disk, OpenHow, unlink};
use crate::file::File;
use crate::hints::Hints;
use crate::members::{Members, agree, all_same};
use crate::shared_word::{Announcement, SharedWord};

/// Prefixes of names that select a driver in ROMIO; here the file system is found by itself.
const PREFIXES: [&str; 12] = [
    "ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:", "beegfs:", "pvfs2:", "unifyfs:", "daos:",
    "testfs:", "ime:",
];

/// What the members of an open call give.
pub struct OpenArgs {
    /// The name of the file.
    pub path: String,
    /// MPI_MODE_ constants.
    pub amode: i32,
    /// Hints.
    pub info: Info,
}

/// Opens a file (MPI_File_open). Collective; `args` is an error that this member's caller found.
pub fn open(members: Box<dyn Members>, args: Result<OpenArgs>) -> Result<File> {
    let checked = args.and_then(|args| {
        let mut hints = Hints::new(members.size());
        hints.update(&args.info)?;
        Ok((strip_prefix(&args.path).to_owned(), Amode::new(args.amode)?, hints))
    });
    agree(&*members, checked.as_ref().map(|_| ()).map_err(Clone::clone))?;
    let (path, amode, hints) = checked?;
    all_same(&*members, &amode.bits().to_ne_bytes(), "amode")?;
    let rank = members.rank();
    let mut announcement = [0; Announcement::SIZE];
    let mut mine = Ok(None);
    if rank == 0 {
        mine = open_here(&path, amode, &hints, 0).and_then(|disk| {
            let shared = match members.size() {
                1 => SharedWord::Own(0.into()),
                _ => SharedWord::make()?,
            };
            announcement = shared.announcement().encode();
            Ok(Some((disk, shared)))
        });
    }
    agree(&*members, mine.as_ref().map(|_| ()).map_err(Clone::clone))?;
    members.broadcast(0, &mut announcement)?;
    if rank != 0 {
        mine = open_here(&path, amode, &hints, rank)
            .map(|disk| Some((disk, SharedWord::announced(Announcement::decode(&announcement)))));
    }
    agree(&*members, mine.as_ref().map(|_| ()).map_err(Clone::clone))?;
    let (disk, shared) = mine?.ok_or_else(|| Error::internal("a file was not opened"))?;
    let file = File::new(disk, amode, members, shared, hints);
    file.go_to_start()?;
    Ok(file)
}

/// Opens the file on this member.
fn open_here(path: &str, amode: Amode, hints: &Hints, rank: u32) -> Result<Disk> {
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
    if path.is_empty() {
        return Err(Error::new(Class::BadFile, "invalid file name: it is empty"));
    }
    let disk = Disk::open(path, OpenHow { flags: access | create, mode: hints.file_perm }, rank)?;
    if Path::new(path).is_dir() {
        return Err(Error::new(Class::BadFile, format!("cannot open {path}: it is a directory")));
    }
    Ok(disk)
}

/// Returns the name without a prefix of ROMIO's, unless a file has the whole name.
fn strip_prefix(path: &str) -> &str {
    let stripped = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    match stripped {
        Some(rest) if !Path::new(path).exists() => rest,
        _ => path,
    }
}

impl File {
    /// Sets the pointers of a file that was just opened: at the end for MPI_MODE_APPEND.
    fn go_to_start(&self) -> Result<()> {
        if !self.amode.has(APPEND) {
            return Ok(());
        }
        let end = self.end();
        if let Ok(end) = end {
            self.state().position = end;
        }
        let shared = match self.members.rank() {
            0 => end.and_then(|end| self.shared.store(end)),
            _ => end.map(|_| ()),
        };
        agree(&*self.members, shared)
    }

    /// Waits until all members are done with the file, the first part of MPI_File_close; after an
    /// error the file stays open. Collective.
    pub fn begin_close(&self) -> Result<()> {
        agree(&*self.members, self.check_no_split())
    }

    /// Deletes the file if that was asked for, the second part of MPI_File_close. The descriptor is
    /// closed when the last access has ended. Collective.
    pub fn end_close(&self) -> Result<()> {
        if !self.amode.has(DELETE_ON_CLOSE) {
            return Ok(());
        }
        let first = self.members.rank() == 0;
        agree(&*self.members, if first { unlink(self.path(), 0) } else { Ok(()) })
    }
}

/// Deletes a file (MPI_File_delete).
pub fn delete(path: &str, rank: u32) -> Result<()> {
    unlink(strip_prefix(path), rank)
}
