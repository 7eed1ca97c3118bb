//! On one of several hosts: what happens here is told to `mpiexec`, and what it
//! decides is done.

use std::time::Instant;

use bootstrap::control::ToRank;
use rustix::io::Errno;

use super::Job;
use super::ending::Phase;
use crate::failure_policy::Event;
use crate::frames::{FromHost, ToHost};
use crate::heartbeat::{Heartbeat, Turn};

impl Job {
    /// Reads what `mpiexec` says. Its end is ours.
    pub(super) fn read_upstream(&mut self) {
        let mut piece = [0u8; 16 << 10];
        let Some(decoder) = &mut self.upstream else { return };
        match rustix::io::read(rustix::stdio::stdin(), &mut piece[..]) {
            Err(Errno::INTR | Errno::AGAIN) => return,
            Ok(read) if read > 0 => {
                decoder.push(&piece[..read]);
                self.heartbeat.iter_mut().for_each(Heartbeat::heard);
            }
            _ => return self.lost(),
        }
        while let Some(decoder) = &mut self.upstream {
            match decoder.message() {
                Ok(Some(message)) => self.told(message),
                Ok(None) => return,
                Err(_) => return self.lost(),
            }
        }
    }

    /// Gives up an `mpiexec` that does not ask any more whether we are there.
    pub(super) fn listen_upstream(&mut self, now: Instant) {
        if self.heartbeat.as_mut().is_some_and(|heartbeat| heartbeat.tick(now) == Turn::Dead) {
            // In case it was only stopped.
            let host = &self.host;
            self.started.output.tell(&format!(
                "mpiexec: {host} has heard nothing of mpiexec (--dead-after); ending its ranks"
            ));
            self.started.output.send(&FromHost::Failed(1));
            self.lost();
        }
    }

    /// Nobody is there to tell anything any more.
    fn lost(&mut self) {
        (self.upstream, self.heartbeat) = (None, None);
        self.end(1);
    }

    fn told(&mut self, message: ToHost) {
        match message {
            ToHost::Value { rank, key, value } => {
                let local = rank.wrapping_sub(self.first) as usize;
                if local < self.started.ranks.len() {
                    self.say(local, &ToRank::Value { key, value });
                }
            }
            ToHost::Signal(signal @ (libc::SIGINT | libc::SIGTERM | libc::SIGHUP)) => {
                self.told_to_stop(signal)
            }
            ToHost::Signal(signal) => {
                self.forward(signal);
                if signal == libc::SIGTSTP {
                    // Whoever said so is stopped, too.
                    self.heartbeat.iter_mut().for_each(Heartbeat::pause);
                }
            }
            ToHost::Missing(rank) => self.missing = Some(rank),
            ToHost::Table => self.print_table(),
            ToHost::Beat => self.started.output.send(&FromHost::Beat),
            ToHost::End => self.end(1),
            ToHost::Input(bytes) => {
                self.started.input.feed(&bytes);
                self.input_is_taken();
            }
            // Said once, before this job began.
            ToHost::Around { .. } | ToHost::Begin { .. } => {}
        }
    }

    /// Tells instead of judging.
    pub(super) fn report(&mut self, events: Vec<Event>) {
        for event in events {
            let (seen, pid) = self.seen(event.rank());
            self.started.output.send(&FromHost::Happened { event: event.clone(), seen, pid });
            self.explain(&event);
        }
        if self.missing.is_some() && self.phase == Phase::Running && self.some_rank_is_in_mpi() {
            self.missing = None;
            self.started.output.send(&FromHost::WouldWait);
        }
    }

    /// A rank can't be started here, so the job can't run.
    pub(super) fn cannot_start(&mut self, message: &str, code: u8) {
        if self.upstream.is_some() {
            let host = &self.host;
            self.started.output.tell(&format!("mpiexec: {message} (on {host})"));
            self.started.output.send(&FromHost::Failed(code));
        } else {
            self.tell(message);
        }
        self.end(code);
    }

    /// Passes input on; asks for more when it is taken.
    pub(super) fn write_input(&mut self) {
        self.started.input.write();
        self.input_is_taken();
    }

    fn input_is_taken(&mut self) {
        if self.upstream.is_some() && self.started.input.is_empty() {
            self.started.output.send(&FromHost::InputTaken);
        }
    }
}
