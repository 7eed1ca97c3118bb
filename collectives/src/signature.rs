//! The signature of a call: the word by which the members of a collective segment compare their
//! calls.
//!
//! ```text
//! bit 47 .. 32         31 .. 20              19      18 .. 14   13 .. 8    7      6 .. 0
//!     bytes            root, all ones: none  failed  operation  reduction  later  sequence number
//! ```
//!
//! Of long vectors, that go through slots in pieces, there is a digest of their bytes. Of the
//! sequence number the lower bits are there, so that a member whose rounds are out of step
//! with those of others after an error is noticed. *Later* is set after the first of the rounds of
//! one collective. Above bit 47 there is a digest of the call before ([`crate::latest_call`]).
//!
//! A reduction is named by the ABI handle of the predefined operation, or by [`USER_OP`].
//! A member whose call has failed arrives with the signature of that call and [`FAILED`].

use fabric::coll_segment::{DIGEST_BITS, SIGNATURE_BITS, SLOT_BYTES};
use fabric::{Collective, CollectiveKind};
use objects::Op;
use pt2pt::CollectiveCall;

const SEQUENCE_BITS: u32 = 7;
/// One of the later rounds of a collective.
const LATER: u64 = 1 << SEQUENCE_BITS;
const OP_AT: u32 = SEQUENCE_BITS + 1;
const KIND_AT: u32 = OP_AT + 6;
const ROOT_AT: u32 = KIND_AT + 6;
const BYTES_AT: u32 = ROOT_AT + 12;
/// The most bytes that are there themselves; of more, a digest above them.
const MAX_BYTES: u64 = *SLOT_BYTES.end();
const _: () = assert!(2 * MAX_BYTES == 1 << (SIGNATURE_BITS - BYTES_AT));
/// The call has failed at its member.
const FAILED: u64 = 1 << (ROOT_AT - 1);
const NO_ROOT: u64 = (1 << (BYTES_AT - ROOT_AT)) - 1;
const _: () = assert!((CollectiveKind::GaveUp as u64) < FAILED >> KIND_AT, "kinds fit");
/// The code of all user-defined operations; no handle of a predefined one.
const USER_OP: u8 = (1 << (KIND_AT - OP_AT)) - 1;

/// Returns the number of a reduction that calls are compared by.
pub(crate) fn op_code(op: &Op) -> u8 {
    match op {
        Op::Builtin(op) => *op as u8,
        Op::User(_) => USER_OP,
    }
}

/// Returns the signature of a call with so many bytes in a slot, without a sequence number.
pub(crate) fn of(call: Collective, slot_bytes: u64) -> u64 {
    let (root, op) = Collective::split(call.root);
    let root = root.map_or(NO_ROOT, |root| u64::from(root) & NO_ROOT);
    number_of(slot_bytes) << BYTES_AT
        | root << ROOT_AT
        | u64::from(call.kind as u8) << KIND_AT
        | u64::from(op.unwrap_or(0)) << OP_AT
}

/// Returns the bytes themselves, or above [`MAX_BYTES`] a number that is mostly another one for
/// other bytes.
fn number_of(bytes: u64) -> u64 {
    if bytes <= MAX_BYTES {
        return bytes;
    }
    let mixed = bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    MAX_BYTES + 1 + mixed % (MAX_BYTES - 1)
}

/// Returns the signature of the `sequence`th collective of its communicator.
#[inline]
pub(crate) fn numbered(signature: u64, sequence: i32) -> u64 {
    signature | sequence as u64 & ((1 << SEQUENCE_BITS) - 1)
}

/// Returns the signature of the same collective in its later rounds.
#[inline]
pub(crate) fn in_later_round(signature: u64) -> u64 {
    signature | LATER
}

/// Returns the signature with the digest of the call before; see [`Collective::before`].
#[inline]
pub(crate) fn after(signature: u64, before: u8) -> u64 {
    const { assert!(DIGEST_BITS == u8::BITS) };
    signature | u64::from(before) << SIGNATURE_BITS
}

