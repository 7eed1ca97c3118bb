//! Whether a job has come to a standstill: all of its ranks wait in MPI for others, none has got any
//! further for some time, and none computes.
//!
//! Nothing is asked of the ranks: their lines on the board say since when they wait, the system how
//! much they have computed meanwhile (a thread of theirs may, while another waits).

use std::time::{Duration, Instant};

use bootstrap::status_page::{Snapshot, monotonic_nanos};
use bootstrap::{RankState, StatusPage};
use rustix::process::Pid;

use crate::failure_policy::Exit;
use crate::proc_stat;

/// Looks in each stretch of that length.
const LOOKS: u32 = 4;
/// Part of a processor's time that a waiting rank may use.
const SHARE: u32 = 20;

/// Watches the ranks of one host.
#[derive(Debug)]
pub(crate) struct Stall {
    after: Duration,
    next: Instant,
    /// When all were first seen waiting, and how much each had computed then.
    quiet: Option<(Instant, Vec<Duration>)>,
    /// It was said.
    told: bool,
}

impl Stall {
    /// A standstill lasts at least `after`.
    pub(crate) fn new(after: Duration, now: Instant) -> Stall {
        Stall { after, next: now + after / LOOKS, quiet: None, told: false }
    }

    /// How long nothing moves before it counts.
    pub(crate) fn after(&self) -> Duration {
        self.after
    }

    /// When [`Stall::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    /// `Some(true)` when the ranks have come to a standstill, `Some(false)` when they go on after that.
    pub(crate) fn tick(
        &mut self,
        status_page: &StatusPage,
        ends: &[Option<Exit>],
        now: Instant,
    ) -> Option<bool> {
        if now < self.next {
            return None;
        }
        self.next = now + self.after / LOOKS;
        let stands = self.look(status_page, ends, now);
        (std::mem::replace(&mut self.told, stands) != stands).then_some(stands)
    }

    fn look(&mut self, status_page: &StatusPage, ends: &[Option<Exit>], now: Instant) -> bool {
        let entries = ends.iter().enumerate().filter(|(_, end)| end.is_none());
        let seen = entries.map(|(rank, _)| status_page.entry(rank as u32).snapshot());
        let Some(waiting) = all_waiting(seen.filter(|seen| seen.state != RankState::Finalized))
        else {
            self.quiet = None;
            return false;
        };
        let used: Vec<Duration> = waiting.iter().map(|(pid, _)| computed(*pid)).collect();
        let (began, before) = self.quiet.get_or_insert_with(|| (now, used.clone()));
        let time = now.duration_since(*began);
        let is_idle =
            |(now, before): (&Duration, &Duration)| now.saturating_sub(*before) <= time / SHARE;
        if used.len() != before.len() || !used.iter().zip(&*before).all(is_idle) {
            self.quiet = None;
            return false;
        }
        let now = monotonic_nanos();
        let has_waited =
            |since: &u64| Duration::from_nanos(now.saturating_sub(*since)) >= self.after;
        time >= self.after / 2 && waiting.iter().all(|(_, since)| has_waited(since))
    }
}

/// What the user is told, before the table.
pub(crate) fn text(after: Duration) -> String {
    let after = after.as_secs_f64();
    format!(
        "all ranks wait in MPI calls and none has got any further for {after} s (--stall-timeout); the job goes on, and \
         Ctrl-C ends it. This is what they wait for:"
    )
}

/// Processes with since when they wait; `None` unless all do.
fn all_waiting(mut seen: impl Iterator<Item = Snapshot>) -> Option<Vec<(u32, u64)>> {
    let mut all = Vec::new();
    let wait_graph = seen.all(|seen| {
        let since = seen.waiting.filter(|_| seen.call != 0).map(|waiting| waiting.since);
        all.extend(since.map(|since| (seen.pid, since)));
        since.is_some()
    });
    Some(all).filter(|all| wait_graph && !all.is_empty())
}

/// Time on processors so far.
fn computed(pid: u32) -> Duration {
    Pid::from_raw(pid as i32).and_then(proc_stat::computed).unwrap_or_default()
}
