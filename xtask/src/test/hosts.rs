//! MPI jobs over two virtual machines, many in one boot: within a machine by shared memory,
//! between them by verbs on Soft-RoCE (see [`crate::vm`]).
//!
//! Three counts prove that verbs carried the data: those of the transport (`report.traffic`), those
//! of the devices, and the few segments of TCP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;

use super::{Options, Tally, fortran, programs, python, report_failure};
use crate::command::quoted;
use crate::project::Project;
use crate::vm::{Kernel, Machines, Outcome, Plan, run};

/// Largest packet, bytes: the largest MTU of RDMA.
const MAX_PACKET_BYTES: u64 = 4096;
/// How many C programs run at once, unless all do: those take nine minutes.
const PROGRAMS_OF_A_SEED: usize = 40;
/// The ranks of a job unless it sets others: two in each guest.
const HOSTS: &str = "vm0:2,vm1:2";
const RANKS: u32 = 4;
/// One in each.
const ALONE: &str = "vm0:1,vm1:1";
/// Longest time of a job; a longer one hangs.
const MAX_JOB_TIME: Duration = Duration::from_secs(300);
/// Segments of TCP data that the start and the end of a job may take: ssh, and the frames between
/// mpiexec and its daemons. A job that sends nothing has as many.
const MAX_TCP_SEGMENTS: u64 = 300;

/// A text of the lines about traffic that no program prints.
const TRAFFIC: &str = " bytes by RDMA, ";

/// Returns what is wrong with the output of a job.
type Judge = Box<dyn Fn(&JobOutput) -> Vec<String>>;
/// Returns whether the counts fit the protocol that the job was set to.
type SentCheck = fn(&Sent) -> bool;

/// One boot and what runs in it.
pub(super) struct Boot {
    pub(super) name: &'static str,
    machines: Machines,
    /// Builds what they need, which takes minutes for some.
    jobs: fn(&Project, &Options) -> Result<Vec<Job>>,
    /// Packets must have been lost or overtaken.
    faults: bool,
}

/// One `mpiexec`.
struct Job {
    name: String,
    hosts: &'static str,
    /// Options of mpiexec, then the program and its arguments.
    words: Vec<String>,
    /// In front of mpiexec, for the shell.
    before: String,
    judge: Judge,
}

/// The output of a job, without its lines about traffic, and the sums of those.
struct JobOutput {
    stdout: String,
    stderr: String,
    sent: Sent,
}

/// Sums over all ranks.
#[derive(Debug, Default)]
struct Sent {
    frames: u64,
    /// The messages that they carried.
    bytes: u64,
    reads: u64,
    writes: u64,
    /// Of the frames, those written into the receiver's memory.
    written: u64,
    /// And those that went several in a message.
    together: u64,
    /// Processes that reported it.
    ranks: usize,
}

/// The boots. Each takes half a minute, the first some minutes.
pub(super) fn boots() -> [Boot; 8] {
    let two = || Machines::guests(2);
    let boot = |name, machines, jobs| Boot { name, machines, jobs, faults: false };
    let faulty = |name, machines, jobs| Boot { name, machines, jobs, faults: true };
    [
        boot("MPI over two guests: C programs", two(), some),
        boot("MPI over two guests: Fortran", two(), |project, _| fortran(project)),
        boot("MPI over two guests: mpi4py", two(), |project, _| mpi4py(project)),
        boot("MPI over two guests: each way of sending", two(), each_way),
        faulty("MPI over two guests: 1 % loss", two().losing("1%"), |project, options| {
            core(project, options, "")
        }),
        // Rings open with the first frame, and close for each sleep.
        faulty("MPI over two guests: 5 % overtake", two().reordering("5%"), |project, options| {
            let jobs = core(project, options, "")?;
            Ok(jobs.into_iter().map(|job| job.with("eager_rdma_threshold=0", |_| true)).collect())
        }),
        // The kernel's driver then completes reads with success that have failed.
        faulty(
            "MPI over two guests: queues of 30 packets",
            two().reordering("5%").queueing(30),
            |project, options| {
                Ok(core(project, options, "")?
                    .into_iter()
                    .filter(|job| job.name == "order")
                    .collect())
            },
        ),
        boot("MPI over two guests: a cable out", two(), stream),
    ]
}

