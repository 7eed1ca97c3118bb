//! The report of messages whose type signature is not that of their receive (knob
//! `check.signatures`; MPI-5.0 §3.3.1).
//!
//! The data was stored, and the operation succeeds: one line on standard error names both sides.
//! A difference of the same types, call and sender is reported once, and at most [`MAX_REPORTS`]
//! are in all.

use std::sync::{Mutex, PoisonError};

use pt2pt::Types;

use crate::process::Process;
use crate::usage::current_call;

/// Most reports of a process.
const MAX_REPORTS: usize = 20;

/// A difference: call, rank of the sender, words of both signatures.
type Difference = (&'static str, u32, u32, u32);

static REPORTED: Mutex<Vec<Difference>> = Mutex::new(Vec::new());

/// Reports a message of the communicator `comm`.
#[cold]
pub(crate) fn report(p: &Process, comm: &str, source: u32, tag: i32, types: &Types) {
    let (theirs, ours) = (types.theirs.to_wire(), types.ours.to_wire());
    let difference = (current_call(), source, theirs, ours);
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.len() >= MAX_REPORTS || reported.contains(&difference) {
        return;
    }
    reported.push(difference);
    let rank = p.core.as_deref().map_or(0, |core| core.job.rank());
    let call = difference.0;
    let (sent, expected) = (types.theirs.describe(types.sent), types.ours.describe(types.capacity));
    eprintln!(
        "verbena: rank {rank}: {call}: the message from rank {source} with tag {tag} on {comm} has \
         {sent}, but the receive is for {expected}: the types must match (MPI-5.0 §3.3.1)"
    );
    if reported.len() == MAX_REPORTS {
        eprintln!("verbena: rank {rank}: further differences of types are not reported");
    }
}
