//! The messages between the keeper of a group and an `mpiexec`, and the two between a new keeper
//! and the `mpiexec` that starts it: a length of 4 bytes, then postcard, as in [`crate::frames`].
//!
//! ```text
//! mpiexec --group                              keeper
//!   Found (path, ...)            ->              over a socket pair, to a new keeper
//!                                <-              Founded
//!
//!   Join (size, name)            ->              over TCP, to the keeper of the file
//!                                <-              Welcome (numbers, secret), or Refused
//!   Store                       <->              Store
//!   Numbers (count)              ->              for a job that a process spawns
//!                                <-              Numbers
//!   Stalled, Ended               ->
//!                                <-              Stall, OthersEnded
//!   Over                         ->
//! ```

use std::path::PathBuf;

use bootstrap::spawning::EndedProcesses;
use serde::{Deserialize, Serialize};

use crate::stall::HostStall;
use crate::tree::store::StoreMessage;

/// The first message to a new keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    /// The group's file.
    pub(super) path: PathBuf,
    /// What is in the file of an earlier keeper, which has ended.
    pub(super) replaces: Option<Vec<u8>>,
    /// The knob `tcp.interfaces`.
    pub(super) interfaces: Option<String>,
    /// The knob `tcp.ports`.
    pub(super) ports: Option<(u16, u16)>,
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Founded {
    /// The file is there.
    Published,
    /// Another keeper was faster.
    Exists,
    /// It cannot be; a text for the user.
    Failed(String),
}

/// A message of an `mpiexec`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToKeeper {
    /// The first message.
    Join {
        /// The number of ranks.
        size: u32,
        /// The job, in words that follow "its job".
        name: String,
    },
    /// About the store.
    Store(StoreMessage),
    /// Requests numbers for so many processes of a spawned job.
    Numbers(u32),
    /// The ranks have stalled, or continue after a stall.
    Stalled(HostStall),
    /// No process is left.
    Over {
        /// The exit code.
        code: u8,
    },
    /// Processes of the job have failed, and it goes on, or those of a spawned job have ended.
    Ended(EndedProcesses),
}

/// A message of the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromKeeper {
    /// The answer to `Join`.
    Welcome {
        /// The number of the group, in place of the job's.
        job: u64,
        /// The secret of all processes of the group.
        secret: [u8; 32],
        /// The process number of rank 0.
        first: u32,
    },
    /// The job cannot join; a text for the user.
    Refused(String),
    /// About the store.
    Store(StoreMessage),
    /// The first one of the requested numbers; `None` if none are left.
    Numbers(Option<u32>),
    /// The ranks of all jobs wait.
    Stall,
    /// Processes of another job have ended.
    OthersEnded(EndedProcesses),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frames;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(
            kind in 0u8..8,
            body in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..80),
        ) {
            let mut bytes = (body.len() as u32 + 1).to_le_bytes().to_vec();
            bytes.push(kind);
            bytes.extend(body);
            let decoder = || {
                let mut decoder = frames::decoder();
                decoder.push(&bytes);
                decoder
            };
            let _ = decoder().next_message::<ToKeeper>();
            let _ = decoder().next_message::<FromKeeper>();
        }
    }
}
