//! Bytes that are written, arrive in part, or are anything.

use fabric::sim::Rng;
use proptest::prelude::*;

use super::*;

/// Returns the words of a slot that holds a frame of `len` bytes.
pub(crate) fn slot_with(seq: u32, len: usize) -> Vec<u64> {
    let mut slot = vec![0xee; slot_len(len)];
    let frame = &mut slot[SLOT_HEADER..SLOT_HEADER + len];
    frame.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 ^ seq as u8);
    frame[..4].copy_from_slice(&seq.to_le_bytes());
    seal(&mut slot, len);
    slot.resize(SLOT_BYTES, 0);
    slot.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Returns frame `seq` if it is in the slot.
pub(crate) fn frame_in(slot: &[u64], seq: u32) -> Option<Vec<u8>> {
    let mut frame = [0; SLOT_BYTES];
    decode_slot(|at| slot[at], seq, &mut frame).map(|len| frame[..len].to_vec())
}

#[test]
fn a_frame_is_decoded_as_it_was_written_and_under_its_number_alone() {
    for len in 9..=SLOT_BYTES - SLOT_HEADER {
        let slot = slot_with(7, len);
        let frame = frame_in(&slot, 7).expect("it is there");
        assert_eq!((frame.len(), frame[4], frame[len - 1]), (len, 4 ^ 7, (len - 1) as u8 ^ 7));
        assert_eq!(frame_in(&slot, 7 + 32), None);
    }
    assert_eq!(frame_in(&[0; SLOT_BYTES / 8], 0), None, "a wiped slot holds a frame");
}

/// Some words are still those of the frame before: the new one is not complete.
#[test]
fn half_a_frame_is_none() {
    let mut rng = Rng::new(5);
    for round in 0..20_000 {
        let len = 9 + rng.below((SLOT_BYTES - SLOT_HEADER - 8) as u64) as usize;
        let new = slot_with(64 + 32 * (round % 2), len);
        let mut old = slot_with(64 + 32 - 32 * (round % 2), 9 + rng.below(200) as usize);
        if rng.chance(500) {
            // An equal frame except for the highest bits of two words.
            old = new.clone();
            let words = slot_len(len) as u64 / 8;
            (0..2).for_each(|_| old[rng.below(words) as usize] ^= 1 << 63);
        }
        let seq = 64 + 32 * (round % 2);
        let mixed: Vec<u64> =
            (0..SLOT_BYTES / 8).map(|at| if rng.chance(700) { new[at] } else { old[at] }).collect();
        let is_whole = mixed[..slot_len(len) / 8] == new[..slot_len(len) / 8];
        assert_eq!(frame_in(&mixed, seq).is_some(), is_whole, "round {round}: {len} bytes");
    }
}

/// Frames with the same bytes follow each other in a slot, and a device places their lines when it
/// likes. A line that was not there when its frame was taken would spoil the next one.
#[test]
fn no_line_is_placed_after_its_frame_was_taken() {
    const LEN: usize = SLOT_BYTES - SLOT_HEADER;
    for seed in 0..100 {
        let (mut rng, mut slot) = (Rng::new(seed), vec![0u64; SLOT_BYTES / 8]);
        clear(LEN, |at, word| slot[at] = word);
        for seq in (0..).step_by(32).take(50) {
            let mut bytes = vec![rng.below(2) as u8; SLOT_BYTES];
            bytes[SLOT_HEADER..][..4].copy_from_slice(&u32::to_le_bytes(seq));
            let len = 9 + rng.below(LEN as u64 - 8) as usize;
            seal(&mut bytes[..slot_len(len)], len);
            let lines = bytes[..slot_len(len)].chunks(64).enumerate();
            let mut late: Vec<(usize, Vec<u8>)> =
                lines.map(|(line, bytes)| (line, bytes.to_owned())).collect();
            while frame_in(&slot, seq).is_none() {
                assert!(!late.is_empty(), "seed {seed}: frame {seq} never arrives");
                let (line, bytes) = late.swap_remove(rng.below(late.len() as u64) as usize);
                for (word, bytes) in slot[LINE * line..].iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().unwrap());
                }
            }
            assert!(late.is_empty(), "seed {seed}: frame {seq} was taken without a line");
            clear(len, |at, word| slot[at] = word);
        }
    }
}

/// Returns the words that open a ring.
pub(crate) fn words(ring: RingDescriptor) -> [u64; 4] {
    let bytes = ring.encode();
    std::array::from_fn(|at| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap()))
}

#[test]
fn a_ring_is_opened_only_when_its_descriptor_is_complete() {
    let ring = RingDescriptor { addr: 0x7f01_2345_6000, rkey: 0x1234, mask: 31, count: 7 };
    let whole = words(ring);
    assert_eq!(RingDescriptor::decode(whole), Some(ring));
    for missing in 0..4 {
        let mut part = whole;
        part[missing] = 0;
        assert_eq!(RingDescriptor::decode(part), None, "without word {missing}");
    }
    let again = RingDescriptor { count: 8, ..ring };
    assert!(words(again)[0] != whole[0] && again.closing() != ring.closing());
}

proptest! {
    #[test]
    fn any_words_decode_to_nothing_or_to_a_whole_frame(
        mut slot in prop::collection::vec(any::<u64>(), SLOT_BYTES / 8),
        len in prop_oneof![0..300u64, any::<u64>()],
        seq: u32,
        control: [u64; 4],
        is_sealed: bool,
    ) {
        slot[1] = len;
        slot[SLOT_HEADER / 8] = slot[SLOT_HEADER / 8] >> 32 << 32 | u64::from(seq);
        let fits = len > 8 && len <= (SLOT_BYTES - SLOT_HEADER) as u64;
        if is_sealed && fits {
            let mut bytes: Vec<u8> = slot.iter().flat_map(|word| word.to_le_bytes()).collect();
            seal(&mut bytes[..slot_len(len as usize)], len as usize);
            slot[0] = u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        }
        let decoded = frame_in(&slot, seq);
        prop_assert_eq!(decoded.map(|frame| frame.len() as u64), (is_sealed && fits).then_some(len));
        let ring = RingDescriptor::decode(control);
        prop_assert!(ring.is_none_or(|ring| words(ring) == control));
    }
}
