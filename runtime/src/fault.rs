//! Turns faults of the layers below into MPI errors with a text for the user. No other file does.

use objects::{Class, Error, Status};
use pt2pt::{Completion, Fault, SequenceName, SourceName};

use crate::context_id::is_channel;
use crate::outcome::Outcome;
use crate::process::{Core, Process};
use crate::signatures;

/// Returns the status and the error of a finished message. The error is raised on the communicator
/// of the message.
#[inline]
pub(crate) fn outcome(p: &Process, completion: Completion) -> Outcome {
    let mut status = Status::empty();
    status.source = completion.source as i32;
    status.tag = completion.tag;
    status.set_bytes(completion.bytes);
    status.set_cancelled(completion.cancelled);
    let error =
        completion.fault.and_then(|fault| judge(p, p.comm_with(completion.context / 2), &fault));
    Outcome { status, error }
}

/// Returns the error of a finished message; a signature that differs is reported instead.
#[cold]
pub(crate) fn judge(p: &Process, comm: usize, fault: &Fault) -> Option<Error> {
    if let Fault::Signature { source, tag, types, .. } = fault {
        signatures::report(p, &name(p, comm), *source, *tag, types);
        return None;
    }
    Some(explain(p, comm, fault))
}

fn name(p: &Process, comm: usize) -> String {
    p.comm(comm).map_or_else(|_| "a freed communicator".to_owned(), |comm| comm.describe())
}

/// Returns the MPI error of a fault: its class and its text.
#[cold]
pub(crate) fn explain(p: &Process, comm: usize, fault: &Fault) -> Error {
    let name = name(p, comm);
    let error = match fault {
        Fault::Truncated { source, tag, context, sent, capacity } => {
            let message = match is_collective(*context) {
                _ if is_channel(*context) => format!("partition {tag} of rank {source} on {name}"),
                // The program does not know of the tag that the message had.
                true => {
                    let (number, source) = (SequenceName(*tag), SourceName(*source));
                    format!("{number} on {name}: the data of {source}")
                }
                false => format!("the message from rank {source} with tag {tag} on {name}"),
            };
            let detail =
                format!("{message} has {sent} bytes, but the receive has room for {capacity}");
            Error::new(Class::Truncate, detail)
        }
        Fault::Sizes { sent: Some(sent), expected, .. } if sent > expected => {
            Error::new(Class::Truncate, format!("{fault} (on {name})"))
        }
        Fault::PeerFailed(failed) => Error::new(Class::ProcAborted, failed.to_string()),
        other @ (Fault::GaveUp { .. } | Fault::Earlier { .. }) => {
            Error::new(Class::Other, format!("{other} (on {name})")).as_consequence()
        }
        other => Error::new(Class::Other, format!("{other} (on {name})")),
    };
    error.on(comm)
}

/// Returns the MPI error of a collective that has failed. If the launcher has told of failed
/// processes and the communicator has one, that is why: a member that gave up may have learned of
/// it a moment before this one.
#[cold]
pub(crate) fn explain_collective(p: &mut Process, comm: usize, fault: &Fault) -> Error {
    p.take_failures();
    let is_told = |core: &&Core| core.job.survives_failures() || !core.ended_others.is_empty();
    let told = p.core.as_deref().filter(is_told);
    let failed = told.zip(p.comm(comm).ok()).and_then(|(core, of)| {
        let planner = core.planner.borrow();
        planner.check_members(of).err()
    });
    failed.map_or_else(|| explain(p, comm, fault), |error| error.on(comm))
}

/// Returns true for a context id on the wire that is that of a communicator's collectives.
const fn is_collective(context: u64) -> bool {
    context % 2 == 1
}
