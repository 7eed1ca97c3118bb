//! Standard input, where it can't simply be handed to one rank.
//!
//! A file or a pipe becomes rank 0's own: nothing is read on its behalf. A
//! terminal can't, because the rank is not in the terminal's foreground group;
//! and `--stdin all` needs copies. There we read, and pass on through pipes.
//!
//! Nothing is read before all ranks have taken what was read before.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// What goes from our standard input to some ranks.
#[derive(Debug)]
pub struct Input {
    /// `None` at its end.
    source: Option<BorrowedFd<'static>>,
    terminal: bool,
    targets: Vec<Target>,
    bytes: Vec<u8>,
    /// Nothing follows what is held.
    ended: bool,
}

#[derive(Debug)]
struct Target {
    /// Our end of the rank's pipe; it does not block.
    pipe: OwnedFd,
    taken: usize,
}

impl Input {
    /// Copies to these pipes, which must not block.
    pub fn new(pipes: Vec<OwnedFd>) -> Input {
        let source = rustix::stdio::stdin();
        let targets: Vec<Target> =
            pipes.into_iter().map(|pipe| Target { pipe, taken: 0 }).collect();
        let source = (!targets.is_empty()).then_some(source);
        Input {
            source,
            terminal: source.is_some_and(rustix::termios::isatty),
            targets,
            bytes: Vec::new(),
            ended: false,
        }
    }

    /// Copies to these pipes what [`Input::feed`] is given.
    pub fn fed(pipes: Vec<OwnedFd>) -> Input {
        let targets = pipes.into_iter().map(|pipe| Target { pipe, taken: 0 }).collect();
        Input { source: None, terminal: false, targets, bytes: Vec::new(), ended: false }
    }

    /// More for the ranks; empty at its end.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.bytes.extend_from_slice(bytes);
        self.write();
    }

    /// True if the ranks have taken everything.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The source, if there is room for more and reading would not stop us.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.filter(|_| self.bytes.is_empty() && !self.targets.is_empty())?;
        (!self.terminal || in_foreground(source)).then_some(source)
    }

    /// Ranks that have not taken everything, by number.
    pub fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let length = self.bytes.len();
        self.targets
            .iter()
            .enumerate()
            .filter(move |(_, t)| t.taken < length)
            .map(|(id, t)| (id, t.pipe.as_fd()))
    }

    /// Reads once. True if the user has ended a line on the terminal.
    pub fn read(&mut self) -> bool {
        let Some(source) = self.source else { return false };
        let mut bytes = [0u8; 4096];
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
                self.terminal && bytes[..read].ends_with(b"\n")
            }
        }
    }

    /// Passes on what the ranks take now. One that has closed its end is out.
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
            if self.ended {
                self.targets.clear();
            }
        }
    }
}

/// A background process that reads its terminal is stopped; so we don't.
fn in_foreground(terminal: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
