//! Starting operations on windows.

use fabric::Peer;
use objects::Result;
use rma::{Access, Place, WaitsFor};

use crate::lock::{block_on, with};
use crate::process::Process;
use crate::request::{Request, State};
use crate::request_handle;
use crate::stack::Stack;
use crate::wait_target::WaitTarget;
use crate::window::sync;

/// Starts an operation; `make` makes its arguments under the process lock, `None` for one to
/// MPI_PROC_NULL. Returns the handle of a request if one is wanted.
pub fn start(
    handle: usize,
    wanted: bool,
    make: impl FnOnce(&Process) -> Result<Option<(Access, Place)>>,
) -> Result<usize> {
    if wanted {
        // A program may wait for a change in a loop over requests that are complete at once: their
        // completion makes no progress.
        sync::give_way_if_due()?;
    }
    let (request, full) = with(|p| {
        let id = p.win(handle)?.id;
        let Some((access, place)) = make(p)? else {
            return Ok((request_handle::sent_uncancellable(), None));
        };
        let stack = &mut p.core()?.stack;
        let (rma, endpoint) = stack.rma();
        let started = rma.start(endpoint, id, access, &place, wanted)?;
        let full = make_space(stack).map(|peer| (id, peer));
        let request = started.map_or(request_handle::sent_uncancellable(), |operation| {
            let state = State::Rma(operation);
            let request = Request { comm: handle, state, persistent: None, then: None };
            p.requests.insert(request) as usize
        });
        Ok((request, full))
    })?;
    if let Some((id, peer)) = full {
        wait_for_space(id, peer);
    }
    Ok(request)
}

/// Polls if an operation has found no space for its frames: those that have arrived may return
/// some. Returns its peer if too many operations wait.
#[inline]
fn make_space(stack: &mut Stack) -> Option<Peer> {
    let peer = stack.protocols.rma.take_congested()?;
    stack.progress_aside();
    Some(peer).filter(|&peer| stack.protocols.rma.is_full(peer))
}

/// Waits until fewer operations wait for space at a peer: a program that starts them faster than
/// they travel would fill its memory with them.
#[cold]
fn wait_for_space(window: u64, peer: Peer) {
    block_on(|p| {
        p.wait_target = WaitTarget::Window(window, WaitsFor::Operations);
        let is_full = p.core().is_ok_and(|core| core.stack.protocols.rma.is_full(peer));
        (!is_full).then_some(())
    });
}
