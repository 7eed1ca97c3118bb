//! Stall detection: no rank of a host makes progress or computes for some time.
//!
//! Each rank is blocked in MPI, or idle outside of it: stopped, asleep, in a hung file system. The
//! ranks do nothing for the detection. Their entries of the status page show since when they wait.
//! The system reports how much CPU time they have used meanwhile (one thread of a rank may compute
//! while another waits, or a child of the rank while the rank waits for it).
//!
//! States of a host ([`HostStall`]): active -> idle or waiting -> active again. It is a stall of
//! the job once no host is active and a rank of some host waits in MPI.

use std::time::{Duration, Instant};

use bootstrap::status_page::monotonic_nanos;
use bootstrap::{RankState, Snapshot, StatusPage};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::failure_policy::Exit;
use crate::proc_stat;
use crate::proc_tree;
use crate::rank_table::RankLine;
use crate::wait_graph::{self, Cycle, Readings};

/// Checks during the time without progress.
const CHECKS_PER_TIMEOUT: u32 = 4;
/// Time after which a check that ends a stall is repeated. A rank that waits looks now and then for
/// what it waits for: it runs for a moment, and its record changes.
const DOUBT: Duration = Duration::from_millis(100);
/// A blocked rank may use up to 1 / this of a processor's time.
const MAX_CPU_FRACTION: u32 = 20;

/// Whether the ranks of a host make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostStall {
    /// A rank makes progress, or computes.
    Active,
    /// All ranks are idle outside of MPI.
    Idle,
    /// All ranks are idle, and some are blocked in MPI.
    Waiting,
}

impl HostStall {
    /// Returns the state of two hosts together.
    pub(crate) fn join(self, other: HostStall) -> HostStall {
        match (self, other) {
            (HostStall::Active, _) | (_, HostStall::Active) => HostStall::Active,
            (HostStall::Waiting, _) | (_, HostStall::Waiting) => HostStall::Waiting,
            (HostStall::Idle, HostStall::Idle) => HostStall::Idle,
        }
    }
}

/// A time in which no rank was active.
#[derive(Clone, Debug)]
struct Quiet {
    began: Instant,
    /// The CPU time of each rank when it began.
    used: Vec<Duration>,
    /// Which ranks wait in MPI.
    waits: Vec<bool>,
}

/// Watches the ranks of one host.
#[derive(Debug)]
pub(crate) struct StallDetector {
    after: Duration,
    next: Instant,
    /// Since when no rank was seen active.
    quiet: Option<Quiet>,
    /// The last check of a stall found a rank active.
    is_in_doubt: bool,
    /// The last result.
    stall: HostStall,
}

impl StallDetector {
    /// Detects stalls that last at least `after`.
    pub(crate) fn new(after: Duration, now: Instant) -> StallDetector {
        StallDetector {
            after,
            next: now + after / CHECKS_PER_TIMEOUT,
            quiet: None,
            is_in_doubt: false,
            stall: HostStall::Active,
        }
    }

    /// Returns the time without progress that makes a stall.
    pub(crate) fn after(&self) -> Duration {
        self.after
    }

    /// Returns the result of the last check.
    pub(crate) fn state(&self) -> HostStall {
        self.stall
    }

    /// Returns the time of the next [`StallDetector::tick`].
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    /// Returns how long no rank was seen active, in a stall.
    pub(crate) fn idle_for(&self, now: Instant) -> Option<Duration> {
        let quiet = self.quiet.as_ref().filter(|_| self.stall != HostStall::Active)?;
        Some(now.duration_since(quiet.began))
    }

    /// Returns the state of the host when it changes. `leaders` are the processes that were
    /// started, in order.
    pub(crate) fn tick(
        &mut self,
        status_page: &StatusPage,
        leaders: &[(Pid, Option<Exit>)],
        now: Instant,
    ) -> Option<HostStall> {
        if now < self.next {
            return None;
        }
        let period = self.after / CHECKS_PER_TIMEOUT;
        let before = self.quiet.clone();
        let stall = self.check(status_page, leaders, now);
        let has_ended = self.stall == HostStall::Waiting && stall == HostStall::Active;
        self.is_in_doubt = has_ended && !self.is_in_doubt;
        if self.is_in_doubt {
            (self.quiet, self.next) = (before, now + period.min(DOUBT));
            return None;
        }
        self.next = now + period;
        (std::mem::replace(&mut self.stall, stall) != stall).then_some(stall)
    }

    fn check(
        &mut self,
        status_page: &StatusPage,
        leaders: &[(Pid, Option<Exit>)],
        now: Instant,
    ) -> HostStall {
        let ranks = (0..).zip(leaders).filter(|(_, (_, end))| end.is_none());
        let ranks: Vec<(Pid, Snapshot)> = ranks
            .map(|(rank, (leader, _))| (*leader, status_page.entry(rank).snapshot()))
            .filter(|(_, seen)| seen.state != RankState::Finalized)
            .collect();
        let since: Vec<Option<u64>> = ranks.iter().map(|(_, seen)| waits_since(seen)).collect();
        let waits: Vec<bool> = since.iter().map(Option::is_some).collect();
        if ranks.iter().any(|(leader, seen)| wants_to_run(*leader, seen)) {
            self.quiet = None;
            return HostStall::Active;
        }
        let used: Vec<Duration> = ranks.iter().map(|(leader, seen)| used(*leader, seen)).collect();
        let time = self.quiet_time(&used, &waits, now);
        let clock = monotonic_nanos();
        let has_waited =
            |since: &u64| Duration::from_nanos(clock.saturating_sub(*since)) >= self.after;
        // Half the time is enough where each rank's own clock shows the rest.
        let is_all_waiting = !waits.is_empty() && waits.iter().all(|waits| *waits);
        let needed = if is_all_waiting { self.after / 2 } else { self.after };
        if time < needed || !since.iter().flatten().all(has_waited) {
            return HostStall::Active;
        }
        if waits.contains(&true) { HostStall::Waiting } else { HostStall::Idle }
    }

