//! The layout of context ids that processes propose for new communicators.
//!
//! ```text
//!   bit 61 .. 27     26 .. 24                     23 .. 0
//!      number        collective segment of the    rank of the proposer
//!                    proposer, counted from
//!                    4 down; 0: none
//! ```

use shm_transport::COLL_SEGMENTS;

/// Bits that hold the proposer's rank.
const RANK_BITS: u32 = 24;
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
    (segment > 0).then_some((context as u32 % (1 << RANK_BITS), index))
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
}
