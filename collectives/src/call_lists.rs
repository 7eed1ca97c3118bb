//! The lists of a call: counts, displacements and neighbours, as extents.

use fabric::CollectiveKind;
use objects::Result;

use crate::call_error::check_length;
use crate::coll_args::CollArgs;
use crate::operation::Edges;
use crate::schedule_key::ScheduleKey;
use crate::shape::Extent;

/// The lists of a call that has some.
pub(crate) struct Lists<'a> {
    pub(crate) kind: CollectiveKind,
    pub(crate) send: Vec<Extent>,
    pub(crate) recv: Vec<Extent>,
    pub(crate) counts: &'a [u64],
    pub(crate) edges: Option<Edges<'a>>,
}

impl Lists<'_> {
    /// The arguments of the call. MPI_ERR_ARG if a list has a wrong length.
    pub(crate) fn args(&self, key: &ScheduleKey) -> Result<CollArgs<'_>> {
        let (root, is_root, kind) = (key.root, key.is_root(), self.kind);
        let (send, recv) = (&self.send[..], &self.recv[..]);
        if let Some(Edges { sources, destinations, cartesian }) = self.edges {
            check_length(recv.len(), sources.len())?;
            check_length(send.len(), destinations.len())?;
            return Ok(CollArgs::Neighbor {
                kind,
                cartesian,
                sources,
                into: recv,
                destinations,
                out: send,
            });
        }
        let size = key.blocks() as usize;
        match (kind, key.send, key.recv) {
            (CollectiveKind::ReduceScatter, Some(input), Some(output)) => {
                check_length(self.counts.len(), key.size as usize)?;
                let (counts, commutative) = (self.counts, key.commutative);
                return Ok(CollArgs::ReduceScatter { kind, input, counts, output, commutative });
            }
            (CollectiveKind::Gatherv, own, _) => {
                check_length(recv.len(), if is_root { size } else { 0 })?;
                return Ok(CollArgs::Gatherv { root, own, all: is_root.then_some(recv) });
            }
            (CollectiveKind::Scatterv, _, own) => {
                check_length(send.len(), if is_root { size } else { 0 })?;
                return Ok(CollArgs::Scatterv { root, all: is_root.then_some(send), own });
            }
            _ => check_length(recv.len(), size)?,
        }
        match kind {
            CollectiveKind::Allgatherv => Ok(CollArgs::Allgatherv { own: key.send, all: recv }),
            _ if send.is_empty() => Ok(CollArgs::Alltoall { kind, from: None, to: recv }),
            _ => {
                check_length(send.len(), size)?;
                Ok(CollArgs::Alltoall { kind, from: Some(send), to: recv })
            }
        }
    }
}
