//! A connection whose bytes are encrypted (TLS 1.3), with one key pair on both sides. It never
//! blocks.
//!
//! States: handshake -> open -> closed by the peer in order (`close_notify`), or broken. Bytes that
//! wait for the system to take them remain in the session, whose buffer is bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::Connection;
use tcp_transport::key_pair::KeyPair;

/// The most bytes that wait in a session.
const BUFFER: usize = 64 << 10;
/// The most bytes that one call reads, about.
const MAX_READ: usize = 256 << 10;

/// What [`SecureStream::read`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// More may come.
    Open,
    /// The peer has closed the connection in order.
    Closed,
    /// The connection has ended without a word.
    Cut,
}

/// One side of a connection.
#[derive(Debug)]
pub(crate) struct SecureStream {
    socket: TcpStream,
    session: Box<Connection>,
}

impl SecureStream {
    /// Begins the handshake on a connected socket.
    pub(crate) fn new(
        socket: TcpStream,
        keys: &KeyPair,
        is_dialer: bool,
    ) -> io::Result<SecureStream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut session = keys.connection(is_dialer).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(BUFFER));
        Ok(SecureStream { socket, session: Box::new(session) })
    }

    /// Appends all that has arrived and was decrypted. An error is that of the system, or
    /// `InvalidData` if the peer has another key or breaks the protocol.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<End> {
        let limit = into.len() + MAX_READ;
        while into.len() < limit {
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => return Ok(End::Cut),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            let processed = self.session.process_new_packets();
            // Answers of the handshake, or an alert.
            let flushed = self.flush();
            let state = processed.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
            flushed?;
            let before = into.len();
            into.resize(before + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut into[before..])?;
            if state.peer_has_closed() {
                return Ok(End::Closed);
            }
        }
        Ok(End::Open)
    }

    /// Sends bytes; returns how many were taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Gives the system what waits, as far as it takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns true while bytes wait for the system to take them.
    pub(crate) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Tells the peer that the connection ends in order.
    pub(crate) fn close(mut self) {
        self.session.send_close_notify();
        let _ = self.flush();
    }
}

impl AsFd for SecureStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(one: [u8; 32], other: [u8; 32]) -> [SecureStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let keys = |secret| KeyPair::derive("test of secure streams", &secret).unwrap();
        [(dialed, one, true), (accepted, other, false)].map(|(socket, secret, is_dialer)| {
            SecureStream::new(socket, &keys(secret), is_dialer).unwrap()
        })
    }

    #[test]
    fn bytes_arrive_in_order_and_an_orderly_end_is_known_from_a_cut() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        for is_closed in [true, false] {
            let [mut dialer, mut acceptor] = pair([1; 32], [1; 32]);
            let (mut sent, mut arrived, mut answers) = (0, Vec::new(), Vec::new());
            while arrived.len() < bytes.len() {
                sent += dialer.write(&bytes[sent..]).unwrap();
                assert_eq!(acceptor.read(&mut arrived).unwrap(), End::Open);
                assert_eq!(dialer.read(&mut answers).unwrap(), End::Open);
            }
            assert!(arrived == bytes && answers.is_empty());
            if is_closed {
                dialer.close()
            } else {
                drop(dialer)
            }
            let end = loop {
                match acceptor.read(&mut arrived).unwrap() {
                    End::Open => std::thread::yield_now(),
                    end => break end,
                }
            };
            assert_eq!(end, if is_closed { End::Closed } else { End::Cut });
        }
    }

    #[test]
    fn a_peer_with_another_secret_is_refused_by_both() {
        let [mut dialer, mut acceptor] = pair([1; 32], [2; 32]);
        let mut nothing = Vec::new();
        let mut refused = [false; 2];
        while refused != [true; 2] {
            let _ = dialer.write(b"greeting");
            for (side, refused) in [&mut dialer, &mut acceptor].into_iter().zip(&mut refused) {
                *refused |= !matches!(side.read(&mut nothing), Ok(End::Open));
            }
        }
        assert!(nothing.is_empty());
    }
}
