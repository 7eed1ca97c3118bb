//! The connection to `mpiexec` on one of several hosts: events go up, decisions come down.

use std::time::Instant;

use bootstrap::control::ToRank;
use rustix::io::Errno;

use super::state::{Job, Upstream};
use crate::frames::{FromHost, ToHost};
use crate::heartbeat::Tick;

impl Job {
    /// Reads messages of `mpiexec`. Its end ends the ranks of this host.
    pub(super) fn read_upstream(&mut self) {
        let mut piece = [0u8; 16 << 10];
        let Some(Upstream { decoder, heartbeat }) = &mut self.upstream else { return };
        match rustix::io::read(rustix::stdio::stdin(), &mut piece[..]) {
            Err(Errno::INTR | Errno::AGAIN) => return,
            Ok(read) if read > 0 => {
                decoder.push(&piece[..read]);
                heartbeat.received();
            }
            _ => return self.on_upstream_lost(),
        }
        while let Some(upstream) = &mut self.upstream {
            match upstream.decoder.next_message() {
                Ok(Some(message)) => self.on_upstream(message),
                Ok(None) => return,
                Err(_) => return self.on_upstream_lost(),
            }
        }
    }

    /// Gives up an `mpiexec` that has fallen silent.
    pub(super) fn check_upstream(&mut self, now: Instant) {
        let Some(upstream) = &mut self.upstream else { return };
        if upstream.heartbeat.tick(now) == Tick::Dead {
            // For an mpiexec that was only stopped.
            let line =
                format!("{}: no message from mpiexec (--dead-after); ending its ranks", self.host);
            self.print(&line);
            self.local.output.send(&FromHost::Failed(1));
            self.on_upstream_lost();
        }
    }

    fn on_upstream_lost(&mut self) {
        self.upstream = None;
        self.end(1);
    }

    fn on_upstream(&mut self, message: ToHost) {
        match message {
            ToHost::Value { rank, key, value } => {
                let local = rank.wrapping_sub(self.first) as usize;
                if local < self.local.ranks.len() {
                    self.send_to_rank(local, &ToRank::Value { key, value });
                }
            }
            ToHost::Signal(signal @ (libc::SIGINT | libc::SIGTERM | libc::SIGHUP)) => {
                self.on_stop_signal(signal)
            }
            ToHost::Signal(signal) => {
                self.pass_on(signal);
                if let Some(upstream) = self.upstream.as_mut().filter(|_| signal == libc::SIGTSTP) {
                    // `mpiexec` stops, too.
                    upstream.heartbeat.pause();
                }
            }
            ToHost::Missing(rank) => self.outcome.set_missing(Some(rank)),
            ToHost::Absent(rank) => self.watch.absent.add_remote(rank),
            ToHost::Failed { rank, why } => self.announce_failure(rank, &why),
            ToHost::Table => self.print_table(),
            ToHost::Beat => self.local.output.send(&FromHost::Beat),
            ToHost::End => self.end(1),
            ToHost::Input(bytes) => {
                self.local.input.feed(&bytes);
                self.request_input();
            }
            // Sent once, before this job began.
            ToHost::Environment { .. } | ToHost::Begin { .. } => {}
        }
    }

    /// Ends the job because a rank cannot be started here.
    pub(super) fn on_start_failure(&mut self, message: &str, code: u8) {
        if self.upstream.is_some() {
            let line = format!("{message} (on {})", self.host);
            self.print(&line);
            self.local.output.send(&FromHost::Failed(code));
        } else {
            self.print(message);
        }
        self.end(code);
    }

    /// Passes input on, and requests more once it is taken.
    pub(super) fn write_input(&mut self) {
        self.local.input.write();
        self.request_input();
    }

    fn request_input(&mut self) {
        if self.upstream.is_some() && self.local.input.is_empty() {
            self.local.output.send(&FromHost::InputTaken);
        }
    }
}
