//! TLS 1.3 on connections (`tcp.tls`), by rustls.
//!
//! All processes of a job have the same key pair, derived from the job's secret (`key_pair`). The
//! handshake of `handshake` follows inside.
//!
//! States of a session: TLS handshake, in which bytes to send wait in the session; established;
//! failed, after which the connection ends. Bytes that the session took but the system did not are
//! lost with the connection, as are those in the system: the stream goes on where the peer is.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use fabric::UserBuf;
use rustix::io::Errno;
use rustls::{Connection, Error};

use crate::key_pair::KeyPair;
use crate::sys::{self, Part};

/// Bytes that are encrypted or decrypted at once: a record of TLS.
const RECORD: usize = 16 << 10;
/// Most bytes that wait in a session for the system to take them.
const BUFFER: usize = 64 << 10;
/// The use of the derived key, which no other derivation has.
const CONTEXT: &str = "Verbena 2026-11 TLS key pair of a job";

/// What sessions of a job are made with.
#[derive(Debug)]
pub(crate) struct Keys(KeyPair);

impl Keys {
    /// Derives the keys of a job.
    pub(crate) fn derive(secret: &[u8; 32]) -> Result<Keys, Error> {
        KeyPair::derive(CONTEXT, secret).map(Keys)
    }

    /// Returns the session of a side that dials, or of one that has accepted.
    pub(crate) fn session(&self, is_dialer: bool) -> Result<Session, Error> {
        let mut connection = self.0.connection(is_dialer)?;
        connection.set_buffer_limit(Some(BUFFER));
        Ok(Session { connection: Box::new(connection), record: vec![0; RECORD].into_boxed_slice() })
    }
}

/// One connection's side of TLS.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Box<Connection>,
    /// Plain bytes on their way from or to the user's memory.
    record: Box<[u8]>,
}

/// The socket as rustls sees it.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(sys::receive(self.0, UserBuf::EMPTY, bytes)?)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(sys::send(self.0, &[Part::Own(bytes)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PROTO)
}

impl Session {
    /// Returns true while bytes wait for the system to take them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Gives the system what waits; `AGAIN` if it does not take all.
    fn flush(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Raw(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    /// Sends parts; returns the bytes taken, which may still wait in the session. `AGAIN` if there
    /// is no space for any.
    pub(crate) fn send(&mut self, fd: &OwnedFd, parts: &[Part<'_>]) -> Result<usize, Errno> {
        self.flush(fd)?;
        let mut taken = 0;
        for part in parts {
            let len = part.len();
            let mut at = 0;
            while at < len {
                let count = (len - at).min(RECORD);
                let plain = part.copy_to(at, &mut self.record[..count]);
                let wrote = self.connection.writer().write(plain).map_err(|error| errno(&error))?;
                (at, taken) = (at + wrote, taken + wrote);
                if wrote < count {
                    break;
                }
            }
            if at < len {
                break;
            }
        }
        match self.flush(fd) {
            Ok(()) | Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        if taken == 0 && parts.iter().any(|part| part.len() > 0) {
            Err(Errno::AGAIN)
        } else {
            Ok(taken)
        }
    }

    /// Receives into `into`, or if that is empty into `rest`; 0 at the end of the stream.
    pub(crate) fn receive(
        &mut self,
        fd: &OwnedFd,
        into: UserBuf,
        rest: &mut [u8],
    ) -> Result<usize, Errno> {
        loop {
            let read = if into.is_empty() {
                self.connection.reader().read(rest)
            } else {
                let count = into.len().min(RECORD);
                let read = self.connection.reader().read(&mut self.record[..count]);
                if let Ok(count) = read {
                    into.write(0, &self.record[..count]);
                }
                read
            };
            match read {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(errno(&error)),
            }
            match self.connection.read_tls(&mut Raw(fd)) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(errno(&error)),
            }
            let processed = self.connection.process_new_packets();
            // Answers of the handshake, or an alert.
            match self.flush(fd) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
            processed.map_err(|_| Errno::PROTO)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a handshake in memory; true if both sides accept it.
    fn connects(client: &Keys, server: &Keys) -> bool {
        let mut sides = [client.session(true).unwrap(), server.session(false).unwrap()];
        for turn in 0..12 {
            let mut bytes = Vec::new();
            let from = &mut sides[turn % 2].connection;
            while from.wants_write() {
                from.write_tls(&mut bytes).unwrap();
            }
            let to = &mut sides[(turn + 1) % 2].connection;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                to.read_tls(&mut rest).unwrap();
                if to.process_new_packets().is_err() {
                    return false;
                }
            }
        }
        sides.iter().all(|side| !side.connection.is_handshaking())
    }

    #[test]
    fn only_processes_with_the_same_secret_connect() {
        let [one, same, other] = [[1; 32], [1; 32], [2; 32]].map(|it| Keys::derive(&it).unwrap());
        assert!(connects(&one, &same));
        assert!(!connects(&one, &other));
        assert!(!connects(&other, &one));
    }
}
