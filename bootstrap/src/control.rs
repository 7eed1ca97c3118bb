//! Messages between a rank and its launcher, over an inherited socket pair.
//!
//! Each message is its length (4 bytes, little-endian, at most [`MAX_MESSAGE`]), then that
//! many bytes of postcard. New messages are added at the end of the enums: an older side then
//! reports an unknown message and misreads none. Decoding is total: any bytes give a message
//! or [`Malformed`]. The launcher writes [`ToRank::Welcome`] before it starts the rank, so
//! that reading it costs the rank no round trip.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::process_manager::ManagerError;
use crate::service_names::{NameAnswer, NameRequest};
use crate::spawning::{EndedProcesses, SpawnAnswer, SpawnRequest};

/// The version of these messages.
pub const VERSION: u32 = 3;
/// The first version with [`ToRank::OthersEnded`].
pub const WITH_OTHER_JOBS: u32 = 3;
/// The oldest version that both sides still speak.
pub const OLDEST: u32 = 2;
/// The largest message, in bytes without its length.
pub const MAX_MESSAGE: usize = 64 << 10;
/// The longest key of the job's store, in bytes.
pub const MAX_KEY: usize = 256;
/// The longest value of the job's store, in bytes.
pub const MAX_VALUE: usize = 32 << 10;
/// The longest text of an abort, in bytes; the rest is cut.
const MAX_ABORT_TEXT: usize = 8 << 10;

/// A message of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToLauncher {
    /// The first message: MPI_Init has begun.
    Hello {
        /// The rank's [`VERSION`].
        version: u32,
        /// The process that called MPI_Init.
        pid: u32,
    },
    /// End the job: MPI_Abort, or a fatal error.
    Abort {
        /// The code that the program gave; the job's exit code is its low 8 bits.
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
    /// Requests a value; the answer comes once a rank has put it.
    Get {
        /// At most [`MAX_KEY`] bytes.
        key: String,
    },
    /// Lines of `--explain`, topic and text: the transports of this rank's messages.
    Explained(Vec<(String, String)>),
    /// About the name of a service.
    Name(NameRequest),
    /// Start further processes.
    Spawn(SpawnRequest),
}

/// A message of the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToRank {
    /// The first message.
    Welcome {
        /// The launcher's [`VERSION`].
        version: u32,
        /// The job's secret: 256 random bits.
        secret: [u8; 32],
    },
    /// The answer to `Get`.
    Value {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// A rank has failed, and the job goes on.
    Failed {
        /// The rank in MPI_COMM_WORLD.
        rank: u32,
        /// How, in words that follow the rank: "was killed by signal 9 (Killed)".
        why: String,
    },
    /// The answer to `Name`.
    Name(NameAnswer),
    /// The answer to `Spawn`.
    Spawn(SpawnAnswer),
    /// Processes of another job have ended.
    OthersEnded(EndedProcesses),
}

/// Bytes that are not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The length is beyond the limit.
    #[error("a control message of {0} bytes, longer than allowed")]
    TooLong(usize),
    /// This version does not know the message.
    #[error("an unknown control message")]
    Unknown,
}

/// A failure of the control socket, seen from a rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The launcher has ended, or closed the connection.
    #[error("mpiexec has ended")]
    Gone,
    /// A system call failed.
    #[error("the control connection to mpiexec failed: {0}")]
    System(Errno),
    /// The launcher sent bytes that are not a message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Another process manager's store failed.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// A key or a value is too long for the store: their lengths in bytes.
    #[error(
        "a key of {0} bytes with a value of {1} bytes is too long for the job's store: at most \
         {MAX_KEY} and {MAX_VALUE}"
    )]
    TooLarge(usize, usize),
}

/// Returns the version that both sides speak: the lower one, unless it is older than [`OLDEST`].
/// A side sends no message that this version does not have.
pub fn common_version(theirs: u32) -> Option<u32> {
    let common = theirs.min(VERSION);
    (common >= OLDEST).then_some(common)
}

/// Encodes a message with its length. Panics if it is longer than [`MAX_MESSAGE`], which the
/// callers rule out.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    encode_limited(message, MAX_MESSAGE).expect("a control message that can be sent")
}

