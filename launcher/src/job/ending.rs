//! How the job comes to its end: signals, deadlines, SIGTERM, SIGKILL.

use std::time::{Duration, Instant};

use bootstrap::RankState;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process, kill_process_group};

use super::Job;
use crate::heartbeat::Heartbeat;
use crate::options::Settings;
use crate::program;
use crate::stall::Stall;

/// Between SIGTERM and SIGKILL when the job has failed.
const GRACE: Duration = Duration::from_millis(250);
/// What ranks have to end by themselves after Ctrl-C or SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the others have once one of them has ended for it.
pub(super) const LESS_PATIENCE: Duration = Duration::from_secs(2);
/// After Ctrl-C, when the user is told about the second one.
const HINT: Duration = Duration::from_millis(500);
/// Between two rounds of SIGKILL.
const AGAIN: Duration = Duration::from_millis(20);
/// After this a process that SIGKILL does not end is given up.
const STUCK: Duration = Duration::from_secs(5);
/// Exit code when the time was up, as of `timeout`.
const TIMED_OUT: u8 = 124;

/// How near its end the job is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    Running,
    /// A signal was passed on, and the ranks may end as they like.
    Told {
        signal: i32,
        until: Instant,
        hint: Option<Instant>,
    },
    /// They were sent SIGTERM.
    Terminating {
        since: Instant,
    },
    /// They are sent SIGKILL.
    Killing {
        since: Instant,
        last: Instant,
    },
}

impl Job {
    pub(super) fn read_signals(&mut self) {
        for signal in self.signals.read() {
            match signal {
                libc::SIGCHLD => self.reap(),
                libc::SIGQUIT => self.print_table(),
                libc::SIGTSTP => self.suspend(),
                libc::SIGINT | libc::SIGTERM | libc::SIGHUP => self.told_to_stop(signal),
                other => self.forward(other),
            }
        }
    }

    /// The first time the ranks are told, the second time they are killed.
    pub(super) fn told_to_stop(&mut self, signal: i32) {
        self.code.get_or_insert(128 + signal as u8);
        match self.phase {
            Phase::Running if !self.nobody_runs() => {
                self.forward(signal);
                let now = Instant::now();
                self.phase = Phase::Told {
                    signal,
                    until: now + PATIENCE,
                    hint: (self.first == 0).then_some(now + HINT),
                };
            }
            // Only our reader is waited for, and the user is tired of it.
            _ if self.nobody_runs() => self.abandoned = true,
            _ => self.kill(Instant::now()),
        }
    }

    /// Ctrl-Z: the ranks stop, then we; SIGCONT wakes us first.
    fn suspend(&mut self) {
        self.forward(libc::SIGTSTP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    pub(super) fn forward(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            for rank in self.started.ranks.iter().filter(|rank| rank.exit.is_none()) {
                // One that has just ended does not hear it.
                let _ = kill_process_group(rank.pid, signal);
            }
        }
    }

    pub(super) fn end(&mut self, code: u8) {
        self.code.get_or_insert(code);
        self.terminate();
    }

    pub(super) fn terminate(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Told { .. }) {
            self.phase = Phase::Terminating { since: Instant::now() };
            self.forward(libc::SIGTERM);
            // One that was stopped must wake to hear it.
            self.forward(libc::SIGCONT);
            if self.started.ranks.iter().all(|rank| rank.exit.is_some()) {
                self.reaper.signal(Signal::TERM);
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
        self.reaper.signal(Signal::KILL);
        self.reap();
        if now >= since + STUCK && !self.nobody_runs() {
            self.tell("some processes do not end, not even by SIGKILL: they are stuck in the kernel; giving up");
            self.abandoned = true;
        }
    }

    /// When [`Job::tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running => None,
            Phase::Told { until, hint, .. } => Some(hint.map_or(until, |hint| hint.min(until))),
            Phase::Terminating { since } => Some(since + GRACE),
            Phase::Killing { last, .. } if !self.nobody_runs() => Some(last + AGAIN),
            Phase::Killing { .. } => None,
        };
        let turn = self.heartbeat.as_ref().and_then(Heartbeat::deadline);
        let stall = self.stall.as_ref().map(Stall::deadline);
        [phase, turn, stall, self.started.output.deadline(), self.time_is_up]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.started.output.tick(now);
        self.listen_upstream(now);
        self.look_for_a_stall(now);
        if self.time_is_up.is_some_and(|end| now >= end) {
            self.time_is_up = None;
            self.tell("the time given with --timeout is over; ending the job");
            self.print_table();
            self.end(TIMED_OUT);
        }
        match self.phase {
            Phase::Told { until, .. } if now >= until => self.terminate(),
            Phase::Told { signal, until, hint: Some(hint) } if now >= hint => {
                if signal == libc::SIGINT {
                    self.tell("interrupted; waiting for the ranks to end (press Ctrl-C again to kill them)");
                }
                self.phase = Phase::Told { signal, until, hint: None };
            }
            Phase::Terminating { since } if now >= since + GRACE => self.kill(now),
            Phase::Killing { last, .. } if now >= last + AGAIN => self.kill(now),
            _ => {}
        }
        if let Some(errno) = self.started.output.broken() {
            self.output_is_broken(errno);
        }
        self.look_for_the_end(now);
    }

    /// Whoever read our output is gone: so are we, as any program would be.
    fn output_is_broken(&mut self, errno: Errno) {
        if errno == Errno::PIPE {
            self.end(128 + libc::SIGPIPE as u8);
        } else if self.code.is_none() {
            self.tell(&format!("cannot write the ranks' output: {}", std::io::Error::from(errno)));
            self.end(1);
        }
    }

    /// All ranks have ended: ends what they left behind, then the streams.
    fn look_for_the_end(&mut self, now: Instant) {
        if self.started.ranks.iter().any(|rank| rank.exit.is_none()) {
            return;
        }
        if !self.childless {
            self.childless = !self.reaper.remain();
        }
        if self.childless {
            self.started.output.finish(now);
        } else if matches!(self.phase, Phase::Running | Phase::Told { .. }) {
            self.terminate();
        }
    }

    /// What is to be said when nothing runs any more.
    pub(super) fn conclude(&mut self, settings: &Settings) {
        if self.abandoned {
            return;
        }
        let mut states = (0..self.started.ranks.len())
            .map(|rank| self.started.status_page.entry(rank as u32).state());
        if self.started.ranks.len() > 1 && states.all(|state| state == RankState::Starting) {
            program::why_alone(&settings.sections).iter().for_each(|text| self.tell(text));
        }
        [self.secondary_failures.text(), self.explain.at_the_end()]
            .iter()
            .flatten()
            .for_each(|text| self.tell(text));
        self.started.output.flush();
    }

    pub(super) fn is_over(&self) -> bool {
        self.abandoned || (self.nobody_runs() && self.started.output.is_finished())
    }

    pub(super) fn nobody_runs(&self) -> bool {
        self.childless && self.started.ranks.iter().all(|rank| rank.exit.is_some())
    }
}
