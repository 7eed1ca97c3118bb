//! Deadlock analysis: conclusions from what all ranks of a job wait for.
//!
//! Each blocked rank needs at most one other rank. The ranks are therefore the nodes of a graph
//! with at most one edge from each node. A path ends at a rank that needs none, at a rank of which
//! nothing is known, or in a cycle.
//!
//! A cycle is a deadlock if two things hold.
//! - Each edge is one that only a call of the other rank's program ends, and that call cannot come
//!   while the other rank waits. [`needed_rank`] and [`WaitGraph::edge`] decide that, and nothing
//!   else does.
//! - There was an instant at which all ranks of the cycle waited, and after which each has looked
//!   and found nothing ([`Readings::prove`]). What was under way at that instant has arrived before
//!   these looks. This holds for processes that were stopped, that did not get a processor or that
//!   copied for long: they have not looked. So no state of a process is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use bootstrap::{BlockedKind, BlockedOn, RankState};

use crate::rank_table::RankLine;

/// The largest number of ranks that one line names.
const MAX_NAMED: usize = 8;

/// Ranks that wait for each other, and for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// Each waits for the next one, the last for the first; with the time since which it waits.
    pub(crate) ranks: Vec<(usize, u64)>,
}

impl Cycle {
    /// Returns the line for the user.
    pub(crate) fn line(&self) -> String {
        cycle_line(&self.ranks.iter().map(|(rank, _)| *rank).collect::<Vec<_>>())
    }
}

/// All ranks of the job in order, as they were read; `None` stands for a rank whose host has not
/// answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings<'a> {
    pub(crate) lines: &'a [Option<RankLine>],
    /// The longest time between the readings of two lines.
    pub(crate) spread: Duration,
    /// The time for which no rank of the job was active, before any line was read, nor has entered
    /// MPI_Finalize or ended.
    pub(crate) idle_for: Duration,
}

/// What follows from the readings.
#[derive(Debug, Default)]
pub(crate) struct Conclusions {
    /// Lines for the user: ranks that wait for one that cannot answer, and deadlocks.
    pub(crate) lines: Vec<String>,
    /// Some of these ranks are proved to wait for ever.
    pub(crate) is_proved: bool,
}

/// Returns the cycles that are proved to be deadlocks.
pub(crate) fn deadlocks(readings: Readings<'_>) -> Vec<Cycle> {
    let graph = WaitGraph { lines: readings.lines };
    let since = |rank: usize| Some((rank, graph.blocked(rank)?.since));
    let proved = |ranks: &Vec<usize>| readings.prove(ranks, Duration::MAX);
    let cycles = graph.cycles().into_iter().filter(proved);
    let cycles = cycles.filter_map(|ranks| ranks.into_iter().map(since).collect());
    cycles.map(|ranks| Cycle { ranks }).collect()
}

/// Returns what follows from the readings.
pub(crate) fn conclusions(readings: Readings<'_>) -> Conclusions {
    let in_vain = WaitGraph { lines: readings.lines }.in_vain();
    let cycles = deadlocks(readings);
    // What the other rank did last was before the job became idle.
    let is_proved = |vain: &Vain| vain.is_final && readings.prove(&[vain.rank], readings.idle_for);
    Conclusions {
        is_proved: !cycles.is_empty() || in_vain.iter().any(is_proved),
        lines: vain_lines(&in_vain).chain(cycles.iter().map(Cycle::line)).collect(),
    }
}

/// Returns the rank without a call of whose program a rank does not go on. `None` where another
/// event ends the wait as well, or where progress of the other rank brings the event about.
pub(crate) fn needed_rank(line: &RankLine) -> Option<u32> {
    let blocked = line.seen.blocked.filter(|_| line.seen.call != 0 && line.exit.is_none())?;
    if blocked.meanwhile.other_events || line.others_may_call {
        return None;
    }
    match blocked.kind {
        BlockedKind::Unknown | BlockedKind::RestOfMessage | BlockedKind::OneSided => None,
        BlockedKind::Message
        | BlockedKind::Connection
        | BlockedKind::MatchingReceive
        | BlockedKind::Collective(_)
        | BlockedKind::Lock
        | BlockedKind::Exposure
        | BlockedKind::AccessEnd => u32::try_from(blocked.world_rank?).ok(),
    }
}

