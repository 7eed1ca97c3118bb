//! Programs under a real Slurm: started by `srun` through PMI-2 and PMIx, and by our `mpiexec` in
//! an allocation; by Hydra through PMI-1 and by prterun through PMIx, if they are in PATH. C
//! programs of the table run under each of them: some by a seed, or all and mpi4py's tests. Hosts
//! that dial in are network namespaces (`dial_in`).
//!
//! The cluster is this machine: a munged, a slurmctld and two slurmd of pretended nodes, in a
//! folder of their own and on free ports of the loopback interface. They run as children of this
//! process and are killed at the end, by their ids. That needs root and Debian's packages;
//! otherwise the part is skipped.

mod dial_in;

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Options, Tally, programs, python, report_failure};
use crate::command::{self, Ran, capture, quietly};
use crate::project::Project;
use crate::set_up;
use crate::steps::{Step, say};

/// Debian's packages of the cluster.
const PACKAGES: &[(&str, &str)] = &[
    ("slurm-wlm", "the resource manager"),
    ("munge", "its authentication"),
    ("libpmix2", "PMIx"),
    ("libpmix-dev", "the name by which Slurm opens PMIx"),
];
/// Longest time of a job, and of the start of the cluster.
const LIMIT: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(20);
/// The C programs that jobs run.
const PROGRAMS: [&str; 5] = ["hello", "collectives", "spawn", "ports", "late_sender"];

/// A stall is one of two seconds.
const STALLING: &str = "env VERBENA_LAUNCH_STALL_TIMEOUT=2s";
/// A program that is in one for some seconds more than the launcher needs to find it.
const LATE_SENDER: &str = "{programs}/late_sender 12";

/// A program whose rank 1 calls MPI_Init late.
const LATE_RANK: &str = "sh -c 'test $SLURM_PROCID = 1 && sleep 4; exec {programs}/hello'";

/// One job: its name, its words, and what must hold of its end.
struct Job {
    name: &'static str,
    words: String,
    judge: fn(&Ran) -> bool,
}

/// The ranks of a job.
const RANKS: u32 = 4;
/// Commands that start so many ranks of a program, and the word that shows whether they are there.
const STARTERS: [(&str, &str); 3] = [
    ("srun", "srun -N2 -n4 --mpi=pmi2"),
    ("mpiexec.hydra", "mpiexec.hydra -n 4"),
    ("prterun", "prterun --allow-run-as-root --map-by :oversubscribe -n 4"),
];
/// C programs that each of them runs, unless it runs all.
const PROGRAMS_OF_A_SEED: usize = 4;

/// Runs all jobs.
pub(super) fn test(project: &Project, options: &Options, step: &Step) -> Result<Tally> {
    let mut tally = Tally::default();
    let at = project.target.join("managers");
    let mpicc = options.mpicc.clone().unwrap_or(project.prefix().join("bin/mpicc"));
    let programs = compile(project, &mpicc, &at)?;
    let mpiexec = options.mpiexec.clone().unwrap_or(project.prefix().join("bin/mpiexec"));
    let expand = |words: &str| {
        words
            .replace("{mpiexec}", &mpiexec.to_string_lossy())
            .replace("{programs}", &programs.to_string_lossy())
    };
    let is_wanted =
        |name: &str| options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let cluster = Cluster::start(&at, step);
    match &cluster {
        Ok(cluster) => {
            for job in slurm_jobs().iter().filter(|job| is_wanted(job.name)) {
                let mut command = shell(&expand(&job.words));
                tally += judge(job, command.env("SLURM_CONF", cluster.config()))?;
            }
        }
        Err(error) => {
            say!("skipped: no Slurm here: {error:#}");
            tally.skipped += slurm_jobs().len() as u64;
        }
    }
    if is_wanted("pods that dial in") {
        match dial_in::test(&mpiexec, &programs) {
            Ok(own) => tally += own,
            Err(error) => {
                say!("skipped: pods that dial in: no network namespaces here: {error:#}");
                tally.skipped += 1;
            }
        }
    }
    let config = cluster.as_ref().ok().map(Cluster::config);
    for (program, job) in other_jobs().into_iter().filter(|(_, job)| is_wanted(job.name)) {
        if command::exists(program, "--version") {
            tally += judge(&job, &mut shell(&expand(&job.words)))?;
        } else {
            tally.skipped += 1;
        }
    }
    tally += whole_programs(project, options, config.as_deref())?;
    Ok(tally)
}