/// C programs that may run on hosts: some by the seed, or all.
fn some(project: &Project, options: &Options) -> Result<Vec<Job>> {
    let rows = programs::for_hosts(project, options, false)?;
    Ok(options.some(&rows, 0, PROGRAMS_OF_A_SEED).map(|row| Job::of_row(row.clone(), "")).collect())
}

/// Those that report the most in the least time, with `how` in their names.
fn core(project: &Project, options: &Options, how: &str) -> Result<Vec<Job>> {
    let wanted = ["ring", "wildcards", "order", "stress", "collectives"];
    let rows = programs::for_hosts(project, options, false)?.into_iter();
    Ok(rows
        .filter(|(case, _)| wanted.contains(&case.name.as_str()))
        .map(|row| Job::of_row(row, how))
        .collect())
}

/// The job by each transport that messages can take.
fn each_way(project: &Project, options: &Options) -> Result<Vec<Job>> {
    let forced: [(&str, &str, SentCheck); 3] = [
        ("eager only", "eager_max=512K rendezvous=copy", |sent| sent.reads + sent.writes == 0),
        ("all by RDMA read", "eager_max=64 get_min=64 rendezvous=read", |sent| {
            sent.reads > 0 && sent.writes == 0
        }),
        ("all by RDMA write", "eager_max=64 get_min=64 rendezvous=write", |sent| {
            sent.reads == 0 && sent.writes > 0
        }),
    ];
    let mut jobs = Vec::new();
    for (how, knobs, is_right) in forced {
        // All that `wildcards` sends is small.
        let some = core(project, options, how)?
            .into_iter()
            .filter(|job| !job.name.starts_with("wildcards"));
        jobs.extend(some.map(|job| job.with(knobs, is_right)));
    }
    Ok(jobs)
}

/// Fortran programs; the guests see the host's Fortran library.
fn fortran(project: &Project) -> Result<Vec<Job>> {
    let judge = |job: &JobOutput| match fortran::is_ok(&job.stdout) {
        true => Vec::new(),
        false => vec!["it did not print `ok`, or found something wrong".to_owned()],
    };
    let job = |program: PathBuf| Job {
        name: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        hosts: HOSTS,
        words: vec![program.display().to_string()],
        before: String::new(),
        judge: Box::new(judge),
    };
    Ok(fortran::for_hosts(project)?.into_iter().map(job).collect())
}

/// mpi4py's files on a rank in each guest.
fn mpi4py(project: &Project) -> Result<Vec<Job>> {
    let judge = |job: &JobOutput| {
        let tally = python::counts(&format!("{}\n{}", job.stdout, job.stderr), 2);
        if tally.failed == 0 && tally.passed > 0 { Vec::new() } else { vec![tally.to_string()] }
    };
    let job = |(name, words)| Job {
        name,
        hosts: ALONE,
        words,
        before: String::new(),
        judge: Box::new(judge),
    };
    Ok(python::for_hosts(project)?.into_iter().map(job).collect())
}

/// 100,000 messages; the cable is out for three seconds from the tenth thousandth on.
fn stream(project: &Project, options: &Options) -> Result<Vec<Job>> {
    let program = programs::compiled(project, options, "stream")?.display().to_string();
    // A rank that does not sleep at once has most of it written into its memory.
    let [set, spin] = ["--set", "wait.spin=5ms"].map(str::to_owned);
    let words =
        ["--explain".to_owned(), set, spin, program, "100000".into(), "$VM_RESULTS/a_tenth".into()];
    let judge = |job: &JobOutput| {
        let pause =
            Regex::new(r"100000 messages, the longest pause was (\d+) ms").expect("a constant");
        let longest = pause.captures(&job.stdout).and_then(|found| found[1].parse::<u64>().ok());
        let mut wrong = Vec::new();
        if longest.is_none_or(|longest| longest < 2500) || !job.stdout.contains("ok") {
            wrong.push(format!(
                "the longest pause is {longest:?} ms, and three seconds were to be one"
            ));
        }
        // Most are coalesced, the more the slower the machine.
        if job.sent.written < 100 {
            wrong.push(format!("hardly a frame was written: {:?}", job.sent));
        }
        if !job.stderr.contains(" chosen: port 1 of ") {
            wrong.push(format!("--explain says nothing of the device: {}", job.stderr));
        }
        wrong
    };
    let before = "(until [ -e $VM_RESULTS/a_tenth ]; do sleep 0.1; done; vm_cable 3) &".to_owned();
    Ok(vec![Job {
        name: "stream".into(),
        hosts: ALONE,
        words: words.into(),
        before,
        judge: Box::new(judge),
    }])
}