impl Readings<'_> {
    /// Returns true if these ranks waited at one instant, at most `longest` before the readings,
    /// and each has looked since.
    fn prove(&self, ranks: &[usize], longest: Duration) -> bool {
        let lines = || ranks.iter().map(|rank| self.lines[*rank].as_ref());
        let all_waited = lines().map(|line| line.map_or(Duration::ZERO, |line| line.waited)).min();
        let last_look = lines().map(|line| line.map_or(Duration::MAX, |line| line.looked)).max();
        let bound = all_waited.unwrap_or_default().min(longest);
        last_look.is_some_and(|look| look.saturating_add(self.spread) < bound)
    }
}

struct WaitGraph<'a> {
    lines: &'a [Option<RankLine>],
}

/// A rank that waits for another one, which cannot answer.
struct Vain {
    rank: usize,
    other: usize,
    reason: &'static str,
    /// The other one never will.
    is_final: bool,
}

impl WaitGraph<'_> {
    /// Returns what a rank is blocked on.
    fn blocked(&self, rank: usize) -> Option<BlockedOn> {
        let line = self.lines[rank].filter(|line| line.seen.call != 0 && line.exit.is_none())?;
        line.seen.blocked
    }

    /// Returns the rank that a rank needs, unless work that the other one has begun may be what is
    /// missing.
    fn edge(&self, rank: usize) -> Option<usize> {
        let other = needed_rank(self.lines[rank].as_ref()?)? as usize;
        let is_under_way = match self.blocked(rank)?.kind {
            BlockedKind::Collective(_) | BlockedKind::MatchingReceive => {
                let theirs = (other < self.lines.len()).then(|| self.blocked(other)).flatten();
                theirs.is_some_and(|theirs| theirs.meanwhile.other_work)
            }
            _ => false,
        };
        Some(other).filter(|other| *other < self.lines.len() && !is_under_way)
    }

    /// Returns the ranks that wait for one that cannot answer.
    fn in_vain(&self) -> Vec<Vain> {
        (0..self.lines.len()).filter_map(|rank| self.waits_in_vain(rank)).collect()
    }

    fn waits_in_vain(&self, rank: usize) -> Option<Vain> {
        let other = self.edge(rank)?;
        let line = self.lines[other]?;
        let (reason, is_final) = match (line.seen.state, self.blocked(rank)?.kind) {
            // A process that it has left behind may call MPI_Init in its place.
            (state, _) if line.exit.is_some() => ("has ended", state != RankState::Starting),
            // It may be held by a debugger, or prepare its input.
            (RankState::Starting, _) => ("has not called MPI_Init", false),
            // It may open a session.
            (RankState::Finalized, _) => ("has called MPI_Finalize", false),
            // A rank in MPI_Finalize still completes what it has started.
            (RankState::Finalizing, BlockedKind::Message | BlockedKind::Connection) => {
                ("is in MPI_Finalize and sends no more", !line.others_may_call)
            }
            (RankState::Finalizing, BlockedKind::MatchingReceive) => {
                ("is in MPI_Finalize and receives no more", !line.others_may_call)
            }
            _ => return None,
        };
        Some(Vain { rank, other, reason, is_final })
    }

    /// Returns the ranks of each cycle.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let mut visited = vec![false; self.lines.len()];
        let mut cycles = Vec::new();
        for start in 0..self.lines.len() {
            let mut path = Vec::new();
            let mut at = Some(start);
            while let Some(rank) = at.filter(|rank| !visited[*rank]) {
                visited[rank] = true;
                path.push(rank);
                at = self.edge(rank);
            }
            let Some(begin) = at.and_then(|again| path.iter().position(|rank| *rank == again))
            else {
                continue;
            };
            cycles.push(path.split_off(begin));
        }
        cycles
    }
}

/// Returns a line for each rank that is waited for in vain.
fn vain_lines(in_vain: &[Vain]) -> impl Iterator<Item = String> + use<> {
    let mut reasons: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
    for vain in in_vain {
        reasons.entry((vain.other, vain.reason)).or_default().push(vain.rank);
    }
    reasons.into_iter().map(|((other, reason), ranks)| {
        format!("{} for rank {other}, which {reason}", subject(&ranks))
    })
}

