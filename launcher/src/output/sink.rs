//! A sink: this process's standard output or error, written without blocking, or a file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Bytes that a pipe takes for certain when poll(2) reports space (PIPE_BUF).
const PIPE_PIECE: usize = 4096;

/// A sink with the bytes that it has not taken yet.
#[derive(Debug)]
pub(super) struct Sink {
    mode: WriteMode,
    /// The path of a file, until its loss is reported.
    path: Option<PathBuf>,
    pending: Vec<u8>,
    written: usize,
    /// The sink is a terminal.
    pub(super) is_terminal: bool,
    /// The stream whose unfinished line is the last thing in the sink.
    pub(super) open_line: Option<usize>,
    /// The reason why it can no longer be written.
    pub(super) broken: Option<Errno>,
}

/// The way to write without blocking.
#[derive(Debug)]
enum WriteMode {
    /// The file never blocks for long, or is a device that cannot be opened again.
    Plain(BorrowedFd<'static>),
    /// A file of our own, or one opened once more as non-blocking, so that other processes do not
    /// see the flag.
    Own(OwnedFd),
    /// A socket: each call is non-blocking.
    Socket(BorrowedFd<'static>),
    /// Pieces that fit whenever poll(2) reports space.
    Pieces(BorrowedFd<'static>),
}

impl Sink {
    pub(super) fn new(file: BorrowedFd<'static>) -> Sink {
        Sink::over(WriteMode::of(file), rustix::termios::isatty(file), None)
    }

    /// A sink for a file on disk.
    pub(super) fn to_file(file: OwnedFd, path: PathBuf) -> Sink {
        Sink::over(WriteMode::Own(file), false, Some(path))
    }

    fn over(mode: WriteMode, is_terminal: bool, path: Option<PathBuf>) -> Sink {
        Sink {
            mode,
            path,
            pending: Vec::new(),
            written: 0,
            is_terminal,
            open_line: None,
            broken: None,
        }
    }

    /// Returns the line to print, once, when a file can no longer be written.
    pub(super) fn take_loss(&mut self) -> Option<String> {
        let errno = self.broken?;
        let path = self.path.take()?;
        Some(format!("cannot write {}: {errno}; the rest of its output is lost", path.display()))
    }

    /// Appends bytes; [`Sink::write`] writes them.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Writes as much as the file takes.
    pub(super) fn write(&mut self) {
        while self.backlog() > 0 {
            match self.write_once() {
                Ok(wrote) => self.written += wrote,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    self.broken = Some(errno);
                    self.written = self.pending.len();
                }
            }
        }
        self.pending.clear();
        self.written = 0;
    }

    /// Writes everything and waits for it.
    pub(super) fn flush(&mut self) {
        while self.backlog() > 0 {
            let mut files = [PollFd::from_borrowed_fd(self.file(), PollFlags::OUT)];
            let _ = poll(&mut files, None);
            self.write();
        }
    }

    fn write_once(&self) -> Result<usize, Errno> {
        let rest = &self.pending[self.written..];
        match &self.mode {
            WriteMode::Plain(file) => rustix::io::write(file, rest),
            WriteMode::Own(file) => rustix::io::write(file, rest),
            WriteMode::Socket(file) => send(file, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            WriteMode::Pieces(file) => {
                let mut files = [PollFd::new(file, PollFlags::OUT)];
                poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
                if files[0].revents().is_empty() {
                    return Err(Errno::AGAIN);
                }
                rustix::io::write(file, &rest[..rest.len().min(PIPE_PIECE)])
            }
        }
    }

    /// Returns the number of bytes that the file has not taken.
    pub(super) fn backlog(&self) -> usize {
        self.pending.len() - self.written
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        match &self.mode {
            WriteMode::Own(file) => file.as_fd(),
            WriteMode::Plain(file) | WriteMode::Socket(file) | WriteMode::Pieces(file) => *file,
        }
    }
}

impl WriteMode {
    fn of(file: BorrowedFd<'static>) -> WriteMode {
        let Ok(stat) = fstat(file) else { return WriteMode::Plain(file) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => WriteMode::Socket(file),
            FileType::Fifo | FileType::CharacterDevice => {
                let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                open(path, flags, Mode::empty()).map_or(WriteMode::Pieces(file), WriteMode::Own)
            }
            _ => WriteMode::Plain(file),
        }
    }
}

/// Returns true if two descriptors are the same file.
pub(super) fn is_same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    match (fstat(a), fstat(b)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    }
}