impl Job {
    fn of_row((case, words): programs::Row, how: &str) -> Job {
        let name = if how.is_empty() { case.name.clone() } else { format!("{}, {how}", case.name) };
        let judge = move |job: &JobOutput| programs::mismatches(&case, &job.stdout, &job.stderr);
        // Two ranks of it exchange messages, the first two.
        let hosts = if name.starts_with("order") { ALONE } else { HOSTS };
        Job { name, hosts, words, before: String::new(), judge: Box::new(judge) }
    }

    /// With other knobs, which must show in what it sends.
    fn with(mut self, knobs: &str, is_right: SentCheck) -> Job {
        let options =
            knobs.split(' ').flat_map(|knob| ["--set".to_owned(), format!("verbs.{knob}")]);
        self.words.splice(0..0, options);
        let judge = self.judge;
        self.judge = Box::new(move |job| {
            let mut wrong = judge(job);
            if !is_right(&job.sent) {
                wrong.push(format!("it did not go that way: {:?}", job.sent));
            }
            wrong
        });
        self
    }

    /// For the shell of the first guest. Its output goes to files named `job.AT`.
    fn line(&self, at: usize, mpiexec: &Path) -> String {
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| if word.starts_with('$') { word.clone() } else { quoted(word) })
            .collect();
        let (before, hosts, limit) = (&self.before, self.hosts, MAX_JOB_TIME.as_secs());
        format!(
            "{before}\n{} --timeout {limit} --agent $VM_SSH --hosts {hosts} --set report.traffic=on {} \
             >$VM_RESULTS/job.{at}.out 2>$VM_RESULTS/job.{at}.err\n\
             code=$?; echo $code >$VM_RESULTS/job.{at}.code; [ $code != 124 ] || exit 0\n",
            quoted(&mpiexec.display().to_string()),
            words.join(" ")
        )
    }

    /// Its fault, after the boot. The traffic is that of the job.
    fn verdict(&self, at: usize, results: &Path) -> (Vec<String>, Sent, String) {
        let read = |name: &str| {
            std::fs::read_to_string(results.join(format!("job.{at}.{name}"))).unwrap_or_default()
        };
        let (stdout, stderr) = (read("out"), read("err"));
        let own: String = stderr
            .lines()
            .filter(|line| !line.contains(TRAFFIC))
            .map(|line| format!("{line}\n"))
            .collect();
        let job = JobOutput { sent: sent(&stderr), stdout, stderr: own };
        let mut wrong = match read("code").trim() {
            "0" => (self.judge)(&job),
            "" => vec!["it was not run".to_owned()],
            code => vec![format!("exit code {code}")],
        };
        let ranks = if self.hosts == HOSTS { RANKS as usize } else { 2 };
        if wrong.is_empty() && (job.sent.ranks != ranks || job.sent.frames == 0) {
            wrong.push(format!("not every rank says what it sent by RDMA: {:?}", job.sent));
        }
        let output = format!("{}{stderr}", job.stdout);
        (wrong, job.sent, output)
    }
}

/// Adds up the messages that the ranks report.
fn sent(stderr: &str) -> Sent {
    let line =
        Regex::new(r"rank \d+ sent .* (\d+) frames of (\d+) bytes by RDMA, (\d+) reads of \d+ bytes, (\d+) writes .* (\d+) of the frames by eager RDMA, (\d+) coalesced")
            .expect("a constant");
    let mut sent = Sent::default();
    for found in line.captures_iter(stderr) {
        let number = |at: usize| found[at].parse::<u64>().unwrap_or(0);
        sent.frames += number(1);
        sent.bytes += number(2);
        sent.reads += number(3);
        sent.writes += number(4);
        sent.written += number(5);
        sent.together += number(6);
        sent.ranks += 1;
    }
    sent
}

