//! Starting operations on windows.

use objects::Result;
use rma::{Access, Place};

use crate::lock::with;
use crate::process::Process;
use crate::request::{Request, State};
use crate::request_handle;
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
    with(|p| {
        let (id, comm) = {
            let win = p.win(handle)?;
            (win.id, win.comm)
        };
        let Some((access, place)) = make(p)? else {
            return Ok(request_handle::sent_uncancellable());
        };
        let (rma, endpoint) = p.core()?.stack.rma();
        match rma.start(endpoint, id, access, &place, wanted)? {
            None => Ok(request_handle::sent_uncancellable()),
            Some(operation) => {
                let state = State::Rma(operation);
                let request = Request { comm, state, persistent: None, then: None };
                Ok(p.requests.insert(request) as usize)
            }
        }
    })
}
