//! Proposals of context ids, and the communicators that get them.
//!
//! Context ids are never reused. Each process proposes a number that it never proposes again,
//! combined with its rank, so no two proposals of a job are equal. The members take the largest.
//! Two agreements that run at once in different threads therefore never take the same id.

use objects::{Comm, Result};
use shm_transport::{Segment, ShmTransport};

use crate::agreement::NewComm;
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
            self.coll_segments.reserve(single_host(&self.stack))
        } else {
            None
        };
        context_id::encode(self.proposals, segment, self.job.rank)
    }

    /// Ends a proposal: records the agreed id. `proposal` is this process's own, 0 if it made none.
    pub(crate) fn end_proposal(&mut self, proposal: u64, context: u64) {
        self.proposals = self.proposals.max(context_id::number(context));
        if proposal != context {
            self.coll_segments.unreserve(proposal);
        }
    }

    /// Gives a communicator with an agreed context its collective segment, if it has one;
    /// MPI_ERR_NO_MEM if this process cannot map the segment.
    pub(crate) fn attach_segment(&mut self, comm: &mut Comm) -> Result<()> {
        self.coll_segments.attach(single_host(&self.stack), comm)
    }

    /// Returns the communicator with its collective segment.
    pub(crate) fn with_segment(&mut self, mut comm: Comm) -> Result<Comm> {
        self.attach_segment(&mut comm)?;
        Ok(comm)
    }

    /// Gives MPI_COMM_WORLD its collective segment.
    pub(crate) fn attach_world_segment(&mut self) -> Result<()> {
        if self.job.local_size == self.job.size {
            return self.coll_segments.attach_world(single_host(&self.stack), &mut self.world);
        }
        let host = self.stack.endpoint.intra().map(ShmTransport::segment);
        let place = (self.job.local_rank, self.job.local_size);
        self.coll_segments.attach_host(host, place, &mut self.world)
    }
}

/// Returns the segment of this host, if all ranks of the job are on it.
fn single_host(stack: &Stack) -> Option<&Segment> {
    let shm = stack.endpoint.intra().filter(|_| stack.endpoint.is_single_host())?;
    Some(shm.segment())
}

impl NewComm {
    /// Gives the communicator its agreed context; from now on it can be used.
    pub(crate) fn install(self, p: &mut Process) -> Result<()> {
        let context = self.agreement.word();
        let Process { core: Some(core), comms, .. } = p else { return Ok(()) };
        core.end_proposal(self.proposal, context);
        let Ok(comm) = comms.get_mut(self.handle) else { return Ok(()) };
        comm.set_context(context);
        core.attach_segment(comm)
    }
}
