//! A stream of messages in both directions, over a UNIX socket, or encrypted over TCP. Nothing
//! blocks but [`Stream::receive`], [`Stream::receive_by`] and [`Stream::flush`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use bootstrap::control::Decoder;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Serialize, de::DeserializeOwned};

use crate::dial_in::secure_stream::{End, SecureStream};
use crate::frames;
use crate::poll_set;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// The lowest number of a copy of standard input.
const FIRST_FREE: i32 = 3;

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    Socket(OwnedFd),
    Secure(SecureStream),
}

/// One end of the stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `None` once the other end has closed it, or sent what is no message.
    carrier: Option<Carrier>,
    pending: Vec<u8>,
    decoder: Decoder,
}

impl Stream {
    pub(crate) fn new(socket: OwnedFd) -> Stream {
        Stream::over(Carrier::Socket(socket))
    }

    pub(crate) fn secure(connection: SecureStream) -> Stream {
        Stream::over(Carrier::Secure(connection))
    }

    fn over(carrier: Carrier) -> Stream {
        Stream { carrier: Some(carrier), pending: Vec::new(), decoder: frames::decoder() }
    }

    /// Uses standard input, which must be a socket.
    pub(crate) fn of_stdin() -> Result<Stream, Errno> {
        fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE).map(Stream::new)
    }

    /// Sends a message, now or when there is space.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        if let Ok(frame) = frames::encode(message)
            && self.carrier.is_some()
        {
            self.pending.extend_from_slice(&frame);
            self.write();
        }
    }

    /// Writes as much as there is space for. Returns false if the other end has closed the stream.
    pub(crate) fn write(&mut self) -> bool {
        while let Some(carrier) = self.carrier.as_mut().filter(|it| it.has_unsent(&self.pending)) {
            match carrier.write(&self.pending) {
                Some(0) => return true,
                Some(sent) => drop(self.pending.drain(..sent)),
                // The reading side finds the end after the last messages.
                None => {
                    self.pending.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Writes everything and waits for it.
    pub(crate) fn flush(&mut self) {
        while self.write() {
            let Some(socket) = self.writable() else { return };
            let _ = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::OUT)], None);
        }
    }

    /// Reads what has arrived. Returns the messages, and false at the end of the stream.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> (Vec<T>, bool) {
        let mut messages = Vec::new();
        let mut is_open = self.fill(RecvFlags::DONTWAIT, READ_BYTES);
        // An encrypted connection sends answers of its own.
        self.write();
        loop {
            match self.decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => {
                    is_open = false;
                    break;
                }
            }
        }
        if !is_open {
            self.close();
        }
        (messages, is_open)
    }

    /// Waits for one message, and reads no byte more: [`Stream::read`] is called when further ones
    /// arrive. `None` if none comes.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            if let Some(message) = self.decoder.next_message().ok()? {
                return Some(message);
            }
            let known = self.decoder.undecoded();
            let whole = match known.first_chunk::<4>() {
                Some(prefix) => 4 + frames::decode_length(*prefix).ok()?,
                None => 4,
            };
            let missing = (whole - known.len()).min(READ_BYTES);
            if !self.fill(RecvFlags::empty(), missing) {
                return None;
            }
        }
    }

    /// Waits for one message until then; `None` if none comes. Further ones may have arrived with
    /// it: call [`Stream::read`] once before the next wait.
    pub(crate) fn receive_by<T: DeserializeOwned>(&mut self, end: Instant) -> Option<T> {
        loop {
            if let Some(message) = self.decoder.next_message().ok()? {
                return Some(message);
            }
            let writable = self.writable().map(|file| ((), file, PollFlags::OUT));
            let interests: Vec<_> =
                [((), self.readable()?, PollFlags::IN)].into_iter().chain(writable).collect();
            if poll_set::wait(&interests, Some(end)).is_empty() && Instant::now() >= end {
                return None;
            }
            self.write();
            if !self.fill(RecvFlags::DONTWAIT, READ_BYTES) {
                self.close();
                return self.decoder.next_message().ok()?;
            }
        }
    }

    /// Reads once, from a socket at most so many bytes. Returns false at the end.
    fn fill(&mut self, flags: RecvFlags, most: usize) -> bool {
        let socket = match &mut self.carrier {
            None => return false,
            Some(Carrier::Socket(socket)) => socket,
            Some(Carrier::Secure(connection)) => {
                let mut bytes = Vec::new();
                let end = connection.read(&mut bytes);
                self.decoder.push(&bytes);
                return matches!(end, Ok(End::Open));
            }
        };
        let mut piece = [0u8; READ_BYTES];
        match recv(socket, &mut piece[..most], flags) {
            Ok((read, _)) if read > 0 => {
                self.decoder.push(&piece[..read]);
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            _ => false,
        }
    }

    /// Returns the descriptor to read from.
    pub(crate) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.carrier.as_ref().map(AsFd::as_fd)
    }

    /// Returns the descriptor to write to, if bytes are pending.
    pub(crate) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.carrier.as_ref().filter(|it| it.has_unsent(&self.pending)).map(AsFd::as_fd)
    }

    /// Closes this end.
    pub(crate) fn close(&mut self) {
        if let Some(Carrier::Secure(connection)) = self.carrier.take() {
            connection.close();
        }
        self.pending.clear();
    }
}

impl Carrier {
    /// Returns true if bytes wait for the system, these or earlier ones.
    fn has_unsent(&self, pending: &[u8]) -> bool {
        let is_behind =
            if let Carrier::Secure(connection) = self { connection.wants_write() } else { false };
        is_behind || !pending.is_empty()
    }

    /// Writes without waiting; returns the bytes taken, `None` if the other end has closed it.
    fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        match self {
            Carrier::Secure(connection) => connection.write(bytes).ok(),
            Carrier::Socket(socket) => loop {
                match send(&*socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Some(0),
                    sent => return sent.ok(),
                }
            },
        }
    }
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Carrier::Socket(socket) => socket.as_fd(),
            Carrier::Secure(connection) => connection.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Stream, Stream) {
        let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
        let (a, b) = socketpair(kind.0, kind.1, kind.2, None).unwrap();
        (Stream::new(a), Stream::new(b))
    }

    #[test]
    fn messages_wait_for_space_and_come_before_the_end() {
        let (mut a, mut b) = pair();
        let long = "x".repeat(1 << 20);
        a.send(&long);
        a.send(&"last");
        assert!(a.writable().is_some(), "a megabyte does not fit");
        let mut all: Vec<String> = Vec::new();
        while all.len() < 2 {
            a.write();
            let (messages, is_open) = b.read();
            assert!(is_open);
            all.extend(messages);
        }
        assert_eq!(all, [long, "last".into()]);
        b.send(&5);
        b.send(&7);
        assert_eq!(a.receive(), Some(5));
        drop(b);
        assert_eq!(a.read(), (vec![7], true));
        assert_eq!(a.read::<i32>(), (vec![], false));
        assert!(a.readable().is_none());
        a.send(&8);
        a.flush();
    }

    #[test]
    fn what_is_no_message_ends_the_stream() {
        let (a, mut b) = pair();
        send(a.readable().unwrap(), &[0xff; 8], SendFlags::empty()).unwrap();
        assert_eq!(b.read::<i32>(), (vec![], false));
        assert_eq!(b.receive::<i32>(), None);
    }
}
