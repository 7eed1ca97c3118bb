//! The line that reports a failure, when it happens.

use bootstrap::RankState;
use bootstrap::Snapshot;

use crate::absent_ranks::Waiter;
use crate::failure_policy::{Event, Exit};
use crate::output::Output;
use crate::rank_table::{call_name, count};
use crate::signals;

/// Returns the line for a failure. `pid` is the process that was in MPI, otherwise the first
/// process of the rank. `ranks` is the size of the job, which the failure ends if `ends`.
pub fn failure(
    event: &Event,
    seen: &Snapshot,
    pid: u32,
    host: &str,
    ranks: usize,
    ends: bool,
) -> String {
    let end = match (ends, ranks) {
        (false, _) | (true, 1) => String::new(),
        (true, ranks) => format!("; ending the job ({ranks} ranks)"),
    };
    match event {
        Event::Aborted { message, .. } if !message.is_empty() => {
            format!("{message} (pid {pid} on {host}){end}")
        }
        Event::Aborted { rank, code, .. } => {
            format!("rank {rank} (pid {pid} on {host}) aborted with code {code}{end}")
        }
        Event::Stopped { rank, signal } => {
            format!("rank {rank} (pid {pid} on {host}) is stopped by {}{end}", named(*signal))
        }
        Event::Died { rank, exit, .. } => {
            let was = if matches!(exit, Exit::Signal(_)) { "was " } else { "" };
            format!("rank {rank} (pid {pid} on {host}) {was}{exit}{}{end}", position(*exit, seen))
        }
    }
}

/// Returns how a rank has failed, in words that follow its name.
pub(crate) fn why_failed(event: &Event) -> String {
    match event {
        Event::Died { exit: exit @ Exit::Signal(_), .. } => format!("its process was {exit}"),
        Event::Died { exit, state, .. } => {
            let call = state.missing_call().unwrap_or("MPI_Finalize");
            format!("its process {exit} without calling {call}")
        }
        Event::Aborted { .. } | Event::Stopped { .. } => "it has left the job".into(),
    }
}

/// Returns the line for a rank that a signal has stopped.
pub(crate) fn stopped(rank: u32, signal: i32, pid: u32, host: &str) -> String {
    format!(
        "rank {rank} (pid {pid} on {host}) is stopped by {}, not dead; the job waits for it \
         (`kill -CONT {pid}` continues it)",
        named(signal)
    )
}

fn named(signal: i32) -> String {
    format!("signal {signal} ({})", signals::name(signal))
}

/// Returns the text that shows what a rank that ended has printed last, if it has. An abort comes
/// with words of its own.
pub(crate) fn last_output(event: &Event, output: &Output) -> Option<String> {
    let Event::Died { rank, .. } = event else { return None };
    let lines = output.last_lines(*rank);
    let noun = if lines.len() == 1 { "line" } else { "lines" };
    let shown: String = lines.iter().map(|line| format!("\n  | {line}")).collect();
    (!lines.is_empty()).then(|| format!("the last {noun} of rank {rank}:{shown}"))
}

/// Returns the line for a job that ends because other ranks would wait for `rank`.
pub fn absent_rank(rank: u32, ranks: usize) -> String {
    format!(
        "rank {rank} ended without MPI_Init and other ranks would wait for it; ending the job ({})",
        count(ranks)
    )
}

/// Returns the line for a job that ends because a rank waits for one that is not in MPI.
pub(crate) fn awaited_absent_rank(waiter: &Waiter, ranks: usize) -> String {
    let Waiter { rank, seen, awaited } = waiter;
    let call = call_name(seen.call).map_or(String::new(), |call| format!(" in {call}"));
    format!(
        "rank {awaited} ended without MPI_Init and rank {rank} waits for it{call}; ending the job \
         ({})",
        count(ranks)
    )
}

/// Returns where in MPI the rank was, if that explains its end.
fn position(exit: Exit, seen: &Snapshot) -> String {
    match (exit, seen.state.missing_call(), call_name(seen.call)) {
        (Exit::Code(_), Some(missing), Some(call)) => {
            format!(" in {call}, without calling {missing}")
        }
        (Exit::Code(_), Some(missing), None) => format!(" without calling {missing}"),
        _ if seen.state == RankState::Finalizing => " in MPI_Finalize".into(),
        (_, _, Some(call)) => format!(" in {call}"),
        (Exit::Signal(_), Some(_), None) => " outside of MPI calls".into(),
        (Exit::Signal(_), None, None) if seen.state == RankState::Finalized => {
            " after MPI_Finalize".into()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use bootstrap::calls::Call;

    use super::*;

    fn seen(state: RankState, call: u32) -> Snapshot {
        Snapshot { pid: 5, state, call, blocked: None }
    }

    #[test]
    fn a_failure_is_one_line_that_names_rank_and_call() {
        let killed = Event::Died { rank: 2, exit: Exit::Signal(11), state: RankState::Running };
        let line = failure(&killed, &seen(RankState::Running, 0), 5, "vm", 4, true);
        let expected = "rank 2 (pid 5 on vm) was killed by signal 11 (Segmentation fault) outside \
                        of MPI calls; ending the job (4 ranks)";
        assert_eq!(line, expected);
        let inside =
            failure(&killed, &seen(RankState::Running, Call::Recv.index()), 5, "vm", 4, true);
        assert!(inside.contains("(Segmentation fault) in MPI_Recv; ending"), "{inside}");
        let left = Event::Died { rank: 0, exit: Exit::Code(0), state: RankState::Running };
        assert_eq!(
            failure(&left, &seen(RankState::Running, 0), 5, "vm", 1, true),
            "rank 0 (pid 5 on vm) exited with code 0 without calling MPI_Finalize"
        );
        assert_eq!(
            failure(&left, &seen(RankState::InSession, 0), 5, "vm", 1, true),
            "rank 0 (pid 5 on vm) exited with code 0 without calling MPI_Session_finalize"
        );
        let plain = Event::Died { rank: 0, exit: Exit::Code(3), state: RankState::Starting };
        assert_eq!(
            failure(&plain, &seen(RankState::Starting, 0), 5, "vm", 4, false),
            "rank 0 (pid 5 on vm) exited with code 3"
        );
    }
}
