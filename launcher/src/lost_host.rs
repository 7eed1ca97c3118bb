//! What a branch of the tree reports of hosts that it has lost.

use serde::{Deserialize, Serialize};

/// A host that the job has lost, with those that were reached through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostHost {
    /// The first rank of the host.
    pub first: u32,
    /// The first ranks of the hosts below it.
    pub below: Vec<u32>,
    /// The reason, one line for the user if the daemon did not start.
    pub why: String,
    /// The daemon ran.
    pub was_running: bool,
}
