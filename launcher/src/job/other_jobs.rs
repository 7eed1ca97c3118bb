//! Spawned jobs, and the one that has spawned this one; see [`crate::nested`].

use bootstrap::spawning::{EndedProcesses, SpawnRequest};
use rustix::process::Pid;

use super::state::{Job, Phase};
use crate::frames::FromHost;
use crate::nested::links::JobLinks;
use crate::nested::root::Root;
use crate::outcome::Outcome;
use crate::tree::store::{Outgoing, Store};

impl Job {
    /// Takes the request of a rank, by its process number, for further processes.
    pub(super) fn request_job(&mut self, asker: u32, request: SpawnRequest) {
        if self.upstream.is_some() {
            return self.local.output.send(&FromHost::Spawn { asker, request });
        }
        self.spawn(asker, request);
    }

    /// Reports once whether the ranks of a spawned job were started here.
    pub(super) fn check_start(&mut self) {
        let are_started = self.local.unstarted == 0;
        if !self.reports_start || (!are_started && self.phase == Phase::Running) {
            return;
        }
        self.reports_start = false;
        if self.upstream.is_none() {
            self.report_start(are_started);
        } else if self.phase == Phase::Running {
            self.local.output.send(&FromHost::Started(self.local.total() as u32));
        }
    }
}

impl Root for Job {
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
        Job::deliver(self, outgoing);
    }

    fn print(&mut self, text: &str) {
        Job::print(self, text);
    }

    fn spare(&mut self, child: Pid) {
        self.processes.reaper.spare(child);
    }

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn stop(&mut self, signal: i32) {
        self.on_stop_signal(signal);
    }

    fn on_stalled(&mut self) {
        self.judge_stall();
    }

    fn show_table(&mut self) {
        self.print_table();
    }

    fn report_stall(&mut self) {
        Job::report_all_wait(self);
    }

    fn announce_others(&mut self, ended: EndedProcesses) {
        Job::announce_others(self, ended);
    }

    fn end(&mut self, code: u8) {
        Job::end(self, code);
    }
}