/// Runs C programs of the table under each manager: all of them with mpi4py's tests, or some by the
/// seed.
fn whole_programs(project: &Project, options: &Options, slurm: Option<&Path>) -> Result<Tally> {
    let mut tally = Tally::default();
    let rows: Vec<programs::Row> = programs::for_hosts(project, options, true)?
        .into_iter()
        .filter(|(case, _)| case.options.is_empty() && !case.ours)
        .collect();
    let python = if options.thorough { python::for_hosts(project)? } else { Vec::new() };
    for (number, (program, start)) in STARTERS.into_iter().enumerate() {
        let is_there = match program {
            "srun" => slurm.is_some(),
            program => command::exists(program, "--version"),
        };
        if !is_there {
            tally.skipped += 1;
            continue;
        }
        for (case, words) in options.some(&rows, number, PROGRAMS_OF_A_SEED) {
            let name = format!("{} by {program}", case.name);
            if options.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
                continue;
            }
            let ran = capture(&mut started(start, words, slurm), None, LIMIT)?;
            let mut wrong = programs::mismatches(case, &ran.stdout, &ran.stderr);
            wrong.extend((!ran.success()).then(|| ran.ending()));
            match wrong.is_empty() {
                true => tally.passed += 1,
                false => {
                    report_failure(&name, &wrong.join("; "), &ran.output());
                    tally.failed += 1;
                }
            }
        }
        for (name, words) in &python {
            let name = format!("{name} by {program}");
            if options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
                tally += python::judge(started(start, words, slurm), &name, RANKS)?;
            }
        }
    }
    Ok(tally)
}

/// Returns the command that starts these words by a manager.
fn started(start: &str, words: &[String], slurm: Option<&Path>) -> Command {
    let mut command = shell(&format!("{start} \"$@\""));
    command.arg("sh").args(words).current_dir(std::env::temp_dir());
    slurm.iter().for_each(|config| _ = command.env("SLURM_CONF", config));
    command
}

fn slurm_jobs() -> Vec<Job> {
    let job = |name, words: &str, judge| Job { name, words: words.to_owned(), judge };
    vec![
        job("srun, PMI-2, two nodes", "srun -N2 -n4 --mpi=pmi2 {programs}/collectives", is_ok),
        job(
            "srun, PMI-2, ranks dealt in turn",
            "srun -N2 -n4 -m cyclic --mpi=pmi2 {programs}/collectives",
            is_ok,
        ),
        job("srun, PMI-2, four lines", "srun -N2 -n4 --mpi=pmi2 {programs}/hello", is_four),
        job("srun, PMIx", "srun -N1 -n2 --mpi=pmix {programs}/collectives", is_ok),
        job("srun without a store", "srun -N1 -n2 --mpi=none {programs}/hello", is_refused),
        job("srun, PMI-2, a program spawns", "srun -n1 --mpi=pmi2 {programs}/spawn", is_ok),
        job("srun, PMI-2, a program opens ports", "srun -n1 --mpi=pmi2 {programs}/ports", is_ok),
        job("srun, PMIx, a program spawns", "srun -n1 --mpi=pmix {programs}/spawn", is_ok),
        job("srun, PMI-2, two ranks spawn", "srun -N1 -n2 --mpi=pmi2 {programs}/spawn", is_ok),
        job("srun, PMI-2, two ranks open ports", "srun -N1 -n2 --mpi=pmi2 {programs}/ports", is_ok),
        job("srun, PMI-2, two nodes spawn", "srun -N2 -n4 --mpi=pmi2 {programs}/spawn", is_ok),
        job("srun, PMI-2, two nodes open ports", "srun -N2 -n4 --mpi=pmi2 {programs}/ports", is_ok),
        job(
            "srun, PMI-2, ranks dealt in turn spawn",
            "srun -N2 -n4 -m cyclic --mpi=pmi2 {programs}/spawn",
            is_ok,
        ),
        job("srun, PMIx, two ranks spawn", "srun -N1 -n2 --mpi=pmix {programs}/spawn", is_ok),
        job("srun, no store, a program spawns", "srun -n1 --mpi=none {programs}/spawn", is_ok),
        job(
            "srun, PMI-2, MPI_Init waits for a rank",
            &format!("{STALLING} srun -N2 -n4 --mpi=pmi2 {LATE_RANK}"),
            is_late,
        ),
        job(
            "srun, PMIx, MPI_Init waits for a rank",
            &format!("{STALLING} srun -N1 -n2 --mpi=pmix {LATE_RANK}"),
            is_late,
        ),
        job(
            "srun, PMI-2, a stall is reported",
            &format!("{STALLING} srun -N1 -n2 --mpi=pmi2 {LATE_SENDER}"),
            is_reported,
        ),
        job(
            "srun, PMI-2, a stall on two nodes is reported",
            &format!("{STALLING} srun -N2 -n4 --mpi=pmi2 {LATE_SENDER}"),
            is_reported,
        ),
        job(
            "srun, PMI-2, a stall of ranks dealt in turn is reported",
            &format!("{STALLING} srun -N2 -n4 -m cyclic --mpi=pmi2 {LATE_SENDER}"),
            is_reported,
        ),
        job(
            "srun, a program spawns on both nodes",
            "salloc -Q -N2 -n4 srun -N1 -n1 -w n2 --mpi=pmi2 {programs}/spawn",
            is_ok,
        ),
        job("mpiexec in an allocation", "salloc -Q -N2 -n4 {mpiexec} {programs}/hello", is_four),
        job(
            "mpiexec in an allocation, both nodes",
            "salloc -Q -N2 -n4 {mpiexec} sh -c 'echo here $VERBENA_LOCAL_SIZE'",
            is_two_each,
        ),
        job(
            "mpiexec in an allocation, a rank is killed",
            "salloc -Q -N2 -n4 {mpiexec} sh -c 'test $VERBENA_RANK = 2 && kill -9 $$; sleep 30'",
            is_killed,
        ),
    ]
}

