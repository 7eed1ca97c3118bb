//! The bytes of one message on a connection: a frame, a control message, or several frames.
//!
//! Every message begins with a [`Prefix`]: a sequence number and the number of frames that the
//! sender has received. A frame follows with its header and body. A control message is the prefix
//! alone, with a [`control`] code in place of the sequence number; some have an operand. A
//! coalesced message has a zero word and then frames, each after its length. `docs/verbs.md` draws
//! all three.
//!
//! Invariant: the decoders here take any bytes and never panic.

use fabric::Header;

/// Bytes of the prefix: sequence number (4), acknowledgement (4).
pub(crate) const PREFIX: usize = 8;
/// Bytes in front of a frame's body.
pub(crate) const FRAME_HEADER: usize = PREFIX + Header::SIZE;
/// Bytes in front of the first frame of a coalesced message.
pub(crate) const COALESCED_HEADER: usize = PREFIX + COALESCED.len();
/// Bytes in front of each frame of a coalesced message: its length.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Marks a coalesced message in place of a header: no kind of frame has the number 0.
pub(crate) const COALESCED: [u8; 4] = [0; 4];

/// The words of a message before its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Sequence number of the (first) frame, or a [`control`] code.
    pub(crate) seq: u32,
    /// Number of frames that the sender has received.
    pub(crate) acked: u32,
}

/// The word of a control message in place of a sequence number.
pub(crate) mod control {
    /// Acknowledges what was received.
    pub(crate) const CREDIT: u32 = 0;
    /// Acknowledges, and requests the peer's acknowledgement.
    pub(crate) const REQUEST_CREDIT: u32 = 1;
    /// Acknowledges, and promises that nothing more is written into the peer's ring: what was
    /// written is among the frames before the one that the operand numbers.
    pub(crate) const STOPPED: u32 = 2;
    /// Acknowledges, and sets the window of the peer's frames to the operand.
    pub(crate) const WINDOW: u32 = 3;
    /// Acknowledges, and confirms a lower window: the frame that the operand numbers is the first
    /// that was not sent in the former one.
    pub(crate) const LOWERED: u32 = 4;
}

/// Bytes of the operand of a control message.
pub(crate) const OPERAND: usize = 4;

/// Returns the operand of a control message, if `rest`, what follows the prefix, shows that the
/// message is one; an operand that is not there counts as 0.
#[inline]
pub(crate) fn control_operand(rest: &[u8]) -> Option<u32> {
    match rest {
        [] => Some(0),
        _ => rest.try_into().ok().map(u32::from_le_bytes),
    }
}

impl Prefix {
    /// Returns the prefix of a message and what follows; `None` if the message is too short.
    #[inline]
    pub(crate) fn decode(message: &[u8]) -> Option<(Prefix, &[u8])> {
        let (front, rest) = message.split_first_chunk::<PREFIX>()?;
        let word = |at: usize| {
            u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]])
        };
        Some((Prefix { seq: word(0), acked: word(4) }, rest))
    }
}

/// Returns the longest message where the body of a frame has at most `frame` bytes.
///
/// Two eager messages of half the largest size fit, which is also more than one frame takes.
pub(crate) const fn max_message(frame: usize) -> usize {
    COALESCED_HEADER + 2 * (LENGTH_BYTES + Header::SIZE) + frame
}

const _: () = assert!(max_message(0) >= FRAME_HEADER);

/// Returns whether what follows a prefix are coalesced frames.
#[inline]
pub(crate) fn is_coalesced(rest: &[u8]) -> bool {
    rest.starts_with(&COALESCED)
}

/// Returns the first frame of `rest`, a part of a coalesced message that begins with a length.
/// Returns `None` if the length leads out of the message.
pub(crate) fn decode_coalesced(rest: &[u8]) -> Option<&[u8]> {
    let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_eight_bytes() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 9];
        let prefix = Prefix { seq: 1, acked: 2 };
        assert_eq!(Prefix::decode(&bytes), Some((prefix, [9].as_slice())));
        assert_eq!(Prefix::decode(&bytes[..8]), Some((prefix, [].as_slice())));
        (0..8).for_each(|len| assert_eq!(Prefix::decode(&bytes[..len]), None));
    }

    #[test]
    fn lengths_that_lead_out_of_the_message_are_refused() {
        assert_eq!(decode_coalesced(&[3, 0, 0, 0, 7, 8, 9, 1]), Some([7, 8, 9].as_slice()));
        assert_eq!(decode_coalesced(&[0, 0, 0, 0]), Some([].as_slice()));
        for bytes in [[].as_slice(), &[3, 0, 0], &[3, 0, 0, 0, 7, 8], &[255; 8]] {
            assert_eq!(decode_coalesced(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_control_message_has_one_operand_or_none() {
        assert_eq!(control_operand(&[]), Some(0));
        assert_eq!(control_operand(&[1, 2, 0, 0]), Some(513));
        assert_eq!(control_operand(&[0; 3]), None);
        assert_eq!(control_operand(&[0; Header::SIZE]), None);
    }

    #[test]
    fn no_header_looks_like_coalesced_frames() {
        for kind in 0..=u8::MAX {
            let header = [[kind].as_slice(), &[0; Header::SIZE - 1]].concat();
            assert!(Header::decode(&header).is_err() || !is_coalesced(&header), "kind {kind}");
        }
        assert!(is_coalesced(&[0; 36]));
    }
}