/// Encodes a message of at most `limit` bytes with its length.
pub fn encode_limited(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, Malformed> {
    let body = postcard::to_allocvec(message).expect("a message of plain data serializes");
    if body.len() > limit {
        return Err(Malformed::TooLong(body.len()));
    }
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Decodes the length of a message of at most `limit` bytes.
pub fn decode_length(prefix: [u8; 4], limit: usize) -> Result<usize, Malformed> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > limit { Err(Malformed::TooLong(length)) } else { Ok(length) }
}

/// Decodes the first message of a stream, of at most `limit` bytes, with the bytes it takes;
/// `None` if it is not complete.
pub fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    limit: usize,
) -> Result<Option<(T, usize)>, Malformed> {
    let Some(prefix) = bytes.first_chunk::<4>() else { return Ok(None) };
    let end = 4 + decode_length(*prefix, limit)?;
    let Some(body) = bytes.get(4..end) else { return Ok(None) };
    let message = postcard::from_bytes(body).map_err(|_| Malformed::Unknown)?;
    Ok(Some((message, end)))
}

/// Decodes the first message of a rank, with the bytes it takes; see [`decode`].
pub fn decode_to_launcher(bytes: &[u8]) -> Result<Option<(ToLauncher, usize)>, Malformed> {
    decode(bytes, MAX_MESSAGE)
}

/// Decodes the first message of a launcher, with the bytes it takes; see [`decode`].
pub fn decode_to_rank(bytes: &[u8]) -> Result<Option<(ToRank, usize)>, Malformed> {
    decode(bytes, MAX_MESSAGE)
}

/// Assembles messages from the pieces of a stream.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// The bytes of messages that were taken.
    taken: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::with_limit(MAX_MESSAGE)
    }
}

impl Decoder {
    /// Returns a decoder for messages of at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Decoder {
        Decoder { bytes: Vec::new(), taken: 0, limit }
    }

    /// Returns the bytes that are not part of a complete message.
    pub fn undecoded(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete message; `None` until there is one. After an error the stream
    /// cannot be decoded any further.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Malformed> {
        let Some((message, taken)) = decode(self.undecoded(), self.limit)? else { return Ok(None) };
        self.taken += taken;
        Ok(Some(message))
    }
}

/// A rank's end of the control socket. Calls block; any thread may make them.
#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    sending: Mutex<()>,
    receiving: Mutex<Inbox>,
}

/// What has arrived and was not taken.
#[derive(Debug, Default)]
struct Inbox {
    decoder: Decoder,
    /// Failed ranks, and how they failed.
    failures: Vec<(u32, String)>,
    /// Processes of other jobs that have ended.
    ended: Vec<EndedProcesses>,
    /// Other messages that came before these were looked for.
    others: VecDeque<ToRank>,
}

impl Control {
    /// Wraps a connected stream socket.
    pub fn new(socket: OwnedFd) -> Control {
        Control { socket, sending: Mutex::new(()), receiving: Mutex::default() }
    }

    /// Sends one message as a whole.
    pub fn send(&self, message: &ToLauncher) -> Result<(), ControlError> {
        let frame = encode(message);
        let _lock = self.sending.lock().unwrap_or_else(|broken| broken.into_inner());
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
        self.inbox().next(&self.socket, RecvFlags::empty())
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.receiving.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// Requests a value without waiting; the answer is a later message.
    pub fn request(&self, key: &str) -> Result<(), ControlError> {
        check_size(key, &[])?;
        self.send(&ToLauncher::Get { key: key.to_owned() })
    }

    /// Returns the next message of the launcher, if there is one now. Failed ranks are kept for
    /// [`Control::take_failures`].
    pub fn try_receive(&self) -> Result<Option<ToRank>, ControlError> {
        now(self.inbox().next(&self.socket, RecvFlags::DONTWAIT))
    }

    /// Returns the ranks that have failed since the last call, and how. Never blocks; other
    /// messages stay for [`Control::try_receive`].
    pub fn take_failures(&self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.read_failures().failures)
    }

