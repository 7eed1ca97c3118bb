//! MPI_Init that waits for long. Process managers block it until all ranks of the job are there,
//! and nobody else looks: the launcher that explains stalls needs ranks that have completed it
//! (`own_launcher`). Ranks 0 and 1 say so, since one of them may be the one that does not come.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use bootstrap::process_manager;
use config::Knobs;

use crate::own_launcher::stall_timeout;

/// The ranks that speak.
const SPEAKERS: u32 = 2;

/// Waits for the end of MPI_Init, which is its own end.
#[derive(Debug)]
pub(crate) struct LateRanks {
    _ends: Sender<()>,
}

impl LateRanks {
    /// Starts to wait, if a process manager has started this process.
    pub(crate) fn watch(knobs: &Knobs) -> Option<LateRanks> {
        let rank = process_manager::announced_rank().filter(|rank| *rank < SPEAKERS)?;
        let timeout = stall_timeout(knobs)?;
        let (ends, end) = mpsc::channel();
        let thread = std::thread::Builder::new().name("verbena-init".into());
        let wait = move || {
            if end.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
                report(rank, timeout);
            }
        };
        // Without a thread nobody is told.
        progress::with_signals_blocked(|| thread.spawn(wait)).ok()?;
        Some(LateRanks { _ends: ends })
    }
}

fn report(rank: u32, timeout: Duration) {
    eprintln!(
        "verbena: rank {rank} has waited {} s in MPI_Init, which some ranks of the job have not \
         called: they run another program, have ended, or are slow to start; the job goes on \
         waiting (launch.stall_timeout)",
        timeout.as_secs_f64()
    );
}
