//! `cargo xtask stress`: random traffic from seeds, and ranks killed at random moments.
//!
//! A seed determines a run: ranks, threads, knobs, a progress thread or none, messages, and the
//! requests that are cancelled and restarted. Two runs of one seed differ in timing alone. A run
//! that fails prints the command that repeats it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::command::{Mark, capture, line, quietly};
use crate::install::{self, Build};
use crate::project::Project;
use crate::steps::{Steps, say};

/// Options of `stress`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The first seed; each run takes the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Begin runs for so many minutes.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Instead: run so many jobs and kill a random rank of each.
    #[arg(long)]
    kill: Option<u64>,
}

/// Longest time of a run, also on a busy machine.
const MAX_RUN_TIME: Duration = Duration::from_secs(120);
/// Longest time from a killed rank to the end of its job.
const MAX_END_TIME: Duration = Duration::from_secs(2);
const RANKS: [u64; 10] = [2, 3, 4, 5, 6, 7, 8, 11, 13, 16];
const THREADS: [u64; 5] = [1, 1, 2, 3, 4];
const KNOBS: [&str; 7] = [
    "",
    "",
    "shm.ring_bytes=16K",
    "shm.single_copy=off",
    "pt2pt.unexpected_max=64K",
    "wait.spin=0",
    "shm.eager_max=64",
];
const PROGRESS: [&str; 3] = ["", "", "pt2pt.progress=thread"];

/// The program, compiled, and the mpiexec to run it.
pub(crate) struct Stress {
    storm: PathBuf,
    mpiexec: PathBuf,
    /// Everything that a job could write a file to.
    temporary: PathBuf,
}

/// Installs, runs, counts; true if nothing failed.
pub(crate) fn stress(project: &Project, options: &Options) -> Result<bool> {
    let steps = Steps::start(project, "stress", false)?;
    install::install(project, &steps, &project.prefix(), &Build::Profile("release"))?;
    let stress = Stress::compile(project)?;
    let (passed, failed) = match options.kill {
        Some(jobs) => stress.kill(options.seed, jobs)?,
        None => stress.storm(options.seed, Duration::from_secs_f64(options.minutes * 60.0))?,
    };
    say!("{passed} passed, {failed} failed");
    Ok(failed == 0 && passed > 0)
}

/// Numbers that follow from a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

impl Stress {
    /// Compiles the program by the installed `mpicc`.
    pub(crate) fn compile(project: &Project) -> Result<Stress> {
        let folder = project.target.join("stress");
        let temporary = folder.join("temporary");
        std::fs::create_dir_all(&temporary)?;
        let prefix = project.prefix();
        let stress =
            Stress { storm: folder.join("storm"), mpiexec: prefix.join("bin/mpiexec"), temporary };
        let mut mpicc = Command::new(prefix.join("bin/mpicc"));
        mpicc.args(["-std=gnu11", "-O1", "-g", "-pthread", "-o"]).arg(&stress.storm);
        quietly(mpicc.arg(project.root.join("tests/programs/storm.c")), Duration::from_secs(120))?;
        Ok(stress)
    }

    /// Runs for `time`; how many runs went well, and how many did not.
    pub(crate) fn storm(&self, first: u64, time: Duration) -> Result<(u64, u64)> {
        let (end, mut seed, mut failed) = (Instant::now() + time, first, 0);
        while seed == first || Instant::now() < end {
            let mut mpiexec = self.job(seed, false).0;
            let ran = capture(&mut mpiexec, None, MAX_RUN_TIME)?;
            if !ran.success() || !ran.stdout.lines().any(|line| line == "ok") {
                say!(
                    "FAILED: seed {seed}: {}\n    $ {}\n{}",
                    ran.ending(),
                    line(&mpiexec),
                    ran.output()
                );
                failed += 1;
            }
            seed += 1;
        }
        say!("   seeds {first} to {}", seed - 1);
        Ok((seed - first - failed, failed))
    }

    /// Kills a rank of each of `jobs` jobs; how many ended as they should.
    pub(crate) fn kill(&self, first: u64, jobs: u64) -> Result<(u64, u64)> {
        let mut failed = 0;
        for seed in first..first + jobs {
            if let Err(error) = self.kill_once(seed) {
                say!("FAILED: kill, seed {seed}: {error:#}");
                failed += 1;
            }
        }
        Ok((jobs - failed, failed))
    }

    fn kill_once(&self, seed: u64) -> Result<()> {
        let (mut mpiexec, mut rng, ranks) = self.job(seed, true);
        let (victim, delay) = (rng.below(ranks), Duration::from_micros(rng.below(300_000)));
        let (mark, before) = (Mark::new(), shared_files());
        mark.put_on(&mut mpiexec);
        let mut job =
            mpiexec.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        std::thread::sleep(delay);
        let killed = loop {
            // At first there are no ranks yet.
            if mark.kill_rank(victim) {
                break Instant::now();
            }
            ensure!(job.try_wait()?.is_none(), "the job was over before rank {victim} was found");
        };
        // Its streams end when no process holds them.
        let output = job.wait_with_output().context("mpiexec")?;
        let took = killed.elapsed();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let survivors = mark.end_survivors();
        let what =
            format!("rank {victim} of {ranks} after {delay:?}\n    $ {}\n{stderr}", line(&mpiexec));
        ensure!(
            stderr.contains(&format!("rank {victim} (")) && stderr.contains("killed by signal 9"),
            "not named: {what}"
        );
        ensure!(took < MAX_END_TIME, "took {took:?}: {what}");
        ensure!(output.status.code() == Some(137), "{}: {what}", output.status);
        ensure!(survivors.is_empty(), "left {}: {what}", survivors.join(", "));
        let left: Vec<String> = shared_files().difference(&before).cloned().collect();
        ensure!(left.is_empty(), "left {}: {what}", left.join(", "));
        ensure!(
            std::fs::read_dir(&self.temporary)?.next().is_none(),
            "left files in TMPDIR: {what}"
        );
        Ok(())
    }

    /// The job of a seed, the properties that follow from it, and how many ranks it has. `endless`:
    /// it runs until it is ended.
    fn job(&self, seed: u64, endless: bool) -> (Command, Rng, u64) {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (ranks, threads, knob) = (rng.one(&RANKS), rng.one(&THREADS), rng.one(&KNOBS));
        let rounds = if endless { 1_000_000 } else { 600 / (ranks * threads) + 10 };
        let mut mpiexec = Command::new(&self.mpiexec);
        mpiexec.args(["-n", &ranks.to_string()]);
        for knob in [knob, rng.one(&PROGRESS)].iter().filter(|knob| !knob.is_empty()) {
            mpiexec.args(["--set", knob]);
        }
        mpiexec.arg(&self.storm).args([seed, rounds, threads].map(|number| number.to_string()));
        mpiexec.env("TMPDIR", &self.temporary);
        (mpiexec, rng, ranks)
    }
}

/// Returns the names in shared memory.
fn shared_files() -> BTreeSet<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
