//! Runs `mpiexec` under test with a time limit, and finds the processes that it leaves running.

#![allow(dead_code)] // each test file uses its part

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code; -1 if a signal killed it.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
    /// The time from start to end.
    pub(crate) time: Duration,
}

/// A process that runs until its test ends, at the latest.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect on a process that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The time limit of a run.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Returns a command for `mpiexec` with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Returns the path of the program that stands in for an MPI rank.
pub(crate) fn rank() -> String {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.join("rank").to_str().unwrap().to_owned()
}

/// Runs `mpiexec` with arguments split at spaces; `RANK` is the rank program.
pub(crate) fn mpiexec(line: &str) -> Ran {
    let rank = rank();
    let arguments: Vec<&str> =
        line.split(' ').map(|word| if word == "RANK" { &rank } else { word }).collect();
    finish(spawn(&mut command(&arguments)))
}

/// Runs `mpiexec OPTIONS sh -c SCRIPT`.
pub(crate) fn script(options: &str, script: &str) -> Ran {
    let mut arguments: Vec<&str> = options.split(' ').collect();
    arguments.extend(["sh", "-c", script]);
    finish(spawn(&mut command(&arguments)))
}

/// Starts a command with its output captured.
pub(crate) fn spawn(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Waits for the end; panics at the time limit.
pub(crate) fn finish(mut child: Running) -> Ran {
    let began = Instant::now();
    let out = collect(child.stdout.take().unwrap());
    let err = collect(child.stderr.take().unwrap());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > MAX_TIME {
            child.kill().unwrap();
            panic!("mpiexec did not end in {MAX_TIME:?}: {:?} {:?}", out.join(), err.join());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let time = began.elapsed();
    Ran {
        code: status.code().unwrap_or(-1),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
        time,
    }
}

/// Writes to a child's standard input and closes it.
pub(crate) fn feed(child: &mut Child, bytes: &[u8]) {
    child.stdin.take().unwrap().write_all(bytes).unwrap();
}

/// Returns a number of seconds that no other sleep in the system has, to find it by.
pub(crate) fn unique_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("77.{}{:03}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns how many processes have this word in their command line.
pub(crate) fn processes(word: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    pids.filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok())
        .filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
        .count()
}

/// Waits until a condition holds, at most a few seconds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(5), "not yet: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the children of a process, in order.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let mut found: Vec<u32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit(") ").next().unwrap_or("");
            fields.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect();
    found.sort_unstable();
    found
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
