//! The words for what happened: one readable line for a failure, a table of
//! all ranks on request, and what follows from it.

use std::time::Duration;

use bootstrap::calls::Call;
use bootstrap::status_page::{self, Snapshot};
use bootstrap::{BlockedKind, BlockedOn, RankState, WORLD_CONTEXT};
use fabric::CollectiveKind;
use serde::{Deserialize, Serialize};

use crate::failure_policy::{Event, Exit};
use crate::signals;

/// The name of an MPI call by its number on the board; `None` outside of MPI.
fn call_name(call: u32) -> Option<&'static str> {
    (call != 0).then(|| Call::from_index(call).map_or("an unknown MPI call", Call::name))
}

/// The line for what ended the job, or made it fail. `pid` is the process
/// that was in MPI, or the one that we started.
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
        Event::Died { rank, exit, .. } => {
            let was = if matches!(exit, Exit::Signal(_)) { "was " } else { "" };
            format!("rank {rank} (pid {pid} on {host}) {was}{exit}{}{end}", place(*exit, seen))
        }
    }
}

/// The line for a job that a rank's end outside of MPI has ended.
pub fn would_wait(rank: u32, ranks: usize) -> String {
    format!(
        "ranks that are in MPI would wait for rank {rank}, which has ended without MPI_Init; ending the job ({})",
        count(ranks)
    )
}

/// Where in MPI the rank was, as far as that explains something.
fn place(exit: Exit, seen: &Snapshot) -> String {
    match (exit, seen.state, call_name(seen.call)) {
        (Exit::Code(_), RankState::Running, Some(call)) => {
            format!(" in {call}, without calling MPI_Finalize")
        }
        (Exit::Code(_), RankState::Running, None) => " without calling MPI_Finalize".into(),
        (_, RankState::Finalizing, _) => " in MPI_Finalize".into(),
        (_, _, Some(call)) => format!(" in {call}"),
        (Exit::Signal(_), RankState::Running, None) => " outside of MPI calls".into(),
        (Exit::Signal(_), RankState::Finalized, None) => " after MPI_Finalize".into(),
        _ => String::new(),
    }
}

/// One rank of [`table`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The process that is in MPI, or the one that was started.
    pub pid: u32,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
    /// What it says of itself.
    pub seen: Snapshot,
    /// How long it has waited, if it waits: clocks of hosts differ.
    pub waited: Duration,
}

impl Line {
    /// Of a rank of this host, now; `pid` is the process that was started.
    pub fn new(pid: u32, exit: Option<Exit>, seen: Snapshot) -> Line {
        let since = seen.waiting.map_or(u64::MAX, |waiting| waiting.since);
        let waited = Duration::from_nanos(status_page::monotonic_nanos().saturating_sub(since));
        Line { pid: if seen.pid == 0 { pid } else { seen.pid }, exit, seen, waited }
    }
}

/// What every rank of a host is doing, one line each, from rank `first` on. `age`: of the job.
pub fn table(first: u32, lines: &[Line], host: &str, age: Duration) -> String {
    let mut text = format!("{} on {host}, {} after the start", count(lines.len()), seconds(age));
    text += "\n   rank      pid  state       call and what it waits for";
    for (rank, line) in (first..).zip(lines) {
        let (state, doing) = match line.exit {
            Some(Exit::Code(code)) => ("exited", format!("with code {code}")),
            Some(Exit::Signal(signal)) => {
                ("killed", format!("by signal {signal} ({})", signals::name(signal)))
            }
            None => (state_name(line.seen.state), doing(line)),
        };
        text += format!("\n{rank:>7}  {:>7}  {state:<10}  {doing}", line.pid).trim_end();
    }
    text
}

fn state_name(state: RankState) -> &'static str {
    match state {
        RankState::Starting => "not in MPI",
        RankState::Running => "running",
        RankState::Finalizing => "finalizing",
        RankState::Finalized => "finalized",
    }
}

fn doing(line: &Line) -> String {
    match (call_name(line.seen.call), line.seen.waiting) {
        (Some(call), Some(waiting)) => {
            format!("{call}{}, for {}", waits_for(&waiting), seconds(line.waited))
        }
        (Some(call), None) => call.to_owned(),
        (None, _) if line.seen.state == RankState::Running => "computing".into(),
        (None, _) => String::new(),
    }
}

