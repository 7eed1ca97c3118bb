//! MPI_Win_fence: completes what this rank has begun, then meets all ranks in a barrier.
//!
//! The barrier runs on the window's own communicator, by a plan that the window keeps. Where its
//! ranks share a segment, and nothing is under way, a fence is one entry of the process lock and
//! one round of flags.

use collectives::operation::Operation;
use fabric::CollectiveKind;
use objects::Result;
use rma::WaitsFor;

use super::sync::{engine, of_window, wait};
use crate::collective::{self, FastPath, Started};
use crate::lock::with;
use crate::process::Process;

/// Performs MPI_Win_fence. `first`: no operation of this rank precedes it; `last`: none follows.
pub fn fence(handle: usize, first: bool, last: bool) -> Result<()> {
    let fast_path = collective::next_fast_path();
    let started = with(|p| begin_now(p, handle, fast_path, first, last))?;
    let (flushed, started) = match started {
        Some(Started::Over) => return Ok(()),
        Some(started) => (Ok(()), started),
        None => (flush(handle, first)?, with(|p| begin_barrier(p, handle, fast_path))?),
    };
    let comm = with(|p| p.win(handle).map(|win| win.comm))?;
    collective::finish(comm, started).map_err(of_window)?;
    with(|p| engine(p, handle, |rma, _, id| rma.fence(id, last)))?;
    flushed
}

/// Begins a fence that has nothing to flush, and ends it if all ranks are there. `None`: the
/// operations of this rank have to be completed first, or the call has an error.
fn begin_now(
    p: &mut Process,
    handle: usize,
    fast_path: FastPath,
    first: bool,
    last: bool,
) -> Result<Option<Started>> {
    let slot = p.win(handle)?.slot;
    p.core()?.stack.deliver(slot);
    if !p.core()?.stack.rma().0.may_fence_now(slot, first) {
        return Ok(None);
    }
    let started = begin_barrier(p, handle, fast_path)?;
    if matches!(started, Started::Over) {
        p.core()?.stack.rma().0.end_fence(slot, last);
    }
    Ok(Some(started))
}

/// Completes the operations of this rank; the result within is what became of them.
fn flush(handle: usize, first: bool) -> Result<Result<()>> {
    with(|p| {
        engine(p, handle, |rma, endpoint, id| {
            rma.check_fence(id)?;
            if first { Ok(()) } else { rma.flush_all(endpoint, id) }
        })
    })?;
    Ok(match first {
        true => Ok(()),
        false => wait(handle, WaitsFor::Operations, |rma, id| rma.poll_flush(id, None)),
    })
}

/// Begins the barrier of a window's ranks. Ranks that access each other's memory by messages may
/// wait for this one to handle theirs before they come.
fn begin_barrier(p: &mut Process, handle: usize, fast_path: FastPath) -> Result<Started> {
    let slot = p.win(handle)?.slot;
    let fast_path = match fast_path {
        FastPath::Yields | FastPath::Spins if !p.core()?.stack.rma().0.is_shared(slot) => {
            FastPath::Once
        }
        other => other,
    };
    let win = p.win(handle)?;
    let comm = p.comm(win.comm)?;
    if let Some(plan) = &win.barrier {
        return Ok(collective::begin_plan(fast_path, plan, comm));
    }
    let plan = p.plan(comm, &Operation::Barrier)?.of_kind(CollectiveKind::Internal);
    let started = collective::begin_plan(fast_path, &plan, comm);
    p.win_mut(handle)?.barrier = Some(plan);
    Ok(started)
}
