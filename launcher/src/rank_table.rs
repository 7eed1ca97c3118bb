//! The table of what every rank of a host is doing, for the user.

use std::time::Duration;

use bootstrap::calls::Call;
use bootstrap::status_page::monotonic_nanos;
use bootstrap::{BlockedKind, BlockedOn, RankState, Ranks, Snapshot, WORLD_CONTEXT};
use fabric::CollectiveKind;
use serde::{Deserialize, Serialize};

use crate::failure_policy::Exit;
use crate::process_state;
use crate::wrap_table::wrap_table;

/// The state of one rank at one instant.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RankLine {
    /// The process that is in MPI, otherwise the first process of the rank.
    pub pid: u32,
    /// The way it ended, if it has.
    pub exit: Option<Exit>,
    /// The rank's entry of the status page.
    pub seen: Snapshot,
    /// It is stopped by a signal or a debugger.
    pub is_stopped: bool,
    /// It waits in one thread, and another one may call MPI.
    pub others_may_call: bool,
    /// The time that it has waited, if it waits: a duration, since clocks of hosts differ.
    pub waited: Duration,
    /// The time since it last looked for what it waits for; the longest one if that is unknown.
    pub looked: Duration,
}

impl RankLine {
    /// Returns the state of a rank of this host now; `pid` is the process that was started.
    pub fn new(pid: u32, exit: Option<Exit>, seen: Snapshot) -> RankLine {
        let mut line = RankLine::of_page(pid, exit, seen);
        line.look_at_process();
        line
    }

    /// Returns the state of a rank as far as the status page tells it.
    pub(crate) fn of_page(pid: u32, exit: Option<Exit>, seen: Snapshot) -> RankLine {
        let now = monotonic_nanos();
        let since = |time: u64| Duration::from_nanos(now.saturating_sub(time));
        let blocked = seen.blocked.filter(|_| seen.call != 0);
        let looked = blocked.filter(|blocked| blocked.looked != 0);
        RankLine {
            pid: if seen.pid == 0 { pid } else { seen.pid },
            exit,
            seen,
            is_stopped: false,
            others_may_call: false,
            waited: blocked.map_or(Duration::ZERO, |blocked| since(blocked.since)),
            looked: looked.map_or(Duration::MAX, |blocked| since(blocked.looked)),
        }
    }

    /// Adds what the system knows of its process.
    pub(crate) fn look_at_process(&mut self) {
        let blocked = self.seen.blocked.filter(|_| self.seen.call != 0);
        let may_have_others = blocked.is_some_and(|blocked| blocked.meanwhile.other_threads);
        if self.exit.is_none() {
            self.is_stopped = process_state::is_stopped(self.pid);
            self.others_may_call = may_have_others && process_state::others_may_call(self.pid);
        }
    }

    /// Returns true for a rank that has entered MPI_Finalize or ended.
    pub(crate) fn is_leaving(&self) -> bool {
        self.exit.is_some() || self.seen.state == RankState::Finalizing
    }

    /// Returns true for a rank that never called MPI_Init.
    pub(crate) fn is_absent(&self) -> bool {
        self.seen.state == RankState::Starting
    }
}

/// The columns of the table.
const COLUMNS: usize = 6;
const HEADINGS: [&str; COLUMNS] = ["rank", "pid", "state", "call", "waited", "waits for"];
/// The columns of numbers, which are aligned to the right.
const IS_NUMBER: [bool; COLUMNS] = [true, true, false, false, true, false];

/// Returns the table of a host's ranks. `age`: of the job.
pub fn rank_table(ranks: &Ranks, lines: &[RankLine], host: &str, age: Duration) -> String {
    let rows = ranks.iter().zip(lines).map(|(rank, line)| cells(rank, line));
    let rows: Vec<[String; COLUMNS]> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = format!("{} on {host}, {} after the start", count(lines.len()), seconds(age));
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &if IS_NUMBER[column] {
                format!("  {cell:>width$}")
            } else {
                format!("  {cell:width$}")
            };
        }
        text += &format!("\n{}", line.trim_end());
    }
    let last = widths[..COLUMNS - 1].iter().map(|width| width + 2).sum::<usize>() + 2;
    wrap_table(&text, last, &std::io::stderr())
}

fn cells(rank: u32, line: &RankLine) -> [String; COLUMNS] {
    let [call, waited, waits_for] = blocked_cells(line);
    [rank.to_string(), line.pid.to_string(), state(line), call, waited, waits_for]
}

/// Returns the call that a rank is in, and how long and for what it waits there.
pub(crate) fn blocked_cells(line: &RankLine) -> [String; 3] {
    let call = call_name(line.seen.call).filter(|_| line.exit.is_none());
    let blocked = line.seen.blocked.filter(|_| call.is_some());
    [
        call.unwrap_or("").to_owned(),
        blocked.map_or(String::new(), |_| seconds(line.waited)),
        blocked.map_or(String::new(), |blocked| waits_for(&blocked)),
    ]
}

/// Returns the state of a rank in a word or two.
pub(crate) fn state(line: &RankLine) -> String {
    let is_blocked = line.seen.call != 0 && line.seen.blocked.is_some();
    let state = match (line.exit, line.seen.state) {
        (Some(Exit::Code(code)), _) => return format!("exit code {code}"),
        (Some(Exit::Signal(signal)), _) => return format!("signal {signal}"),
        (None, _) if line.is_stopped => "stopped",
        (None, RankState::Starting) => "not in MPI",
        (None, RankState::Running | RankState::InSession) => match line.seen.call {
            0 => "computing",
            _ if is_blocked => "waiting",
            _ => "in MPI",
        },
        (None, RankState::Finalizing) => "finalizing",
        (None, RankState::Finalized) => "finalized",
    };
    state.to_owned()
}

