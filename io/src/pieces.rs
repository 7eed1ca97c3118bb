//! Lists of pieces of a window of the file, as members send them to aggregators.
//!
//! Bytes of a list: its number of pieces, then for each piece the gap since the end of the one
//! before it (of the window's first byte) and its length, all as LEB128. A regular pattern takes
//! two or three bytes a piece. Decoding checks every number: a list that is not one is an error.

use objects::{Error, Result};

/// A piece of a window: where it begins, relative to the window, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Piece {
    /// Returns where the piece ends, relative to the window.
    pub(crate) fn end(self) -> u64 {
        self.at + self.len
    }
}

/// Appends an unsigned number.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Appends a list.
pub(crate) fn encode(out: &mut Vec<u8>, pieces: &[Piece]) {
    put(out, pieces.len() as u64);
    let mut end = 0;
    for piece in pieces {
        put(out, piece.at - end);
        put(out, piece.len);
        end = piece.end();
    }
}

#[cold]
pub(crate) fn malformed() -> Error {
    Error::internal("a list of pieces of the file is malformed")
}

/// Takes a list off the front. Pieces ascend, do not touch `window` bytes or more, and have a
/// length.
pub(crate) fn decode(bytes: &mut &[u8], window: u64) -> Result<Vec<Piece>> {
    let count = take(bytes).filter(|&count| count <= window).ok_or_else(malformed)?;
    let mut pieces = Vec::with_capacity(count.min(bytes.len() as u64) as usize);
    let mut end = 0u64;
    for _ in 0..count {
        let (gap, len) = take(bytes).zip(take(bytes)).ok_or_else(malformed)?;
        let at = end.checked_add(gap).ok_or_else(malformed)?;
        end = at.checked_add(len).filter(|&end| len > 0 && end <= window).ok_or_else(malformed)?;
        pieces.push(Piece { at, len });
    }
    Ok(pieces)
}

/// Returns the bytes that any of the pieces covers, as pieces that do not touch.
pub(crate) fn union(mut pieces: Vec<Piece>) -> Vec<Piece> {
    // Each member's ascend, and sorting merges what is sorted.
    pieces.sort();
    let mut merged: Vec<Piece> = Vec::new();
    for piece in pieces {
        match merged.last_mut() {
            Some(last) if piece.at <= last.end() => {
                last.len = last.len.max(piece.end() - last.at);
            }
            _ => merged.push(piece),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back() {
        let pieces = [(0, 4), (8, 1), (1000, 70_000)].map(|(at, len)| Piece { at, len });
        let mut bytes = Vec::new();
        encode(&mut bytes, &pieces);
        bytes.push(7);
        let mut rest = &bytes[..];
        assert_eq!(decode(&mut rest, 71_000).unwrap(), pieces);
        assert_eq!(rest, [7]);
        assert!(decode(&mut &bytes[..], 70_999).is_err());
        for cut in 0..bytes.len() - 1 {
            assert!(decode(&mut &bytes[..cut], 71_000).is_err());
        }
        assert!(decode(&mut &[0xff; 30][..], u64::MAX).is_err());
    }

    #[test]
    fn overlapping_and_touching_pieces_are_one() {
        let pieces = [(10, 5), (0, 4), (4, 2), (12, 1), (20, 1)].map(|(at, len)| Piece { at, len });
        let wanted = [(0, 6), (10, 5), (20, 1)].map(|(at, len)| Piece { at, len });
        assert_eq!(union(pieces.to_vec()), wanted);
    }
}
