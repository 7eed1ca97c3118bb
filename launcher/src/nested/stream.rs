//! A stream of messages in both directions, over a UNIX socket. Nothing blocks but
//! [`Stream::receive`] and [`Stream::flush`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bootstrap::control::Decoder;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Serialize, de::DeserializeOwned};

use crate::frames;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// The lowest number of a copy of standard input.
const FIRST_FREE: i32 = 3;

/// One end of the stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `None` once the other end has closed it, or sent what is no message.
    socket: Option<OwnedFd>,
    pending: Vec<u8>,
    decoder: Decoder,
}

impl Stream {
    pub(crate) fn new(socket: OwnedFd) -> Stream {
        Stream { socket: Some(socket), pending: Vec::new(), decoder: frames::decoder() }
    }

    /// Uses standard input, which must be a socket.
    pub(crate) fn of_stdin() -> Result<Stream, Errno> {
        fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE).map(Stream::new)
    }

    /// Sends a message, now or when there is space.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        if let Ok(frame) = frames::encode(message)
            && self.socket.is_some()
        {
            self.pending.extend_from_slice(&frame);
            self.write();
        }
    }

    /// Writes as much as there is space for.
    pub(crate) fn write(&mut self) {
        while let Some(socket) = self.socket.as_ref().filter(|_| !self.pending.is_empty()) {
            match send(socket, &self.pending, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.pending.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The reading side finds the end after the last messages.
                Err(_) => self.pending.clear(),
            }
        }
    }

    /// Writes everything and waits for it.
    pub(crate) fn flush(&mut self) {
        loop {
            self.write();
            let Some(socket) = self.writable() else { return };
            let _ = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::OUT)], None);
        }
    }

    /// Reads what has arrived. Returns the messages, and false at the end of the stream.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> (Vec<T>, bool) {
        let mut messages = Vec::new();
        let mut is_open = self.fill(RecvFlags::DONTWAIT, READ_BYTES);
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

    /// Reads once, at most so many bytes. Returns false at the end.
    fn fill(&mut self, flags: RecvFlags, most: usize) -> bool {
        let Some(socket) = &self.socket else { return false };
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
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Returns the descriptor to write to, if bytes are pending.
    pub(crate) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().filter(|_| !self.pending.is_empty()).map(AsFd::as_fd)
    }

    /// Closes this end.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.pending.clear();
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
        send(a.socket.as_ref().unwrap(), &[0xff; 8], SendFlags::empty()).unwrap();
        assert_eq!(b.read::<i32>(), (vec![], false));
        assert_eq!(b.receive::<i32>(), None);
    }
}
