//! The chain of calls of a communicator: each call carries a digest of the one before.
//!
//! A rank that only sends in a collective, or does not wait for others in a segment, does not hear
//! of a member that calls another one. Both find out in the next call. Calls by messages carry the
//! digest of the call before in each message. The members of a segment compare their rounds by
//! themselves; therefore a call there adds a digest only if the call before went by messages, or
//! has failed.
//!
//! ```text
//! bit 63 (IS_DIGEST)     62 .. 8   7 .. 0
//!     1                  0         digest of a call by messages, or Collective::FAILED for any
//!     0                  signature of a call in a segment; 0 before the first call
//! ```

use fabric::Collective;
use objects::LatestCall;
use pt2pt::CollectiveCall;

/// Spreads a call over the upper bits of a word: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const IS_DIGEST: u64 = 1 << 63;

/// Begins a call in a segment of all members; returns the digest of the call before if that went
/// by messages, otherwise 0.
#[inline]
pub(crate) fn begin_in_segment(latest: &LatestCall, signature: u64) -> u8 {
    let before = latest.get();
    latest.set(signature);
    if before & IS_DIGEST != 0 { before as u8 } else { 0 }
}

/// Begins a call by messages; returns the digest of the call before; see [`Collective::before`].
pub(crate) fn begin_by_messages(latest: &LatestCall, digest: u8) -> u8 {
    let before = latest.get();
    latest.set(IS_DIGEST | u64::from(digest));
    if before & IS_DIGEST != 0 { before as u8 } else { digest_of_signature(before) }
}

/// Marks that the latest call has failed here, or was refused: members that have not noticed learn
/// of it in the next call, even if the digests of both calls are equal by chance.
pub(crate) fn fail(latest: &LatestCall) {
    latest.set(IS_DIGEST | u64::from(Collective::FAILED));
}

/// Forgets the latest call: other members know of it.
pub(crate) fn forget(latest: &LatestCall) {
    latest.set(0);
}

/// Returns a number from 1 to 254, mostly another one for another call.
pub(crate) fn digest_of(call: CollectiveCall, sequence: i32) -> u8 {
    let CollectiveCall { kind, root, bytes } = call;
    let call = u64::from(kind) << 32 | u64::from(root);
    spread(call ^ bytes.unwrap_or(0).rotate_left(40) ^ (sequence as u64).rotate_left(20))
}

/// Returns the digest of a call in a segment; 0 for none.
pub(crate) fn digest_of_signature(signature: u64) -> u8 {
    match signature {
        0 => 0,
        _ => spread(signature),
    }
}

fn spread(word: u64) -> u8 {
    (word.wrapping_mul(SPREAD) >> 32) as u8 % 254 + 1
}