/// Returns the name of an MPI call by its number on the status page; `None` outside of MPI.
pub(crate) fn call_name(call: u32) -> Option<&'static str> {
    (call != 0).then(|| Call::from_index(call).map_or("an unknown MPI call", Call::name))
}

fn waits_for(blocked: &BlockedOn) -> String {
    let BlockedOn { kind, peer, world_rank, tag, context, comm_size, comm_name, .. } = *blocked;
    let comm = match context {
        WORLD_CONTEXT => "MPI_COMM_WORLD".into(),
        context => {
            let words = comm_name.words().unwrap_or_else(|| format!("communicator {context}"));
            format!("{words} ({})", count(comm_size as usize))
        }
    };
    let tagged = tag.map_or("any tag".into(), |tag| format!("tag {tag}"));
    let number = match tag.unwrap_or(0) {
        number @ 0.. => format!("collective {number}"),
        number => format!("persistent collective {}", -1 - number),
    };
    let rank = match (world_rank, peer) {
        (Some(rank), Some(peer)) if rank != peer => format!("rank {rank} (rank {peer} there)"),
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(peer)) => format!("rank {peer} of the communicator"),
        (None, None) => "any rank".into(),
    };
    match kind {
        BlockedKind::Unknown => String::new(),
        BlockedKind::Message => format!("message from {rank}, {tagged}, {comm}"),
        BlockedKind::RestOfMessage => format!("rest of a message from {rank}, {tagged}, {comm}"),
        BlockedKind::MatchingReceive => format!("receive by {rank}, {tagged}, {comm}"),
        BlockedKind::Lock => {
            let of = tag.map_or("a rank".into(), |target| format!("rank {target}"));
            let held = match (world_rank, peer) {
                (None, None) => String::new(),
                _ => format!(", held by {rank}"),
            };
            format!("lock of {of} in a window{held}, {comm}")
        }
        BlockedKind::OneSided => format!("answer of {rank} to one-sided operations, {comm}"),
        BlockedKind::Exposure => format!("MPI_Win_post by {rank}, {comm}"),
        BlockedKind::AccessEnd => format!("MPI_Win_complete by {rank}, {comm}"),
        BlockedKind::Connection => match (world_rank, peer) {
            (Some(rank), _) => format!("connection with rank {rank}"),
            (None, Some(process)) => format!("connection with process {process} of another job"),
            (None, None) => "connection with any process".into(),
        },
        BlockedKind::Collective(kind) => {
            let name = CollectiveKind::name(kind).unwrap_or("a collective");
            format!("{rank} in {name}, {number} of {comm}")
        }
    }
}

/// Returns `1 rank` or `N ranks`.
pub(crate) fn count(ranks: usize) -> String {
    if ranks == 1 { "1 rank".into() } else { format!("{ranks} ranks") }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use bootstrap::CommName;

    use super::*;

    #[test]
    fn a_lock_shows_with_its_holder() {
        let lock = BlockedOn {
            kind: BlockedKind::Lock,
            world_rank: Some(5),
            peer: Some(5),
            tag: Some(2),
            context: 9,
            comm_size: 6,
            since: 1,
            ..BlockedOn::default()
        };
        let held = "lock of rank 2 in a window, held by rank 5, communicator 9 (6 ranks)";
        assert_eq!(waits_for(&lock), held);
        let unknown = BlockedOn { world_rank: None, peer: None, ..lock };
        assert_eq!(waits_for(&unknown), held.replace(", held by rank 5", ""));
    }

    #[test]
    fn a_connection_shows_with_the_other_process() {
        let with = |world_rank, peer| {
            waits_for(&BlockedOn {
                kind: BlockedKind::Connection,
                world_rank,
                peer,
                ..BlockedOn::default()
            })
        };
        assert_eq!(with(Some(2), Some(7)), "connection with rank 2");
        assert_eq!(with(None, Some(7)), "connection with process 7 of another job");
        assert_eq!(with(None, None), "connection with any process");
    }

    #[test]
    fn the_table_shows_what_each_rank_does() {
        let blocked = BlockedOn {
            kind: BlockedKind::Message,
            peer: Some(1),
            world_rank: Some(0),
            tag: None,
            context: 4,
            comm_size: 3,
            comm_name: CommName::new("column"),
            since: monotonic_nanos(),
            ..BlockedOn::default()
        };
        let outside = Snapshot { pid: 0, state: RankState::Starting, call: 0, blocked: None };
        let inside = Snapshot {
            pid: 12345,
            state: RankState::Running,
            call: Call::Recv.index(),
            blocked: Some(blocked),
        };
        let computing = Snapshot { call: 0, ..inside };
        let lines =
            [(None, outside), (None, inside), (Some(Exit::Signal(9)), inside), (None, computing)];
        let text = rank_table(
            &(0..4).into(),
            &lines.map(|(exit, seen)| RankLine::new(9, exit, seen)),
            "vm",
            Duration::ZERO,
        );
        let expected = "\
4 ranks on vm, 0.0 s after the start
  rank    pid  state       call      waited  waits for
     0      9  not in MPI
     1  12345  waiting     MPI_Recv   0.0 s  message from rank 0 (rank 1 there), any tag, communicator \"column\" (3 ranks)
     2  12345  signal 9
     3  12345  computing";
        assert_eq!(text, expected);
    }
}
