//! The words for what happened: one readable line for a failure, a table of
//! all ranks on request, and what follows from it.

use std::time::{Duration, Instant};

use bootstrap::board::{self, Snapshot};
use bootstrap::{Awaited, Board, State, WORLD_CONTEXT, Waiting};
use fabric::CollectiveKind;
use fabric::calls::Call;

use crate::fate::{Event, Exit};
use crate::{signals, waits};

/// The name of an MPI call by its number on the board; `None` outside of MPI.
fn call_name(call: u32) -> Option<&'static str> {
    (call != 0).then(|| Call::from_index(call).map_or("an unknown MPI call", Call::name))
}

/// The line for what ended the job, or made it fail. `pid` is the process
/// that was in MPI, or the one that we started.
pub fn failure(event: &Event, seen: &Snapshot, pid: u32, host: &str, ranks: usize, ends: bool) -> String {
    let end = match (ends, ranks) {
        (false, _) | (true, 1) => String::new(),
        (true, ranks) => format!("; ending the job ({ranks} ranks)"),
    };
    match event {
        Event::Aborted { message, .. } if !message.is_empty() => format!("{message} (pid {pid} on {host}){end}"),
        Event::Aborted { rank, code, .. } => format!("rank {rank} (pid {pid} on {host}) aborted with code {code}{end}"),
        Event::Died { rank, exit, .. } => {
            let how = match exit {
                Exit::Code(code) => format!("exited with code {code}"),
                Exit::Signal(signal) => format!("was killed by signal {signal} ({})", signals::name(*signal)),
            };
            format!("rank {rank} (pid {pid} on {host}) {how}{}{end}", place(*exit, seen))
        }
    }
}

/// Where in MPI the rank was, as far as that explains something.
fn place(exit: Exit, seen: &Snapshot) -> String {
    match (exit, seen.state, call_name(seen.call)) {
        (Exit::Code(_), State::Running, Some(call)) => format!(" in {call}, without calling MPI_Finalize"),
        (Exit::Code(_), State::Running, None) => " without calling MPI_Finalize".into(),
        (_, State::Finalizing, _) => " in MPI_Finalize".into(),
        (_, _, Some(call)) => format!(" in {call}"),
        (Exit::Signal(_), State::Running, None) => " outside of MPI calls".into(),
        (Exit::Signal(_), State::Finalized, None) => " after MPI_Finalize".into(),
        _ => String::new(),
    }
}

/// One rank of [`table`].
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The process that we started.
    pub pid: u32,
    /// How it ended, if it has.
    pub exit: Option<Exit>,
}

/// What every rank of this host is doing, one line each, from rank `first` on, and who waits for whom.
pub fn table(board: &Board, first: u32, lines: &[Line], host: &str, started: Instant) -> String {
    let age = seconds(started.elapsed());
    let mut text = format!("{} on {host}, {age} after the start", count(lines.len()));
    text += "\n   rank      pid  state       call and what it waits for";
    let seen: Vec<Snapshot> = (0..lines.len()).map(|rank| board.entry(rank as u32).snapshot()).collect();
    for (rank, (line, seen)) in lines.iter().zip(&seen).enumerate() {
        let pid = if seen.pid == 0 { line.pid } else { seen.pid };
        let (state, doing) = match line.exit {
            Some(Exit::Code(code)) => ("exited", format!("with code {code}")),
            Some(Exit::Signal(signal)) => ("killed", format!("by signal {signal} ({})", signals::name(signal))),
            None => (state_name(seen.state), doing(seen)),
        };
        let rank = first as usize + rank;
        text += format!("\n{rank:>7}  {pid:>7}  {state:<10}  {doing}").trim_end();
    }
    let ends: Vec<Option<Exit>> = lines.iter().map(|line| line.exit).collect();
    waits::conclusions(first, &seen, &ends).iter().for_each(|line| text += &format!("\n{line}"));
    text
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Starting => "not in MPI",
        State::Running => "running",
        State::Finalizing => "finalizing",
        State::Finalized => "finalized",
    }
}

fn doing(seen: &Snapshot) -> String {
    match (call_name(seen.call), seen.waiting) {
        (Some(call), Some(waiting)) => format!("{call}{}", waits_for(&waiting)),
        (Some(call), None) => call.to_owned(),
        (None, _) if seen.state == State::Running => "computing".into(),
        (None, _) => String::new(),
    }
}

fn waits_for(waiting: &Waiting) -> String {
    let Waiting { awaited, peer, world_rank, tag, context, comm_size, since } = *waiting;
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
    let what = match awaited {
        Awaited::Something => String::new(),
        Awaited::Message => format!(", for a message from {rank}, {tagged}, on {comm}"),
        Awaited::Rest => format!(", for the rest of a message from {rank}, {tagged}, on {comm}"),
        Awaited::Taking => format!(", for {rank} to receive a message, {tagged}, on {comm}"),
        Awaited::Collective(kind) => {
            let name = CollectiveKind::name(kind).unwrap_or("a collective");
            format!(", for {rank} in {name}, collective number {number} on {comm}")
        }
    };
    let waited = Duration::from_nanos(board::clock().saturating_sub(since));
    format!("{what}, for {}", seconds(waited))
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

    fn seen(state: State, call: u32) -> Snapshot {
        Snapshot { pid: 5, state, call, waiting: None }
    }

    #[test]
    fn a_failure_is_one_line_that_names_who_and_where() {
        let killed = Event::Died { rank: 2, exit: Exit::Signal(11), state: State::Running };
        let line = failure(&killed, &seen(State::Running, 0), 5, "vm", 4, true);
        let expected = "rank 2 (pid 5 on vm) was killed by signal 11 (Segmentation fault) outside of MPI calls; \
                        ending the job (4 ranks)";
        assert_eq!(line, expected);
        let inside = failure(&killed, &seen(State::Running, Call::Recv.index()), 5, "vm", 4, true);
        assert!(inside.contains("(Segmentation fault) in MPI_Recv; ending"), "{inside}");
        let left = Event::Died { rank: 0, exit: Exit::Code(0), state: State::Running };
        assert_eq!(
            failure(&left, &seen(State::Running, 0), 5, "vm", 1, true),
            "rank 0 (pid 5 on vm) exited with code 0 without calling MPI_Finalize"
        );
        let plain = Event::Died { rank: 0, exit: Exit::Code(3), state: State::Starting };
        assert_eq!(
            failure(&plain, &seen(State::Starting, 0), 5, "vm", 4, false),
            "rank 0 (pid 5 on vm) exited with code 3"
        );
    }

    #[test]
    fn the_table_says_what_each_rank_does() {
        let board = Board::create(3, 1).unwrap();
        board.entry(1).reach(State::Running);
        board.entry(1).enter(Call::Recv.index());
        let (awaited, peer, world_rank) = (Awaited::Message, Some(1), Some(0));
        let waiting = Waiting { awaited, peer, world_rank, tag: None, context: 4, comm_size: 3, since: board::clock() };
        board.entry(1).wait_for(&waiting);
        let line = |exit| Line { pid: 9, exit };
        let text = table(&board, 0, &[line(None), line(None), line(Some(Exit::Signal(9)))], "vm", Instant::now());
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "3 ranks on vm, 0.0 s after the start");
        assert_eq!(rows[2], "      0        9  not in MPI");
        assert_eq!(
            rows[3],
            "      1        9  running     MPI_Recv, for a message from rank 0 (rank 1 there), any tag, on communicator 4 of 3 ranks, for 0.0 s"
        );
        assert_eq!(rows[4], "      2        9  killed      by signal 9 (Killed)");
    }
}
