//! The file of a group, which says how its keeper is reached. Only the user can read it: it has the
//! secret that members prove.
//!
//! States: none -> published -> stale, if the keeper has ended without removing it -> replaced by
//! the next keeper, or removed.
//!
//! A keeper holds a lock (flock(2)) on its file as long as it lives; the system releases it,
//! however the keeper ends. A file appears with its content and its lock, by a link from a
//! temporary name, so that of two keepers that start at once one finds the other's file. A stale
//! file is replaced by a rename while its lock is held: of two keepers that find it stale, the
//! second one finds another file at its place. Where a file system of several hosts has locks
//! within each host alone, a free lock proves nothing about another host; see [`super::join`].

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The longest name of a group, in bytes.
const MAX_NAME: usize = 200;
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// How a keeper is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The version of the keeper ([`super::version`]).
    pub(super) verbena: String,
    /// The name of its host.
    pub(super) host: String,
    /// The start of that host's system.
    pub(super) boot: String,
    /// Its process there.
    pub(super) process: u32,
    /// Where it listens, loopback addresses included.
    pub(super) addresses: Vec<SocketAddr>,
    /// What both sides of a connection prove.
    pub(super) secret: [u8; 32],
}

/// The part of an [`Entry`] that all versions have.
#[derive(Deserialize)]
struct Version {
    verbena: String,
}

/// What a look at a file has found.
#[derive(Debug)]
pub(super) struct Look {
    /// What is in the file.
    pub(super) bytes: Vec<u8>,
    /// The same; the version of a keeper of another one.
    pub(super) entry: Result<Entry, String>,
    pub(super) lock: Lock,
}

/// The lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// The keeper lives.
    Held,
    /// No process of this host holds it, nor of another one if the file system has locks for all.
    Free,
    /// The file system has no locks.
    Unknown,
}

/// A file that this process has published. It is locked.
#[derive(Debug)]
pub(super) struct Published {
    path: PathBuf,
    file: File,
}

/// Returns the file of a group: below the user's cache folder, unless the name is a path. The error
/// is a text for the user.
pub(super) fn path(
    name: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, String> {
    if name.ends_with('/') {
        return Err(format!("--group {name}: a path must end with the name of a file"));
    }
    if name.contains('/') {
        return std::path::absolute(name).map_err(|error| format!("--group {name}: {error}"));
    }
    let is_plain = !name.starts_with('.') && !name.contains(char::is_control);
    if name.is_empty() || name.len() > MAX_NAME || !is_plain {
        return Err(format!(
            "--group {name:?}: a name has 1 to {MAX_NAME} bytes, no dot in front and no control \
             characters; one with a slash is the path of a file"
        ));
    }
    let folder = |name: &str, rest: &str| {
        let folder = variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute())?;
        Some(folder.join(rest))
    };
    let cache = folder("XDG_CACHE_HOME", "").or_else(|| folder("HOME", ".cache"));
    let cache = cache.ok_or_else(|| {
        format!(
            "--group {name}: neither HOME nor XDG_CACHE_HOME names a folder for its file; give a \
             path in place of the name: --group ./{name}"
        )
    })?;
    Ok(cache.join("verbena/groups").join(name))
}

/// Returns what tells a start of this host's system from all others.
pub(super) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Looks at a file; `None` if there is none. The error is a text for the user.
pub(super) fn look(path: &Path) -> Result<Option<Look>, String> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    let bytes = read(&mut file).map_err(|error| unusable(path, &error.to_string()))?;
    let entry = match serde_json::from_slice::<Version>(&bytes) {
        Ok(Version { verbena }) if verbena != super::version() => Err(verbena),
        _ => Ok(serde_json::from_slice(&bytes)
            .map_err(|_| unusable_or_left(path, "it is another file, or was changed"))?),
    };
    let lock = match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Lock::Free,
        Err(Errno::WOULDBLOCK) => Lock::Held,
        Err(_) => Lock::Unknown,
    };
    Ok(Some(Look { bytes, entry, lock }))
}

/// Publishes a file, in the place of one with this content if there is some; `None` if another
/// process was faster. The error is a text for the user.
pub(super) fn publish(
    path: &Path,
    entry: &Entry,
    replaces: Option<&[u8]>,
) -> Result<Option<Published>, String> {
    let refused = |error: std::io::Error| {
        format!(
            "cannot write the group's file {}: {error}; name another place: --group PATH, with a \
             slash in it",
            path.display()
        )
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{:x}", bootstrap::random().unwrap_or_default()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR);
    let mut file = File::from(file.map_err(|errno| refused(errno.into()))?);
    // Without locks on this file system a keeper that does not answer has ended.
    let _ = flock(&file, FlockOperation::LockExclusive);
    let written = serde_json::to_vec(entry).map_err(std::io::Error::other);
    let written = written.and_then(|bytes| file.write_all(&bytes)).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match replaces {
        None => create(&temporary, path),
        Some(old) => replace(&temporary, path, old),
    });
    // It is gone if it was renamed.
    let _ = std::fs::remove_file(&temporary);
    let is_placed = placed.map_err(refused)?;
    Ok(is_placed.then(|| Published { path: path.to_owned(), file }))
}