impl Boot {
    /// Boots, runs all jobs, judges each.
    pub(super) fn run(
        &self,
        project: &Project,
        options: &Options,
        kernel: &Kernel,
    ) -> Result<Tally> {
        let jobs = (self.jobs)(project, options)?;
        let (outcome, results) = self.outcome(project, kernel, &jobs)?;
        let (mut tally, mut alone, mut bytes) = (Tally::default(), 0, 0);
        for (at, job) in jobs.iter().enumerate() {
            let (wrong, sent, output) = job.verdict(at, &results);
            alone += sent.frames.saturating_sub(sent.together);
            bytes += sent.bytes;
            if wrong.is_empty() {
                tally.passed += 1;
            } else {
                report_failure(&format!("{}: {}", self.name, job.name), &wrong.join("; "), &output);
                tally.failed += 1;
            }
        }
        if tally.failed == 0 {
            self.check_network(&outcome, (alone, bytes), jobs.len())
                .with_context(|| format!("{}\n{}", self.name, outcome.summary()))?;
        } else {
            print!("{}", outcome.summary());
        }
        Ok(tally)
    }

    fn outcome(
        &self,
        project: &Project,
        kernel: &Kernel,
        jobs: &[Job],
    ) -> Result<(Outcome, std::path::PathBuf)> {
        let mpiexec = project.prefix().join("bin/mpiexec");
        let mut script = "(cd /tmp; ulimit -l unlimited\n".to_owned();
        for (at, job) in jobs.iter().enumerate() {
            script += &job.line(at, &mpiexec);
        }
        let results = project.target.join("vm/test");
        let plan = Plan {
            machines: self.machines.clone(),
            commands: vec![format!("{script})\nvm_barrier end"), "vm_barrier end".to_owned()],
            link_down: Vec::new(),
            timeout: MAX_JOB_TIME * 4,
            results: results.clone(),
            show: false,
        };
        let outcome = run(project, kernel, &plan).with_context(|| self.name.to_owned())?;
        Ok((outcome, results))
    }

    /// Checks the devices' counters: a packet at least for every frame that was not coalesced,
    /// packets for all bytes, and no data over TCP.
    fn check_network(
        &self,
        outcome: &Outcome,
        (alone, bytes): (u64, u64),
        jobs: usize,
    ) -> Result<()> {
        let (packets, tcp) = (outcome.counter("sent_pkts"), outcome.counter("data_segments"));
        ensure!(
            packets >= alone,
            "{alone} frames, each by itself, in {packets} packets of the devices"
        );
        ensure!(
            packets * MAX_PACKET_BYTES >= bytes,
            "{bytes} bytes of frames in {packets} packets of the devices"
        );
        let most = MAX_TCP_SEGMENTS * jobs as u64;
        ensure!(
            tcp <= most,
            "{tcp} segments of TCP data, and {most} would do to start and end the jobs"
        );
        let repaired =
            outcome.counter("_err") + outcome.counter("duplicate") + outcome.counter("out_of_seq");
        ensure!(!self.faults || repaired > 0, "nothing was lost");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_ranks_are_added_up() {
        let text = "verbena: rank 0 sent 1 frames of 2 bytes to its host, 30 frames of 4 bytes by RDMA, 5 reads of 6 bytes, 7 writes of 8 bytes, 0 atomics of 0 bytes, 6 of the frames by eager RDMA, 2 coalesced\n\
                    verbena: rank 1 sent 1 frames of 2 bytes to its host, 12 frames of 4 bytes by RDMA, 0 reads of 6 bytes, 1 writes of 8 bytes, 0 atomics of 0 bytes, 3 of the frames by eager RDMA, 0 coalesced\n";
        let sent = sent(text);
        assert_eq!((sent.frames, sent.bytes, sent.reads, sent.writes), (42, 8, 5, 8));
        assert_eq!((sent.written, sent.together, sent.ranks), (9, 2, 2));
    }
}
