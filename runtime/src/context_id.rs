//! The layout of context ids: those that processes propose for new communicators, and those of
//! messages that belong to none.
//!
//! ```text
//!   bit 61 .. 27     26 .. 24                     23 .. 0
//!      number        collective segment of the    rank of the proposer
//!                    proposer, counted from
//!                    4 down; 0: none
//! ```
//!
//! On the wire a communicator's messages carry twice its id, collectives one more. Other messages
//! have the top bit, and ranks of MPI_COMM_WORLD as sources:
//!
//! ```text
//!   bit 63 .. 60
//!      10            control messages of a communicator
//!      110           control messages of a tag text
//!      1110          announcements of partitioned sends, by communicator
//!      1111          partitions: number of the channel, and rank of the sender
//! ```

use bootstrap::spawning::MAX_PROCESSES;
use fabric::Peer;
use shm_transport::COLL_SEGMENTS;

/// Bits that hold the proposer's rank.
const RANK_BITS: u32 = 24;
const _: () = assert!(MAX_PROCESSES <= 1 << RANK_BITS && MAX_PROCESSES <= Peer::LIMIT);
/// Bits below the number.
const BELOW_BITS: u32 = RANK_BITS + 3;
const _: () = assert!(COLL_SEGMENTS < 1 << (BELOW_BITS - RANK_BITS));

/// Encodes a context id.
pub(crate) fn encode(number: u64, segment: Option<u32>, rank: u32) -> u64 {
    let segment = segment.map_or(0, |index| COLL_SEGMENTS - index);
    number << BELOW_BITS | u64::from(segment) << RANK_BITS | u64::from(rank)
}

/// Returns the number of a context id.
pub(crate) fn number(context: u64) -> u64 {
    context >> BELOW_BITS
}

/// Returns the collective segment that a context id names: its owner, and its index there.
pub(crate) fn segment(context: u64) -> Option<(u32, u32)> {
    let segment = (context >> RANK_BITS) as u32 % (1 << (BELOW_BITS - RANK_BITS));
    let index = COLL_SEGMENTS.checked_sub(segment)?;
    (segment > 0).then_some((proposer(context), index))
}

/// Returns the rank in MPI_COMM_WORLD of the process that proposed a context id.
pub(crate) fn proposer(context: u64) -> u32 {
    context as u32 % (1 << RANK_BITS)
}

/// The bit that only contexts of no communicator have.
pub(crate) const CONTROL_BIT: u64 = 1 << 63;
/// The bit that is set in addition if a tag text names the context, or a partitioned transfer has
/// it.
pub(crate) const FROM_TAG_BIT: u64 = 1 << 62;
const PARTITIONED: u64 = CONTROL_BIT | FROM_TAG_BIT | 1 << 61;
const CHANNEL: u64 = PARTITIONED | 1 << 60;

/// Returns true for contexts in which a source is a rank of MPI_COMM_WORLD.
pub(crate) fn is_control(context: u64) -> bool {
    context & CONTROL_BIT != 0
}

/// Returns true for the context of partitions.
pub(crate) fn is_channel(context: u64) -> bool {
    context & CHANNEL == CHANNEL
}

/// A context of partitioned communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionContext(u64);

impl PartitionContext {
    /// Returns the context in which announcements on a communicator are matched.
    pub(crate) fn of_comm(context: u64) -> PartitionContext {
        PartitionContext(PARTITIONED | context & !CHANNEL)
    }

    /// Returns the context of the partitions of a sender's channel.
    pub(crate) fn channel(number: u64, sender: u32) -> PartitionContext {
        PartitionContext::from_wire(number << RANK_BITS | u64::from(sender))
    }

    /// Returns a channel that a peer has sent; any number is one.
    pub(crate) fn from_wire(context: u64) -> PartitionContext {
        PartitionContext(CHANNEL | context)
    }

    /// Returns the context id on the wire.
    pub(crate) fn wire(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_context_id_are_decoded() {
        for index in 0..COLL_SEGMENTS {
            let context = encode(9, Some(index), 70_000);
            assert_eq!((number(context), segment(context)), (9, Some((70_000, index))));
        }
        assert_eq!(segment(encode(9, None, 3)), None);
    }

    #[test]
    fn partitioned_transfers_have_contexts_of_their_own() {
        let [first, second] = [1, 2].map(|number| PartitionContext::channel(number, 70_000));
        assert!(first != second && first != PartitionContext::channel(1, 70_001));
        assert_eq!(PartitionContext::from_wire(first.wire()), first);
        let comm = PartitionContext::of_comm(encode(9, Some(1), 3));
        assert_ne!(comm, PartitionContext::of_comm(encode(9, None, 3)));
        assert!([first, comm].iter().all(|context| is_control(context.wire())));
        assert!(is_channel(first.wire()) && !is_channel(comm.wire()));
        assert!(!is_control(2 * encode(1 << 32, Some(1), 3)));
    }
}
