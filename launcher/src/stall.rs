//! Stall detection: all ranks of a host are blocked in MPI, no rank has made progress for some
//! time, and no rank computes.
//!
//! The ranks do nothing for it. Their entries of the status page show since when they wait. The
//! system reports how much CPU time they have used meanwhile (one thread of a rank may compute
//! while another waits).

use std::time::{Duration, Instant};

use bootstrap::status_page::monotonic_nanos;
use bootstrap::{RankState, Snapshot, StatusPage};
use rustix::process::Pid;

use crate::failure_policy::Exit;
use crate::proc_stat;

/// Checks during the time without progress.
const CHECKS_PER_TIMEOUT: u32 = 4;
/// A blocked rank may use up to 1 / this of a processor's time.
const MAX_CPU_FRACTION: u32 = 20;

/// Watches the ranks of one host.
#[derive(Debug)]
pub(crate) struct StallDetector {
    after: Duration,
    next: Instant,
    /// The time at which all were first seen blocked, and the CPU time of each then.
    quiet: Option<(Instant, Vec<Duration>)>,
    /// The present stall was reported.
    is_reported: bool,
}

impl StallDetector {
    /// Detects stalls that last at least `after`.
    pub(crate) fn new(after: Duration, now: Instant) -> StallDetector {
        StallDetector {
            after,
            next: now + after / CHECKS_PER_TIMEOUT,
            quiet: None,
            is_reported: false,
        }
    }

    /// Returns the time without progress that makes a stall.
    pub(crate) fn after(&self) -> Duration {
        self.after
    }

    /// Returns the time of the next [`StallDetector::tick`].
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    /// Returns `Some(true)` when the ranks have stalled, `Some(false)` when they continue.
    pub(crate) fn tick(
        &mut self,
        status_page: &StatusPage,
        ends: &[Option<Exit>],
        now: Instant,
    ) -> Option<bool> {
        if now < self.next {
            return None;
        }
        self.next = now + self.after / CHECKS_PER_TIMEOUT;
        let is_stalled = self.check(status_page, ends, now);
        (std::mem::replace(&mut self.is_reported, is_stalled) != is_stalled).then_some(is_stalled)
    }

    fn check(&mut self, status_page: &StatusPage, ends: &[Option<Exit>], now: Instant) -> bool {
        let entries = ends.iter().enumerate().filter(|(_, end)| end.is_none());
        let seen = entries.map(|(rank, _)| status_page.entry(rank as u32).snapshot());
        let Some(blocked) = all_blocked(seen.filter(|seen| seen.state != RankState::Finalized))
        else {
            self.quiet = None;
            return false;
        };
        let used: Vec<Duration> = blocked.iter().map(|(pid, _)| cpu_time(*pid)).collect();
        let (began, before) = self.quiet.get_or_insert_with(|| (now, used.clone()));
        let time = now.duration_since(*began);
        let is_idle = |(now, before): (&Duration, &Duration)| {
            now.saturating_sub(*before) <= time / MAX_CPU_FRACTION
        };
        if used.len() != before.len() || !used.iter().zip(&*before).all(is_idle) {
            self.quiet = None;
            return false;
        }
        let now = monotonic_nanos();
        let has_waited =
            |since: &u64| Duration::from_nanos(now.saturating_sub(*since)) >= self.after;
        time >= self.after / 2 && blocked.iter().all(|(_, since)| has_waited(since))
    }
}

/// Returns the line that stands before the table.
pub(crate) fn report(after: Duration) -> String {
    let after = after.as_secs_f64();
    format!(
        "no progress for {after} s (--stall-timeout): all ranks wait in MPI calls; the job \
         continues, Ctrl-C ends it"
    )
}

/// Returns each process with the time since which it waits; `None` unless all wait.
fn all_blocked(mut seen: impl Iterator<Item = Snapshot>) -> Option<Vec<(u32, u64)>> {
    let mut all = Vec::new();
    let all_wait = seen.all(|seen| {
        let since = seen.blocked.filter(|_| seen.call != 0).map(|blocked| blocked.since);
        all.extend(since.map(|since| (seen.pid, since)));
        since.is_some()
    });
    Some(all).filter(|all| all_wait && !all.is_empty())
}

/// Returns the CPU time so far.
fn cpu_time(pid: u32) -> Duration {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .and_then(proc_stat::cpu_time)
        .unwrap_or_default()
}
