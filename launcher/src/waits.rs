//! Who waits for whom: what follows from what all ranks of a host say.
//!
//! Each waiting rank has at most one rank that it names, so the ranks are the nodes of a graph
//! with at most one edge from each: following it ends at a rank that waits for nobody in particular, or
//! that the host does not have, or goes in a circle.

use std::collections::BTreeMap;

use bootstrap::board::Snapshot;
use bootstrap::{Awaited, State, Waiting};

use crate::fate::Exit;

/// Ranks that are named in one line.
const NAMED: usize = 8;

/// Lines for the user, from `first` on: circles, and ranks that wait for what can't come any more.
pub(crate) fn conclusions(first: u32, seen: &[Snapshot], ends: &[Option<Exit>]) -> Vec<String> {
    let ranks = Ranks { first, seen, ends };
    let mut lines = ranks.in_vain();
    lines.extend(ranks.circles());
    lines
}

struct Ranks<'a> {
    first: u32,
    seen: &'a [Snapshot],
    ends: &'a [Option<Exit>],
}

impl Ranks<'_> {
    /// What a rank of this host waits for, if it does.
    fn waiting(&self, rank: usize) -> Option<Waiting> {
        self.seen[rank].waiting.filter(|_| self.seen[rank].call != 0 && self.ends[rank].is_none())
    }

    /// The rank of this host that it waits for.
    fn awaited(&self, rank: usize) -> Option<usize> {
        let other = u32::try_from(self.waiting(rank)?.world_rank?).ok()?.checked_sub(self.first)? as usize;
        Some(other).filter(|other| *other < self.seen.len())
    }

    fn name(&self, rank: usize) -> u32 {
        self.first + rank as u32
    }

    fn in_vain(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(usize, &str), Vec<u32>> = BTreeMap::new();
        for rank in 0..self.seen.len() {
            if let Some(reason) = self.gone(rank) {
                reasons.entry(reason).or_default().push(self.name(rank));
            }
        }
        let line = |((other, gone), ranks): (&(usize, &str), &Vec<u32>)| {
            format!("{} for rank {}, which {gone}", many(ranks), self.name(*other))
        };
        reasons.iter().map(line).collect()
    }

    /// Who it waits for in vain, and why.
    fn gone(&self, rank: usize) -> Option<(usize, &'static str)> {
        let other = self.awaited(rank)?;
        let gone = match (self.seen[other].state, self.waiting(rank)?.awaited) {
            _ if self.ends[other].is_some() => "has ended",
            (State::Finalized, _) => "has called MPI_Finalize",
            // It still gives what it has promised.
            (State::Finalizing, Awaited::Message) => "is in MPI_Finalize and sends no more",
            (State::Finalizing, Awaited::Taking) => "is in MPI_Finalize and receives no more",
            _ => return None,
        };
        Some((other, gone))
    }

    fn circles(&self) -> Vec<String> {
        let mut visited = vec![false; self.seen.len()];
        let mut lines = Vec::new();
        for start in 0..self.seen.len() {
            let mut path = Vec::new();
            let mut at = Some(start);
            while let Some(rank) = at.filter(|rank| !visited[*rank]) {
                visited[rank] = true;
                path.push(rank);
                at = self.awaited(rank);
            }
            let Some(begin) = at.and_then(|again| path.iter().position(|rank| *rank == again)) else { continue };
            lines.push(self.circle(&path[begin..]));
        }
        lines
    }

    fn circle(&self, path: &[usize]) -> String {
        let mut names: Vec<String> = path.iter().map(|rank| self.name(*rank).to_string()).collect();
        match names.as_slice() {
            [one] => format!("rank {one} waits for itself"),
            [one, other] => format!("ranks {one} and {other} wait for each other"),
            [one, ..] => {
                names.push(one.clone());
                format!("ranks wait for each other in a circle: {}", names.join(" -> "))
            }
            [] => String::new(),
        }
    }
}

/// Ranks that wait, in words.
fn many(ranks: &[u32]) -> String {
    let named = |ranks: &[u32]| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match ranks {
        [rank] => format!("rank {rank} waits"),
        [.., last] if ranks.len() <= NAMED => format!("ranks {} and {last} wait", named(&ranks[..ranks.len() - 1])),
        _ => format!("ranks {} and {} more wait", named(&ranks[..NAMED]), ranks.len() - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(awaited: Awaited, rank: Option<i32>) -> Snapshot {
        let waiting = Waiting { awaited, world_rank: rank, since: 1, ..Waiting::default() };
        Snapshot { pid: 1, state: State::Running, call: 1, waiting: Some(waiting) }
    }

    fn for_message(rank: i32) -> Snapshot {
        waits(Awaited::Message, Some(rank))
    }

    #[test]
    fn circles_are_found_once_each() {
        let seen = [3, 1, 5, 4, 0, 3].map(for_message);
        let lines = conclusions(0, &seen, &[None; 6]);
        assert_eq!(lines, ["ranks wait for each other in a circle: 0 -> 3 -> 4 -> 0", "rank 1 waits for itself"]);
        let pair = [for_message(11), for_message(10), waits(Awaited::Message, None), for_message(99)];
        assert_eq!(conclusions(10, &pair, &[None; 4]), ["ranks 10 and 11 wait for each other"]);
    }

    #[test]
    fn who_is_gone_gives_nothing_any_more() {
        let finalizing = |snapshot| Snapshot { state: State::Finalizing, ..snapshot };
        let in_finalize = finalizing(waits(Awaited::Collective(24), Some(1)));
        let seen = [in_finalize, for_message(0), for_message(3), for_message(0)];
        let lines = conclusions(0, &seen, &[None, None, None, Some(Exit::Code(0))]);
        let expected = [
            "rank 1 waits for rank 0, which is in MPI_Finalize and sends no more",
            "rank 2 waits for rank 3, which has ended",
            "ranks 0 and 1 wait for each other",
        ];
        assert_eq!(lines, expected);
        let mut many = vec![in_finalize];
        many.resize(20, for_message(0));
        let lines = conclusions(0, &many, &[None; 20]);
        assert_eq!(
            lines[0],
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more wait for rank 0, which is in MPI_Finalize and sends no more"
        );
        let rest = [in_finalize, waits(Awaited::Rest, Some(0))];
        assert_eq!(conclusions(0, &rest, &[None; 2]), ["ranks 0 and 1 wait for each other"]);
    }

    #[test]
    fn computing_is_not_waiting() {
        let computing = Snapshot { call: 0, ..for_message(0) };
        assert!(conclusions(0, &[computing, for_message(0)], &[None; 2]).is_empty());
    }
}
