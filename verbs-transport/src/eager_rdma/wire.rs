//! The bytes of eager RDMA: a slot of a ring, and the ring control by which a receiver opens and
//! closes its ring. `docs/verbs.md` draws both. A slot has the checksum of all that follows in word
//! 0, the length of the frame in word 1, and the frame from word 2 on. A frame begins with its
//! sequence number.
//!
//! A device may place the bytes of a write in any order, and a write before an earlier one. Each
//! object therefore begins with a checksum, and [`decode_slot`] and [`RingDescriptor::decode`]
//! accept only what is complete. In a ring control, opening and closing have words of their own;
//! [`clear`] makes sure that no line of a frame is placed after the frame was taken. Decoders read
//! words that may change meanwhile, take any contents, and never panic.

/// Bytes of a slot in a ring.
pub(crate) const SLOT_BYTES: usize = 256;
/// Bytes in front of a frame in a slot, and in a send slot: checksum (8), length (8).
pub(crate) const SLOT_HEADER: usize = 16;
/// Words that a device places at once, if they are aligned: a cache line.
const LINE: usize = 8;
/// A frame has more bytes than its own header.
const FRAME_HEADER: usize = 8;
/// Bytes of a ring control: the descriptor of the ring opened last, and the word that closes it.
pub(crate) const CONTROL_BYTES: usize = DESCRIPTOR_BYTES + 8;
/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 32;
/// The word of a ring control that closes the ring.
pub(crate) const CLOSING: usize = DESCRIPTOR_BYTES / 8;

/// Where the sender may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingDescriptor {
    /// Address of the ring; 0: none.
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    /// Slots less one; a power of two less one.
    pub(crate) mask: u32,
    /// Number of times that a ring was opened to this sender. Each opening thus changes the
    /// checksum, and its closing belongs to it alone.
    pub(crate) count: u64,
}

impl RingDescriptor {
    /// Returns the bytes that open the ring.
    pub(crate) fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let place = u64::from(self.mask) << 32 | u64::from(self.rkey);
        let sum = Checksum::new(DESCRIPTOR_BYTES);
        let sum = sum.update([self.addr, place]).update([self.count, 0]).finish();
        let mut out = [0; DESCRIPTOR_BYTES];
        for (bytes, word) in out.chunks_exact_mut(8).zip([sum, self.addr, place, self.count]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes the words that open a ring; `None` until all have arrived.
    pub(crate) fn decode([sum, addr, place, count]: [u64; 4]) -> Option<RingDescriptor> {
        let (rkey, mask) = (place as u32, (place >> 32) as u32);
        let ring = RingDescriptor { addr, rkey, mask, count };
        (addr != 0 && ring.encode()[..8] == sum.to_le_bytes()).then_some(ring)
    }

    /// Returns the word that closes the ring: a checksum, since a word may arrive in parts.
    pub(crate) fn closing(&self) -> u64 {
        Checksum::new(8).update([self.count, 0]).finish()
    }
}

/// Returns the bytes of a ring for a window of so many frames.
pub(crate) fn ring_bytes(window: u32) -> usize {
    window.next_power_of_two() as usize * SLOT_BYTES
}

/// Returns the bytes of a slot that a frame of `len` bytes takes.
#[inline]
pub(crate) fn slot_len(len: usize) -> usize {
    SLOT_HEADER + len.next_multiple_of(16)
}

/// Completes a send slot that holds a frame of `len` bytes, so that it can be written into a ring.
///
/// `slot` has [`slot_len`] bytes. Bytes after the frame may have any value.
#[inline]
pub(crate) fn seal(slot: &mut [u8], len: usize) {
    let Some((header, frame)) = slot.split_first_chunk_mut::<SLOT_HEADER>() else { return };
    header[..8].copy_from_slice(&checksum(len, frame).to_le_bytes());
    header[8..].copy_from_slice(&(len as u64).to_le_bytes());
}

/// Copies frame `seq` out of its slot and returns its length; `None` if it has not arrived
/// completely. `word` reads a word of the slot.
#[inline]
pub(crate) fn decode_slot(
    word: impl Fn(usize) -> u64,
    seq: u32,
    frame: &mut [u8; SLOT_BYTES],
) -> Option<usize> {
    if !sequence_matches(&word, seq) {
        return None;
    }
    let len = usize::try_from(word(1))
        .ok()
        .filter(|&len| len > FRAME_HEADER && len <= SLOT_BYTES - SLOT_HEADER)?;
    let mut sum = Checksum::new(len);
    for (at, bytes) in frame[..len.next_multiple_of(16)].chunks_exact_mut(16).enumerate() {
        let pair = [word(SLOT_HEADER / 8 + 2 * at), word(SLOT_HEADER / 8 + 2 * at + 1)];
        bytes[..8].copy_from_slice(&pair[0].to_le_bytes());
        bytes[8..].copy_from_slice(&pair[1].to_le_bytes());
        sum = sum.update(pair);
    }
    (sum.finish() == word(0)).then_some(len)
}

/// Changes the lines of a slot from which a frame of `len` bytes was taken, so that none of them
/// can be taken for one of the next frame: two frames may have the same bytes there. The first line
/// has the sequence number. `write` writes a word of the slot.
#[inline]
pub(crate) fn clear(len: usize, mut write: impl FnMut(usize, u64)) {
    for at in (LINE..slot_len(len) / 8).step_by(LINE) {
        write(at, Checksum::OTHER);
    }
}

/// Returns whether a slot has the sequence number of frame `seq`; the checksum, which covers it,
/// decides. One read, which nearly always suffices.
#[inline]
pub(crate) fn sequence_matches(word: impl Fn(usize) -> u64, seq: u32) -> bool {
    word(SLOT_HEADER / 8) as u32 == seq
}

/// Returns the checksum of `bytes`, whole pairs of words, of which the first `len` matter.
#[inline]
fn checksum(len: usize, bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
    let pairs = bytes.chunks_exact(16).map(|pair| pair.split_at(8));
    let add = |sum: Checksum, (first, second)| sum.update([word(first), word(second)]);
    pairs.fold(Checksum::new(len), add).finish()
}

/// A checksum over pairs of words. It is not linear: a missing word, a difference in the highest
/// bits alone, and words that changed places all change it.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    /// A word that is unlikely to be sent.
    const OTHER: u64 = 0x6c8e_9cf5_7093_2bd5;

    #[inline]
    fn new(len: usize) -> Checksum {
        Checksum(Checksum::fold(len as u64 ^ Checksum::FACTOR, Checksum::FACTOR))
    }

    #[inline]
    fn update(self, [first, second]: [u64; 2]) -> Checksum {
        Checksum(Checksum::fold(first ^ self.0, second ^ Checksum::OTHER))
    }

    /// Returns the sum, never 0.
    #[inline]
    fn finish(self) -> u64 {
        Checksum::fold(self.0 ^ Checksum::FACTOR, Checksum::FACTOR).max(1)
    }

    #[inline]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
pub(crate) mod tests;
