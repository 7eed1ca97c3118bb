//! What the `mpiexec` of a job, on one host or over several, does about other jobs.

use std::time::Instant;

use bootstrap::control::ToRank;
use bootstrap::service_names::NameRequest;
use bootstrap::spawning::{EndedProcesses, SpawnAnswer, SpawnRequest};
use rustix::process::Pid;

use super::event::{JobEvent, NewJob};
use super::links::JobLinks;
use crate::outcome::Outcome;
use crate::tree::store::{Outgoing, Store};

/// The `mpiexec` of a job.
pub(crate) trait Root {
    /// Returns the connections to other jobs.
    fn jobs(&mut self) -> &mut JobLinks;

    /// Returns this process's part of the store.
    fn store(&mut self) -> &mut Store;

    /// Returns the outcome of the job.
    fn outcome(&mut self) -> &mut Outcome;

    /// Sends messages about the store.
    fn deliver(&mut self, outgoing: Outgoing);

    /// Prints a line for the user.
    fn print(&mut self, text: &str);

    /// Leaves out a child that is no process of the job.
    fn spare(&mut self, child: Pid);

    /// Returns true if the job is not ending.
    fn is_running(&self) -> bool;

    /// Acts on a signal that ends the job.
    fn stop(&mut self, signal: i32);

    /// Looks whether the ranks of all jobs wait, after a change in one of them.
    fn on_stalled(&mut self);

    /// Prints what the ranks do, now or soon.
    fn show_table(&mut self);

    /// Reports that the ranks of all jobs wait.
    fn report_stall(&mut self);

    /// Tells the ranks that processes of another job have ended.
    fn announce_others(&mut self, ended: EndedProcesses);

    /// Ends the job with this exit code.
    fn end(&mut self, code: u8);

    /// Reads the messages of another job.
    fn read_job(&mut self, job: usize) {
        self.jobs().read(job).into_iter().for_each(|event| self.on_job_event(event));
    }

    /// Reads what has come with the first messages of another job.
    fn read_early(&mut self) {
        self.jobs().read_early().into_iter().for_each(|event| self.on_job_event(event));
    }

    /// Starts a job for a process, by its number.
    fn spawn(&mut self, asker: u32, request: SpawnRequest) {
        // Otherwise the outermost `mpiexec` answers, or the keeper sends numbers.
        if let Some(started) = self.jobs().spawn(asker, request) {
            self.on_spawned(asker, started);
        }
    }

    /// Adds a job that a process has requested, or answers that there is none.
    fn on_spawned(&mut self, asker: u32, started: Result<NewJob, String>) {
        match started {
            Ok(NewJob { id, numbers, pid }) => {
                self.spare(pid);
                let outgoing = self.store().add_job(numbers, id);
                self.deliver(outgoing);
            }
            Err(why) => self.answer_spawn(asker, SpawnAnswer::Refused(why)),
        }
    }

    /// Answers a process that has requested a job.
    fn answer_spawn(&mut self, asker: u32, answer: SpawnAnswer) {
        let outgoing = self.store().reply(asker, ToRank::Spawn(answer));
        self.deliver(outgoing);
    }

    /// Acts on a message of another job.
    fn on_job_event(&mut self, event: JobEvent) {
        match event {
            JobEvent::Store(from, message) => {
                let outgoing = self.store().on_message(from, message);
                self.deliver(outgoing);
            }
            JobEvent::Spawn { asker, request } => self.spawn(asker, request),
            JobEvent::Answer { asker, answer } => self.answer_spawn(asker, answer),
            JobEvent::Failed { code, line, lost } => {
                self.on_failed_job(code, &line, lost);
            }
            JobEvent::Stop(signal) if self.is_running() => self.stop(signal),
            // It came to this process, too.
            JobEvent::Stop(_) => {}
            JobEvent::Stalled => self.on_stalled(),
            JobEvent::Table => self.show_table(),
            JobEvent::End => self.end(1),
            JobEvent::Numbers(first) => {
                if let Some((asker, started)) = self.jobs().start_planned(first) {
                    self.on_spawned(asker, started);
                }
            }
            JobEvent::Stall => self.report_stall(),
            JobEvent::ProcessesEnded(ended) => {
                self.jobs().report_ended(ended.clone());
                self.announce_others(ended);
            }
            JobEvent::OthersEnded(ended) => {
                self.jobs().announce(&ended);
                self.announce_others(ended);
            }
            JobEvent::GroupLost { line, asked } => self.on_group_lost(&line, asked),
        }
    }

    /// Reports that a spawned job has failed, which ends this one as the failure of a rank does,
    /// unless it can go on without the processes of that job.
    fn on_failed_job(&mut self, code: u8, line: &str, lost: Option<EndedProcesses>) {
        if !self.is_running() {
            return self.outcome().set_code(code);
        }
        if let Some(lost) = lost.filter(|_| self.outcome().goes_on()) {
            self.print(line);
            self.jobs().report_ended(lost.clone());
            self.announce_others(lost);
            return self.outcome().set_code(code);
        }
        self.print(&format!("{line}; ending the job"));
        self.end(code);
    }

    /// Goes on without the other jobs of the group: what was expected of them or of the keeper does
    /// not come.
    fn on_group_lost(&mut self, line: &str, asked: Vec<(u32, NameRequest)>) {
        if self.is_running() {
            self.print(line);
        }
        self.store().keep_names();
        for (asker, request) in asked {
            let outgoing = self.store().ask_name(asker, request);
            self.deliver(outgoing);
        }
        for (asker, why) in self.jobs().refuse_planned() {
            self.answer_spawn(asker, SpawnAnswer::Refused(why));
        }
        for numbers in self.jobs().other_numbers() {
            let failure = Some("the keeper of the group has ended".to_owned());
            let ended = EndedProcesses { numbers, failure };
            self.jobs().announce(&ended);
            self.announce_others(ended);
        }
    }

    /// Kills the spawned jobs that do not end in time.
    fn check_jobs(&mut self, now: Instant) {
        for line in self.jobs().check(now) {
            self.print(&line);
        }
    }

    /// Reports to the outermost `mpiexec`, once it is known, whether the ranks of a spawned job
    /// were started: they are not if the job ends before.
    fn report_start(&mut self, are_started: bool) {
        let is_running = self.is_running();
        if are_started || !is_running {
            let held = self.jobs().report_start(is_running);
            held.iter().for_each(|line| self.print(line));
        }
    }
}