fn cycle_line(path: &[usize]) -> String {
    let mut names: Vec<String> = path.iter().map(usize::to_string).collect();
    match names.as_slice() {
        [one] => format!("rank {one} waits for itself"),
        [one, other] => format!("ranks {one} and {other} wait for each other"),
        [one, ..] => {
            names.push(one.clone());
            format!("ranks wait for each other in a cycle: {}", names.join(" -> "))
        }
        [] => String::new(),
    }
}

/// Returns the ranks that wait, in words.
fn subject(ranks: &[usize]) -> String {
    let named = |ranks: &[usize]| ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match ranks {
        [rank] => format!("rank {rank} waits"),
        [.., last] if ranks.len() <= MAX_NAMED => {
            format!("ranks {} and {last} wait", named(&ranks[..ranks.len() - 1]))
        }
        _ => format!(
            "ranks {} and {} more wait",
            named(&ranks[..MAX_NAMED]),
            ranks.len() - MAX_NAMED
        ),
    }
}

#[cfg(test)]
mod tests {
    use bootstrap::{Meanwhile, Snapshot};

    use super::*;
    use crate::failure_policy::Exit;

    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(kind: BlockedKind, rank: Option<i32>) -> Snapshot {
        let blocked = BlockedOn { kind, world_rank: rank, since: 1, ..BlockedOn::default() };
        Snapshot { pid: 1, state: RankState::Running, call: 1, blocked: Some(blocked) }
    }

    fn for_message(rank: i32) -> Snapshot {
        waiting(BlockedKind::Message, Some(rank))
    }

    /// A rank with something that may happen meanwhile.
    fn meanwhile(seen: Snapshot, meanwhile: Meanwhile) -> Snapshot {
        let blocked = seen.blocked.map(|blocked| BlockedOn { meanwhile, ..blocked });
        Snapshot { blocked, ..seen }
    }

    /// Readings of ranks that have waited for ten seconds, and looked one second ago.
    fn lines(seen: &[Snapshot]) -> Vec<Option<RankLine>> {
        let line = |seen: &Snapshot| RankLine {
            waited: 10 * SECOND,
            looked: SECOND,
            ..RankLine::of_page(1, None, *seen)
        };
        seen.iter().map(|seen| Some(line(seen))).collect()
    }

