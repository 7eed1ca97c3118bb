//! Messages between a rank and its launcher, over an inherited socket pair.
//!
//! Each message is its length (4 bytes, little-endian, at most
//! [`MAX_MESSAGE`]) and that many bytes of postcard. New messages are added at
//! the end of the enums, so that an older side meets an unknown number and says
//! so, rather than misreading. Nothing received can panic either side.
//!
//! The launcher writes [`ToRank::Welcome`] before it starts the rank: reading
//! it costs the rank no round trip.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version of these messages.
pub const VERSION: u32 = 1;
/// Bytes in one message at most, without its length.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Bytes in a key of the job's store at most.
pub const MAX_KEY: usize = 256;
/// Bytes in a value of the job's store at most.
pub const MAX_VALUE: usize = 32 << 10;
/// Bytes of an abort's text that are passed on.
const MAX_TEXT: usize = 8 << 10;

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToLauncher {
    /// First of all: MPI_Init has begun.
    Hello {
        /// The rank's [`VERSION`].
        version: u32,
        /// The process that called MPI_Init.
        pid: u32,
    },
    /// End the job: MPI_Abort, or a fatal error.
    Abort {
        /// What the user asked for; the job's exit code is its low 8 bits.
        code: i32,
        /// One sentence for the user.
        message: String,
    },
    /// MPI_Finalize is about to return.
    Finalized,
    /// Stores a value for all ranks of the job.
    Put {
        /// At most [`MAX_KEY`] bytes.
        key: String,
        /// At most [`MAX_VALUE`] bytes.
        value: Vec<u8>,
    },
    /// Asks for a value; the answer comes once somebody has put it.
    Get {
        /// As in `Put`.
        key: String,
    },
    /// What the user wants to know of the ways that this rank's messages take: topics and sentences.
    Explained(Vec<(String, String)>),
}

/// What the launcher says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToRank {
    /// First of all.
    Welcome {
        /// The launcher's [`VERSION`].
        version: u32,
        /// 256 random bits that only this job's processes know.
        secret: [u8; 32],
    },
    /// The answer to `Get`.
    Value {
        /// The key that was asked for.
        key: String,
        /// What was put under it.
        value: Vec<u8>,
    },
}

/// Bytes that are no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Longer than any message may be.
    #[error("a control message of {0} bytes is longer than any can be")]
    TooLong(usize),
    /// Not a message that this version knows.
    #[error("a control message that this version does not know")]
    Unknown,
}

/// What can go wrong on the control socket, seen from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The launcher has ended, or closed the connection.
    #[error("mpiexec is gone")]
    Gone,
    /// The system refused.
    #[error("the control connection to mpiexec failed: {0}")]
    System(Errno),
    /// The other side speaks something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A key or a value is longer than the store takes.
    #[error("a key of {0} or a value of {1} bytes is longer than the job's store takes")]
    TooLarge(usize, usize),
}

/// A message as it travels. Panics on one longer than [`MAX_MESSAGE`]: the
/// callers bound what goes in.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    encode_within(message, MAX_MESSAGE).expect("a control message that can be sent")
}

/// As [`encode`], for a stream whose messages may be of `limit` bytes.
pub fn encode_within(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, Malformed> {
    let body = postcard::to_allocvec(message).expect("a message of plain data serializes");
    if body.len() > limit {
        return Err(Malformed::TooLong(body.len()));
    }
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Puts messages together from the pieces that a stream delivers.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::within(MAX_MESSAGE)
    }
}

impl Decoder {
    /// For a stream whose messages may be of `limit` bytes.
    pub fn within(limit: usize) -> Decoder {
        Decoder { bytes: Vec::new(), limit }
    }

    /// What has arrived and is no message yet.
    pub fn rest(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until there is one. After an error the
    /// stream can't be followed any further.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Malformed> {
        let Some(prefix) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(Malformed::TooLong(length));
        }
        let Some(body) = self.bytes.get(4..4 + length) else { return Ok(None) };
        let message = postcard::from_bytes(body).map_err(|_| Malformed::Unknown)?;
        self.bytes.drain(..4 + length);
        Ok(Some(message))
    }
}

/// A rank's end of the control socket. Calls block; any thread may make them.
#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    sending: Mutex<()>,
    receiving: Mutex<Decoder>,
}

impl Control {
    /// Over a connected stream socket.
    pub fn new(socket: OwnedFd) -> Control {
        Control { socket, sending: Mutex::new(()), receiving: Mutex::new(Decoder::default()) }
    }

    /// Sends one message, whole.
    pub fn send(&self, message: &ToLauncher) -> Result<(), ControlError> {
        let frame = encode(message);
        let _whole = self.sending.lock().unwrap_or_else(|broken| broken.into_inner());
        let mut rest = &frame[..];
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
        Ok(())
    }

