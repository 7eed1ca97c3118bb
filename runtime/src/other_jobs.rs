//! Processes of other jobs: spawned ones, those that spawned this one, and those of the jobs of its
//! group, which other `mpiexec` have started.
//!
//! A process knows its peers by their process numbers ([`bootstrap::spawning`]); those outside of
//! [`bootstrap::Job::world`] are of other jobs. TCP reaches them, and shared memory those of the
//! same host (`homes`). A process that has no transport between hosts opens TCP when it first meets
//! another job. Communicators with members of other jobs have no collective segment and no table of
//! hosts, since these are known within a job alone.
//!
//! MPI_Finalize is collective over all processes that are connected (MPI-5.0 §11.10.4): it ends
//! with a barrier on each communicator with members of other jobs, also on those that were freed,
//! but not on those that were disconnected. Those that have failed are not waited for.

use std::ops::Range;

use bootstrap::spawning::EndedProcesses;
use fabric::{Peer, PeerFailed};
use objects::{Class, Comm, Error, Result};

use crate::collective;
use crate::context_id::is_control;
use crate::incidents::MAX_LAST_ROUNDS;
use crate::inter;
use crate::lock::{block_on, with};
use crate::process::{Core, Process};
use crate::wait_target::WaitTarget;

impl Core {
    /// Returns true if a process is of another job.
    pub(crate) fn is_of_other_job(&self, peer: Peer) -> bool {
        !self.job.world().contains(&peer.0)
    }

    /// Returns true if a member of a communicator is of another job.
    pub(crate) fn has_other_jobs(&self, comm: &Comm) -> bool {
        let mut members = comm.group().iter().chain(comm.peers().iter());
        self.meets_other_jobs && members.any(|peer| self.is_of_other_job(peer))
    }

    /// Makes sure that a process can be reached by TCP, or is known to have failed.
    pub(crate) fn reach_by_tcp(&mut self, peer: Peer) -> Result<()> {
        if self.is_of_other_job(peer) {
            self.meet_other_jobs()?;
            self.meet(peer)?;
        }
        Ok(())
    }

    /// Takes note that this process communicates with one of another job. Returns false if that one
    /// has failed.
    fn meet(&mut self, peer: Peer) -> Result<bool> {
        let is_it = |ended: &&EndedProcesses| ended.numbers.contains(&peer.0);
        let ended = self.ended_others.iter().find(is_it).map(|ended| ended.failure.clone());
        let lives = ended.is_none();
        match ended {
            None => {}
            Some(Some(why)) => self.mark_failed(peer, &why),
            Some(None) => return Err(Error::new(Class::ProcAborted, left(peer).to_string())),
        }
        self.met.insert(peer);
        Ok(lives)
    }

    /// Goes on with [`reach`]; `None` while it is not known where one of the processes is.
    pub(crate) fn poll_reach(&mut self, others: &[Peer]) -> Option<Result<()>> {
        let mut is_over = true;
        for &peer in others {
            if !self.is_of_other_job(peer) {
                continue;
            }
            let is_routed = match self.meet(peer) {
                Ok(true) => self.choose_transport(peer),
                Ok(false) => Ok(true),
                Err(error) => Err(error),
            };
            match is_routed {
                Ok(is_routed) => is_over &= is_routed,
                Err(error) => return Some(Err(error)),
            }
        }
        is_over.then_some(Ok(()))
    }

    /// Takes note of processes of another job that have ended. If they have failed, so does what
    /// waits for them. Otherwise they have taken leave of all that they are connected with, and
    /// whose last messages may not be read yet; but no communicator is created with them any more.
    #[cold]
    pub(crate) fn others_have_ended(&mut self, ended: EndedProcesses) {
        let EndedProcesses { numbers, failure } = &ended;
        if let Some(why) = failure {
            // The numbers may be all that other jobs can have.
            let met = self.met.range(Peer(numbers.start)..Peer(numbers.end));
            let met: Vec<Peer> = met.copied().collect();
            met.into_iter().for_each(|peer| self.mark_failed(peer, why));
        } else {
            self.stack.pt2pt().fail_receives(|context, source| {
                let source = source.filter(|source| numbers.contains(source))?;
                is_control(context).then(|| left(Peer(source)))
            });
        }
        self.forget(&ended.numbers);
        self.ended_others.push(ended);
    }

    /// Closes what was opened for processes of other jobs, which have ended, once their last frames
    /// are read. Then no frame waits for long: they are all here.
    fn forget(&mut self, numbers: &Range<u32>) {
        for _ in 0..MAX_LAST_ROUNDS {
            if self.stack.endpoint.intra_mut().is_none_or(|intra| intra.forget(numbers)) {
                break;
            }
            self.stack.progress();
        }
    }

