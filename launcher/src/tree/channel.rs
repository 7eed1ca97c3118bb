//! The bytes between a parent and a child: through the pipes of an agent that the parent has
//! started, or through a connection that the child's host has dialed ([`crate::dial_in`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bootstrap::control::Decoder;
use rustix::io::Errno;

use crate::dial_in::secure_stream::{End, SecureStream};
use crate::frames::{self, FromHost};

/// The longest text in place of a message that an error quotes, in bytes.
const MAX_QUOTE: usize = 200;

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    /// The daemon's standard input and output.
    Pipes { to: Option<OwnedFd>, from: Option<OwnedFd> },
    /// `None` once it is closed.
    Dialed(Option<SecureStream>),
}

/// A stream of messages in each direction.
#[derive(Debug)]
pub(super) struct Channel {
    carrier: Carrier,
    pending: Vec<u8>,
    decoder: Decoder,
}

impl Channel {
    /// Uses our ends of a daemon's standard input and output, which do not block.
    pub(super) fn of_pipes(to: OwnedFd, from: OwnedFd) -> Channel {
        Channel::new(Carrier::Pipes { to: Some(to), from: Some(from) })
    }

    /// Uses a connection.
    pub(super) fn of_stream(stream: SecureStream) -> Channel {
        Channel::new(Carrier::Dialed(Some(stream)))
    }

    fn new(carrier: Carrier) -> Channel {
        Channel { carrier, pending: Vec::new(), decoder: frames::decoder() }
    }

    fn takes_bytes(&self) -> bool {
        match &self.carrier {
            Carrier::Pipes { to, .. } => to.is_some(),
            Carrier::Dialed(stream) => stream.is_some(),
        }
    }

    /// Sends bytes, now or when there is space.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        if self.takes_bytes() {
            self.pending.extend_from_slice(bytes);
            self.write();
        }
    }

    /// Writes as much as there is space for.
    pub(super) fn write(&mut self) {
        let Channel { carrier, pending, .. } = self;
        match carrier {
            Carrier::Pipes { to, .. } => write_pipe(to, pending),
            Carrier::Dialed(slot) => {
                while let Some(stream) = slot {
                    match stream.write(pending) {
                        Ok(0) => return,
                        Ok(taken) => drop(pending.drain(..taken)),
                        Err(_) => *slot = None,
                    }
                }
            }
        }
    }

    /// Reads what has arrived; `None` at the end, otherwise whether there was something.
    pub(super) fn read(&mut self) -> Option<bool> {
        match &mut self.carrier {
            Carrier::Pipes { from, .. } => {
                let mut piece = [0u8; 64 << 10];
                match rustix::io::read(from.as_ref()?, &mut piece[..]) {
                    Ok(read) if read > 0 => {
                        self.decoder.push(&piece[..read]);
                        Some(true)
                    }
                    Err(Errno::INTR | Errno::AGAIN) => Some(false),
                    _ => {
                        *from = None;
                        None
                    }
                }
            }
            Carrier::Dialed(slot) => {
                let mut bytes = Vec::new();
                let end = slot.as_mut()?.read(&mut bytes);
                self.decoder.push(&bytes);
                if !matches!(end, Ok(End::Open)) {
                    *slot = None;
                    return None;
                }
                Some(!bytes.is_empty())
            }
        }
    }

    /// Returns the next message. The error is the text that came instead of a message.
    pub(super) fn next_message(&mut self) -> Result<Option<FromHost>, String> {
        self.decoder.next_message().map_err(|_| {
            let bytes = self.decoder.undecoded();
            String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_QUOTE)])
                .trim()
                .replace(char::is_control, " ")
        })
    }

    /// Returns the descriptor to read from.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Pipes { from, .. } => from.as_ref().map(AsFd::as_fd),
            Carrier::Dialed(stream) => stream.as_ref().map(AsFd::as_fd),
        }
    }

    /// Returns the descriptor to write to, if bytes are pending.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        let is_pending = !self.pending.is_empty();
        match &self.carrier {
            Carrier::Pipes { to, .. } => to.as_ref().filter(|_| is_pending).map(AsFd::as_fd),
            Carrier::Dialed(stream) => {
                let waits = |stream: &&SecureStream| is_pending || stream.wants_write();
                stream.as_ref().filter(waits).map(AsFd::as_fd)
            }
        }
    }

    /// Closes the connection.
    pub(super) fn hang_up(&mut self) {
        match &mut self.carrier {
            Carrier::Pipes { to, from } => (*to, *from) = (None, None),
            Carrier::Dialed(stream) => {
                if let Some(stream) = stream.take() {
                    stream.close();
                }
            }
        }
    }
}

fn write_pipe(to: &mut Option<OwnedFd>, pending: &mut Vec<u8>) {
    while let Some(pipe) = to.as_ref().filter(|_| !pending.is_empty()) {
        match rustix::io::write(pipe, pending) {
            Ok(wrote) => drop(pending.drain(..wrote)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return,
            // The reading side reports what happened.
            Err(_) => *to = None,
        }
    }
}
