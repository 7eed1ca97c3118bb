//! Ranks that end: reaped, judged, reported.

use std::time::Instant;

use bootstrap::State;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};

use super::Job;
use super::ending::{LESS_PATIENCE, Phase};
use crate::fate::{Event, Exit, Verdict};
use crate::report;

impl Job {
    pub(super) fn reap(&mut self) {
        let mut dead: Vec<(Pid, Exit)> = Vec::new();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let exit = status.exit_status().map(Exit::Code).or(status.terminating_signal().map(Exit::Signal));
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
            if let Some(rank) = self.started.ranks.iter().position(|rank| rank.pid == pid && rank.exit.is_none()) {
                self.rank_died(rank, exit);
            }
        }
    }

    fn rank_died(&mut self, rank: usize, exit: Exit) {
        // Its last words first: an abort explains an exit, and what it wrote
        // stands before what we say.
        self.read_control(rank);
        self.started.output.read_rank(rank as u32, Instant::now());
        let this = &mut self.started.ranks[rank];
        this.exit = Some(exit);
        this.control = None;
        let state = self.started.board.entry(rank as u32).state();
        self.events.push(Event::Died { rank: rank as u32, exit, state });
    }

    /// Decides about what has happened since the last time.
    pub(super) fn judge(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(Event::order);
        for event in events {
            match event.verdict() {
                Verdict::Fine => {}
                Verdict::Failed(code) => self.failed(&event, code, false),
                Verdict::Ends(code) => self.failed(&event, code, true),
                Verdict::Missing(code) => {
                    let (Event::Died { rank, .. } | Event::Aborted { rank, .. }) = event;
                    self.missing.get_or_insert(rank);
                    self.failed(&event, code, false);
                }
            }
        }
        if let Some(rank) = self.missing.filter(|_| self.phase == Phase::Running && self.some_rank_is_in_mpi()) {
            self.tell(&format!("the other ranks are in MPI and would wait for rank {rank}; ending the job"));
            self.terminate();
        }
    }

    fn failed(&mut self, event: &Event, code: u8, ends: bool) {
        if self.code.is_none() {
            let (Event::Died { rank, .. } | Event::Aborted { rank, .. }) = event;
            let seen = self.started.board.entry(*rank).snapshot();
            let pid = match seen.pid {
                0 => self.started.ranks[*rank as usize].pid.as_raw_nonzero().get() as u32,
                pid => pid,
            };
            self.tell(&report::failure(event, &seen, pid, &self.host, self.started.ranks.len(), ends));
            if let (Event::Died { exit: Exit::Signal(libc::SIGKILL), .. }, Some(why)) = (event, self.memory.hit()) {
                self.tell(&why);
            }
        }
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

    fn some_rank_is_in_mpi(&self) -> bool {
        self.started.ranks.iter().enumerate().any(|(rank, this)| {
            let state = self.started.board.entry(rank as u32).state();
            this.exit.is_none() && matches!(state, State::Running | State::Finalizing)
        })
    }
}
