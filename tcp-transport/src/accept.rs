//! Accepts connections. A stranger costs no more than the connection, which ends after a while.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use crate::handshakes::Handshake;
use crate::transport::TcpTransport;
use crate::wait_set::Source;

/// Connections that are accepted for one event.
const BATCH: usize = 32;

impl TcpTransport {
    /// Accepts the connections that wait.
    #[cold]
    pub(crate) fn accept_all(&mut self) {
        if self.own.spare.is_none() {
            self.own.spare = eventfd(0, EventfdFlags::CLOEXEC).ok();
        }
        for _ in 0..BATCH {
            match self.own.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_ok() {
                        self.add_accepted(stream.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_limit(&error) => {
                    if !self.evict() {
                        self.turn_away();
                        return;
                    }
                }
                // None waits, or one has gone again.
                Err(_) => return,
            }
        }
    }

    fn add_accepted(&mut self, fd: OwnedFd) {
        let Ok(fd) = self.socket(fd, false) else { return };
        self.handshakes.make_room();
        let generation = self.new_generation();
        let index = self.handshakes.add(Handshake::listener(fd, generation, Instant::now()));
        let source = Source::Handshake(index, generation);
        if let Some(handshake) = self.handshakes.get(index, generation)
            && self.wait_set.add(&handshake.fd, source).is_err()
        {
            self.handshakes.remove(index);
        }
    }

    /// Closes a connection for which there is no descriptor. Its peer dials again.
    fn turn_away(&mut self) {
        self.own.spare = None;
        let _ = self.own.listener.accept();
        self.own.spare = eventfd(0, EventfdFlags::CLOEXEC).ok();
    }
}

fn is_limit(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