    /// Returns the processes of other jobs that have ended since the last call. Never blocks; other
    /// messages stay for [`Control::try_receive`].
    pub fn take_ended(&self) -> Vec<EndedProcesses> {
        std::mem::take(&mut self.read_failures().ended)
    }

    fn read_failures(&self) -> MutexGuard<'_, Inbox> {
        let mut inbox = self.inbox();
        // A connection that is closed has no further failures.
        while let Ok(Some(message)) = now(inbox.read(&self.socket, RecvFlags::DONTWAIT)) {
            inbox.others.push_back(message);
        }
        inbox
    }

    /// Requests a value and waits until some rank has put it.
    pub fn get(&self, key: &str) -> Result<Vec<u8>, ControlError> {
        check_size(key, &[])?;
        self.ask(&ToLauncher::Get { key: key.to_owned() }, |message| match message {
            ToRank::Value { key: answered, value } if answered == key => Ok(value),
            other => Err(other),
        })
    }

    /// Sends a request about the name of a service, and waits for the answer.
    pub fn ask_name(&self, request: NameRequest) -> Result<NameAnswer, ControlError> {
        self.ask(&ToLauncher::Name(request), |message| match message {
            ToRank::Name(answer) => Ok(answer),
            other => Err(other),
        })
    }

    /// Requests further processes, and waits until they are started. A request that is too long for
    /// a message is refused.
    pub fn ask_spawn(&self, request: SpawnRequest) -> Result<SpawnAnswer, ControlError> {
        let request = ToLauncher::Spawn(request);
        if encode_limited(&request, MAX_MESSAGE).is_err() {
            let text = format!("program and arguments are longer than {MAX_MESSAGE} bytes");
            return Ok(SpawnAnswer::Refused(text));
        }
        self.ask(&request, |message| match message {
            ToRank::Spawn(answer) => Ok(answer),
            other => Err(other),
        })
    }

    /// Sends a request and waits for its answer: the message of which `take` makes one. Other
    /// messages stay for [`Control::try_receive`].
    fn ask<T>(
        &self,
        request: &ToLauncher,
        take: impl Fn(ToRank) -> Result<T, ToRank>,
    ) -> Result<T, ControlError> {
        // Held from request to answer: no other thread may take the answer.
        let mut inbox = self.inbox();
        self.send(request)?;
        loop {
            match take(inbox.read(&self.socket, RecvFlags::empty())?) {
                Ok(answer) => return Ok(answer),
                Err(other) => inbox.others.push_back(other),
            }
        }
    }

    /// Stores a value for all ranks.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<(), ControlError> {
        check_size(key, value)?;
        self.send(&ToLauncher::Put { key: key.to_owned(), value: value.to_owned() })
    }

    /// Sends lines of `--explain`, topic and text.
    pub fn explain(&self, lines: Vec<(String, String)>) -> Result<(), ControlError> {
        self.send(&ToLauncher::Explained(lines))
    }

    /// Requests the launcher to end the job.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), ControlError> {
        let end = message.floor_char_boundary(MAX_ABORT_TEXT);
        self.send(&ToLauncher::Abort { code, message: message[..end].to_owned() })
    }

    /// Returns true once the launcher has ended. One system call; never blocks.
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

impl Inbox {
    /// Returns the next message other than a failure.
    fn next(&mut self, socket: &OwnedFd, flags: RecvFlags) -> Result<ToRank, ControlError> {
        match self.others.pop_front() {
            Some(message) => Ok(message),
            None => self.read(socket, flags),
        }
    }

