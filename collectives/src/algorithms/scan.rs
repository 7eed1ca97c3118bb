//! Scan and exscan (MPI-5.0 §6.11).
//!
//! In round k the partial result of the 2^k ranks up to and including one's own goes 2^k ranks
//! ahead. Adjacent groups combine and rank order is kept (Hillis and Steele); ceil(log2 size)
//! rounds.

use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// Where each round's messages go: the next rank and the previous one, if any.
fn distances(pos: Position) -> impl Iterator<Item = (Option<u32>, Option<u32>)> {
    (0..32).map(|bit| 1u32 << bit).take_while(move |&by| by < pos.size).map(move |by| {
        let ahead = (by < pos.size - pos.rank).then(|| pos.rank + by);
        (ahead, pos.rank.checked_sub(by))
    })
}

/// The reduction of the ranks up to and including this one, in `output`.
pub fn inclusive(b: &mut Builder, pos: Position, input: Extent, output: Extent) {
    let incoming = (pos.rank > 0).then(|| b.like(input, input.count));
    b.copy(input, output);
    for (ahead, behind) in distances(pos) {
        if let (Some(behind), Some(incoming)) = (behind, incoming) {
            b.recv(behind, incoming);
        }
        if let Some(ahead) = ahead {
            b.send(ahead, output);
        }
        if let (Some(_), Some(incoming)) = (behind, incoming) {
            b.reduce(incoming, output);
        }
        b.round();
    }
}

/// The reduction of the ranks below this one, in `output`, which rank 0 leaves
/// alone.
pub fn exclusive(b: &mut Builder, pos: Position, input: Extent, output: Extent) {
    let incoming = (pos.rank > 0).then(|| b.like(input, input.count));
    // The sum with the own contribution, for ranks that must pass it on.
    let inclusive = (pos.rank > 0).then(|| b.like(input, input.count));
    let mut passed = input;
    if let Some(inclusive) = inclusive.filter(|_| pos.rank + 1 < pos.size) {
        b.copy(input, inclusive);
        passed = inclusive;
    }
    for (round, (ahead, behind)) in distances(pos).enumerate() {
        if let (Some(behind), Some(incoming)) = (behind, incoming) {
            b.recv(behind, if round == 0 { output } else { incoming });
        }
        if let Some(ahead) = ahead {
            b.send(ahead, passed);
        }
        if let (Some(_), Some(incoming), Some(inclusive)) = (behind, incoming, inclusive) {
            let incoming = if round == 0 { output } else { incoming };
            if pos.size - pos.rank > 2 << round {
                b.reduce(incoming, inclusive);
            }
            if round > 0 {
                b.reduce(incoming, output);
            }
        }
        b.round();
    }
}