    /// Opens the transport to other jobs, unless it is open.
    pub(crate) fn meet_other_jobs(&mut self) -> Result<()> {
        if self.meets_other_jobs {
            return Ok(());
        }
        if self.job.process_manager().is_some() && self.job.control().is_none() {
            // Another rank has one, or a process has found this one at a port.
            self.start_launcher().map_err(|why| Error::new(Class::Spawn, why))?;
        }
        let knobs = crate::tools::load_knobs()
            .map_err(|error| Error::new(Class::Other, error.to_string()))?;
        let addresses = self.addresses();
        match self.stack.endpoint.inter() {
            Some(inter) if inter.tcp().is_some() => {}
            Some(_) => {
                return Err(unreachable(
                    "inter.transport = verbs excludes it; `--set inter.transport=auto` allows both",
                ));
            }
            None => {
                let inter = inter::open_to_other_jobs(&self.job, &knobs, addresses);
                let inter = inter.map_err(|why| unreachable(&why))?;
                self.stack.endpoint.add_inter(self.job.local_numbers(), inter);
            }
        }
        self.meets_other_jobs = true;
        self.planner.get_mut().meet_other_jobs();
        self.publish_home(&knobs)
    }
}

/// Makes sure that these processes can be reached, or are known to have failed: by shared memory if
/// they are on this host. Those of other jobs must call this with this process meanwhile.
pub(crate) fn reach(peers: impl Iterator<Item = Peer>) -> Result<()> {
    let others = with(|p| {
        // A process that meets one job after the other forgets those that have ended.
        p.take_failures();
        let core = p.core()?;
        let others: Vec<Peer> = peers.filter(|&peer| core.is_of_other_job(peer)).collect();
        if !others.is_empty() {
            core.meet_other_jobs()?;
        }
        Ok(others)
    })?;
    match others.is_empty() {
        true => Ok(()),
        false => block_on(|p| match p.core() {
            Ok(core) => core.poll_reach(&others),
            Err(error) => Some(Err(error)),
        }),
    }
}

fn left(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "its job has ended".into() }
}

fn unreachable(why: &str) -> Error {
    Error::new(Class::Other, format!("processes of other jobs are reached by TCP: {why}"))
}

impl Process {
    /// Forgets that the members of a communicator with this context are connected, after
    /// MPI_Comm_disconnect has freed it.
    pub fn disconnect(&mut self, context: u64) -> Result<()> {
        self.core()?.freed_links.retain(|comm| comm.context() != context);
        Ok(())
    }
}

/// Waits until all operations on the communicator with this context are complete.
pub fn complete_before_disconnect(context: u64) {
    block_on(|p| {
        let on_wire = [2 * context, 2 * context + 1];
        let core = p.core().ok()?;
        let message = on_wire.iter().find_map(|it| core.stack.pt2pt().any_in_use(*it));
        // Collectives in a segment have no messages.
        let has_collectives = on_wire.iter().any(|it| core.collectives.is_in_use(*it));
        p.wait_target = message.map_or(WaitTarget::Nothing, WaitTarget::Message);
        (message.is_none() && !has_collectives).then_some(())
    });
}

/// Waits until the members of a communicator have all come, if some are of other jobs: what was
/// sent on it has then arrived.
pub fn meet_before_disconnect(comm: usize) -> Result<()> {
    let is_needed = with(|p| match (&p.core, p.comm(comm)) {
        (Some(core), Ok(comm)) => core.has_other_jobs(comm),
        _ => false,
    });
    if is_needed { collective::final_barrier(comm) } else { Ok(()) }
}

/// The barriers of MPI_Finalize with all processes of other jobs that are connected.
pub(crate) fn final_barriers() -> Result<()> {
    let mut handles = with(|p| {
        let Process { core: Some(core), comms, .. } = p else { return Vec::new() };
        for comm in std::mem::take(&mut core.freed_links) {
            comms.insert(comm);
        }
        let links = comms.iter().filter(|(_, comm)| core.has_other_jobs(comm));
        links.map(|(handle, comm)| (comm.context(), handle as usize)).collect::<Vec<_>>()
    });
    // All members take them in this order.
    handles.sort_unstable();
    handles.into_iter().try_for_each(|(_, comm)| match collective::final_barrier(comm) {
        Err(error) if error.class() == Class::ProcAborted => Ok(()),
        done => done,
    })
}