    /// Reads the next message other than a failure.
    fn read(&mut self, socket: &OwnedFd, flags: RecvFlags) -> Result<ToRank, ControlError> {
        loop {
            match self.decoder.next_message()? {
                Some(ToRank::Failed { rank, why }) => {
                    self.failures.push((rank, why));
                    continue;
                }
                Some(ToRank::OthersEnded(ended)) => {
                    self.ended.push(ended);
                    continue;
                }
                Some(message) => return Ok(message),
                None => {}
            }
            let mut piece = [0u8; 4096];
            match recv(socket, &mut piece[..], flags) {
                Ok((0, _)) => return Err(ControlError::Gone),
                Ok((read, _)) => self.decoder.push(&piece[..read]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
    }
}

/// Makes `None` of what has not arrived yet.
fn now(received: Result<ToRank, ControlError>) -> Result<Option<ToRank>, ControlError> {
    match received {
        Ok(message) => Ok(Some(message)),
        Err(ControlError::System(Errno::AGAIN)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_size(key: &str, value: &[u8]) -> Result<(), ControlError> {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lower_version_is_spoken_unless_it_is_too_old() {
        assert_eq!(common_version(VERSION + 3), Some(VERSION));
        assert_eq!(common_version(OLDEST), Some(OLDEST));
        assert_eq!(common_version(OLDEST - 1), None);
    }

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
                while let Some(message) = decoder.next_message::<ToLauncher>().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, messages);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_messages_or_an_error(
            kind in 0u8..10,
            body in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..60),
        ) {
            let mut bytes = (body.len() as u32 + 1).to_le_bytes().to_vec();
            bytes.push(kind);
            bytes.extend(body);
            let _ = (decode_to_launcher(&bytes), decode_to_rank(&bytes));
            let mut decoder = Decoder::default();
            decoder.push(&bytes[4..]);
            while let Ok(Some(_)) = decoder.next_message::<ToLauncher>() {}
        }
    }

    /// Returns a rank's end of a control socket, and the launcher's.
    fn connected() -> (Control, OwnedFd) {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        (Control::new(ours), theirs)
    }

    #[test]
    fn failures_are_kept_apart_from_answers() {
        let (control, theirs) = connected();
        let say = |message: &ToRank| send(&theirs, &encode(message), SendFlags::empty()).unwrap();
        let value = |key: &str| ToRank::Value { key: key.into(), value: Vec::new() };
        let failed = |rank| ToRank::Failed { rank, why: "left".into() };
        assert!(control.take_failures().is_empty());
        for message in [value("a"), failed(3), value("b"), failed(1)] {
            say(&message);
        }
        assert_eq!(control.try_receive(), Ok(Some(value("a"))));
        assert_eq!(control.take_failures(), [(3, "left".to_owned()), (1, "left".to_owned())]);
        assert_eq!(control.try_receive(), Ok(Some(value("b"))));
        say(&failed(2));
        assert_eq!(control.try_receive(), Ok(None));
        assert_eq!(control.take_failures(), [(2, "left".to_owned())]);
        let ended = EndedProcesses { numbers: 7..9, failure: Some("left".into()) };
        say(&ToRank::OthersEnded(ended.clone()));
        say(&failed(0));
        assert_eq!(control.take_ended(), [ended]);
        assert_eq!(control.take_failures(), [(0, "left".to_owned())]);
    }

    #[test]
    fn what_comes_before_an_answer_is_kept() {
        let (control, theirs) = connected();
        let value = |key: &str| ToRank::Value { key: key.into(), value: vec![1] };
        let messages = [value("a"), ToRank::Name(NameAnswer::Taken), value("b")];
        for message in &messages {
            send(&theirs, &encode(message), SendFlags::empty()).unwrap();
        }
        let request = NameRequest::Publish { name: b"x".to_vec(), value: b"y".to_vec() };
        assert_eq!(control.ask_name(request), Ok(NameAnswer::Taken));
        assert_eq!(control.get("b"), Ok(vec![1]));
        assert_eq!(control.try_receive(), Ok(Some(value("a"))));
        assert_eq!(control.try_receive(), Ok(None));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(&[255; 8]);
        let refused = Err(Malformed::TooLong(u32::MAX as usize));
        assert_eq!(decoder.next_message::<ToRank>(), refused);
        assert_eq!(decode_length(*b"\0\0\x01\0", MAX_MESSAGE), Ok(MAX_MESSAGE));
        assert_eq!(decode_length(*b"\x01\0\x01\0", MAX_MESSAGE), Err(Malformed::TooLong(65537)));
    }

    #[test]
    fn a_long_text_is_cut_and_a_large_value_refused() {
        let (control, theirs) = connected();
        control.abort(3, &"ü".repeat(MAX_ABORT_TEXT)).unwrap();
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