/// Returns the digest of [`after`].
#[inline]
pub(crate) fn before(signature: u64) -> u8 {
    (signature >> SIGNATURE_BITS) as u8
}

/// Returns the signature without the digest of [`after`].
pub(crate) fn alone(signature: u64) -> u64 {
    signature & ((1 << SIGNATURE_BITS) - 1)
}

/// Returns true if one signature is that of an earlier collective than another one, or of an
/// earlier round of the same.
pub(crate) fn is_earlier(one: u64, other: u64) -> bool {
    let sequence = |signature: u64| signature & (LATER - 1);
    let by = sequence(other).wrapping_sub(sequence(one)) & (LATER - 1);
    (1..LATER / 2).contains(&by) || by == 0 && one & LATER < other & LATER
}

/// Returns the signature of a member whose `sequence`th collective has failed before it arrived,
/// and whose call is not known any more.
pub(crate) fn gave_up(sequence: i32) -> u64 {
    failed(numbered(of(Collective::new(CollectiveKind::GaveUp, None, None), 0), sequence))
}

/// Returns the signature of a member whose call has failed before it arrived.
pub(crate) fn failed(signature: u64) -> u64 {
    signature | FAILED
}

/// Returns true for a signature of [`failed`] or [`gave_up`].
pub(crate) fn has_failed(signature: u64) -> bool {
    signature & FAILED != 0
}

/// Returns true if two calls have, as far as signatures know, the same number of bytes.
pub(crate) fn are_same_size(one: u64, other: u64) -> bool {
    alone(one ^ other) >> BYTES_AT == 0
}

/// Returns the call of a signature.
pub(crate) fn call(signature: u64) -> CollectiveCall {
    let bits = |at: u32, end: u32| signature >> at & ((1 << (end - at)) - 1);
    let root = bits(ROOT_AT, BYTES_AT);
    let root = if root == NO_ROOT { Collective::NO_ROOT } else { root as u32 };
    CollectiveCall {
        kind: bits(KIND_AT, ROOT_AT - 1) as u8,
        root: (bits(OP_AT, KIND_AT) as u32) << 24 | root,
        bytes: Some(bits(BYTES_AT, SIGNATURE_BITS)).filter(|&bytes| bytes <= MAX_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_survives_its_signature() {
        for (root, op) in [(None, None), (Some(3), None), (Some(4000), Some(0x23))] {
            let collective = Collective::new(CollectiveKind::Reduce, root, op);
            let call = call(of(collective, 16_000));
            assert_eq!(call.root, collective.root);
            assert_eq!((call.kind, call.bytes), (CollectiveKind::Reduce as u8, Some(16_000)));
        }
    }

    #[test]
    fn lengths_of_long_vectors_are_compared_but_not_read() {
        let allreduce = Collective::new(CollectiveKind::Allreduce, None, Some(0x23));
        let mut seen: Vec<u64> = (0..64).map(|n| of(allreduce, (1 << 20) + 4 * n)).collect();
        assert!(seen.iter().all(|&signature| call(signature).bytes.is_none()));
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 60, "{} of 64 lengths differ", seen.len());
    }

    #[test]
    fn a_call_survives_its_failure() {
        let collective = Collective::new(CollectiveKind::Reduce, Some(3), Some(0x23));
        let signature = numbered(of(collective, 32), 7);
        assert!(!has_failed(signature) && has_failed(failed(signature)) && has_failed(gave_up(7)));
        assert_eq!(call(signature), call(failed(signature)));
    }

    #[test]
    fn numbers_are_compared_round_their_end() {
        let at = gave_up;
        assert!(is_earlier(at(7), at(8)) && is_earlier(at(127), at(128)));
        assert!(!is_earlier(at(8), at(7)) && !is_earlier(at(7), at(7)));
        let later = in_later_round(at(7));
        assert!(is_earlier(at(7), later) && is_earlier(later, at(8)));
        assert!(!is_earlier(later, at(7)) && !is_earlier(at(8), later));
    }
}