fn waits_for(waiting: &BlockedOn) -> String {
    let BlockedOn { kind, peer, world_rank, tag, context, comm_size, .. } = *waiting;
    let comm = match context {
        WORLD_CONTEXT => "MPI_COMM_WORLD".into(),
        context => format!("communicator {context} of {}", count(comm_size as usize)),
    };
    let tagged = tag.map_or("any tag".into(), |tag| format!("tag {tag}"));
    let number = tag.unwrap_or(0);
    let rank = match (world_rank, peer) {
        (Some(rank), Some(peer)) if rank != peer => format!("rank {rank} (rank {peer} there)"),
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(peer)) => format!("rank {peer} of the communicator"),
        (None, None) => "any rank".into(),
    };
    match kind {
        BlockedKind::Unknown => String::new(),
        BlockedKind::Message => format!(", for a message from {rank}, {tagged}, on {comm}"),
        BlockedKind::RestOfMessage => {
            format!(", for the rest of a message from {rank}, {tagged}, on {comm}")
        }
        BlockedKind::MatchingReceive => {
            format!(", for {rank} to receive a message, {tagged}, on {comm}")
        }
        BlockedKind::Collective(kind) => {
            let name = CollectiveKind::name(kind).unwrap_or("a collective");
            format!(", for {rank} in {name}, collective number {number} on {comm}")
        }
    }
}

fn count(ranks: usize) -> String {
    if ranks == 1 { "1 rank".into() } else { format!("{ranks} ranks") }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: RankState, call: u32) -> Snapshot {
        Snapshot { pid: 5, state, call, waiting: None }
    }

    #[test]
    fn a_failure_is_one_line_that_names_who_and_where() {
        let killed = Event::Died { rank: 2, exit: Exit::Signal(11), state: RankState::Running };
        let line = failure(&killed, &seen(RankState::Running, 0), 5, "vm", 4, true);
        let expected = "rank 2 (pid 5 on vm) was killed by signal 11 (Segmentation fault) outside of MPI calls; \
                        ending the job (4 ranks)";
        assert_eq!(line, expected);
        let inside =
            failure(&killed, &seen(RankState::Running, Call::Recv.index()), 5, "vm", 4, true);
        assert!(inside.contains("(Segmentation fault) in MPI_Recv; ending"), "{inside}");
        let left = Event::Died { rank: 0, exit: Exit::Code(0), state: RankState::Running };
        assert_eq!(
            failure(&left, &seen(RankState::Running, 0), 5, "vm", 1, true),
            "rank 0 (pid 5 on vm) exited with code 0 without calling MPI_Finalize"
        );
        let plain = Event::Died { rank: 0, exit: Exit::Code(3), state: RankState::Starting };
        assert_eq!(
            failure(&plain, &seen(RankState::Starting, 0), 5, "vm", 4, false),
            "rank 0 (pid 5 on vm) exited with code 3"
        );
    }

    #[test]
    fn the_table_says_what_each_rank_does() {
        let (kind, peer, world_rank) = (BlockedKind::Message, Some(1), Some(0));
        let waiting = BlockedOn {
            kind,
            peer,
            world_rank,
            tag: None,
            context: 4,
            comm_size: 3,
            since: status_page::monotonic_nanos(),
        };
        let outside = Snapshot { pid: 0, ..seen(RankState::Starting, 0) };
        let inside =
            Snapshot { waiting: Some(waiting), ..seen(RankState::Running, Call::Recv.index()) };
        let lines = [(None, outside), (None, inside), (Some(Exit::Signal(9)), outside)];
        let text =
            table(0, &lines.map(|(exit, seen)| Line::new(9, exit, seen)), "vm", Duration::ZERO);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "3 ranks on vm, 0.0 s after the start");
        assert_eq!(rows[2], "      0        9  not in MPI");
        assert_eq!(
            rows[3],
            "      1        5  running     MPI_Recv, for a message from rank 0 (rank 1 there), any tag, on communicator 4 of 3 ranks, for 0.0 s"
        );
        assert_eq!(rows[4], "      2        9  killed      by signal 9 (Killed)");
    }
}
