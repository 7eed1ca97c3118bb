//! The decoders of everything that a peer sends, for fuzz targets. Each takes any bytes.
//!
//! A decoder must not panic, and what it accepts must encode to the same bytes; the functions
//! panic if it does not.

use crate::datagram::packet::Packet;
use crate::eager_rdma::wire::{RingDescriptor, SLOT_BYTES, decode_slot};
use crate::frame::{Prefix, decode_coalesced, is_coalesced};
use crate::notice::NoticeMsg;
use crate::wireup_msg::{Address, WireupMsg};

/// Decodes a wire-up message, with the proof that the secret gives for `bytes`, so that the
/// fields are reached. Returns whether it was accepted.
pub fn wireup_msg(bytes: &[u8]) -> bool {
    const SECRET: [u8; 32] = [7; 32];
    const PROOF: usize = WireupMsg::SIZE - 32;
    let decode = |bytes: &[u8]| WireupMsg::decode(bytes, &SECRET);
    let unproven = decode(bytes);
    let Some(text) = bytes.get(..PROOF) else { return unproven.is_some() };
    let proof = blake3::keyed_hash(&SECRET, text);
    let message = decode(&[text, proof.as_bytes().as_slice()].concat());
    message.map(|message| decode(&message.encode(&SECRET)) == Some(message)).inspect(|&same| {
        assert!(same, "a wire-up message changes when it is encoded again");
    }) == Some(true)
}

/// Decodes a notice, with the proof that the secret gives for `bytes`. Returns whether it was
/// accepted.
pub fn notice(bytes: &[u8]) -> bool {
    const SECRET: [u8; 32] = [7; 32];
    let proven = [bytes, blake3::keyed_hash(&SECRET, bytes).as_bytes()].concat();
    let notice = NoticeMsg::decode(&proven, &SECRET);
    assert!(notice.as_ref().is_none_or(|notice| notice.encode(&SECRET, 4096) == proven));
    notice.is_some()
}

/// Decodes a packet of the datagram path. Returns whether it was accepted.
pub fn packet(bytes: &[u8]) -> bool {
    let Some((packet, payload)) = Packet::decode(bytes) else { return false };
    let mut again = vec![0; packet.header_bytes()];
    packet.encode(&mut again);
    again.extend_from_slice(payload);
    assert_eq!(Packet::decode(&again), Some((packet, payload)));
    true
}

/// Decodes a published address. Returns whether it was accepted.
pub fn address(bytes: &[u8]) -> bool {
    let address = Address::decode(bytes);
    assert!(address.is_none_or(|address| address.encode().starts_with(bytes)));
    address.is_some()
}

/// Decodes a message on a connection: a prefix, then perhaps coalesced frames. Returns the
/// number of frames.
pub fn message(bytes: &[u8]) -> usize {
    let Some((_, rest)) = Prefix::decode(bytes) else { return 0 };
    if !is_coalesced(rest) {
        return usize::from(!rest.is_empty());
    }
    let (mut rest, mut frames) = (&rest[4..], 0);
    while let Some(frame) = decode_coalesced(rest) {
        rest = &rest[4 + frame.len()..];
        frames += 1;
    }
    frames
}

/// Decodes a slot of an eager-RDMA ring in which frame `seq` is expected. Missing bytes are 0.
/// Returns the length of the frame.
pub fn eager_rdma_slot(bytes: &[u8], seq: u32) -> Option<usize> {
    decode_slot(words::<{ SLOT_BYTES / 8 }>(bytes), seq, &mut [0; SLOT_BYTES])
}

/// Decodes the words that open a ring. Missing bytes are 0. Returns whether they were accepted.
pub fn ring_control(bytes: &[u8]) -> bool {
    let word = words::<4>(bytes);
    let control = std::array::from_fn(word);
    let ring = RingDescriptor::decode(control);
    let same =
        |ring: RingDescriptor| ring.encode() == *control.map(u64::to_le_bytes).as_flattened();
    assert!(ring.is_none_or(same));
    ring.is_some()
}

/// Returns the first `COUNT` words of `bytes`.
fn words<const COUNT: usize>(bytes: &[u8]) -> impl Fn(usize) -> u64 {
    let mut words = [0; COUNT];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        *word = u64::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0)));
    }
    move |at| words[at]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoders_take_any_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            seq: u32,
        ) {
            wireup_msg(&bytes);
            notice(&bytes);
            address(&bytes);
            message(&bytes);
            eager_rdma_slot(&bytes, seq);
            ring_control(&bytes);
        }

        #[test]
        fn coalesced_frames_are_counted(lengths in prop::collection::vec(0u32..50, 0..8)) {
            let mut bytes = vec![0; 12];
            for &length in &lengths {
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend(std::iter::repeat_n(1, length as usize));
            }
            prop_assert_eq!(message(&bytes), lengths.len());
        }
    }
}
