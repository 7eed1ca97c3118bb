//! The messages along an edge of the tree, over a daemon's standard input and output. Each has a
//! length of 4 bytes, then postcard, as control messages have (see [`bootstrap::control`]).
//!
//! ```text
//! parent (mpiexec or a daemon)                  child (a daemon)
//!   Environment (variables, folder)      ->     executes itself anew with these
//!   Begin       (share, settings, tree)  ->     starts its own children, then its ranks
//!                                        <-     Hello, then what happens; at last Ended, Over
//!   Store, Signal, Input, End ...        ->
//! ```
//!
//! `Hello`, `Beat`, `Stalled`, `InputTaken` and `Over` are about the child and all hosts below it,
//! and end at the parent. `Store` goes both ways (see [`crate::tree::store`]). Other messages go up
//! to `mpiexec`, or down to all daemons, from edge to edge. The end of the stream counts as a
//! message: a daemon without its parent ends its ranks and its children, and a lost child ends the
//! job. A parent sends `Beat` in each interval (see [`crate::heartbeat`]), and the child answers.
//! Decoding is total: any bytes give a message or [`Malformed`].

use std::ffi::OsString;
use std::path::PathBuf;

use bootstrap::Snapshot;
use bootstrap::control::{self, Decoder, Malformed, encode_limited};
use bootstrap::spawning::{EndedProcesses, SpawnRequest};
use serde::{Deserialize, Serialize};

use crate::absent_ranks::Waiter;
use crate::failure_policy::{Event, Exit};
use crate::lost_host::LostHost;
use crate::rank_table::RankLine;
use crate::settings::Settings;
use crate::share::Share;
use crate::stall::HostStall;
use crate::tree::Tree;
use crate::tree::store::StoreMessage;

/// The version of these messages.
pub const VERSION: u32 = 16;
/// The largest message, in bytes without its length: environments may be large.
pub const MAX_FRAME: usize = 16 << 20;
/// The largest piece of output or input in one message, in bytes.
pub const MAX_PIECE: usize = 32 << 10;
/// The option that starts a daemon.
pub const DAEMON_OPTION: &str = "--daemon";

/// A message of `mpiexec` to a daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// The first message: where the job was started.
    Environment {
        /// The [`VERSION`] of `mpiexec`.
        version: u32,
        /// All variables.
        variables: Vec<(OsString, OsString)>,
        /// The working directory.
        folder: OsString,
    },
    /// Start these ranks.
    Begin {
        /// The ranks of this host.
        share: Box<Share>,
        /// The job; the sections hold at least the ranks of this host.
        settings: Box<Settings>,
        /// The hosts that the daemon starts and relays for.
        tree: Box<Tree>,
    },
    /// About the job's store.
    Store(StoreMessage),
    /// Act as on this signal.
    Signal(i32),
    /// This rank will not call MPI_Init: report when ranks of this host are in MPI.
    Missing(u32),
    /// These ranks ended without an error and without MPI_Init: report a rank that waits for one.
    Absent(Vec<u32>),
    /// This rank has failed and the job goes on: tell the ranks of this host.
    Failed {
        /// The rank.
        rank: u32,
        /// How, in words that follow its name.
        why: String,
    },
    /// Processes of another job have ended: tell the ranks of this host.
    OthersEnded(EndedProcesses),
    /// Send the state of each rank.
    Table,
    /// Send a `Beat`.
    Beat,
    /// End all ranks.
    End,
    /// Input for the ranks that read standard input; empty at its end.
    Input(Vec<u8>),
}

