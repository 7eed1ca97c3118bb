//! The decisions of `mpiexec`, which come from the parent in the tree of daemons. Those for all
//! hosts are passed on to the children.

use std::time::Instant;

use rustix::io::Errno;

use super::state::{Job, Upstream};
use crate::frames::{FromHost, ToHost};
use crate::heartbeat::Tick;
use crate::lost_host::LostHost;
use crate::tree::HostShare;
use crate::tree::store::Party;

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

    /// Gives up a parent that has fallen silent.
    pub(super) fn check_upstream(&mut self, now: Instant) {
        let Some(upstream) = &mut self.upstream else { return };
        if upstream.heartbeat.tick(now) == Tick::Dead {
            let seconds = upstream.heartbeat.dead_after().as_secs_f64();
            self.report_own_loss(seconds);
            self.on_upstream_lost();
        }
    }

    /// Reports that this host is lost, since it hears nothing. The report arrives if the network
    /// loses messages in one direction, or if the parent was only stopped.
    fn report_own_loss(&mut self, seconds: f64) {
        let hosts = self.relay.links.iter().flat_map(|link| link.branch.hosts());
        let lost = LostHost {
            first: self.ranks.first(),
            below: hosts.map(HostShare::first).collect(),
            why: format!("no message of mpiexec has reached it for {seconds} s (--dead-after)"),
            was_running: true,
        };
        self.local.output.send(&FromHost::Lost(lost));
    }

    fn on_upstream_lost(&mut self) {
        self.upstream = None;
        self.end(1);
    }

    fn on_upstream(&mut self, message: ToHost) {
        if message.is_for_all() {
            self.relay.links.send_to_all(&message);
        }
        match message {
            ToHost::Store(message) => {
                let outgoing = self.store.on_message(Party::Parent, message);
                self.deliver(outgoing);
            }
            ToHost::Signal(signal @ (libc::SIGINT | libc::SIGTERM | libc::SIGHUP)) => {
                if self.relay.links.is_one_starting() {
                    // Its daemon cannot act on the signal.
                    self.local.output.send(&FromHost::Failed(128 + signal as u8));
                }
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
            ToHost::Absent(ranks) => self.watch.absent.add_remote(&ranks),
            ToHost::Failed { rank, why } => self.announce_failure(rank, &why),
            ToHost::OthersEnded(ended) => self.announce_others(ended),
            ToHost::Table => self.print_table(),
            ToHost::Beat => self.local.output.send(&FromHost::Beat),
            ToHost::End => self.end(1),
            ToHost::Input(bytes) => {
                self.relay.links.send_input(&bytes);
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

    /// Requests more input if it was taken here and below.
    pub(super) fn request_input(&mut self) {
        let is_taken = self.local.input.is_empty() && !self.relay.links.is_input_pending();
        if self.upstream.is_some() && is_taken {
            self.local.output.send(&FromHost::InputTaken);
        }
    }
}