    fn read(lines: &[Option<RankLine>]) -> Readings<'_> {
        Readings { lines, spread: Duration::ZERO, idle_for: 5 * SECOND }
    }

    fn of(seen: &[Snapshot], ends: &[Option<Exit>]) -> Vec<String> {
        let mut lines = lines(seen);
        for (line, exit) in lines.iter_mut().flatten().zip(ends) {
            line.exit = *exit;
        }
        conclusions(read(&lines)).lines
    }

    #[test]
    fn cycles_are_found_once_each() {
        let lines = of(&[3, 1, 5, 4, 0, 3].map(for_message), &[]);
        assert_eq!(
            lines,
            ["ranks wait for each other in a cycle: 0 -> 3 -> 4 -> 0", "rank 1 waits for itself"]
        );
        let pair =
            [for_message(1), for_message(0), waiting(BlockedKind::Message, None), for_message(99)];
        assert_eq!(of(&pair, &[]), ["ranks 0 and 1 wait for each other"]);
    }

    fn are_deadlocked(seen: &[Snapshot]) -> bool {
        !deadlocks(read(&lines(seen))).is_empty()
    }

    #[test]
    fn a_wait_that_another_event_ends_proves_nothing() {
        let found = deadlocks(read(&lines(&[2, 0, 0].map(for_message))));
        assert_eq!(found, [Cycle { ranks: vec![(0, 1), (2, 1)] }]);
        let any = Meanwhile { other_events: true, ..Meanwhile::default() };
        let seen = [meanwhile(for_message(1), any), for_message(0)];
        assert!(!are_deadlocked(&seen) && of(&seen, &[]).is_empty());
    }

    #[test]
    fn what_progress_brings_about_proves_nothing() {
        for kind in [BlockedKind::Unknown, BlockedKind::RestOfMessage, BlockedKind::OneSided] {
            assert!(!are_deadlocked(&[waiting(kind, Some(1)), for_message(0)]), "{kind:?}");
        }
        let work = Meanwhile { other_work: true, ..Meanwhile::default() };
        for (kind, is_proof) in [
            (BlockedKind::Message, true),
            (BlockedKind::Lock, true),
            (BlockedKind::MatchingReceive, false),
            (BlockedKind::Collective(1), false),
        ] {
            let first = waiting(kind, Some(1));
            assert!(are_deadlocked(&[first, for_message(0)]), "{kind:?}");
            let second = meanwhile(for_message(0), work);
            assert_eq!(are_deadlocked(&[first, second]), is_proof, "{kind:?}");
        }
    }

    #[test]
    fn a_thread_that_may_call_proves_nothing() {
        let mut lines = lines(&[1, 0].map(for_message));
        assert_eq!(deadlocks(read(&lines)).len(), 1);
        lines[1].iter_mut().for_each(|line| line.others_may_call = true);
        assert!(deadlocks(read(&lines)).is_empty());
        assert!(conclusions(read(&lines)).lines.is_empty());
    }

    #[test]
    fn a_proof_needs_a_look_of_each_rank_while_all_wait() {
        let mut lines = lines(&[1, 0].map(for_message));
        let is_proved = |lines: &[Option<RankLine>], spread: Duration| {
            let found = conclusions(Readings { spread, ..read(lines) });
            assert_eq!(found.lines.is_empty(), !found.is_proved);
            found.is_proved
        };
        assert!(is_proved(&lines, 8 * SECOND) && !is_proved(&lines, 9 * SECOND));
        // Rank 1 began to wait after rank 0 has looked.
        lines[1].iter_mut().for_each(|line| line.waited = SECOND / 2);
        assert!(!is_proved(&lines, Duration::ZERO));
        // It has not looked at all.
        lines[1].iter_mut().for_each(|line| {
            *line = RankLine { looked: Duration::MAX, waited: 10 * SECOND, ..*line }
        });
        assert!(!is_proved(&lines, Duration::ZERO));
    }

    #[test]
    fn a_rank_in_finalize_is_proof_in_a_stall_and_one_before_init_is_none() {
        let other = |state: RankState| Snapshot { state, call: 0, ..for_message(0) };
        let is_proved = |state: RankState, idle_for: Duration| {
            let lines = lines(&[for_message(1), other(state)]);
            let found = conclusions(Readings { idle_for, ..read(&lines) });
            assert_eq!(found.lines.len(), 1, "{state:?}");
            found.is_proved
        };
        assert!(is_proved(RankState::Finalizing, 2 * SECOND));
        assert!(!is_proved(RankState::Finalizing, SECOND));
        assert!(!is_proved(RankState::Starting, 9 * SECOND));
    }

    #[test]
    fn an_unknown_rank_gives_no_conclusion() {
        let found = |ranks: [i32; 3]| {
            let mut lines = lines(&ranks.map(for_message));
            lines[1] = None;
            conclusions(read(&lines)).lines
        };
        assert!(found([1, 0, 0]).is_empty());
        assert_eq!(found([2, 0, 0]), ["ranks 0 and 2 wait for each other"]);
    }

    #[test]
    fn a_rank_that_ended_is_waited_for_in_vain() {
        let finalizing = |snapshot| Snapshot { state: RankState::Finalizing, ..snapshot };
        let in_finalize = finalizing(waiting(BlockedKind::Collective(24), Some(1)));
        let seen = [in_finalize, for_message(0), for_message(3), for_message(0)];
        let lines = of(&seen, &[None, None, None, Some(Exit::Code(0))]);
        let expected = [
            "rank 1 waits for rank 0, which is in MPI_Finalize and sends no more",
            "rank 2 waits for rank 3, which has ended",
            "ranks 0 and 1 wait for each other",
        ];
        assert_eq!(lines, expected);
        let mut many = vec![in_finalize];
        many.resize(20, for_message(0));
        let lines = of(&many, &[]);
        assert_eq!(
            lines[0],
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more wait for rank 0, which is in MPI_Finalize \
             and sends no more"
        );
    }

    #[test]
    fn a_rank_outside_mpi_is_named() {
        let outside =
            Snapshot { state: RankState::Starting, ..Snapshot { call: 0, ..for_message(0) } };
        assert_eq!(
            of(&[for_message(1), outside], &[]),
            ["rank 0 waits for rank 1, which has not called MPI_Init"]
        );
    }

    #[test]
    fn computing_is_not_waiting() {
        let computing = Snapshot { call: 0, ..for_message(0) };
        assert!(of(&[computing, for_message(0)], &[]).is_empty());
    }
}
