//! Failed peers: fails the requests and probes that only a failed peer could satisfy, with an error
//! that names the peer.
//!
//! The engine fails requests whose peer it knows. The communicator knows which peers a posted
//! receive or a probe waits for ([`Comm::missing`]). Collectives handle failed peers themselves.

use fabric::{Peer, PeerFailed};
use objects::{Class, Comm, Error, Result};

use crate::context_id;
use crate::process::{Core, Process};

impl Process {
    /// Fails the posted receives that no live peer can satisfy; true if there were any.
    #[cold]
    pub(crate) fn fail_unreachable(&mut self) -> bool {
        let Process { core, comms, .. } = self;
        let Some(core) = core else { return false };
        let Core { stack, world, comm_self, .. } = &mut **core;
        let failed = stack.pt2pt().failed_peers().to_vec();
        stack.pt2pt().fail_receives(|context, source| {
            if context_id::is_control(context) {
                return find_failed(&failed, Peer(source?));
            }
            let is_it = |comm: &&Comm| context == 2 * comm.context();
            let made = comms.iter().map(|(_, comm)| comm);
            let comm = [&*world, &*comm_self].into_iter().chain(made).find(is_it)?;
            find_failed(&failed, comm.missing(source, |peer| find_failed(&failed, peer).is_some())?)
        })
    }

    /// Returns MPI_ERR_PROC_ABORTED for a probe that no live peer can satisfy.
    #[cold]
    pub(crate) fn check_reachable(&mut self, source: Option<u32>, comm: usize) -> Result<()> {
        let failed = self.core()?.stack.pt2pt().failed_peers().to_vec();
        let missing = self.comm(comm)?.missing(source, |peer| find_failed(&failed, peer).is_some());
        match missing.and_then(|peer| find_failed(&failed, peer)) {
            Some(failed) => Err(Error::new(Class::ProcAborted, failed.to_string())),
            None => Ok(()),
        }
    }
}

fn find_failed(failed: &[PeerFailed], peer: Peer) -> Option<PeerFailed> {
    failed.iter().find(|failed| failed.peer == peer).cloned()
}
