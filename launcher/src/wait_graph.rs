//! Deadlock analysis: conclusions from what all ranks of a job wait for.
//!
//! Each blocked rank names at most one other rank. The ranks are therefore the nodes of a
//! graph with at most one edge from each node. A path ends at a rank that waits for no rank
//! in particular, at a rank of which nothing is known, or in a cycle.

use std::collections::BTreeMap;

use bootstrap::calls::Call;
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

/// Returns the cycles in which each rank waits for one rank alone: these ranks wait for ever.
pub(crate) fn deadlocks(lines: &[Option<RankLine>]) -> Vec<Cycle> {
    let graph = WaitGraph { lines };
    let waits = |rank: usize| {
        let waits_for_any = [Call::Waitany, Call::Waitsome].map(Call::index);
        let seen = lines[rank].map(|line| line.seen)?;
        seen.blocked.filter(|_| !waits_for_any.contains(&seen.call)).map(|blocked| blocked.since)
    };
    let with_times = |path: Vec<usize>| {
        path.into_iter().map(|rank| Some((rank, waits(rank)?))).collect::<Option<Vec<_>>>()
    };
    graph.paths().into_iter().filter_map(with_times).map(|ranks| Cycle { ranks }).collect()
}

/// Returns lines for the user: ranks that wait for an event that cannot happen, and cycles. `lines`
/// holds all ranks of the job in order; `None` stands for a rank whose host has not answered.
pub(crate) fn conclusions(lines: &[Option<RankLine>]) -> Vec<String> {
    let graph = WaitGraph { lines };
    let mut lines = graph.in_vain();
    lines.extend(graph.paths().iter().map(|path| cycle_line(path)));
    lines
}

struct WaitGraph<'a> {
    lines: &'a [Option<RankLine>],
}

impl WaitGraph<'_> {
    /// Returns what a rank is blocked on.
    fn blocked(&self, rank: usize) -> Option<BlockedOn> {
        let line = self.lines[rank].filter(|line| line.seen.call != 0 && line.exit.is_none())?;
        line.seen.blocked
    }

    /// Returns the rank that a rank waits for.
    fn blocking_rank(&self, rank: usize) -> Option<usize> {
        let other = usize::try_from(self.blocked(rank)?.world_rank?).ok()?;
        Some(other).filter(|other| *other < self.lines.len())
    }

    fn in_vain(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
        for rank in 0..self.lines.len() {
            if let Some(wait) = self.waits_in_vain(rank) {
                reasons.entry(wait).or_default().push(rank);
            }
        }
        let line = |((other, reason), ranks): (&(usize, &str), &Vec<usize>)| {
            format!("{} for rank {other}, which {reason}", subject(ranks))
        };
        reasons.iter().map(line).collect()
    }

    /// Returns the rank that a rank waits for although it cannot answer, and the reason.
    fn waits_in_vain(&self, rank: usize) -> Option<(usize, &'static str)> {
        let other = self.blocking_rank(rank)?;
        let line = self.lines[other]?;
        let reason = match (line.seen.state, self.blocked(rank)?.kind) {
            _ if line.exit.is_some() => "has ended",
            (RankState::Starting, _) => "has not called MPI_Init",
            (RankState::Finalized, _) => "has called MPI_Finalize",
            // A rank in MPI_Finalize still completes what it has started.
            (RankState::Finalizing, BlockedKind::Message) => "is in MPI_Finalize and sends no more",
            (RankState::Finalizing, BlockedKind::MatchingReceive) => {
                "is in MPI_Finalize and receives no more"
            }
            _ => return None,
        };
        Some((other, reason))
    }

    /// Returns the ranks of each cycle.
    fn paths(&self) -> Vec<Vec<usize>> {
        let mut visited = vec![false; self.lines.len()];
        let mut cycles = Vec::new();
        for start in 0..self.lines.len() {
            let mut path = Vec::new();
            let mut at = Some(start);
            while let Some(rank) = at.filter(|rank| !visited[*rank]) {
                visited[rank] = true;
                path.push(rank);
                at = self.blocking_rank(rank);
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
    use bootstrap::Snapshot;

    use super::*;
    use crate::failure_policy::Exit;

    fn wait_graph(kind: BlockedKind, rank: Option<i32>) -> Snapshot {
        let blocked = BlockedOn { kind, world_rank: rank, since: 1, ..BlockedOn::default() };
        Snapshot { pid: 1, state: RankState::Running, call: 1, blocked: Some(blocked) }
    }

    fn for_message(rank: i32) -> Snapshot {
        wait_graph(BlockedKind::Message, Some(rank))
    }

    fn of(seen: &[Snapshot], ends: &[Option<Exit>]) -> Vec<String> {
        let end = |rank: usize| ends.get(rank).copied().flatten();
        let lines: Vec<_> = seen
            .iter()
            .enumerate()
            .map(|(rank, seen)| Some(RankLine::new(1, end(rank), *seen)))
            .collect();
        conclusions(&lines)
    }

    #[test]
    fn cycles_are_found_once_each() {
        let lines = of(&[3, 1, 5, 4, 0, 3].map(for_message), &[]);
        assert_eq!(
            lines,
            ["ranks wait for each other in a cycle: 0 -> 3 -> 4 -> 0", "rank 1 waits for itself"]
        );
        let pair = [
            for_message(1),
            for_message(0),
            wait_graph(BlockedKind::Message, None),
            for_message(99),
        ];
        assert_eq!(of(&pair, &[]), ["ranks 0 and 1 wait for each other"]);
    }

    #[test]
    fn a_deadlock_needs_ranks_that_wait_for_one_rank_alone() {
        let of = |call: Call| {
            let line = |rank| {
                let seen = Snapshot { call: call.index(), ..for_message(rank) };
                Some(RankLine::new(1, None, seen))
            };
            deadlocks(&[line(2), line(0), line(0)])
        };
        assert_eq!(of(Call::Recv), [Cycle { ranks: vec![(0, 1), (2, 1)] }]);
        assert!(of(Call::Waitany).is_empty());
    }

    #[test]
    fn an_unknown_rank_gives_no_conclusion() {
        let line = |rank| Some(RankLine::new(1, None, for_message(rank)));
        assert!(conclusions(&[line(1), None, line(0)]).is_empty());
        assert_eq!(conclusions(&[line(2), None, line(0)]), ["ranks 0 and 2 wait for each other"]);
    }

    #[test]
    fn a_rank_that_ended_is_waited_for_in_vain() {
        let finalizing = |snapshot| Snapshot { state: RankState::Finalizing, ..snapshot };
        let in_finalize = finalizing(wait_graph(BlockedKind::Collective(24), Some(1)));
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
        let rest = [in_finalize, wait_graph(BlockedKind::RestOfMessage, Some(0))];
        assert_eq!(of(&rest, &[]), ["ranks 0 and 1 wait for each other"]);
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