    /// Returns how long the same ranks have waited and none has used the processor.
    fn quiet_time(&mut self, used: &[Duration], waits: &[bool], now: Instant) -> Duration {
        let time = self.quiet.as_ref().map_or(Duration::ZERO, |quiet| now - quiet.began);
        let is_idle = |(now, before): (&Duration, &Duration)| {
            now.saturating_sub(*before) <= time / MAX_CPU_FRACTION
        };
        let continues = self
            .quiet
            .as_ref()
            .is_some_and(|quiet| quiet.waits == waits && used.iter().zip(&quiet.used).all(is_idle));
        if !continues {
            self.quiet = Some(Quiet { began: now, used: used.into(), waits: waits.into() });
            return Duration::ZERO;
        }
        time
    }
}

/// Watches for ranks of one host that wait for each other: they need no long time without progress.
#[derive(Debug)]
pub(crate) struct DeadlockDetector {
    next: Instant,
    /// The cycles of the last look.
    seen: Vec<Cycle>,
    /// Cycles that were reported.
    reported: Vec<Cycle>,
    /// Which ranks had entered MPI_Finalize or ended at the last look, and since when all looks
    /// found the same ones.
    leaving: (Vec<bool>, Instant),
}

impl DeadlockDetector {
    /// Time between two looks; a cycle is reported at the second one that finds it unchanged.
    const INTERVAL: Duration = Duration::from_millis(1000);

    /// Starts to watch.
    pub(crate) fn new(now: Instant) -> DeadlockDetector {
        let next = now + DeadlockDetector::INTERVAL;
        DeadlockDetector {
            next,
            seen: Vec::new(),
            reported: Vec::new(),
            leaving: (Vec::new(), now),
        }
    }

    /// Returns the time of the next [`DeadlockDetector::tick`].
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    /// Returns the cycles that have become certain; `None` before it is time to look. `lines` are
    /// those of the status page.
    pub(crate) fn tick(
        &mut self,
        lines: impl FnOnce() -> Vec<Option<RankLine>>,
        now: Instant,
    ) -> Option<Vec<Cycle>> {
        if now < self.next {
            return None;
        }
        self.next = now + DeadlockDetector::INTERVAL;
        let began = Instant::now();
        let lines = lines();
        let spread = began.elapsed();
        let is_leaving = |line: &Option<RankLine>| line.as_ref().is_some_and(RankLine::is_leaving);
        let leaving: Vec<bool> = lines.iter().map(is_leaving).collect();
        if leaving != self.leaving.0 {
            self.leaving = (leaving, Instant::now());
        }
        let found = DeadlockDetector::look(lines, spread);
        let before = std::mem::replace(&mut self.seen, found);
        let is_new = |cycle: &&Cycle| before.contains(cycle) && !self.reported.contains(cycle);
        let certain: Vec<Cycle> = self.seen.iter().filter(is_new).cloned().collect();
        self.reported.extend_from_slice(&certain);
        Some(certain)
    }

    /// Returns for how long no rank has entered MPI_Finalize or ended, as far as looks have found.
    pub(crate) fn settled_for(&self) -> Duration {
        self.leaving.1.elapsed()
    }

    /// Returns the cycles of now. Only the processes of ranks in a cycle are looked at.
    fn look(mut lines: Vec<Option<RankLine>>, spread: Duration) -> Vec<Cycle> {
        let find = |lines: &[Option<RankLine>]| {
            wait_graph::deadlocks(Readings { lines, spread, idle_for: Duration::ZERO })
        };
        let suspects = find(&lines);
        for (rank, _) in suspects.iter().flat_map(|cycle| &cycle.ranks) {
            lines[*rank].iter_mut().for_each(RankLine::look_at_process);
        }
        if suspects.is_empty() { suspects } else { find(&lines) }
    }
}

/// Returns the line that stands before the table.
pub(crate) fn report(after: Duration) -> String {
    let after = after.as_secs_f64();
    format!(
        "no progress for {after} s (--stall-timeout, or launch.stall_timeout): ranks wait in MPI \
         calls and none computes; the job continues, Ctrl-C ends it"
    )
}

/// Returns the time since which a rank is blocked in MPI.
fn waits_since(seen: &Snapshot) -> Option<u64> {
    seen.blocked.filter(|_| seen.call != 0).map(|blocked| blocked.since)
}

/// Returns true if a rank runs, or would if it got a processor.
fn wants_to_run(leader: Pid, seen: &Snapshot) -> bool {
    processes(leader, seen).into_iter().any(|pid| proc_stat::state(pid) == Some('R'))
}

/// Returns the CPU time of a rank so far.
fn used(leader: Pid, seen: &Snapshot) -> Duration {
    processes(leader, seen).into_iter().filter_map(proc_stat::cpu_time).sum()
}

/// Returns the process of a rank; outside of MPI with the descendants of what was started, or of
/// itself where that is a stand-in.
fn processes(leader: Pid, seen: &Snapshot) -> Vec<Pid> {
    let own = i32::try_from(seen.pid).ok().and_then(Pid::from_raw);
    if let (Some(own), Some(_)) = (own, waits_since(seen)) {
        return vec![own];
    }
    let mut all = proc_tree::descendants(leader);
    if let Some(own) = own.filter(|own| !all.contains(own)) {
        all.extend(proc_tree::descendants(own));
    }
    all
}
