//! Put and get by one-sided access of the transport: single copy into and out of the memory that
//! another process of the host has brought (MPI_Win_create) or attached (`attached`).
//!
//! Only transports on which every access ends within its call describe such memory to this crate.
//! Otherwise, and where the transport refuses, the operation travels in frames. An access that was
//! done in part is repeated as a whole, which changes nothing.

use fabric::{HybridGet, OneSided, Peer, Region, Transfer};

use crate::operations::{Action, Operation};
use crate::segment::Cursor;

/// Does a put or get of contiguous local memory; false if it has to be sent.
pub(crate) fn transfer<T: HybridGet>(
    endpoint: &mut T,
    peer: Peer,
    (region, begin): &(Region, i64),
    operation: &Operation,
) -> bool {
    let local = match operation.action {
        Action::Put => operation.origin.memory(),
        Action::Get => operation.result.memory(),
        _ => None,
    };
    let Some(local) = local else { return false };
    if !operation.layout.has_long_runs() {
        return false;
    }
    let (mut done, mut cursor) = (0, Cursor::default());
    while let Some((disp, bytes)) = operation.layout.next_run(&mut cursor) {
        let part = local.slice(done, bytes as usize);
        let what = match operation.action {
            Action::Put => OneSided::Put(part),
            _ => OneSided::Get(part),
        };
        if endpoint.one_sided(peer, region, disp.wrapping_sub(*begin) as u64, what, 0)
            != Ok(Transfer::Done)
        {
            return false;
        }
        done += part.len();
    }
    true
}
