//! Ranks that ended without an error and without MPI_Init, and the ranks that wait for them.
//!
//! Such an end is no failure: a job may run programs that are not MPI programs. It ends the job
//! once a rank that is in MPI waits for the absent one, which can never come. A rank records what
//! it waits for after a moment, without a message; so the status page is read from time to time,
//! and only while there is an absent rank. An entry read twice without a change is taken as true.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bootstrap::{RankState, Ranks, Snapshot, StatusPage};
use serde::{Deserialize, Serialize};

use crate::failure_policy::Exit;
use crate::rank_table::RankLine;
use crate::wait_graph::needed_rank;

/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_millis(50);

/// The absent ranks of the job, and the ranks of this host that wait for them.
#[derive(Debug, Default)]
pub(crate) struct AbsentRanks {
    ranks: BTreeSet<u32>,
    next: Option<Instant>,
    /// A rank that was seen waiting for an absent one, and since when it waits.
    suspect: Option<(u32, u64)>,
}

/// A rank that waits for an absent one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Waiter {
    /// The rank.
    pub rank: u32,
    /// What it does.
    pub seen: Snapshot,
    /// The rank that it waits for.
    pub awaited: u32,
}

impl AbsentRanks {
    /// Records a rank that ended, if it did so without an error and without MPI_Init.
    pub(crate) fn add(&mut self, rank: u32, exit: Exit, state: RankState) {
        if exit == Exit::Code(0) && state == RankState::Starting {
            self.ranks.insert(rank);
        }
    }

    /// Records absent ranks of other hosts.
    pub(crate) fn add_remote(&mut self, ranks: &[u32]) {
        self.ranks.extend(ranks);
    }

    /// Returns the time of the next [`AbsentRanks::tick`] while there is an absent rank.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        (!self.ranks.is_empty()).then(|| self.next.unwrap_or(now + INTERVAL))
    }

    /// Looks for a rank that waits for an absent one. `ranks` are those of the status page; `ends`
    /// says how each has ended.
    pub(crate) fn tick(
        &mut self,
        status_page: &StatusPage,
        ranks: &Ranks,
        ends: impl Iterator<Item = Option<Exit>>,
        now: Instant,
    ) -> Option<Waiter> {
        if self.ranks.is_empty() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + INTERVAL);
        let waiter = self.waiter(status_page, ranks, ends);
        let since = |seen: &Snapshot| seen.blocked.map_or(0, |blocked| blocked.since);
        let suspect = waiter.map(|waiter| (waiter.rank, since(&waiter.seen)));
        let before = std::mem::replace(&mut self.suspect, suspect);
        waiter.filter(|_| before == suspect)
    }

    fn waiter(
        &self,
        status_page: &StatusPage,
        ranks: &Ranks,
        ends: impl Iterator<Item = Option<Exit>>,
    ) -> Option<Waiter> {
        // A process that a rank has left behind may have called MPI_Init in its place.
        let is_absent = |rank: &u32| {
            let is_starting = |local| status_page.entry(local).state() == RankState::Starting;
            self.ranks.contains(rank) && ranks.index_of(*rank).is_none_or(is_starting)
        };
        let running = (0..).zip(ends).filter(|(_, end)| end.is_none());
        running.map(|(local, _)| local).find_map(|local| {
            let seen = status_page.entry(local).snapshot();
            let mut line = RankLine::of_page(0, None, seen);
            needed_rank(&line).filter(is_absent)?;
            line.look_at_process();
            let awaited = needed_rank(&line)?;
            Some(Waiter { rank: ranks.at(local), seen, awaited })
        })
    }
}
