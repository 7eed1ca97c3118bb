//! The result of a simulation.

use crate::machine::LinkKind;
use crate::time::Time;

/// Messages and bytes on each kind of link, in the order of [`LinkKind::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    messages: [u64; LinkKind::ALL.len()],
    bytes: [u64; LinkKind::ALL.len()],
}

impl Traffic {
    pub(crate) fn add(&mut self, kind: LinkKind, bytes: u64) {
        self.messages[kind as usize] += 1;
        self.bytes[kind as usize] += bytes;
    }

    /// Messages on a kind of link.
    pub fn messages(&self, kind: LinkKind) -> u64 {
        self.messages[kind as usize]
    }

    /// Bytes on a kind of link.
    pub fn bytes(&self, kind: LinkKind) -> u64 {
        self.bytes[kind as usize]
    }

    /// Messages within hosts, and between them.
    pub fn within_and_between(&self) -> (u64, u64) {
        let sum = |inter| {
            let kinds = LinkKind::ALL.into_iter().filter(move |kind| kind.is_inter_host() == inter);
            kinds.map(|kind| self.messages(kind)).sum()
        };
        (sum(false), sum(true))
    }
}

/// What a simulated call took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start, which is the same for all ranks, to the end of the last rank.
    pub time: Time,
    /// Messages and bytes by kind of link.
    pub traffic: Traffic,
    /// Data was carried, and the results of all ranks are right.
    pub is_checked: bool,
    /// Bytes of the largest schedule of a rank.
    pub schedule_bytes: usize,
    /// Bytes of the largest scratch memory of a rank.
    pub temp_bytes: u64,
    /// Events that were handled.
    pub events: u64,
}
