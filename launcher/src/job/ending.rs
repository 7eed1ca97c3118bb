//! The end of a job: signals, deadlines, SIGTERM, SIGKILL.

use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process, kill_process_group};

use super::state::{Job, Phase};
use crate::failure_policy::Event;
use crate::settings::Settings;
use crate::stall::HostStall;

/// Time from SIGTERM to SIGKILL when the job has failed.
const TERM_GRACE: Duration = Duration::from_millis(250);
/// Time that ranks have to end by themselves after Ctrl-C or SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time that the other ranks have once a rank has died of the signal.
pub(crate) const STOP_GRACE_AFTER_DEATH: Duration = Duration::from_secs(2);
/// Time from Ctrl-C to the hint at a second one.
const KILL_NOTICE_DELAY: Duration = Duration::from_millis(500);
/// Time from one round of SIGKILL to the next.
const KILL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a process that survives SIGKILL is given up.
const STUCK_AFTER: Duration = Duration::from_secs(5);

impl Job {
    /// Forwards a signal like SIGINT or SIGTERM to the ranks; if the job is ending already, kills
    /// them. With no process left, gives up output that its reader does not take.
    pub(super) fn on_stop_signal(&mut self, signal: i32) {
        self.outcome.set_code(128 + signal as u8);
        let has_ended = self.has_no_process() && self.jobs.are_over();
        match self.phase {
            Phase::Running if !has_ended => {
                self.forward(signal);
                self.jobs.stop(signal);
                let now = Instant::now();
                self.phase = Phase::Stopping {
                    signal,
                    until: now + STOP_GRACE,
                    // The outermost `mpiexec` speaks for all.
                    kill_notice_at: (self.ranks.first() == 0 && !self.is_spawned)
                        .then_some(now + KILL_NOTICE_DELAY),
                };
            }
            _ if has_ended => self.processes.gave_up = true,
            _ => {
                self.jobs.end(Instant::now());
                self.kill(Instant::now());
            }
        }
    }

    /// Stops the ranks, then this process (Ctrl-Z). SIGCONT wakes this process first.
    pub(super) fn suspend(&mut self) {
        self.watch.pause();
        // Other jobs of the group may wait for these ranks, and report it.
        self.jobs.are_stalled_with(HostStall::Idle);
        self.forward(libc::SIGTSTP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Passes a signal of the user on to all ranks.
    pub(super) fn pass_on(&mut self, signal: i32) {
        match signal {
            libc::SIGTSTP => self.watch.pause(),
            libc::SIGCONT => {
                self.watch.resume(Instant::now());
                match self.upstream {
                    Some(_) => self.set_stall(HostStall::Active),
                    None => self.judge_stall(),
                }
            }
            _ => {}
        }
        self.forward(signal);
    }

    /// Sends a signal to all ranks.
    pub(super) fn forward(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            for rank in self.local.ranks.iter().filter(|rank| rank.exit.is_none()) {
                // A rank that has just ended cannot be signalled.
                let _ = kill_process_group(rank.pid, signal);
            }
        }
    }

    /// Ends the job, or the share of this host and of those below, with this exit code.
    pub(super) fn end(&mut self, code: u8) {
        self.outcome.set_code(code);
        self.relay.links.end(Instant::now());
        self.terminate();
    }

    /// Ends the job because of an event.
    pub(super) fn end_after(&mut self, event: &Event) {
        match (&mut self.phase, event) {
            // The ranks have been signalled to stop; the others may still be saving their work.
            (Phase::Stopping { until, .. }, Event::Died { .. }) => {
                *until = (*until).min(Instant::now() + STOP_GRACE_AFTER_DEATH);
            }
            _ => self.terminate(),
        }
    }

    /// Sends SIGTERM to the ranks, also to those of spawned jobs.
    pub(super) fn terminate(&mut self) {
        self.jobs.end(Instant::now());
        self.terminate_own();
    }

    fn terminate_own(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            self.phase = Phase::Terminating { since: Instant::now() };
            self.forward(libc::SIGTERM);
            // A stopped rank must run to receive it.
            self.forward(libc::SIGCONT);
            if self.all_ranks_have_ended() {
                self.processes.reaper.signal(Signal::TERM);
            }
        }
    }

    fn kill(&mut self, now: Instant) {
        let since = match self.phase {
            Phase::Killing { since, .. } => since,
            _ => now,
        };
        self.phase = Phase::Killing { since, last: now };
        self.forward(libc::SIGKILL);
        self.processes.reaper.signal(Signal::KILL);
        self.reap();
        if now >= since + STUCK_AFTER && !self.has_no_process() {
            self.print("some processes survive SIGKILL (stuck in the kernel); giving up");
            self.processes.gave_up = true;
        }
    }

    /// Returns the time of the next [`Job::advance_phase`].
    pub(super) fn phase_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => None,
            Phase::Stopping { until, kill_notice_at, .. } => {
                Some(kill_notice_at.map_or(until, |kill_notice_at| kill_notice_at.min(until)))
            }
            Phase::Terminating { since } => Some(since + TERM_GRACE),
            Phase::Killing { last, .. } if !self.has_no_process() => Some(last + KILL_INTERVAL),
            Phase::Killing { .. } => None,
        }
    }

    /// Takes the next step when the time of a phase is over.
    pub(super) fn advance_phase(&mut self, now: Instant) {
        match self.phase {
            Phase::Stopping { until, .. } if now >= until => self.terminate(),
            Phase::Stopping { signal, until, kill_notice_at: Some(kill_notice_at) }
                if now >= kill_notice_at =>
            {
                if signal == libc::SIGINT {
                    self.print(
                        "interrupted; waiting for the ranks to end (press Ctrl-C again to kill \
                         them)",
                    );
                }
                self.phase = Phase::Stopping { signal, until, kill_notice_at: None };
            }
            Phase::Terminating { since } if now >= since + TERM_GRACE => self.kill(now),
            Phase::Killing { last, .. } if now >= last + KILL_INTERVAL => self.kill(now),
            _ => {}
        }
    }

    /// Ends the job if its output cannot be written.
    pub(super) fn check_output(&mut self) {
        let lost = self.local.output.broken().and_then(|why| self.outcome.on_broken_output(why));
        if let Some((code, line)) = lost {
            line.iter().for_each(|line| self.print(line));
            self.end(code);
        }
    }

    /// Once all ranks have ended: ends the processes that they left, then the streams.
    pub(super) fn finish(&mut self, now: Instant) {
        if !self.all_ranks_have_ended() {
            return;
        }
        if !self.processes.is_childless {
            self.processes.is_childless = !self.processes.reaper.has_children();
        }
        if self.processes.is_childless {
            self.local.output.finish(now);
        } else if matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            // What a rank has left is no reason to end the jobs that it has spawned.
            self.terminate_own();
        }
    }

    /// Prints the closing lines of a job that is over.
    pub(super) fn conclude(&mut self, settings: &Settings) {
        if self.processes.gave_up {
            return;
        }
        let none_in_mpi = self.no_rank_was_in_mpi();
        self.outcome.conclude(settings, none_in_mpi, &mut self.local.output);
    }
}
