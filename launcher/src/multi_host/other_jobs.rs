//! Spawned jobs, and the one that has spawned this one; see [`crate::nested`].

use std::time::Instant;

use bootstrap::spawning::EndedProcesses;
use rustix::process::Pid;

use super::state::{MultiHostJob, Phase};
use crate::frames::ToHost;
use crate::nested::links::JobLinks;
use crate::nested::root::Root;
use crate::outcome::Outcome;
use crate::tree::store::{Outgoing, Store};

impl Root for MultiHostJob {
    fn jobs(&mut self) -> &mut JobLinks {
        &mut self.jobs
    }

    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn outcome(&mut self) -> &mut Outcome {
        &mut self.outcome
    }

    fn deliver(&mut self, outgoing: Outgoing) {
        MultiHostJob::deliver(self, outgoing);
    }

    fn print(&mut self, text: &str) {
        MultiHostJob::print(self, text);
    }

    /// Only the children that this process knows are waited for and ended.
    fn spare(&mut self, _: Pid) {}

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn stop(&mut self, signal: i32) {
        self.on_stop_signal(signal);
    }

    fn on_stalled(&mut self) {
        MultiHostJob::on_stalled(self);
    }

    fn show_table(&mut self) {
        self.request_table(Instant::now());
    }

    fn report_stall(&mut self) {
        self.report_all_wait(Instant::now());
    }

    fn announce_others(&mut self, ended: EndedProcesses) {
        self.links.send_to_all(&ToHost::OthersEnded(ended));
    }

    fn end(&mut self, code: u8) {
        MultiHostJob::end(self, code);
    }
}