/// Returns the jobs of the other managers, each with the command that must be there.
fn other_jobs() -> Vec<(&'static str, Job)> {
    let job =
        |program, name, words: &str, judge| (program, Job { name, words: words.to_owned(), judge });
    let (hydra, prrte) = ("mpiexec.hydra", "prterun");
    let prterun = "prterun --allow-run-as-root --map-by :oversubscribe -n";
    vec![
        job(hydra, "Hydra, PMI-1", "mpiexec.hydra -n 4 {programs}/collectives", is_ok),
        job(
            hydra,
            "Hydra, PMI-1 by a port",
            "mpiexec.hydra -pmi-port -n 4 {programs}/hello",
            is_four,
        ),
        job(
            prrte,
            "prterun, a rank alone",
            &format!("{prterun} 1 {{programs}}/collectives"),
            is_ok,
        ),
        job(hydra, "Hydra, three ranks spawn", "mpiexec.hydra -n 3 {programs}/spawn", is_ok),
        job(hydra, "Hydra, four ranks open ports", "mpiexec.hydra -n 4 {programs}/ports", is_ok),
        job(
            hydra,
            "Hydra, a stall is reported",
            &format!("{STALLING} mpiexec.hydra -n 3 {LATE_SENDER}"),
            is_reported,
        ),
        job(hydra, "Hydra, a program spawns", "mpiexec.hydra -n 1 {programs}/spawn", is_ok),
        job(hydra, "Hydra, a program opens ports", "mpiexec.hydra -n 1 {programs}/ports", is_ok),
        job(prrte, "prterun, three ranks spawn", &format!("{prterun} 3 {{programs}}/spawn"), is_ok),
        job(prrte, "prterun, a program spawns", &format!("{prterun} 1 {{programs}}/spawn"), is_ok),
        job(
            prrte,
            "prterun, a program opens ports",
            &format!("{prterun} 1 {{programs}}/ports"),
            is_ok,
        ),
    ]
}

fn is_ok(ran: &Ran) -> bool {
    ran.success() && ran.stdout == "ok\n"
}

fn is_four(ran: &Ran) -> bool {
    let rank = |rank: u32| ran.stdout.contains(&format!("hello from {rank} of 4"));
    ran.success() && (0..4).all(rank)
}

fn is_reported(ran: &Ran) -> bool {
    let is_there = |text: &str| ran.stderr.contains(text);
    let all = ["no progress for 2 s", "waits for", "MPI_Bcast", "rank 0 (pid ", "outside of MPI"];
    let none = ["not looked for", "lost host", "exited"];
    is_ok(ran) && all.into_iter().all(is_there) && !none.into_iter().any(is_there)
}

fn is_late(ran: &Ran) -> bool {
    let lines = ran.stderr.matches("in MPI_Init").count();
    let line = "verbena: rank 0 has waited 2 s in MPI_Init";
    ran.success() && lines == 1 && ran.stderr.contains(line)
}

fn is_refused(ran: &Ran) -> bool {
    !ran.success() && ran.stderr.contains("--mpi=pmi2")
}

fn is_two_each(ran: &Ran) -> bool {
    ran.success() && ran.stdout.matches("here 2\n").count() == 4
}

