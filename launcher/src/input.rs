//! Standard input, where it cannot be handed to one rank as it is.
//!
//! A file or a pipe becomes rank 0's own, and nothing is read on its behalf. Two cases need
//! copies through pipes: a terminal, since the rank is not in the terminal's foreground process
//! group, and `--stdin all`. The next piece is read once all ranks have taken the last one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Bytes of one read.
const READ_BYTES: usize = 4096;

/// Copies of standard input for some ranks.
#[derive(Debug)]
pub struct Input {
    /// `None` at its end, and where [`Input::feed`] is the source.
    source: Option<BorrowedFd<'static>>,
    is_terminal: bool,
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
        let source = (!pipes.is_empty()).then(rustix::stdio::stdin);
        let is_terminal = source.is_some_and(rustix::termios::isatty);
        Input { source, is_terminal, ..Input::fed(pipes) }
    }

    /// Copies the bytes of [`Input::feed`] to these pipes, which must not block.
    pub fn fed(pipes: Vec<OwnedFd>) -> Input {
        let targets = pipes.into_iter().map(|pipe| Target { pipe, taken: 0 }).collect();
        Input { source: None, is_terminal: false, targets, bytes: Vec::new(), is_ended: false }
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
        match rustix::io::read(source, &mut bytes[..]) {
            Err(Errno::INTR | Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                self.source = None;
                self.targets.clear();
                false
            }
            Ok(read) => {
                self.bytes.extend_from_slice(&bytes[..read]);
                self.write();
                self.is_terminal && bytes[..read].ends_with(b"\n")
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
        (!self.is_terminal || is_in_foreground(source)).then_some(source)
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
