//! Synchronisation of windows: begins a step under the process lock, then waits for it.

use fabric::{Rights, Transport};
use objects::{Class, Error, Group, Result};
use rma::WaitsFor;

use crate::blocked_on;
use crate::lock::{LOCK, block_on, poll, progress_once, with};
use crate::process::Process;
use crate::stack::Endpoint;
use crate::wait_target::WaitTarget;
use crate::window::deliver::deliver;

/// Looks for steps in memory between two rounds of progress, by a rank with a processor of its own.
const LOOKS: u32 = 16;

/// Runs `work` on the window's engine and wakes the peers that may go on.
pub(super) fn engine<R>(
    p: &mut Process,
    handle: usize,
    work: impl FnOnce(&mut rma::Engine, &mut Endpoint, u64) -> Result<R>,
) -> Result<R> {
    let id = p.win(handle)?.id;
    run(p, id, work)
}

fn run<R>(
    p: &mut Process,
    id: u64,
    work: impl FnOnce(&mut rma::Engine, &mut Endpoint, u64) -> Result<R>,
) -> Result<R> {
    let stack = &mut p.core()?.stack;
    let (rma, endpoint) = stack.rma();
    let done = work(rma, endpoint, id);
    stack.wake_waiters();
    done
}

/// Waits until `poll` returns an outcome.
pub(super) fn wait(
    handle: usize,
    what: WaitsFor,
    mut poll: impl FnMut(&mut rma::Engine, u64) -> Option<Result<()>>,
) -> Result<()> {
    let id = with(|p| p.win(handle).map(|win| win.id))?;
    let mut ask = |p: &mut Process| run(p, id, |rma, _, id| poll(rma, id).transpose()).transpose();
    // What is there already needs no progress.
    if let Some(outcome) = with(&mut ask) {
        return outcome;
    }
    block_on(|p| {
        let outcome = ask(p);
        note(p, outcome.is_some(), WaitTarget::Window(id, what));
        outcome
    })
}

/// Waits like [`wait`] for steps that other ranks may store in memory: looks for them more often
/// than it makes progress. One call in many makes progress first, so that ranks that never have to
/// wait still make it for others.
fn wait_for_steps(
    handle: usize,
    what: WaitsFor,
    mut poll: impl FnMut(&mut rma::Engine, u64) -> Option<Result<()>>,
) -> Result<()> {
    let id = with(|p| p.win(handle).map(|win| win.id))?;
    let mut ask = |p: &mut Process| run(p, id, |rma, _, id| poll(rma, id).transpose()).transpose();
    give_way_if_due()?;
    if let Some(outcome) = with(&mut ask) {
        return outcome;
    }
    let looks = if LOCK.spins_alone() { LOOKS } else { 1 };
    block_on(|p| {
        let outcome = (0..looks).find_map(|_| ask(p));
        note(p, outcome.is_some(), WaitTarget::Window(id, what));
        outcome
    })
}

/// Records what a call waits for, or that its wait is over: what it finds in memory moves nothing.
fn note(p: &mut Process, is_over: bool, target: WaitTarget) {
    if is_over {
        blocked_on::has_moved();
    } else {
        p.wait_target = target;
    }
}

/// Makes an error of the window's own communicator one of the window.
pub(crate) fn of_window(error: Error) -> Error {
    Error::new(error.class(), error.detail())
}

/// Makes progress, and lets other ranks run if there are too few cores: a program may wait for a
/// change of a window in a loop of calls that never wait.
fn give_way() -> Result<()> {
    poll(|p| p.core().map(|core| core.stack.protocols.rma.progress_made()), |()| true)
}

/// Counts a call that may end at once, and gives way after many of them.
pub(super) fn give_way_if_due() -> Result<()> {
    let is_due = with(|p| p.core().is_ok_and(|core| core.stack.protocols.rma.is_progress_due()));
    if is_due { give_way() } else { Ok(()) }
}

/// Performs MPI_Win_lock.
pub fn lock(handle: usize, target: u32, exclusive: bool, nocheck: bool) -> Result<()> {
    give_way()?;
    with(|p| {
        check_locks(p, handle)?;
        engine(p, handle, |rma, endpoint, id| rma.lock(endpoint, id, target, exclusive, nocheck))
    })?;
    let locked = wait(handle, WaitsFor::Lock, |rma, id| rma.poll_lock(id, target));
    locked.inspect_err(|_| withdraw_lock(handle, Some(target)))
}

/// Performs MPI_Win_lock_all.
pub fn lock_all(handle: usize, nocheck: bool) -> Result<()> {
    give_way()?;
    with(|p| {
        check_locks(p, handle)?;
        engine(p, handle, |rma, endpoint, id| rma.lock_all(endpoint, id, nocheck))
    })?;
    let locked = wait(handle, WaitsFor::Lock, |rma, id| rma.poll_lock_all(id));
    locked.inspect_err(|_| withdraw_lock(handle, None))
}

/// Ends the epoch of a lock (`None`: of all locks) that a failed rank keeps from this one.
#[cold]
fn withdraw_lock(handle: usize, target: Option<u32>) {
    let withdraw = |rma: &mut rma::Engine, endpoint: &mut Endpoint, id| {
        rma.withdraw_lock(endpoint, id, target);
        Ok(())
    };
    // The window is there: the lock has waited for it.
    let _ = with(|p| engine(p, handle, withdraw));
}

fn check_locks(p: &Process, handle: usize) -> Result<()> {
    match p.win(handle)?.has_no_locks() {
        true => Err(Error::new(
            Class::RmaSync,
            "a lock of a window that was created with the hint no_locks=true",
        )),
        false => Ok(()),
    }
}

