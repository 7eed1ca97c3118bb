//! Words in memory that all members of a file on one host map; the shared pointer lies in them.
//!
//! Rank 0 makes a memory file when the file is opened and announces it: its process, its
//! descriptor and a token. Another member maps it when it first uses the words, through
//! `/proc/PID/fd/FD`, and compares the token. Nothing lies beside the data, and nothing is left
//! when processes end. Members on other hosts cannot map it.
//!
//! Bytes of the memory file: token (16), zeros (48), words (8 each).

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI64;

use objects::{Class, Error, Result};

/// Bytes of the memory file: a page.
const FILE_BYTES: usize = 4096;
/// Where the words lie.
const WORDS_AT: usize = 64;
/// Number of words.
pub(crate) const WORDS: usize = 2;
/// Bytes of the token.
const TOKEN_BYTES: usize = 16;

/// Where the memory file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announcement {
    process: u32,
    descriptor: u32,
    token: [u8; TOKEN_BYTES],
}

impl Announcement {
    /// Bytes of an encoded announcement.
    pub(crate) const SIZE: usize = 8 + TOKEN_BYTES;

    /// Encodes process (4), descriptor (4) and token (16).
    pub(crate) fn encode(self) -> [u8; Announcement::SIZE] {
        let mut out = [0; Announcement::SIZE];
        out[..4].copy_from_slice(&self.process.to_le_bytes());
        out[4..8].copy_from_slice(&self.descriptor.to_le_bytes());
        out[8..].copy_from_slice(&self.token);
        out
    }

    /// Decodes what [`Announcement::encode`] made.
    pub(crate) fn decode(bytes: &[u8; Announcement::SIZE]) -> Announcement {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let token = std::array::from_fn(|i| bytes[8 + i]);
        Announcement { process: word(0), descriptor: word(4), token }
    }
}

/// Words that the members of one host share.
pub(crate) struct SharedWords {
    source: Source,
    mapping: OnceLock<Mapping>,
}

/// Where a member finds the memory file.
enum Source {
    /// It is this process's, which made it.
    Made(File, Announcement),
    /// Another process has it.
    Announced(Announcement),
}

/// The mapped words.
struct Mapping(NonNull<[AtomicI64; WORDS]>);

// SAFETY: the address of atomics that stays mapped while the value lives.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl SharedWords {
    /// Makes the memory file, on rank 0.
    pub(crate) fn make() -> Result<SharedWords> {
        let fail = |error: io::Error| {
            let text = format!("cannot make memory for the shared file pointer: {error}");
            Error::new(Class::NoMem, text)
        };
        let file = memory_file().map_err(fail)?;
        file.set_len(FILE_BYTES as u64).map_err(fail)?;
        let token = token();
        file.write_all_at(&token, 0).map_err(fail)?;
        let (process, descriptor) = (std::process::id(), file.as_raw_fd() as u32);
        let announcement = Announcement { process, descriptor, token };
        Ok(SharedWords { source: Source::Made(file, announcement), mapping: OnceLock::new() })
    }

    /// Returns the words that rank 0 announced.
    pub(crate) fn announced(announcement: Announcement) -> SharedWords {
        SharedWords { source: Source::Announced(announcement), mapping: OnceLock::new() }
    }

    /// Returns where the memory file is.
    pub(crate) fn announcement(&self) -> Announcement {
        match self.source {
            Source::Made(_, announcement) | Source::Announced(announcement) => announcement,
        }
    }

    /// Returns the word with this index.
    pub(crate) fn word(&self, index: usize) -> Result<&AtomicI64> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(&mapping.words()[index]);
        }
        let made = self.source.map().map_err(|error| {
            let text = format!("cannot map the memory of the shared file pointer: {error}");
            Error::new(Class::UnsupportedOperation, text)
        })?;
        Ok(&self.mapping.get_or_init(|| made).words()[index])
    }
}

impl Source {
    fn map(&self) -> io::Result<Mapping> {
        let (file, token) = match self {
            Source::Made(file, announcement) => (file.try_clone()?, announcement.token),
            Source::Announced(announcement) => {
                let path = format!("/proc/{}/fd/{}", announcement.process, announcement.descriptor);
                let file = OpenOptions::new().read(true).write(true).open(path)?;
                (file, announcement.token)
            }
        };
        let mut found = [0; TOKEN_BYTES];
        file.read_exact_at(&mut found, 0)?;
        if found != token {
            return Err(io::Error::other("rank 0's process is not on this host"));
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping where the kernel wants it, of a file of that length.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), FILE_BYTES, access, kind, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = address.cast::<u8>().wrapping_add(WORDS_AT).cast();
        NonNull::new(words).map(Mapping).ok_or_else(io::Error::last_os_error)
    }
}

impl Mapping {
    fn words(&self) -> &[AtomicI64; WORDS] {
        // SAFETY: aligned and inside the mapping, which lasts while `self` does.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.0.as_ptr().cast::<u8>().wrapping_sub(WORDS_AT);
        // SAFETY: the mapping that was made for this value; no reference outlives it.
        unsafe { libc::munmap(start.cast(), FILE_BYTES) };
    }
}

/// Makes a file without a name.
fn memory_file() -> io::Result<File> {
    // SAFETY: a terminated name.
    let fd = unsafe { libc::memfd_create(c"mpi-file-pointer".as_ptr(), libc::MFD_CLOEXEC) };
    if fd >= 0 {
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        return Ok(unsafe { File::from_raw_fd(fd) });
    }
    // A sandbox may refuse memory files.
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC);
    options.open("/dev/shm")
}

/// Returns a number that no other file has.
fn token() -> [u8; TOKEN_BYTES] {
    let mut token = [0; TOKEN_BYTES];
    // SAFETY: a valid place of that length.
    let got = unsafe { libc::getrandom(token.as_mut_ptr().cast(), TOKEN_BYTES, 0) };
    if got != TOKEN_BYTES as isize {
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = nanos.map_or(1, |time| time.as_nanos());
        token = (nanos ^ u128::from(std::process::id()) << 96).to_le_bytes();
    }
    token
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn members_of_a_host_share_the_words() {
        let made = SharedWords::make().unwrap();
        let encoded = made.announcement().encode();
        let other = SharedWords::announced(Announcement::decode(&encoded));
        assert_eq!(made.word(0).unwrap().fetch_add(5, SeqCst), 0);
        assert_eq!(other.word(0).unwrap().fetch_add(7, SeqCst), 5);
        assert_eq!(made.word(0).unwrap().load(SeqCst), 12);
        other.word(1).unwrap().store(3, SeqCst);
        assert_eq!(made.word(1).unwrap().load(SeqCst), 3);
    }

    #[test]
    fn another_hosts_memory_file_is_refused() {
        let made = SharedWords::make().unwrap();
        let wrong = Announcement { token: [0; TOKEN_BYTES], ..made.announcement() };
        let error = SharedWords::announced(wrong).word(0).map(|_| ()).unwrap_err();
        assert_eq!(error.class(), Class::UnsupportedOperation);
    }
}
