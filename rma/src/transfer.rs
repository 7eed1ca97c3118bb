//! Put and get by one-sided access of the transport: single copy into and out of the memory that
//! another process of the host has brought (MPI_Win_create).
//!
//! Only transports on which every access ends within its call describe such memory to this crate.
//! Otherwise, and where the transport refuses, the operation travels in frames. An access that was
//! done in part is repeated as a whole, which changes nothing.

use fabric::{HybridGet, OneSided, Peer, Region, Transfer};

use crate::operations::{Action, Operation};

/// Most runs of a target's layout that are accessed one by one...
const MAX_SHORT_RUNS: u64 = 16;
/// ... unless they have this many bytes on average: a system call then costs less than a frame.
const LONG_RUN_BYTES: u64 = 2048;

/// Does a put or get of contiguous local memory; false if it has to be sent.
pub(crate) fn transfer<T: HybridGet>(
    endpoint: &mut T,
    peer: Peer,
    region: &Region,
    operation: &Operation,
) -> bool {
    let local = match operation.action {
        Action::Put => operation.origin.memory(),
        Action::Get => operation.result.memory(),
        _ => None,
    };
    let Some(local) = local else { return false };
    let segments = operation.layout.segments();
    let runs: u64 = segments.iter().map(|segment| segment.repeat).sum();
    let bytes: u64 = segments.iter().map(|segment| segment.elements()).sum();
    if runs > MAX_SHORT_RUNS && bytes / runs < LONG_RUN_BYTES {
        return false;
    }
    let mut done = 0;
    for segment in segments {
        for run in 0..segment.repeat as i64 {
            let part = local.slice(done, segment.count as usize);
            let what = match operation.action {
                Action::Put => OneSided::Put(part),
                _ => OneSided::Get(part),
            };
            let at = (segment.disp + run * segment.stride) as u64;
            if endpoint.one_sided(peer, region, at, what, 0) != Ok(Transfer::Done) {
                return false;
            }
            done += part.len();
        }
    }
    true
}
