//! Partitioned communication (MPI-5.0 chapter 4): the calls, on the two ends in `partitions`.
//!
//! Both ends are persistent requests. An active receive whose announcement has not arrived is
//! listed in the process, so that any progress posts its receives.

use fabric::Peer;
use objects::{Buffer, Class, Error, Result};

use crate::context_id::PartitionContext;
use crate::lock::{poll, with};
use crate::message::{destination, null_status, pattern};
use crate::partitions::{PartitionedReceive, PartitionedSend, Partitions, Remote};
use crate::process::Process;
use crate::request::{Persistent, Request, State};
use crate::request_handle::Decoded;

/// Performs MPI_Psend_init. `buffer` holds the elements of all partitions.
pub fn send_init(
    buffer: Buffer,
    partitions: i32,
    dest: i32,
    tag: i32,
    comm: usize,
) -> Result<usize> {
    let data = Partitions::new(buffer, checked_partitions(partitions)?);
    with(|p| {
        let object = p.comm(comm)?;
        let matched_in = PartitionContext::of_comm(object.context());
        let start = match destination(object, dest, tag)? {
            None => Persistent::Null(null_status()),
            Some((peer, _)) => {
                let core = p.core()?;
                core.channels += 1;
                let me = core.job.number;
                let contexts = (matched_in, PartitionContext::channel(core.channels, me));
                let remote = Remote { peer, rank: dest, tag };
                let end = PartitionedSend::new(&mut core.stack, me, data, remote, contexts);
                Persistent::PartitionedSend(Box::new(end))
            }
        };
        Ok(p.requests.insert(Request::persistent(comm, start)) as usize)
    })
}

/// Performs MPI_Precv_init. `buffer` has space for the elements of all partitions.
pub fn receive_init(
    buffer: Buffer,
    partitions: i32,
    source: i32,
    tag: i32,
    comm: usize,
) -> Result<usize> {
    let data = Partitions::new(buffer, checked_partitions(partitions)?);
    with(|p| {
        let object = p.comm(comm)?;
        let matched_in = PartitionContext::of_comm(object.context());
        let start = match pattern(object, source, tag)? {
            None => Persistent::Null(null_status()),
            Some(pattern) => {
                let (Some(rank), Some(tag)) = (pattern.source, pattern.tag) else {
                    return Err(wildcard(source));
                };
                let peer = object.peers().peer_of(rank);
                let remote = Remote { peer: peer.unwrap_or(Peer(rank)), rank: source, tag };
                let stack = &mut p.core()?.stack;
                let end = PartitionedReceive::new(stack, data, remote, matched_in);
                Persistent::PartitionedReceive(Box::new(end))
            }
        };
        Ok(p.requests.insert(Request::persistent(comm, start)) as usize)
    })
}

fn checked_partitions(partitions: i32) -> Result<u32> {
    u32::try_from(partitions).map_err(|_| {
        let detail = format!("invalid number of partitions {partitions}: must not be negative");
        Error::new(Class::Arg, detail)
    })
}

#[cold]
fn wildcard(source: i32) -> Error {
    let (class, name) = match source {
        -1 => (Class::Rank, "MPI_ANY_SOURCE"),
        _ => (Class::Tag, "MPI_ANY_TAG"),
    };
    Error::new(class, format!("invalid {name}: a partitioned receive names its sender and tag"))
}

/// Performs MPI_Pready and MPI_Pready_range: the partitions from `low` to `high`, both included.
pub fn ready(handle: usize, low: i32, high: i32) -> Result<()> {
    with(|p| p.make_ready(handle, low, high))
}

/// Performs MPI_Pready_list.
pub fn ready_list(handle: usize, partitions: &[i32]) -> Result<()> {
    with(|p| partitions.iter().try_for_each(|&index| p.make_ready(handle, index, index)))
}

/// Performs MPI_Parrived: true for an inactive request, too.
pub fn has_arrived(handle: usize, partition: i32) -> Result<bool> {
    poll(|p| p.has_arrived(handle, partition), |has_arrived| !has_arrived)
}

impl Process {
    fn make_ready(&mut self, handle: usize, low: i32, high: i32) -> Result<()> {
        if let Decoded::Sent | Decoded::Message(_) = Decoded::decode(handle) {
            return Err(not_partitioned("send"));
        }
        let (request, core) = self.partitioned(handle)?;
        match request.persistent.as_deref_mut() {
            Some(Persistent::PartitionedSend(end)) => match request.state {
                State::Partitioned => end.make_ready(&mut core.stack, low, high),
                _ => Err(Error::new(
                    Class::Request,
                    "the partitioned send is inactive: MPI_Start comes before MPI_Pready",
                )),
            },
            Some(Persistent::Null(_)) => Ok(()),
            _ => Err(not_partitioned("send")),
        }
    }

    fn has_arrived(&mut self, handle: usize, partition: i32) -> Result<bool> {
        match Decoded::decode(handle) {
            Decoded::Null => return Ok(true),
            Decoded::Sent | Decoded::Message(_) => return Err(not_partitioned("receive")),
            Decoded::Object => {}
        }
        let (request, core) = self.partitioned(handle)?;
        match request.persistent.as_deref_mut() {
            Some(Persistent::PartitionedReceive(end)) => match request.state {
                State::Partitioned => end.has_arrived(&mut core.stack, partition),
                _ => Ok(true),
            },
            Some(Persistent::Null(_)) => Ok(true),
            _ => Err(not_partitioned("receive")),
        }
    }
}

#[cold]
fn not_partitioned(end: &str) -> Error {
    Error::new(Class::Request, format!("the request is not a partitioned {end}"))
}
