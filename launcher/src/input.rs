//! Standard input, where it cannot be handed to one rank as it is.
//!
//! [`StandardInput`] is what is read, here and over several hosts; [`Input`] is the copies.
//! A file or a pipe becomes rank 0's own, and nothing is read on its behalf. Two cases need
//! copies through pipes: a terminal, since the rank is not in the terminal's foreground process
//! group, and `--stdin all`. The next piece is read once all ranks have taken the last one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Bytes of one read.
const READ_BYTES: usize = 4096;

/// Standard input of `mpiexec`, before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandardInput {
    file: BorrowedFd<'static>,
    is_terminal: bool,
}

impl StandardInput {
    pub(crate) fn new() -> StandardInput {
        let file = rustix::stdio::stdin();
        StandardInput { file, is_terminal: rustix::termios::isatty(file) }
    }

    /// Returns the descriptor, if reading would not stop this process. The terminal stops a process
    /// in the background that reads.
    pub(crate) fn readable(&self) -> Option<BorrowedFd<'static>> {
        (!self.is_terminal || is_in_foreground(self.file)).then_some(self.file)
    }

    /// Reads once. Returns the number of bytes, 0 at the end; `None` if there are none now.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Option<usize> {
        match rustix::io::read(self.file, bytes) {
            Err(Errno::INTR | Errno::AGAIN) => None,
            read => Some(read.unwrap_or(0)),
        }
    }

    /// Returns true if these bytes, just read, end a line that the user has typed on the terminal.
    pub(crate) fn is_typed_line(&self, bytes: &[u8]) -> bool {
        self.is_terminal && bytes.ends_with(b"\n")
    }
}

/// Copies of standard input for some ranks.
#[derive(Debug)]
pub struct Input {
    /// `None` at its end, and where [`Input::feed`] is the source.
    source: Option<StandardInput>,
    targets: Vec<Target>,
    /// The bytes that some target has not taken.
    bytes: Vec<u8>,
    /// Nothing follows `bytes`.
    is_ended: bool,
}

#[derive(Debug)]
struct Target {
    /// Our end of the rank's pipe; it does not block.
    pipe: OwnedFd,
    taken: usize,
}

impl Input {
    /// Copies standard input to these pipes, which must not block.
    pub fn new(pipes: Vec<OwnedFd>) -> Input {
        let source = (!pipes.is_empty()).then(StandardInput::new);
        Input { source, ..Input::fed(pipes) }
    }

    /// Copies the bytes of [`Input::feed`] to these pipes, which must not block.
    pub fn fed(pipes: Vec<OwnedFd>) -> Input {
        let targets = pipes.into_iter().map(|pipe| Target { pipe, taken: 0 }).collect();
        Input { source: None, targets, bytes: Vec::new(), is_ended: false }
    }

    /// Adds bytes for the ranks; none at the end of the input.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.is_ended |= bytes.is_empty();
        self.bytes.extend_from_slice(bytes);
        self.write();
    }

    /// Reads once. Returns true if the user has typed a line on the terminal.
    pub fn read(&mut self) -> bool {
        let Some(source) = self.source else { return false };
        let mut bytes = [0u8; READ_BYTES];
        match source.read(&mut bytes) {
            None => false,
            Some(0) => {
                self.source = None;
                self.targets.clear();
                false
            }
            Some(read) => {
                self.bytes.extend_from_slice(&bytes[..read]);
                self.write();
                source.is_typed_line(&bytes[..read])
            }
        }
    }

    /// Writes as much as the ranks take. A rank that has closed its end is dropped.
    pub fn write(&mut self) {
        let bytes = &self.bytes;
        self.targets.retain_mut(|target| {
            while target.taken < bytes.len() {
                match rustix::io::write(&target.pipe, &bytes[target.taken..]) {
                    Ok(wrote) => target.taken += wrote,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return true,
                    Err(_) => return false,
                }
            }
            true
        });
        if self.targets.iter().all(|target| target.taken == bytes.len()) {
            self.bytes.clear();
            self.targets.iter_mut().for_each(|target| target.taken = 0);
            if self.is_ended {
                self.targets.clear();
            }
        }
    }

    /// Returns true if the ranks have taken everything.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the source, if there is space and reading would not stop this process.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.filter(|_| self.bytes.is_empty() && !self.targets.is_empty())?;
        source.readable()
    }

    /// Returns the pipes of ranks that have not taken everything, by number.
    pub fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let length = self.bytes.len();
        self.targets
            .iter()
            .enumerate()
            .filter(move |(_, target)| target.taken < length)
            .map(|(id, target)| (id, target.pipe.as_fd()))
    }
}

/// Returns true if this process may read its terminal: a background process would be stopped.
fn is_in_foreground(terminal: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