/// Performs MPI_Win_unlock, or MPI_Win_unlock_all for `None`.
pub fn unlock(handle: usize, target: Option<u32>) -> Result<()> {
    with(|p| engine(p, handle, |rma, _, id| rma.check_unlock(id, target)))?;
    let flushed = complete_at(handle, target);
    let unlocked = with(|p| {
        engine(p, handle, |rma, endpoint, id| match target {
            Some(target) => rma.unlock(endpoint, id, target),
            None => rma.unlock_all(endpoint, id),
        })
    });
    // Also where a target has failed: the others acknowledge, and the epoch ends.
    let released = wait(handle, WaitsFor::Operations, |rma, id| rma.poll_flush(id, target));
    with(|p| engine(p, handle, |rma, _, id| rma.end_passive(id, target)))?;
    flushed.and(unlocked).and(released)
}

/// Completes all operations at a target (`None`: at all).
fn complete_at(handle: usize, target: Option<u32>) -> Result<()> {
    deliver(handle)?;
    with(|p| {
        engine(p, handle, |rma, endpoint, id| match target {
            Some(target) => rma.flush(endpoint, id, target),
            None => rma.flush_all(endpoint, id),
        })
    })?;
    wait(handle, WaitsFor::Operations, |rma, id| rma.poll_flush(id, target))
}

/// Performs MPI_Win_flush, or MPI_Win_flush_all for `None`; `call` is its name.
pub fn flush(handle: usize, target: Option<u32>, call: &'static str) -> Result<()> {
    give_way()?;
    with(|p| engine(p, handle, |rma, _, id| rma.check_flush(id, target, call)))?;
    complete_at(handle, target)
}

/// Performs MPI_Win_flush_local, or MPI_Win_flush_local_all for `None`; `call` is its name.
pub fn flush_local(handle: usize, target: Option<u32>, call: &'static str) -> Result<()> {
    give_way()?;
    with(|p| {
        engine(p, handle, |rma, endpoint, id| {
            rma.check_flush(id, target, call)?;
            rma.end_local(endpoint, id, target)
        })
    })?;
    deliver(handle)?;
    wait(handle, WaitsFor::Operations, |rma, id| rma.poll_local(id, target))
}

/// Returns the ranks in the window of the members of a group.
fn ranks(p: &Process, handle: usize, group: &Group) -> Result<Vec<u32>> {
    let win = p.win(handle)?;
    let rank = |peer| {
        win.group.rank_of(peer).ok_or_else(|| {
            Error::new(
                Class::Group,
                format!("invalid group: it has members that are not in {}", win.describe()),
            )
        })
    };
    group.iter().map(rank).collect()
}

/// Performs MPI_Win_post.
pub fn post(handle: usize, group: &Group, nocheck: bool) -> Result<()> {
    with(|p| {
        let ranks = ranks(p, handle, group)?;
        engine(p, handle, |rma, endpoint, id| rma.post(endpoint, id, ranks, nocheck))
    })
}

/// Performs MPI_Win_start.
pub fn start(handle: usize, group: &Group, nocheck: bool) -> Result<()> {
    with(|p| {
        let ranks = ranks(p, handle, group)?;
        engine(p, handle, |rma, _, id| rma.begin_access(id, ranks))
    })?;
    match nocheck {
        true => Ok(()),
        false => wait_for_steps(handle, WaitsFor::Exposure, |rma, id| rma.poll_start(id)),
    }
}

/// Performs MPI_Win_complete.
pub fn complete(handle: usize) -> Result<()> {
    if with(|p| engine(p, handle, |rma, endpoint, id| rma.complete_now(endpoint, id)))? {
        return Ok(());
    }
    deliver(handle)?;
    with(|p| engine(p, handle, |rma, endpoint, id| rma.begin_complete(endpoint, id)))?;
    let local = wait(handle, WaitsFor::Operations, |rma, id| rma.poll_local(id, None));
    with(|p| engine(p, handle, |rma, endpoint, id| rma.complete(endpoint, id)))?;
    local
}

/// Performs MPI_Win_wait.
pub fn wait_exposure(handle: usize) -> Result<()> {
    wait_for_steps(handle, WaitsFor::AccessEnd, |rma, id| rma.poll_wait(id))
}

/// Performs MPI_Win_test: true if the exposure epoch has ended.
pub fn test_exposure(handle: usize) -> Result<bool> {
    let test = |p: &mut Process| {
        engine(p, handle, |rma, _, id| rma.test_exposure(id).transpose()).map(|done| done.is_some())
    };
    poll(test, |has_ended| !has_ended)
}

/// Performs MPI_Win_sync: orders loads and stores of this process before and after it.
pub fn sync(handle: usize) -> Result<()> {
    with(|p| p.win(handle).map(|_| ()))?;
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    progress_once();
    Ok(())
}

/// Attaches memory to a dynamic window.
pub fn attach(handle: usize, memory: fabric::UserBuf) -> Result<()> {
    with(|p| {
        let by_memory = p.core()?.rma_shm;
        let other = p.win(handle)?.neighbor;
        let shm = p.stack().and_then(|stack| stack.endpoint.intra_mut()).filter(|_| by_memory);
        let region = match (shm, other) {
            // The description is the same for all ranks of the host.
            (Some(shm), Some(other)) => shm.register(other, memory, Rights::All),
            _ => None,
        };
        engine(p, handle, |rma, endpoint, id| rma.attach(endpoint, id, memory, region))
    })
}

/// Detaches memory from a dynamic window.
pub fn detach(handle: usize, base: u64) -> Result<()> {
    with(|p| engine(p, handle, |rma, endpoint, id| rma.detach_memory(endpoint, id, base)))
}
