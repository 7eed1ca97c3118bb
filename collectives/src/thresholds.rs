//! The sizes at which selection changes, as the runtime reads them from its knobs.

/// The segment of a host in a job over several hosts: how its members count, and the sizes in bytes
/// up to which stages within the host use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostSegment {
    /// Ranks share processors: the last rank to arrive combines all operands.
    Counter {
        /// The largest vector.
        max: u64,
    },
    /// Each rank has a processor.
    Flags {
        /// The most bytes of a slot.
        max: u64,
    },
}

/// What the schedule of a call may use the collective segment of its ranks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentUse {
    /// The ranks share none.
    Nothing,
    /// Few rounds; of a segment of all ranks one. A nonblocking call gets no further than a round
    /// while its ranks compute, and the next round may be another call's.
    FewRounds,
    /// Any number of rounds.
    Anything,
    /// Any number of rounds, in which ranks read each other's memory.
    Gets,
}

/// True stands for any use.
impl From<bool> for SegmentUse {
    fn from(has_segment: bool) -> SegmentUse {
        if has_segment { SegmentUse::Anything } else { SegmentUse::Nothing }
    }
}

/// The sizes, in bytes unless noted otherwise, at which selection changes. All ranks of a job must
/// have the same, but for [`Thresholds::host_segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Broadcasts from this size on are scattered and sent round the ring.
    pub bcast_long: u64,
    /// Gathers with blocks from this size on go straight to the root.
    pub gather_long: u64,
    /// Scatters with blocks from this size on go straight from the root.
    pub scatter_long: u64,
    /// Allgathers whose results are of at least this size go round the ring.
    pub allgather_long: u64,
    /// Alltoalls with blocks up to this size are forwarded in log2 size rounds.
    pub alltoall_short: u64,
    /// Reductions of vectors from this size on are cut into pieces.
    pub reduce_long: u64,
    /// Allreduces of vectors from this size on are cut into pieces.
    pub allreduce_long: u64,
    /// Reduce_scatters of vectors from this size on are done pairwise.
    pub reduce_scatter_long: u64,
    /// Where ranks share processors (`None`: they do not): barriers, and broadcasts and reductions
    /// of up to this size, use a collective segment. Where no segment has space, one rank exchanges
    /// with all others. Time there depends on how often each rank must run.
    pub oversubscribed_max: Option<u64>,
    /// Where three ranks or more, with a processor each, share a segment and may read each other's
    /// memory: in blocking allgathers and alltoalls with blocks from this size to four times this
    /// size they do.
    pub get_min: u64,
    /// Collective segments are used.
    pub shm: bool,
    /// Where each rank has a processor ([`Thresholds::oversubscribed_max`] is `None`): collectives
    /// in which no rank has more bytes in its slot use a segment with flags. `None`: no segment has
    /// flags.
    pub shm_max: Option<u64>,
    /// Where segments have flags: blocking allreduces of longer vectors, up to this size, go
    /// through a segment in pieces.
    pub shm_pieces_max: u64,
    /// Communicators over several hosts use compositions.
    pub hierarchical: bool,
    /// Broadcasts and reductions over several hosts from this size on use lanes.
    pub lanes_min: u64,
    /// Barriers over several hosts, and broadcasts and allreduces of up to this size, use a fan.
    pub fan_max: u64,
    /// Short vectors between hosts go by algorithms in which a rank sends up to so many messages,
    /// less one, in a round; at least 2.
    pub radix: u32,
    /// The segments of this host in a job over several hosts. Hosts may differ.
    pub host_segment: Option<HostSegment>,
    /// Bytes of the pieces in which pipelined algorithms send a vector.
    pub piece: u64,
    /// How many messages (not bytes) of one collective are under way at once where each rank deals
    /// with all others.
    pub window: u32,
    /// Reductions take their operands in an order that depends on the number of ranks only.
    pub reproducible: bool,
}

impl Thresholds {
    /// Returns those of communicators on this host alone, in a job over several hosts whose ranks
    /// share segments here.
    pub(crate) fn of_one_host(&self) -> Option<Thresholds> {
        let (oversubscribed_max, shm_max) = match self.host_segment? {
            HostSegment::Counter { max } => (Some(max), None),
            HostSegment::Flags { max } => (None, Some(max)),
        };
        Some(Thresholds { oversubscribed_max, shm_max, host_segment: None, ..*self })
    }

    /// Returns those of communicators with members of several jobs, which do not have the same
    /// segments. `None`: the same.
    pub(crate) fn of_several_jobs(&self) -> Option<Thresholds> {
        let same = Thresholds {
            oversubscribed_max: None,
            shm_max: None,
            host_segment: None,
            shm: false,
            ..*self
        };
        (same != *self).then_some(same)
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            bcast_long: 64 << 10,
            gather_long: 8 << 10,
            scatter_long: 8 << 10,
            allgather_long: 64 << 10,
            alltoall_short: 256,
            reduce_long: 64 << 10,
            allreduce_long: 16 << 10,
            reduce_scatter_long: 128 << 10,
            oversubscribed_max: None,
            get_min: 32 << 10,
            shm: true,
            shm_max: None,
            shm_pieces_max: 8 << 20,
            hierarchical: true,
            lanes_min: 32 << 10,
            fan_max: 256,
            radix: 4,
            host_segment: None,
            piece: 16 << 10,
            window: 32,
            reproducible: false,
        }
    }
}