impl Published {
    /// Removes the file, unless the user has put another one in its place.
    pub(super) fn remove(self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Gives a file its name; false if there is one of that name.
fn create(temporary: &Path, path: &Path) -> std::io::Result<bool> {
    let linked = match rustix::fs::link(temporary, path) {
        // The file system has no links.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            let here = rustix::fs::CWD;
            rustix::fs::renameat_with(here, temporary, here, path, RenameFlags::NOREPLACE)
        }
        linked => linked,
    };
    match linked {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives a file the name of one whose keeper has ended; false if it is not that one any more.
fn replace(temporary: &Path, path: &Path, old: &[u8]) -> std::io::Result<bool> {
    let Ok(Some(mut stale)) = open(path) else { return Ok(false) };
    let is_locked = flock(&stale, FlockOperation::NonBlockingLockExclusive);
    let is_it = is_at(&stale, path) && read(&mut stale).is_ok_and(|bytes| bytes == old);
    if is_locked == Err(Errno::WOULDBLOCK) || !is_it {
        return Ok(false);
    }
    std::fs::rename(temporary, path).map(|()| true)
}

/// Opens a file that only this user can read; `None` if there is none. The error is a text for the
/// user.
fn open(path: &Path) -> Result<Option<File>, String> {
    // For a lock over the network, which needs the right to write.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(unusable(path, &std::io::Error::from(errno).to_string())),
    };
    let data = file.metadata().map_err(|error| unusable(path, &error.to_string()))?;
    if !data.is_file() || data.uid() != rustix::process::geteuid().as_raw() {
        return Err(unusable(path, "it must be a regular file of yours"));
    }
    let mode = data.mode() & 0o777;
    if mode & 0o077 != 0 {
        let why = format!("its mode is {mode:o}, and nobody else may read its secret");
        return Err(unusable_or_left(path, &why));
    }
    Ok(Some(file))
}

fn read(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns true if this open file is the one at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let there = std::fs::symlink_metadata(path).map(identity);
    there.is_ok_and(|there| file.metadata().map(identity).is_ok_and(|own| own == there))
}

fn unusable(path: &Path, why: &str) -> String {
    format!("cannot use the group's file {}: {why}; use another name or path", path.display())
}

fn unusable_or_left(path: &Path, why: &str) -> String {
    format!("{}, or remove it if it is left of a group", unusable(path, why))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Barrier;

    use super::*;

    fn entry(process: u32) -> Entry {
        Entry {
            verbena: super::super::version(),
            host: "h".into(),
            boot: boot(),
            process,
            addresses: vec!["127.0.0.1:9".parse().unwrap()],
            secret: [7; 32],
        }
    }

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("verbena-group-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn lock_of(path: &Path) -> Option<Lock> {
        look(path).unwrap().map(|look| look.lock)
    }

    #[test]
    fn a_name_is_a_file_of_the_cache_or_a_path() {
        let of = |name: &str, known: &str| {
            path(name, |variable| known.contains(variable).then(|| format!("/{variable}").into()))
        };
        let named = |text: &str| Ok(PathBuf::from(text));
        assert_eq!(of("ocean", "XDG_CACHE_HOME"), named("/XDG_CACHE_HOME/verbena/groups/ocean"));
        assert_eq!(of("ocean", "HOME"), named("/HOME/.cache/verbena/groups/ocean"));
        assert_eq!(of("/run/ocean", ""), named("/run/ocean"));
        assert!(of("./ocean", "").unwrap().is_absolute());
        assert!(of("ocean", "").unwrap_err().contains("--group ./ocean"));
        for wrong in ["", "..", ".x", "a\nb", "a/", "/", &"x".repeat(201)] {
            assert!(of(wrong, "HOME").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_is_published_once_found_stale_and_replaced() {
        let folder = Folder::new("life");
        let path = folder.0.join("deep/er/ocean");
        assert!(look(&path).unwrap().is_none());
        let first = publish(&path, &entry(1), None).unwrap().unwrap();
        assert!(publish(&path, &entry(2), None).unwrap().is_none());
        let seen = look(&path).unwrap().unwrap();
        assert_eq!((seen.entry, seen.lock), (Ok(entry(1)), Lock::Held));
        assert!(publish(&path, &entry(2), Some(&seen.bytes)).unwrap().is_none(), "it lives");
        drop(first);
        assert_eq!(lock_of(&path), Some(Lock::Free));
        assert!(publish(&path, &entry(2), Some(b"other")).unwrap().is_none());
        let second = publish(&path, &entry(2), Some(&seen.bytes)).unwrap().unwrap();
        assert_eq!(lock_of(&path), Some(Lock::Held));
        second.remove();
        assert_eq!(lock_of(&path), None);
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 0, "no temporary file");
    }

    #[test]
    fn of_many_that_publish_or_replace_at_once_one_succeeds() {
        let folder = Folder::new("race");
        let path = folder.0.join("ocean");
        for round in 0..20 {
            let old = look(&path).unwrap().map(|look| look.bytes);
            let start = Barrier::new(4);
            let publish = |process: u32| {
                start.wait();
                publish(&path, &entry(process), old.as_deref()).unwrap()
            };
            let placed: Vec<Published> = std::thread::scope(|scope| {
                let all: Vec<_> =
                    (0..4).map(|id| scope.spawn(move || publish(4 * round + id))).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect()
            });
            assert!(placed.len() <= 1, "{placed:?}");
            assert!(!placed.is_empty() || old.is_some());
        }
    }

    #[test]
    fn what_is_no_group_of_this_user_is_not_used() {
        let folder = Folder::new("other");
        let path = folder.0.join("ocean");
        std::fs::write(&path, "my own text").unwrap();
        let allow = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(0o644);
        assert!(look(&path).unwrap_err().contains("nobody else may read"));
        allow(0o600);
        assert!(look(&path).unwrap_err().contains("it is another file"));
        std::fs::write(&path, r#"{"verbena": "0.0.1/3", "more": 1}"#).unwrap();
        assert_eq!(look(&path).unwrap().unwrap().entry, Err("0.0.1/3".into()));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(look(&path).unwrap_err().contains("cannot use"));
        assert!(look(&folder.0).is_err());
        let published = Entry { verbena: "x".into(), ..entry(1) };
        assert!(publish(Path::new("/proc/ocean"), &published, None).is_err());
    }
}
