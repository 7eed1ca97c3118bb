//! What `mpiexec` and the daemons of its hosts say to each other, over the daemons'
//! standard input and output. Framed like control messages: a length of 4 bytes,
//! then postcard; see [`bootstrap::control`].
//!
//! ```text
//! mpiexec                                daemon
//!   Around  (environment, folder)   ->     executes itself anew inside of it
//!   Begin   (share, settings)       ->
//!                                   <-   Hello, then what happens; last of all Over
//!   Value, Signal, Input, End ...   ->
//! ```
//!
//! The end of the stream is a message as well: a daemon that loses its `mpiexec` ends
//! its ranks, and a host that is lost ends the job. So is silence: `mpiexec` says `Beat` in each turn
//! (see [`crate::heartbeat`]), and the daemon answers.

use std::ffi::OsString;

use bootstrap::control::{Decoder, Malformed, encode_within};
use bootstrap::status_page::Snapshot;
use serde::{Deserialize, Serialize};

use crate::failure_policy::Event;
use crate::hosts::Share;
use crate::options::Settings;
use crate::report::Line;

/// The version of these messages.
pub const VERSION: u32 = 4;
/// Bytes in one message at most: environments may be large.
pub const LIMIT: usize = 16 << 20;
/// Bytes of output or input in one message.
pub const PIECE: usize = 32 << 10;

/// What `mpiexec` says to a daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// First of all: where the job was started.
    Around {
        /// The [`VERSION`] of `mpiexec`.
        version: u32,
        /// All variables.
        environment: Vec<(OsString, OsString)>,
        /// The working directory.
        folder: OsString,
    },
    /// Start these ranks.
    Begin {
        /// Which they are.
        share: Box<Share>,
        /// What they run; the sections hold the ranks of this host alone.
        settings: Box<Settings>,
    },
    /// The answer to `Get`.
    Value {
        /// Who asked.
        rank: u32,
        /// What for.
        key: String,
        /// What was put.
        value: Vec<u8>,
    },
    /// As if the daemon had been sent this signal.
    Signal(i32),
    /// This rank will not come into MPI: tell, if others are there or come there.
    Missing(u32),
    /// Say what each rank does.
    Table,
    /// Say that you are there.
    Beat,
    /// End all ranks.
    End,
    /// For the ranks that read our standard input; empty at its end.
    Input(Vec<u8>),
}

/// What a daemon says.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromHost {
    /// First of all.
    Hello {
        /// The daemon's [`VERSION`].
        version: u32,
        /// How the host calls itself.
        host: String,
    },
    /// A rank wrote this.
    Output {
        /// Who.
        rank: u32,
        /// On its standard error.
        error: bool,
        /// Any bytes, not always whole lines.
        bytes: Vec<u8>,
    },
    /// A rank stores a value.
    Put {
        /// Under this name.
        key: String,
        /// Any bytes.
        value: Vec<u8>,
    },
    /// A rank asks for a value.
    Get {
        /// Who.
        rank: u32,
        /// What for.
        key: String,
    },
    /// A rank ended, or asked to end the job.
    Happened {
        /// What.
        event: Event,
        /// Where it was.
        seen: Snapshot,
        /// Its process.
        pid: u32,
    },
    /// Ranks are in MPI that would wait for the missing one.
    WouldWait,
    /// All ranks here wait and none gets any further, or (false) they go on after that.
    Stands(bool),
    /// The answer to `Beat`.
    Beat,
    /// A rank says which ways its messages take, by topics.
    Explained {
        /// Who.
        rank: u32,
        /// Topics and sentences.
        explain: Vec<(String, String)>,
    },
    /// What each rank does, in order.
    Lines(Vec<Line>),
    /// A line for the user.
    Told(String),
    /// All ranks have taken what was put in.
    InputTaken,
    /// Ranks can't be started; the exit code for it.
    Failed(u8),
    /// No process is left, and everything was said.
    Over,
}

/// A message as it travels.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    encode_within(message, LIMIT)
}

/// For either direction.
pub fn decoder() -> Decoder {
    Decoder::within(LIMIT)
}
