//! Proposals of context ids, and the communicators that get them.
//!
//! Context ids are never reused. Each process proposes a number that it never proposes again,
//! combined with its rank, so no two proposals of a job are equal. The members take the largest.
//! Two agreements that run at once in different threads therefore never take the same id.
//!
//! A proposal names a collective segment as well. The members on each host take the segment that
//! the largest proposal of their host names; see `coll_segments`.

use bootstrap::Job;
use fabric::Peer;
use objects::{Comm, Result};

use crate::agreement::{Agreed, NewComm};
use crate::coll_segments::Host;
use crate::context_id;
use crate::process::{Core, Process};
use crate::stack::Stack;

impl Core {
    /// Proposes a context id that no process of the job proposes again. The caller ends the
    /// proposal by [`Core::end_proposal`]. `may_use_segment`: the communicator can use a collective
    /// segment, and this process will be a member.
    pub(crate) fn propose(&mut self, may_use_segment: bool) -> u64 {
        self.proposals += 1;
        let segment = if may_use_segment {
            self.coll_segments.reserve(host(&self.stack, &self.job))
        } else {
            None
        };
        context_id::encode(self.proposals, segment, self.job.number)
    }

    /// Ends a proposal: records the agreed id. `proposal` is this process's own, 0 if it made none.
    pub(crate) fn end_proposal(&mut self, proposal: u64, agreed: Agreed) {
        self.proposals = self.proposals.max(context_id::number(agreed.context));
        if proposal != agreed.on_host {
            self.coll_segments.unreserve(proposal);
        }
    }

    /// Gives a communicator the collective segment that its members on this host have agreed on, if
    /// it has one; MPI_ERR_NO_MEM if this process cannot map the segment.
    pub(crate) fn attach_segment(&mut self, comm: &mut Comm, agreed: Agreed) -> Result<()> {
        if self.has_other_jobs(comm) {
            // Its members do not agree on hosts, therefore messages serve all of them.
            self.coll_segments.decline(agreed.on_host);
            return Ok(());
        }
        self.coll_segments.attach(host(&self.stack, &self.job), comm, agreed.on_host)
    }

    /// Returns the communicator with its collective segment.
    pub(crate) fn with_segment(&mut self, mut comm: Comm, agreed: Agreed) -> Result<Comm> {
        self.attach_segment(&mut comm, agreed)?;
        Ok(comm)
    }

    /// Gives MPI_COMM_WORLD its collective segment.
    pub(crate) fn attach_world_segment(&mut self) -> Result<()> {
        self.coll_segments.attach_world(host(&self.stack, &self.job), &mut self.world)
    }

    /// Returns what all members have agreed on, of the proposals of all of them. Proposals of other
    /// hosts name no segment here.
    pub(crate) fn agreed(&self, proposals: impl Iterator<Item = u64> + Clone) -> Agreed {
        let local = self.job.local_numbers();
        let is_local =
            |proposal: &u64| local.binary_search(&context_id::proposer(*proposal)).is_ok();
        let largest = |proposals: &mut dyn Iterator<Item = u64>| proposals.max().unwrap_or(0);
        Agreed {
            context: largest(&mut proposals.clone()),
            on_host: largest(&mut proposals.filter(is_local)),
        }
    }

    /// Returns the number of this process's host among those of the members of both groups, and
    /// how many these are. All members number them alike.
    pub(crate) fn place_among_hosts(&self, comm: &Comm) -> (usize, usize) {
        if self.has_other_jobs(comm) {
            return (0, 1);
        }
        let planner = self.planner.borrow();
        let Some(own) = planner.world_host_of(Peer(self.job.number)) else { return (0, 1) };
        let members = comm.group().iter().chain(comm.peers().iter());
        let mut hosts: Vec<_> = members.filter_map(|peer| planner.world_host_of(peer)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        (hosts.partition_point(|host| *host < own), hosts.len())
    }
}

/// Returns this host's segment and ranks; `None` if no other rank is here.
fn host<'a>(stack: &'a Stack, job: &'a Job) -> Option<Host<'a>> {
    let intra = stack.endpoint.intra().filter(|_| job.local_size > 1)?;
    let segment = intra.segment();
    Some(Host { segment, numbers: job.local_numbers() })
}

impl NewComm {
    /// Gives the communicator its agreed context; from now on it can be used.
    pub(crate) fn install(self, p: &mut Process) -> Result<()> {
        let agreed = self.agreement.agreed();
        let Process { core: Some(core), comms, .. } = p else { return Ok(()) };
        core.end_proposal(self.proposal, agreed);
        let Ok(comm) = comms.get_mut(self.handle) else { return Ok(()) };
        comm.set_context(agreed.context);
        core.attach_segment(comm, agreed)
    }
}
