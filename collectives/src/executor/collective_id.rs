//! Names of running collectives.

/// Names a collective from its start until its result is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}
