//! Several frames in one SEND: those to one peer that had to wait for room and now leave together.
//! `docs/verbs.md` draws the bytes.
//!
//! States: between the two calls of `gather` frames to that peer are put together ([`Bundle::Empty`]); with
//! the first of them there is a bundle, which is open until the next one does not fit, or there are no more
//! ([`Bundle::Open`]).
//!
//! Invariants: an open bundle is the last of what its pair retains, so if the connection breaks it goes again
//! like all others; it is never kept from one call of MPI to the next.

use fabric::{Header, Peer, Sink, Slot};

use crate::connect::{FRONT, PREFIX, VerbsTransport};
use crate::eager_rdma::wire::LEAD;
use crate::endpoint::{Signal, Unacked};
use crate::ibv::Destination;
use crate::post::LONG;

/// Follows the prefix in place of a header: no kind of frame has this number.
const SEVERAL: [u8; 4] = [0; 4];
/// In front of the first frame.
const START: usize = PREFIX + SEVERAL.len();
/// In front of each: its length.
const LENGTH: usize = 4;

/// Whether frames are put together now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Bundle {
    /// No: each goes at once.
    #[default]
    Closed,
    /// Those of this pair; there is none yet.
    Empty(usize),
    /// Those of this pair, with what it retains last.
    Open(usize),
}

impl VerbsTransport {
    /// More frames to a peer follow at once; or no more.
    pub(crate) fn gather_frames(&mut self, peer: Peer, more: bool) {
        self.send_bundle();
        self.bundle = match self.place(peer) {
            Some(at) if more => Bundle::Empty(at),
            _ => Bundle::Closed,
        };
    }

    /// Whether a frame for this pair, for which there is room, is put to others; makes place for it.
    pub(crate) fn has_place_in_bundle(&mut self, at: usize, len: usize) -> bool {
        let taken = LENGTH + Header::SIZE + len;
        let most = longest(self.caps.frame);
        if self.bundle == Bundle::Open(at) {
            let held = self.pairs[at].retained.back();
            if held.is_some_and(|held| held.bytes as usize + taken <= most) {
                return true;
            }
            self.send_bundle();
        }
        // One that leaves no place for a second goes alone.
        if self.bundle != Bundle::Empty(at) || START + 2 * taken > most {
            return false;
        }
        let Ok(Some(slot)) = self.long.take() else { return false };
        let pair = &mut self.pairs[at];
        let room = &mut self.long.bytes_mut(slot, LEAD + START)[LEAD..];
        room[..4].copy_from_slice(&pair.next.to_le_bytes());
        room[PREFIX..].copy_from_slice(&SEVERAL);
        pair.retained.push_back(Unacked {
            slot: slot | LONG,
            bytes: START as u32,
            first: pair.next,
            frames: 0,
        });
        self.bundle = Bundle::Open(at);
        true
    }

    /// Puts a frame to the others.
    pub(crate) fn put_into_bundle(
        &mut self,
        at: usize,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) {
        let pair = &mut self.pairs[at];
        let Some(held) = pair.retained.back_mut() else { return };
        let from = LEAD + held.bytes as usize;
        let to = from + LENGTH + Header::SIZE + len;
        let room = &mut self.long.bytes_mut(held.slot & !LONG, to)[from..];
        room[..LENGTH].copy_from_slice(&((Header::SIZE + len) as u32).to_le_bytes());
        room[LENGTH..LENGTH + Header::SIZE].copy_from_slice(&header.encode());
        fill(&mut Slot::new(&mut room[LENGTH + Header::SIZE..], false));
        held.bytes = (to - LEAD) as u32;
        held.frames += 1;
        pair.next = pair.next.wrapping_add(1);
        (pair.used_at, pair.starved) = (self.polls, false);
        self.gathered += 1;
    }

    /// Sends the open bundle; further frames to its pair make another one.
    pub(crate) fn send_bundle(&mut self) {
        let Bundle::Open(at) = self.bundle else { return };
        self.bundle = Bundle::Empty(at);
        let Self { pairs, long, short, .. } = self;
        let pair = &mut pairs[at];
        let Some(&held) = pair.retained.back() else { return };
        pair.told = pair.consumed;
        let consumed = &mut long.bytes_mut(held.slot & !LONG, LEAD + PREFIX)[LEAD + 4..];
        consumed.copy_from_slice(&pair.consumed.to_le_bytes());
        if pair
            .submit(crate::post::sge(long, short, &held), Destination::RECEIVE, Signal::NONE)
            .is_err()
        {
            // It is kept, and goes with the next connection.
            self.break_pair(at, "a send was refused");
        }
    }

    /// Frames of which each went together with others.
    pub fn frames_coalesced(&self) -> u64 {
        self.gathered
    }

    /// A message of several frames, the first of which has that number; true if the sink has heard of any.
    #[cold]
    pub(crate) fn take_bundle(
        &mut self,
        at: usize,
        slot: u32,
        len: usize,
        first: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let mut moved = false;
        if first != self.pairs[at].consumed {
            // What was written before it is in its place by now.
            moved = self.take_written(at, sink);
        }
        let (mut number, mut from) = (first, START);
        while from < len && self.pairs[at].lost.is_none() {
            let message = self.receives.bytes(slot, len);
            let Some(frame) = next(&message[from..]) else {
                return moved | self.nonsense(at, "several frames are malformed");
            };
            let taken = frame.len();
            let pair = &mut self.pairs[at];
            match number.wrapping_sub(pair.consumed) as i32 {
                // It came before its connection broke, and now again.
                ..0 => {}
                0 => {
                    if !pair.hand_up(frame, sink) {
                        return moved | self.nonsense(at, "a header is malformed");
                    }
                    self.count(at, taken);
                    moved = true;
                }
                1.. => return moved | self.nonsense(at, "a frame is missing"),
            }
            number = number.wrapping_add(1);
            from += LENGTH + taken;
        }
        moved
    }
}

/// Bytes of the longest message where a frame has a body of so many: two messages that are half as long as the longest
/// that goes at once fit, which is also more than one frame takes.
pub(crate) const fn longest(frame: usize) -> usize {
    START + 2 * (LENGTH + Header::SIZE) + frame
}

const _: () = assert!(longest(0) >= FRONT);

/// True for what follows the prefix of a message of several frames.
#[inline]
pub(crate) fn is_one(message: &[u8]) -> bool {
    message.starts_with(&SEVERAL)
}

/// The frame that `rest` begins with.
fn next(rest: &[u8]) -> Option<&[u8]> {
    let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
    rest.get(..u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_lead_out_of_the_message_are_refused() {
        assert_eq!(next(&[3, 0, 0, 0, 7, 8, 9, 1]), Some([7, 8, 9].as_slice()));
        assert_eq!(next(&[0, 0, 0, 0]), Some([].as_slice()));
        for bytes in [[].as_slice(), &[3, 0, 0], &[3, 0, 0, 0, 7, 8], &[255; 8]] {
            assert_eq!(next(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn no_header_looks_like_several_frames() {
        for kind in 0..=u8::MAX {
            let header = [[kind].as_slice(), &[0; Header::SIZE - 1]].concat();
            assert!(Header::decode(&header).is_err() || !is_one(&header), "kind {kind}");
        }
        assert!(is_one(&[0; 36]));
    }
}