    /// Waits for the next message of the launcher.
    pub fn receive(&self) -> Result<ToRank, ControlError> {
        let mut decoder = self.receiving.lock().unwrap_or_else(|broken| broken.into_inner());
        receive(&self.socket, &mut decoder, RecvFlags::empty())
    }

    /// Asks for a value; the answer is a message, once some rank has put it.
    pub fn request(&self, key: &str) -> Result<(), ControlError> {
        check_room(key, &[])?;
        self.send(&ToLauncher::Get { key: key.to_owned() })
    }

    /// The next message of the launcher, if there is one now.
    pub fn try_receive(&self) -> Result<Option<ToRank>, ControlError> {
        let mut decoder = self.receiving.lock().unwrap_or_else(|broken| broken.into_inner());
        match receive(&self.socket, &mut decoder, RecvFlags::DONTWAIT) {
            Ok(message) => Ok(Some(message)),
            Err(ControlError::System(Errno::AGAIN)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for a value and waits until some rank has put it.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ControlError> {
        // Held from question to answer, so that answers go to who asked.
        let mut decoder = self.receiving.lock().unwrap_or_else(|broken| broken.into_inner());
        self.request(key)?;
        loop {
            match receive(&self.socket, &mut decoder, RecvFlags::empty())? {
                ToRank::Value { key: answered, value } if answered == key => return Ok(value),
                _ => {}
            }
        }
    }

    /// Stores a value for all ranks.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ControlError> {
        check_room(key, value)?;
        self.send(&ToLauncher::Put { key: key.to_owned(), value: value.to_owned() })
    }

    /// Tells the user about the ways of messages, by topics.
    pub fn explain(&self, ways: Vec<(String, String)>) -> Result<(), ControlError> {
        self.send(&ToLauncher::Explained(ways))
    }

    /// Asks the launcher to end the job.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), ControlError> {
        let end = message.floor_char_boundary(MAX_TEXT);
        self.send(&ToLauncher::Abort { code, message: message[..end].to_owned() })
    }

    /// True once the launcher has ended. One system call, never blocks.
    pub fn is_closed(&self) -> bool {
        let mut poll_on = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let polled = poll(&mut poll_on, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_ok()
            && poll_on[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive(
    socket: &OwnedFd,
    decoder: &mut Decoder,
    flags: RecvFlags,
) -> Result<ToRank, ControlError> {
    loop {
        if let Some(message) = decoder.message()? {
            return Ok(message);
        }
        let mut piece = [0u8; 4096];
        match recv(socket, &mut piece[..], flags) {
            Ok((0, _)) => return Err(ControlError::Gone),
            Ok((read, _)) => decoder.push(&piece[..read]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(broken(errno)),
        }
    }
}

fn check_room(key: &str, value: &[u8]) -> Result<(), ControlError> {
    if key.len() > MAX_KEY || value.len() > MAX_VALUE {
        return Err(ControlError::TooLarge(key.len(), value.len()));
    }
    Ok(())
}

fn broken(errno: Errno) -> ControlError {
    match errno {
        Errno::PIPE | Errno::CONNRESET => ControlError::Gone,
        errno => ControlError::System(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_being_cut_anywhere() {
        let messages = [
            ToLauncher::Hello { version: VERSION, pid: 7 },
            ToLauncher::Put { key: "addr.3".into(), value: vec![1; 300] },
            ToLauncher::Abort { code: -1, message: "out of luck".into() },
            ToLauncher::Finalized,
        ];
        let stream: Vec<u8> = messages.iter().flat_map(encode).collect();
        for piece in [1, 2, 3, 5, 64, stream.len()] {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                while let Some(message) = decoder.message::<ToLauncher>().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, messages);
        }
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|i| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // Small lengths often, so that bodies are looked at too.
                    if i % 8 == 1 || i == 2 || i == 3 { 0 } else { (seed >> 33) as u8 % 60 }
                })
                .collect();
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.message::<ToLauncher>() {}
        }
        let mut decoder = Decoder::default();
        decoder.push(&[255; 8]);
        assert_eq!(decoder.message::<ToRank>(), Err(Malformed::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn a_long_text_is_cut_and_a_large_value_refused() {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let control = Control::new(ours);
        control.abort(3, &"ü".repeat(MAX_TEXT)).unwrap();
        assert!(!control.is_closed());
        assert_eq!(
            control.put("k", &vec![0; MAX_VALUE + 1]),
            Err(ControlError::TooLarge(1, MAX_VALUE + 1))
        );
        drop(theirs);
        assert!(control.is_closed());
        assert_eq!(control.send(&ToLauncher::Finalized), Err(ControlError::Gone));
        assert_eq!(control.receive(), Err(ControlError::Gone));
    }
}
