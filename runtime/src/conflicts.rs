//! The report of accesses to windows that conflict (knob `rma.check`; MPI-5.0 §12.7).
//!
//! The target of the accesses reports them, and the operations go on: one line on standard error
//! names both. A conflict of the same calls, ranks and window is reported once, and at most
//! [`MAX_REPORTS`] are in all.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use bootstrap::calls::Call;
use rma::{Conflict, Hooks};

use crate::status_page;

/// Most reports of a process.
const MAX_REPORTS: usize = 20;

/// Rank and call of both accesses, and the window.
type Reported = ([(u32, u32); 2], String);

static REPORTED: Mutex<Vec<Reported>> = Mutex::new(Vec::new());

/// What windows need to check accesses.
pub(crate) const HOOKS: Hooks = Hooks { current_call, report };

fn current_call() -> u32 {
    status_page::entry().current_call().load(Relaxed)
}

#[cold]
fn report(conflict: &Conflict<'_>) {
    let calls = conflict.accesses.map(|access| (access.origin, access.call));
    let this = (calls, conflict.window.to_owned());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.len() >= MAX_REPORTS || reported.contains(&this) {
        return;
    }
    reported.push(this);
    let Conflict { window, target, .. } = conflict;
    let [first, second] = conflict.accesses.map(|access| {
        let name = Call::from_index(access.call).map_or("an access", Call::name);
        let (begin, end) = access.range;
        let bytes = match conflict.is_dynamic {
            true => format!("bytes {begin:#x} to {end:#x}"),
            false => format!("bytes {begin} to {end}"),
        };
        format!("{name} of rank {} ({bytes})", access.origin)
    });
    eprintln!(
        "verbena: conflicting accesses to the memory of rank {target} in {window}: {first} and \
         {second}: no synchronisation separates them (MPI-5.0 §12.7)"
    );
    if reported.len() == MAX_REPORTS {
        eprintln!("verbena: rank {target} in {window}: further conflicts are not reported");
    }
}
