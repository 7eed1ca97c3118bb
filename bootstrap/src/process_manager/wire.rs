//! The bytes of PMI-1 and PMI-2 over a stream: lines and counted messages, both of `key=value`.
//!
//! ```text
//! PMI-1   cmd=put kvsname=job_1 key=a value=b\n
//! PMI-2   "    42" cmd=kvs-put;key=a;value=b;     six digits, then so many bytes
//! ```
//!
//! Decoding is total: any bytes give pairs or an error. Values of PMI-1 must have no space, values
//! of PMI-2 no semicolon; ours are hexadecimal digits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::client::ManagerError;

/// The longest message of a manager, in bytes.
const MAX_MESSAGE: usize = 1 << 20;
/// The digits of PMI-2's length.
const LENGTH_DIGITS: usize = 6;

/// `key=value` pairs in the order of a message.
pub type Pairs = Vec<(String, String)>;

/// Parses a line of PMI-1. The value of the key `value` or `msg` may have spaces if it is last.
pub fn parse_line(line: &str) -> Pairs {
    parse(line.trim_end_matches('\n'), ' ')
}

/// Parses the body of a message of PMI-2.
pub fn parse_pairs(body: &str) -> Pairs {
    parse(body, ';')
}

fn parse(text: &str, separator: char) -> Pairs {
    let mut pairs = Pairs::new();
    for word in text.split(separator).filter(|word| !word.is_empty()) {
        match (word.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.trim().into(), value.into())),
            (None, Some((_, value))) => {
                value.push(separator);
                value.push_str(word);
            }
            (None, None) => {}
        }
    }
    pairs
}

/// Returns the value of a key.
pub(super) fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// A connection to a manager.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// The manager, for errors.
    name: &'static str,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd, name: &'static str) -> Stream {
        Stream { socket, bytes: Vec::new(), name }
    }

    /// Returns the same connection to a manager that has this name.
    pub(super) fn named(self, name: &'static str) -> Stream {
        Stream { name, ..self }
    }

    /// Sends a line of PMI-1 and returns the answer, which must be the command `expected`.
    pub(super) fn ask(&mut self, line: &str, expected: &str) -> Result<Pairs, ManagerError> {
        self.send(format!("{line}\n").as_bytes())?;
        let answer = self.read_line()?;
        self.checked(answer, expected)
    }

    /// Sends the body of a message of PMI-2 and returns the answer's.
    pub(super) fn ask_counted(
        &mut self,
        body: &str,
        expected: &str,
    ) -> Result<Pairs, ManagerError> {
        self.send(counted(body).as_bytes())?;
        let answer = self.read_counted()?;
        self.checked(answer, expected)
    }

    /// Sends bytes as a whole.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), ManagerError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Some managers pass a pipe in place of a socket.
            let sent = match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Err(Errno::NOTSOCK) => rustix::io::write(&self.socket, rest),
                other => other,
            };
            match sent {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.broken(&errno.to_string())),
            }
        }
        Ok(())
    }

    /// Reads one line of PMI-1.
    pub(super) fn read_line(&mut self) -> Result<Pairs, ManagerError> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok(parse_line(&String::from_utf8_lossy(&line)));
            }
            self.fill()?;
        }
    }

    fn read_counted(&mut self) -> Result<Pairs, ManagerError> {
        loop {
            if let Some(digits) = self.bytes.get(..LENGTH_DIGITS) {
                let text = String::from_utf8_lossy(digits).trim().to_owned();
                let length = text.parse::<usize>().ok().filter(|length| *length <= MAX_MESSAGE);
                let length = length.ok_or_else(|| {
                    self.broken(&format!("its message has an invalid length {text:?}"))
                })?;
                if self.bytes.len() >= LENGTH_DIGITS + length {
                    let body: Vec<u8> = self.bytes.drain(..LENGTH_DIGITS + length).collect();
                    return Ok(parse_pairs(&String::from_utf8_lossy(&body[LENGTH_DIGITS..])));
                }
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), ManagerError> {
        let mut piece = [0u8; 4096];
        match rustix::io::read(&self.socket, &mut piece[..]) {
            Ok(0) => Err(self.broken("it has closed the connection")),
            Ok(_) if self.bytes.len() > MAX_MESSAGE => Err(self.broken("its message is too long")),
            Ok(read) => {
                self.bytes.extend_from_slice(&piece[..read]);
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(self.broken(&errno.to_string())),
        }
    }

    fn checked(&self, answer: Pairs, expected: &str) -> Result<Pairs, ManagerError> {
        match value(&answer, "cmd") {
            Some(command) if command == expected => Ok(answer),
            other => {
                let other = other.unwrap_or("nothing");
                Err(self.broken(&format!("it answered {other} in place of {expected}")))
            }
        }
    }

    /// Returns an error of this connection.
    pub(super) fn broken(&self, why: &str) -> ManagerError {
        ManagerError(format!("the connection to {} failed: {why}", self.name))
    }

    /// Returns true once the manager has closed its side.
    pub(super) fn is_closed(&self) -> bool {
        let mut poll_on = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let polled = poll(&mut poll_on, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_ok()
            && poll_on[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns a message of PMI-2 with its length.
fn counted(body: &str) -> String {
    format!("{:>LENGTH_DIGITS$}{body}", body.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let line = parse_line("cmd=get_result rc=0 msg=no error value=1.ab\n");
        assert_eq!((value(&line, "msg"), value(&line, "value")), (Some("no error"), Some("1.ab")));
        let pairs = parse_pairs("cmd=kvs-get-response;rc=0;found=TRUE;value=(vector,(0,2,2));");
        assert_eq!(value(&pairs, "value"), Some("(vector,(0,2,2))"));
        assert_eq!(counted("cmd=finalize;"), "    13cmd=finalize;");
        assert_eq!(value(&pairs, "size"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_pairs(text in "[a-c= ;\n]{0,60}|\\PC*") {
            let _ = (parse_line(&text), parse_pairs(&text));
        }
    }
}