fn is_killed(ran: &Ran) -> bool {
    ran.code() == 137 && ran.stderr.contains("mpiexec: rank 2 (pid ")
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {line}")]);
    command
}

fn judge(job: &Job, command: &mut Command) -> Result<Tally> {
    let ran = capture(command, None, LIMIT)?;
    if (job.judge)(&ran) {
        return Ok(Tally { passed: 1, ..Tally::default() });
    }
    report_failure(job.name, &ran.ending(), &ran.output());
    Ok(Tally { failed: 1, ..Tally::default() })
}

fn compile(project: &Project, mpicc: &Path, at: &Path) -> Result<PathBuf> {
    if at.exists() {
        fs::remove_dir_all(at)?;
    }
    let programs = at.join("programs");
    fs::create_dir_all(&programs)?;
    for name in PROGRAMS {
        let mut mpicc = Command::new(mpicc);
        mpicc.arg("-o").arg(programs.join(name));
        mpicc.arg(project.root.join("tests/programs").join(name).with_extension("c")).arg("-lm");
        quietly(&mut mpicc, LIMIT)?;
    }
    Ok(programs)
}

/// A Slurm of two pretended nodes. Dropping it ends it.
struct Cluster {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(at: &Path, step: &Step) -> Result<Cluster> {
        ensure!(rustix::process::geteuid().is_root(), "its daemons need root");
        set_up::provide(PACKAGES, &|command| step.run(command))?;
        let folder = at.join("slurm");
        for name in ["munge", "state", "spool.n1", "spool.n2"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let mut cluster = Cluster { folder, daemons: Vec::new() };
        cluster.write_files()?;
        cluster.start_daemons()?;
        let began = Instant::now();
        while !cluster.is_ready() {
            ensure!(began.elapsed() < START_LIMIT, "its nodes do not become idle");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(cluster)
    }

    fn config(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn write_files(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = self.folder.to_string_lossy();
        let mut key = [0u8; 128];
        fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        let key_file = self.folder.join("munge/key");
        fs::write(&key_file, key)?;
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600))?;
        fs::set_permissions(self.folder.join("munge"), fs::Permissions::from_mode(0o700))?;
        let [controller, first, second] = free_ports()?;
        let text = format!(
            "ClusterName=verbena\nSlurmctldHost=localhost\nSlurmctldPort={controller}\n\
             SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge/socket\nStateSaveLocation={folder}/state\n\
             SlurmdSpoolDir={folder}/spool.%n\nSlurmctldPidFile={folder}/controller.pid\n\
             SlurmdPidFile={folder}/node.%n.pid\nSlurmdLogFile={folder}/node.%n.log\n\
             SlurmctldLogFile={folder}/controller.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nReturnToService=2\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nMpiDefault=none\n\
             NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=2\n\
             NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=2\n\
             PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8\n"
        );
        fs::write(self.config(), text).context("slurm.conf")
    }

    fn start_daemons(&mut self) -> Result<()> {
        let munge = self.folder.join("munge");
        let option = |name: &str, file: &str| format!("--{name}={}", munge.join(file).display());
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        munged.args([option("key-file", "key"), option("socket", "socket")]);
        munged.args([option("pid-file", "pid"), option("log-file", "log")]);
        munged.arg(option("seed-file", "seed"));
        self.spawn(&mut munged)?;
        let began = Instant::now();
        while !munge.join("socket").exists() {
            ensure!(began.elapsed() < START_LIMIT, "munged does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.spawn(Command::new("slurmctld").arg("-D"))?;
        self.spawn(Command::new("slurmd").args(["-D", "-N", "n1"]))?;
        self.spawn(Command::new("slurmd").args(["-D", "-N", "n2"]))
    }

    fn spawn(&mut self, command: &mut Command) -> Result<()> {
        command.env("SLURM_CONF", self.config());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = command.spawn();
        let daemon = daemon.with_context(|| format!("cannot start {}", command::line(command)))?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let mut command = Command::new("sinfo");
        command.args(["-h", "-o", "%T %D"]).env("SLURM_CONF", self.config());
        capture(&mut command, None, LIMIT).is_ok_and(|ran| ran.stdout.trim() == "idle 2")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns ports that were free a moment ago.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners = (0..N).map(|_| TcpListener::bind("127.0.0.1:0"));
    let listeners = listeners.collect::<std::io::Result<Vec<_>>>()?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    let ports = ports.collect::<Result<Vec<u16>>>()?;
    match ports.try_into() {
        Ok(ports) => Ok(ports),
        Err(_) => bail!("no free ports"),
    }
}
