//! Ranks that end: reaped, judged, reported.

use std::time::Instant;

use bootstrap::RankState;
use bootstrap::status_page::Snapshot;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};

use super::Job;
use super::ending::{LESS_PATIENCE, Phase};
use crate::failure_policy::{Event, Exit, Verdict};
use crate::report;

impl Job {
    pub(super) fn reap(&mut self) {
        let mut dead: Vec<(Pid, Exit)> = Vec::new();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let exit = status
                        .exit_status()
                        .map(Exit::Code)
                        .or(status.terminating_signal().map(Exit::Signal));
                    dead.extend(exit.map(|exit| (pid, exit)));
                }
                Ok(None) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.childless = true;
                    break;
                }
            }
        }
        for (pid, exit) in dead {
            if let Some(rank) =
                self.started.ranks.iter().position(|rank| rank.pid == pid && rank.exit.is_none())
            {
                self.rank_died(rank, exit);
            }
        }
    }

    fn rank_died(&mut self, rank: usize, exit: Exit) {
        // Its last words first: an abort explains an exit, and what it wrote
        // stands before what we say.
        self.read_control(rank);
        let number = self.first + rank as u32;
        self.started.output.read_rank(number, Instant::now());
        let this = &mut self.started.ranks[rank];
        this.exit = Some(exit);
        this.control = None;
        let state = self.started.status_page.entry(rank as u32).state();
        self.events.push(Event::Died { rank: number, exit, state });
    }

    /// Decides about what has happened since the last time.
    pub(super) fn judge(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(Event::order);
        if self.upstream.is_some() {
            return self.report(events);
        }
        for event in events {
            match event.verdict() {
                Verdict::Fine => {}
                Verdict::Failed(code) => self.failed(&event, code, false),
                Verdict::Ends(code) => self.failed(&event, code, true),
                Verdict::Missing(code) => {
                    self.missing.get_or_insert(event.rank());
                    self.failed(&event, code, false);
                }
            }
        }
        if let Some(rank) =
            self.missing.filter(|_| self.phase == Phase::Running && self.some_rank_is_in_mpi())
        {
            self.tell(&report::would_wait(rank, self.started.ranks.len()));
            self.terminate();
        }
    }

    fn failed(&mut self, event: &Event, code: u8, ends: bool) {
        let runs = self.phase == Phase::Running;
        if self.code.is_none() || (ends && runs) {
            self.secondary_failures.named(event.rank());
            let (seen, pid) = self.seen(event.rank());
            self.tell(&report::failure(
                event,
                &seen,
                pid,
                &self.host,
                self.started.ranks.len(),
                ends,
            ));
            self.explain(event);
        }
        self.secondary_failures.happened(event, runs);
        self.code.get_or_insert(code);
        match (&mut self.phase, event) {
            // They were told to end; the others may still be saving their work.
            (Phase::Told { until, .. }, Event::Died { .. }) if ends => {
                *until = (*until).min(Instant::now() + LESS_PATIENCE);
            }
            _ if ends => self.terminate(),
            _ => {}
        }
    }

    /// Says why a rank may have been killed, where the kernel counts it.
    pub(super) fn explain(&mut self, event: &Event) {
        if let (Event::Died { exit: Exit::Signal(libc::SIGKILL), .. }, Some(why)) =
            (event, self.memory.hit())
        {
            self.tell(&why);
        }
    }

    /// What the board says of a rank, and the process that was in MPI or that we started.
    pub(super) fn seen(&self, rank: u32) -> (Snapshot, u32) {
        let local = rank - self.first;
        let seen = self.started.status_page.entry(local).snapshot();
        let started = self.started.ranks[local as usize].pid.as_raw_nonzero().get() as u32;
        (seen, if seen.pid == 0 { started } else { seen.pid })
    }

    pub(super) fn some_rank_is_in_mpi(&self) -> bool {
        self.started.ranks.iter().enumerate().any(|(rank, this)| {
            let state = self.started.status_page.entry(rank as u32).state();
            this.exit.is_none() && matches!(state, RankState::Running | RankState::Finalizing)
        })
    }
}
