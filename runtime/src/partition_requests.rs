//! Transitions of requests that are ends of partitioned transfers; see `partitions`.

use objects::{Error, Result};

use crate::fault;
use crate::outcome::Outcome;
use crate::partitions::Remote;
use crate::process::{Core, Process};
use crate::request::{Persistent, Request, State};

impl Process {
    /// Returns the request of a handle, and the protocol stack.
    pub(crate) fn partitioned(&mut self, handle: usize) -> Result<(&mut Request, &mut Core)> {
        self.request(handle)?;
        let Process { requests, core: Some(core), .. } = self else {
            return Err(Error::internal("a request before MPI_Init"));
        };
        let request = requests.get_mut(handle as u64);
        Ok((request.map_err(|_| Error::internal("a request vanished"))?, core))
    }

    /// Posts the receives of active requests whose announcements have arrived; true if there were
    /// any.
    #[cold]
    pub(crate) fn post_announced(&mut self) -> bool {
        let Process { requests, core: Some(core), .. } = self else { return false };
        let Core { stack, unannounced, .. } = &mut **core;
        let before = unannounced.len();
        unannounced.retain(|&handle| {
            let request = requests.get_mut(handle as u64).ok();
            match request.and_then(|request| request.persistent.as_deref_mut()) {
                Some(Persistent::PartitionedReceive(end)) => !end.post(stack),
                _ => false,
            }
        });
        unannounced.len() < before
    }

    /// Returns true when an active end is complete.
    pub(crate) fn is_partitioned_complete(&mut self, handle: usize) -> Result<bool> {
        let (request, core) = self.partitioned(handle)?;
        Ok(match request.persistent.as_deref_mut() {
            Some(Persistent::PartitionedSend(end)) => end.is_complete(&mut core.stack),
            Some(Persistent::PartitionedReceive(end)) => end.is_complete(&mut core.stack),
            _ => true,
        })
    }

    /// Returns the outcome of a complete end on `comm`.
    pub(crate) fn partitioned_outcome(&mut self, handle: usize, comm: usize) -> Result<Outcome> {
        let (request, _) = self.partitioned(handle)?;
        let mut outcome = Outcome::empty();
        let (fault, error) = match request.persistent.as_deref_mut() {
            Some(Persistent::PartitionedSend(end)) => (end.take_fault(), None),
            Some(Persistent::PartitionedReceive(end)) => {
                outcome.status.source = end.remote.rank;
                outcome.status.tag = end.remote.tag;
                outcome.status.set_bytes(end.bytes);
                (end.take_fault(), end.truncation())
            }
            _ => (None, None),
        };
        let fault = fault.and_then(|fault| fault::judge(self, comm, &fault));
        outcome.error = error.map(|error| error.on(comm)).or(fault);
        Ok(outcome)
    }
}

/// Starts either end; `handle` is that of its request.
pub(crate) fn start(core: &mut Core, persistent: &mut Persistent, handle: usize) -> State {
    match persistent {
        Persistent::PartitionedSend(end) => end.start(),
        Persistent::PartitionedReceive(end) => {
            let is_posted = end.start(&mut core.stack);
            if !is_posted && !core.unannounced.contains(&handle) {
                core.unannounced.push(handle);
            }
        }
        _ => {}
    }
    State::Partitioned
}

/// Returns the process that an active end waits for, its tag, and whether that is to receive.
/// `None` if partitions are not ready yet.
pub(crate) fn blocked_on(persistent: &Persistent) -> Option<(Remote, bool)> {
    match persistent {
        Persistent::PartitionedSend(end) => end.is_all_ready().then_some((end.remote, true)),
        Persistent::PartitionedReceive(end) => Some((end.remote, false)),
        _ => None,
    }
}

/// Lets what is under way go on without its request.
pub(crate) fn detach(core: &mut Core, persistent: &mut Persistent) {
    match persistent {
        Persistent::PartitionedSend(end) => end.detach(&mut core.stack),
        Persistent::PartitionedReceive(end) => end.detach(&mut core.stack),
        _ => {}
    }
}
