//! Neighbourhood collectives (MPI-5.0 §8.6): one round along the edges.

use crate::builder::Builder;
use crate::shape::Extent;

/// Sends `out[k]` to `destinations[k]` and receives `into[k]` from `sources[k]`;
/// `None` is MPI_PROC_NULL.
///
/// Edges between the same two ranks are matched in the order in which they
/// stand. In a Cartesian topology a message sent in the negative direction arrives from the
/// positive one. Therefore the two receives of a dimension are posted in the opposite order: it
/// matters where both lead to the same rank.
pub fn exchange(
    b: &mut Builder,
    cartesian: bool,
    (sources, into): (&[Option<u32>], &[Extent]),
    (destinations, out): (&[Option<u32>], &[Extent]),
) {
    for index in 0..sources.len() {
        let edge = if cartesian { index ^ 1 } else { index };
        if let Some(source) = sources[edge] {
            b.recv(source, into[edge]);
        }
    }
    for (destination, &run) in destinations.iter().zip(out) {
        if let Some(destination) = *destination {
            b.send(destination, run);
        }
    }
}
