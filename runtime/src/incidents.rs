//! Incidents: notices of members of collectives, and failed peers.
//!
//! A failed peer fails the requests and probes that only a failed peer could satisfy, with an error
//! that names the peer.
//!
//! The engine fails requests whose peer it knows. The communicator knows which peers a posted
//! receive or a probe waits for ([`Comm::missing`]). Collectives handle failed peers themselves.

use bootstrap::spawning::EndedProcesses;
use collectives::Passed;
use fabric::{Peer, PeerFailed, Sink as _};
use objects::{Class, Comm, Error, Result};

use crate::blocked_on;
use crate::context_id;
use crate::process::{Core, Process};
use crate::stack::Stack;

/// Rounds of progress that take what failed peers have sent.
pub(crate) const MAX_LAST_ROUNDS: u32 = 1000;

/// What [`Process::handle_incidents`] has handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incidents {
    /// Nothing new.
    Nothing,
    /// Notices, which have failed nothing.
    Notices,
    /// Something that has failed collectives or requests.
    Failures,
}

impl Process {
    /// Handles notices and failed peers.
    #[cold]
    pub(crate) fn handle_incidents(&mut self) -> Incidents {
        let Process { core, comms, .. } = self;
        let Some(core) = core else { return Incidents::Nothing };
        let Core { stack, collectives, world, comm_self, freed, .. } = &mut **core;
        let has_notices = stack.pt2pt().has_notices();
        let passed = |context: u64| {
            let made = comms.iter().map(|(_, comm)| comm).chain(&*freed);
            let mut all = [&*world, &*comm_self].into_iter().chain(made);
            let comm = all.find(|comm| 2 * comm.context() + 1 == context)?;
            let segment = comm.coll_segment().cloned();
            let latest = comm.latest_call().clone();
            Some(Passed { rank: comm.rank(), next: comm.collectives_started(), segment, latest })
        };
        let Stack { protocols, endpoint } = stack;
        let failed = collectives.handle_notices(&mut protocols.pt2pt, endpoint, passed);
        let has_failed_peers = !protocols.pt2pt.failed_peers().is_empty();
        if has_notices && !failed {
            // Inquiries keep this rank from the long sleep after which it would ask others.
            blocked_on::inquire(core);
        }
        match failed | (has_failed_peers && self.fail_unreachable()) {
            true => Incidents::Failures,
            false if has_notices => Incidents::Notices,
            false => Incidents::Nothing,
        }
    }

    /// Takes note of the processes that have ended, of other jobs and of this one if it goes on
    /// without them; true if there are new ones. What they sent before is received first, as far as
    /// it has arrived.
    #[cold]
    pub(crate) fn take_failures(&mut self) -> bool {
        let Some(core) = &mut self.core else { return false };
        let ended = core.job.newly_ended();
        if ended.is_empty() {
            return false;
        }
        core.stack.pt2pt().mark_news();
        (0..MAX_LAST_ROUNDS).take_while(|_| core.stack.progress()).for_each(drop);
        for EndedProcesses { numbers, failure } in ended {
            let is_own = core.job.world().contains(&numbers.start);
            match failure {
                Some(why) if is_own => {
                    numbers.for_each(|number| core.mark_failed(Peer(number), &why));
                }
                failure => core.others_have_ended(EndedProcesses { numbers, failure }),
            }
        }
        true
    }

    /// Fails the posted receives that no live peer can satisfy; true if there were any.
    #[cold]
    pub(crate) fn fail_unreachable(&mut self) -> bool {
        let Process { core, comms, .. } = self;
        let Some(core) = core else { return false };
        let Core { stack, world, comm_self, freed, .. } = &mut **core;
        let failed = stack.pt2pt().failed_peers().to_vec();
        stack.pt2pt().fail_receives(|context, source| {
            if context_id::is_control(context) {
                return find_failed(&failed, Peer(source?));
            }
            let is_it = |comm: &&Comm| context == 2 * comm.context();
            let made = comms.iter().map(|(_, comm)| comm).chain(&*freed);
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

impl Core {
    /// Fails what waits for a process that has failed, and refuses what would wait for it.
    #[cold]
    pub(crate) fn mark_failed(&mut self, peer: Peer, why: &str) {
        let is_local = self.job.local_numbers().contains(&peer.0);
        let inter = self.stack.endpoint.inter_mut().filter(|_| !is_local);
        inter.into_iter().for_each(|inter| inter.give_up(peer, why));
        self.stack.protocols.peer_failed(PeerFailed { peer, why: why.to_owned() });
        let failed = self.stack.pt2pt().failed_peers();
        self.planner.get_mut().set_failed_peers(failed);
    }
}

fn find_failed(failed: &[PeerFailed], peer: Peer) -> Option<PeerFailed> {
    failed.iter().find(|failed| failed.peer == peer).cloned()
}
