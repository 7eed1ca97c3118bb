//! Failed peers: requests and probes that only a failed peer could satisfy end with an error that
//! names it.
//!
//! The engine fails requests whose peer it knows. Which peers a posted receive or a probe waits
//! for is the communicator's knowledge ([`Comm::missing`]). Collectives handle their own.

use fabric::{Peer, PeerFailed};
use objects::{Class, Comm, Error, Result};

use crate::control_channel;
use crate::process::{Core, Process};

impl Process {
    /// Fails the posted receives that no live peer can satisfy. True if there were any.
    #[cold]
    pub(crate) fn fail_unreachable(&mut self) -> bool {
        let Process { core, comms, .. } = self;
        let Some(core) = core else { return false };
        let Core { stack, world, comm_self, .. } = &mut **core;
        let lost = stack.pt2pt().failed_peers().to_vec();
        stack.pt2pt().fail_receives(|context, source| {
            if control_channel::is_control(context) {
                return named(&lost, Peer(source?));
            }
            let is_it = |comm: &&Comm| context == 2 * comm.context();
            let made = comms.iter().map(|(_, comm)| comm);
            let comm = [&*world, &*comm_self].into_iter().chain(made).find(is_it)?;
            named(&lost, comm.missing(source, |peer| named(&lost, peer).is_some())?)
        })
    }

    /// Returns MPI_ERR_PROC_ABORTED for a probe that no live peer can satisfy.
    #[cold]
    pub(crate) fn check_reachable(&mut self, source: Option<u32>, comm: usize) -> Result<()> {
        let lost = self.core()?.stack.pt2pt().failed_peers().to_vec();
        let missing = self.comm(comm)?.missing(source, |peer| named(&lost, peer).is_some());
        match missing.and_then(|peer| named(&lost, peer)) {
            Some(lost) => Err(Error::new(Class::ProcAborted, lost.to_string())),
            None => Ok(()),
        }
    }
}

fn named(lost: &[PeerFailed], peer: Peer) -> Option<PeerFailed> {
    lost.iter().find(|lost| lost.peer == peer).cloned()
}