/// A message of a daemon to `mpiexec`.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromHost {
    /// The first message.
    Hello {
        /// The daemon's [`VERSION`].
        version: u32,
        /// The host's own name.
        host: String,
    },
    /// Output of a rank.
    Output {
        /// The rank.
        rank: u32,
        /// True for standard error.
        error: bool,
        /// Any bytes, not always whole lines.
        bytes: Vec<u8>,
    },
    /// About the job's store.
    Store(StoreMessage),
    /// A rank failed, or requested the end of the job.
    Happened {
        /// The event.
        event: Event,
        /// The rank's entry of the status page then.
        seen: Snapshot,
        /// The rank's process.
        pid: u32,
    },
    /// Ranks that ended and did not fail, on one or several hosts.
    Ended(Vec<EndedRank>),
    /// A host below the sender is lost, or its daemon did not start; or the sender hears nothing.
    Lost(LostHost),
    /// Ranks of this host are in MPI and would wait for the missing rank.
    WouldWait,
    /// A rank waits for an absent one.
    WaitsForAbsent(Waiter),
    /// The ranks of this host have stalled, or continue after a stall.
    Stalled(HostStall),
    /// The answer to `Beat`.
    Beat,
    /// Lines of `--explain` from a rank.
    Explained {
        /// The rank.
        rank: u32,
        /// Topics and texts.
        lines: Vec<(String, String)>,
    },
    /// The answers of hosts to `Table`.
    Tables(Vec<HostTable>),
    /// A line for the user.
    Line(String),
    /// A rank has loaded another MPI's library.
    ForeignMpi(PathBuf),
    /// All ranks have taken the input.
    InputTaken,
    /// A rank requests further processes.
    Spawn {
        /// Its process number.
        asker: u32,
        /// The request.
        request: SpawnRequest,
    },
    /// All ranks of a host were started: their number. In a spawned job alone.
    Started(u32),
    /// Ranks cannot be started; the exit code for it.
    Failed(u8),
    /// No process is left, and all output was sent.
    Over,
}

/// What the ranks of a host are doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostTable {
    /// Its first rank.
    pub first: u32,
    /// The state of each rank, in order.
    pub lines: Vec<RankLine>,
    /// Sentences about ranks that are stopped or idle.
    pub notes: Vec<String>,
}

/// A rank that ended and did not fail.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct EndedRank {
    /// The rank.
    pub rank: u32,
    /// Its last state.
    pub line: RankLine,
}

impl ToHost {
    /// Returns true if each daemon that receives the message sends it on to all below it.
    pub(crate) fn is_for_all(&self) -> bool {
        use ToHost::{Absent, Failed, Missing, OthersEnded, Signal, Table};
        matches!(self, Signal(_) | Missing(_) | Absent(_) | Failed { .. } | OthersEnded(_) | Table)
    }
}

impl EndedRank {
    /// Returns true for a rank that ended well and never called MPI_Init: others may wait for it.
    pub(crate) fn is_absent(&self) -> bool {
        self.line.exit == Some(Exit::Code(0)) && self.line.is_absent()
    }
}

/// Encodes a message with its length.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    encode_limited(message, MAX_FRAME)
}

/// Decodes the first message of a stream to a daemon, with the bytes it takes; `None` if it
/// is not complete.
pub fn decode_to_host(bytes: &[u8]) -> Result<Option<(ToHost, usize)>, Malformed> {
    control::decode(bytes, MAX_FRAME)
}

/// Decodes the first message of a stream from a daemon, with the bytes it takes; `None` if
/// it is not complete.
pub fn decode_from_host(bytes: &[u8]) -> Result<Option<(FromHost, usize)>, Malformed> {
    control::decode(bytes, MAX_FRAME)
}

/// Decodes the length of a message. The caller allocates only what this allows.
pub fn decode_length(prefix: [u8; 4]) -> Result<usize, Malformed> {
    control::decode_length(prefix, MAX_FRAME)
}

/// Returns a decoder for either direction.
pub fn decoder() -> Decoder {
    Decoder::with_limit(MAX_FRAME)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_survives_the_stream_and_needs_all_of_its_bytes() {
        let value = StoreMessage::Values(vec![("k".into(), vec![7; 9])]);
        let frame = encode(&ToHost::Store(value.clone())).unwrap();
        for cut in 0..frame.len() {
            assert!(decode_to_host(&frame[..cut]).unwrap().is_none());
        }
        let (message, taken) = decode_to_host(&frame).unwrap().unwrap();
        assert_eq!(taken, frame.len());
        assert!(matches!(message, ToHost::Store(message) if message == value));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_there() {
        assert_eq!(decode_length([0, 0, 0, 1]), Ok(MAX_FRAME));
        let large = (MAX_FRAME as u32 + 1).to_le_bytes();
        assert_eq!(decode_length(large), Err(Malformed::TooLong(MAX_FRAME + 1)));
        assert!(decode_from_host(&large).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(
            kind in 0u8..16,
            body in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..80),
        ) {
            let mut bytes = (body.len() as u32 + 1).to_le_bytes().to_vec();
            bytes.push(kind);
            bytes.extend(body);
            let _ = (decode_to_host(&bytes), decode_from_host(&bytes));
            let _ = (decode_to_host(&bytes[4..]), decode_from_host(&bytes[4..]));
        }
    }
}
