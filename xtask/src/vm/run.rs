//! A command in every guest: boot, run, watch, end, sum up.
//!
//! States of a run: booting (until every guest has written `ready.N`), running
//! (until every guest has written `code.N`, or the time is up). Guests are ended
//! together, so that no one waits for the last words of another.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};

use super::guest::{Boot, Guest};
use super::{Kernel, LinkDown, Machines, Plan, initrd, switch};
use crate::command::{quietly, quoted};
use crate::project::Project;

/// Longest time of a boot; a guest that needs more has failed. A busy machine takes minutes.
const MAX_BOOT_TIME: Duration = Duration::from_secs(300);
/// Time between two looks at the folder of results.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of a guest's kernel about tasks that do not go on; it repeats them.
const MAX_STUCK_LINES: usize = 8;
const SESSION: &str = include_str!("session.sh");
/// Folded into the summary: what a device sent and received, and then what went wrong.
const TRAFFIC: [&str; 2] = ["sent_pkts", "rcvd_pkts"];

/// The result of a run.
pub(crate) struct Outcome {
    /// By guest.
    pub(crate) guests: Vec<Ended>,
    booted: Duration,
    ran: Duration,
    timed_out: bool,
}

/// The result of the command in one guest.
pub(crate) struct Ended {
    /// Its exit code; `None` if it did not end.
    pub(crate) code: Option<i32>,
    /// It was ended from outside, by `vm_die`.
    pub(crate) died: bool,
    /// All that it printed.
    pub(crate) output: String,
    /// Device, name and value.
    pub(crate) counters: Vec<(String, String, u64)>,
    /// What its kernel said of tasks that do not go on, if it did not end.
    stuck: Vec<String>,
}

impl Outcome {
    /// Every command ended with 0, but for those of guests that were to die.
    pub(crate) fn success(&self) -> bool {
        self.guests.iter().all(|guest| guest.died || guest.code == Some(0))
    }

    /// The sum of all counters whose name has this text in it.
    pub(crate) fn counter(&self, text: &str) -> u64 {
        let counters = self.guests.iter().flat_map(|guest| &guest.counters);
        counters.filter(|(_, name, _)| name.contains(text)).map(|(_, _, value)| value).sum()
    }

    /// A few lines for people.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for (id, guest) in self.guests.iter().enumerate() {
            let none = if guest.died { "died" } else { "did not end" };
            let code = guest.code.map_or(none.into(), |code| format!("exit code {code}"));
            let _ = writeln!(text, "vm{id}: {code}");
            for line in &guest.stuck {
                let _ = writeln!(text, "vm{id}: {line}");
            }
            let mut devices: Vec<&str> =
                guest.counters.iter().map(|(device, ..)| device.as_str()).collect();
            devices.dedup();
            for device in devices {
                let _ = writeln!(text, "vm{id}: {device}: {}", guest.traffic(device));
            }
        }
        let late = if self.timed_out { ", ended by --timeout" } else { "" };
        let (booted, ran) = (self.booted.as_secs_f64(), self.ran.as_secs_f64());
        let _ = writeln!(text, "booted in {booted:.1} s, ran {ran:.1} s{late}");
        text
    }
}

impl Ended {
    fn traffic(&self, device: &str) -> String {
        let (mut common, mut rare) = (Vec::new(), Vec::new());
        for (_, name, value) in
            self.counters.iter().filter(|(of, _, value)| of == device && *value > 0)
        {
            let list = if TRAFFIC.contains(&name.as_str()) { &mut common } else { &mut rare };
            list.push(format!("{name} {value}"));
        }
        common.append(&mut rare);
        if common.is_empty() { "no traffic".into() } else { common.join(", ") }
    }
}

/// Runs the plan. The error is the reason why the guests failed before that, with the last lines of
/// their consoles.
pub(crate) fn run(project: &Project, kernel: &Kernel, plan: &Plan) -> Result<Outcome> {
    let plan = &Plan { results: std::path::absolute(&plan.results)?, ..plan.clone() };
    let _alone = prepare(project, plan)?;
    let began = Instant::now();
    let mut running = Running::boot(project, kernel, plan)?;
    running.wait_for("ready", MAX_BOOT_TIME)?;
    let booted = began.elapsed();
    fs::write(plan.results.join("go"), "")?;
    let in_time = running.watch()?;
    let ran = began.elapsed() - booted;
    drop(running);
    fs::remove_file(plan.results.join("initrd"))?;
    let guests = (0..plan.machines.count()).map(|id| ended(&plan.results, id)).collect();
    let outcome = Outcome { guests, booted, ran, timed_out: !in_time };
    fs::write(plan.results.join("summary"), outcome.summary())?;
    Ok(outcome)
}

/// A shell of the first guest on this terminal; the others wait.
pub(super) fn shell(project: &Project, kernel: &Kernel, machines: &Machines) -> Result<bool> {
    let results = std::path::absolute(project.target.join("vm/shell"))?;
    let mut commands = vec!["sleep infinity".to_owned(); machines.count() as usize];
    commands[0] = shell_on_console();
    let (link_down, timeout) = (Vec::new(), Duration::MAX);
    let plan =
        Plan { machines: machines.clone(), commands, link_down, timeout, results, show: true };
    let _alone = prepare(project, &plan)?;
    println!("booting; `exit` ends the guests");
    fs::write(plan.results.join("go"), "")?;
    let mut running = Running::boot_on_terminal(project, kernel, &plan)?;
    while !running.guests[0].has_ended() && !plan.results.join("code.0").exists() {
        std::thread::sleep(POLL_INTERVAL);
    }
    drop(running);
    Ok(true)
}

/// A shell with job control, as wide as our terminal.
fn shell_on_console() -> String {
    let size = rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or((24, 80), |size| (size.ws_row, size.ws_col));
    format!(
        "export TERM={}; stty -F /dev/ttyS0 rows {} cols {} 2>/dev/null; setsid -c bash -i </dev/ttyS0 >/dev/ttyS0 2>&1",
        quoted(&std::env::var("TERM").unwrap_or("linux".into())),
        size.0,
        size.1
    )
}

/// Empties the folder of results and writes what the guests need. No other process uses the folder
/// while the file that is returned is open.
fn prepare(project: &Project, plan: &Plan) -> Result<File> {
    let results = &plan.results;
    fs::create_dir_all(results).with_context(|| format!("cannot make {}", results.display()))?;
    let folder = File::open(results)?;
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another run uses {}; give this one --results DIR", results.display());
    }
    empty(results)?;
    fs::write(results.join("session.sh"), SESSION)?;
    let key = key(project)?;
    if let Some(key) = &key {
        fs::copy(key, results.join("key"))?;
        let ssh = "#!/bin/sh\n# ssh between guests: HOST COMMAND...\nexec dbclient -T -i /etc/dropbear/key \"$@\"\n";
        fs::write(results.join("ssh"), ssh)?;
        fs::set_permissions(
            results.join("ssh"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )?;
    }
    for id in 0..plan.machines.count() {
        let command = plan.commands.get(id as usize).unwrap_or(&plan.commands[0]);
        fs::write(results.join(format!("settings.{id}")), settings(plan, id, key.is_some())?)?;
        fs::write(
            results.join(format!("command.{id}")),
            format!(". {}\n{command}\n", quoted(&path(results, "session.sh"))),
        )?;
    }
    Ok(folder)
}

/// A folder that has other things in it than an earlier run's is not ours to empty.
fn empty(results: &Path) -> Result<()> {
    let mark = results.join("session.sh");
    if fs::read_dir(results)?.next().is_some() && !mark.exists() {
        bail!(
            "{} is not empty and has no results of an earlier run; give another --results",
            results.display()
        );
    }
    for entry in fs::read_dir(results)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// The variables of init and of the command, as a shell reads them.
fn settings(plan: &Plan, id: u32, ssh: bool) -> Result<String> {
    let machines = &plan.machines;
    let addresses = machines.addresses();
    let hosts: Vec<String> = (0..addresses.len()).map(|n| format!("vm{n}")).collect();
    let other = |n: &usize| *n != id as usize;
    let mut values = vec![
        ("VM_ID", id.to_string()),
        ("VM_GUESTS", machines.count().to_string()),
        ("VM_PAIR", if machines.pair { "1".into() } else { String::new() }),
        ("VM_DEVICES", if machines.pair { "rxe0 rxe1".into() } else { "rxe0".into() }),
        ("VM_ADDRESS", addresses[id as usize].clone()),
        ("VM_ADDRESSES", addresses.join(" ")),
        ("VM_HOSTS", hosts.join(" ")),
        (
            "VM_PEERS",
            (0..hosts.len()).filter(other).map(|n| hosts[n].clone()).collect::<Vec<_>>().join(" "),
        ),
        ("VM_GID", "1".into()),
        ("VM_MTU", machines.mtu.to_string()),
        ("VM_NETEM", machines.netem()),
        ("VM_RESULTS", plan.results.display().to_string()),
        ("VM_SSH", if ssh { path(&plan.results, "ssh") } else { String::new() }),
        ("VM_SHELL", if plan.timeout == Duration::MAX { "1".into() } else { String::new() }),
        ("HOME", "/root".into()),
        ("LANG", "C.UTF-8".into()),
    ];
    values.push((
        "VM_PATH",
        std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".into()),
    ));
    values.push(("VM_FOLDER", std::env::current_dir()?.display().to_string()));
    let mut text = String::new();
    for (name, value) in &values {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("VERBENA_")) {
        let _ = writeln!(text, "export {name}={}", quoted(&value));
    }
    Ok(text)
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A key for ssh between guests, made once; `None` without dropbear.
fn key(project: &Project) -> Result<Option<PathBuf>> {
    let key = project.target.join("vm/key");
    if !key.exists() {
        let mut make = Command::new("dropbearkey");
        make.args(["-t", "ed25519", "-f"]).arg(&key);
        if quietly(&mut make, Duration::from_secs(30)).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(key))
}

/// Ticks of the processor's clock in a millisecond, measured by a small program.
fn tsc_khz(project: &Project) -> Result<u32> {
    let source = project.root.join("xtask/src/vm/tsc.c");
    let program = project.target.join("vm/tsc");
    let minute = Duration::from_secs(60);
    let age = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if age(&program) < age(&source) {
        quietly(Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source), minute)?;
    }
    let printed = quietly(&mut Command::new(&program), minute)?.stdout;
    printed.trim().parse().context("the processor's clock can't be read")
}

/// Guests that run. Dropping it ends them.
struct Running<'a> {
    plan: &'a Plan,
    guests: Vec<Guest>,
    tails: Vec<Tail>,
}

impl<'a> Running<'a> {
    fn boot(project: &Project, kernel: &Kernel, plan: &'a Plan) -> Result<Running<'a>> {
        Running::start(project, kernel, plan, false)
    }

    fn boot_on_terminal(project: &Project, kernel: &Kernel, plan: &'a Plan) -> Result<Running<'a>> {
        Running::start(project, kernel, plan, true)
    }

    fn start(
        project: &Project,
        kernel: &Kernel,
        plan: &'a Plan,
        terminal: bool,
    ) -> Result<Running<'a>> {
        let initrd = plan.results.join("initrd");
        initrd::write(kernel, &initrd)?;
        let boot = Boot { kernel, initrd: &initrd, plan, tsc_khz: tsc_khz(project)? };
        let wires =
            if plan.machines.pair { Vec::new() } else { switch::wires(plan.machines.count())? };
        let mut guests = Vec::new();
        for id in 0..plan.machines.count() {
            guests.push(boot.guest(id, wires.get(id as usize), terminal && id == 0)?);
        }
        let tails = (0..guests.len()).map(|id| Tail::of(id, &plan.results)).collect();
        Ok(Running { plan, guests, tails })
    }

    /// Waits until every guest has written a file of that name.
    fn wait_for(&mut self, name: &str, limit: Duration) -> Result<()> {
        let began = Instant::now();
        while !self.all_have(name) {
            if let Some(id) = self.guests.iter_mut().position(Guest::has_ended) {
                bail!("vm{id} did not boot\n{}", self.last_words(id));
            }
            if began.elapsed() > limit {
                let late = (0..self.guests.len()).find(|id| !self.has(name, *id)).unwrap_or(0);
                bail!(
                    "vm{late} did not boot within {} s\n{}",
                    limit.as_secs(),
                    self.last_words(late)
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Until all commands have ended; false if the time was up before.
    fn watch(&mut self) -> Result<bool> {
        let began = Instant::now();
        let mut pulls: Vec<Pull> =
            self.plan.link_down.iter().flat_map(|down| pull(0, *down)).collect();
        loop {
            let all = self.all_have("code");
            for tail in &mut self.tails {
                tail.read(self.plan.show, all)?;
            }
            if all {
                return Ok(true);
            }
            for id in 0..self.guests.len() {
                if !self.has("died", id) && self.plan.results.join(format!("die.{id}")).exists() {
                    self.guests[id].kill();
                    fs::write(self.plan.results.join(format!("died.{id}")), "")?;
                    self.print_line(&format!("vm{id} is dead"));
                }
                if !self.has("died", id) && self.guests[id].has_ended() {
                    bail!("vm{id} has stopped\n{}", self.last_words(id));
                }
            }
            pulls.extend(self.requests(began.elapsed()));
            pulls.sort_by_key(|pull| pull.at);
            while pulls.first().is_some_and(|pull| began.elapsed() >= pull.at) {
                let Pull { guest, up, .. } = pulls.remove(0);
                self.guests[guest].link(up)?;
                self.print_line(&format!("vm{guest}'s cable is {}", if up { "in" } else { "out" }));
            }
            if began.elapsed() > self.plan.timeout {
                self.tails.iter_mut().try_for_each(|tail| tail.read(self.plan.show, true))?;
                self.print_line(&format!(
                    "the time given with --timeout ({} s) is over",
                    self.plan.timeout.as_secs()
                ));
                return Ok(false);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The requests of guests about their cables, by `vm_cable`.
    fn requests(&self, now: Duration) -> Vec<Pull> {
        let wish = |guest: usize| {
            let file = self.plan.results.join(format!("cable.{guest}"));
            let seconds = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            fs::remove_file(file).ok()?;
            let lasts = Duration::try_from_secs_f64(seconds).ok()?;
            Some(pull(guest, LinkDown { at: now, lasts }))
        };
        (0..self.guests.len()).filter_map(wish).flatten().collect()
    }

    fn print_line(&self, text: &str) {
        if self.plan.show {
            println!("--- {text}");
        }
    }

    fn has(&self, name: &str, id: usize) -> bool {
        self.plan.results.join(format!("{name}.{id}")).exists()
    }

    /// The dead have nothing more to write.
    fn all_have(&self, name: &str) -> bool {
        (0..self.guests.len()).all(|id| self.has(name, id) || self.has("died", id))
    }

    /// The end of a guest's console, and what QEMU complained of.
    fn last_words(&self, id: usize) -> String {
        let read = |name: &str| {
            fs::read(self.plan.results.join(format!("{name}.{id}"))).unwrap_or_default()
        };
        let mut text = String::new();
        for (name, of) in [("QEMU", read("qemu")), ("its console", read("console"))] {
            let printed = String::from_utf8_lossy(&of).into_owned();
            let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
            for line in &lines[lines.len().saturating_sub(12)..] {
                let _ = writeln!(text, "    {name}: {line}");
            }
        }
        text
    }
}

/// A cable is pulled out or put in.
struct Pull {
    at: Duration,
    guest: usize,
    up: bool,
}

/// Out, and in again.
fn pull(guest: usize, down: LinkDown) -> [Pull; 2] {
    [Pull { at: down.at, guest, up: false }, Pull { at: down.at + down.lasts, guest, up: true }]
}

/// The output of one guest as it grows, shown in whole lines.
struct Tail {
    id: usize,
    path: PathBuf,
    read: u64,
    open: String,
}

impl Tail {
    fn of(id: usize, results: &Path) -> Tail {
        Tail { id, path: results.join(format!("output.{id}")), read: 0, open: String::new() }
    }

    /// Shows what is new; with `last`, also a line that has no end.
    fn read(&mut self, show: bool, last: bool) -> Result<()> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(()) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read))?;
        self.read += file.read_to_end(&mut bytes)? as u64;
        self.open += &String::from_utf8_lossy(&bytes);
        let whole =
            if last { self.open.len() } else { self.open.rfind('\n').map_or(0, |end| end + 1) };
        let rest = self.open.split_off(whole);
        if show {
            self.open.lines().for_each(|line| println!("vm{}| {line}", self.id));
        }
        self.open = rest;
        Ok(())
    }
}

/// The results of a guest.
fn ended(results: &Path, id: u32) -> Ended {
    let read = |name: &str| fs::read(results.join(format!("{name}.{id}"))).unwrap_or_default();
    let text = |name: &str| String::from_utf8_lossy(&read(name)).into_owned();
    let counter = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    let code = text("code").trim().parse().ok();
    let stuck = |line: &&str| line.contains("blocked for more than") || line.contains("BUG:");
    let console = if code.is_none() { text("console") } else { String::new() };
    Ended {
        code,
        died: results.join(format!("died.{id}")).exists(),
        output: text("output"),
        counters: text("counters").lines().filter_map(counter).collect(),
        stuck: console.lines().filter(stuck).take(MAX_STUCK_LINES).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_codes_and_what_went_wrong_on_the_wire() {
        let counter = |name: &str, value| ("rxe0".to_owned(), name.to_owned(), value);
        let counters =
            vec![counter("rcvd_seq_err", 3), counter("sent_pkts", 100), counter("send_err", 0)];
        let ended = |code, counters, stuck| Ended {
            code,
            died: false,
            output: String::new(),
            counters,
            stuck,
        };
        let good = ended(Some(0), counters, Vec::new());
        let bad = ended(None, Vec::new(), vec!["INFO: task cat:7 blocked".to_owned()]);
        let outcome = Outcome {
            guests: vec![good, bad],
            booted: Duration::from_secs(2),
            ran: Duration::from_secs(5),
            timed_out: true,
        };
        let text = outcome.summary();
        assert!(
            text.contains("vm0: exit code 0\nvm0: rxe0: sent_pkts 100, rcvd_seq_err 3\n"),
            "{text}"
        );
        assert!(
            text.contains("vm1: did not end\nvm1: INFO: task cat:7 blocked\n")
                && text.contains("ended by --timeout"),
            "{text}"
        );
        assert!(!outcome.success());
    }

    #[test]
    fn a_barrier_waits_for_no_guest_that_has_died_or_ended() {
        let folder = std::env::temp_dir().join(format!("xtask-barrier-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("session.sh"), SESSION).unwrap();
        let barrier = || {
            let mut bash = Command::new("bash");
            bash.args(["-c", ". ./session.sh; vm_barrier end && echo all are here"]);
            bash.env("PATH", "/usr/bin:/bin").env("VM_PATH", "/usr/bin:/bin").current_dir(&folder);
            let folder = folder.as_os_str();
            bash.envs(["VM_FOLDER", "VM_RESULTS", "TMPDIR"].map(|name| (name, folder)));
            bash.envs([("VM_ID", "0"), ("VM_GUESTS", "2")]);
            quietly(&mut bash, Duration::from_secs(20)).map(|ran| ran.stdout)
        };
        fs::write(folder.join("died.1"), "").unwrap();
        assert_eq!(barrier().unwrap(), "all are here\n");
        fs::remove_file(folder.join("died.1")).unwrap();
        fs::write(folder.join("code.1"), "1").unwrap();
        let failure = barrier().unwrap_err().to_string();
        assert!(!failure.contains("20 s"), "{failure}");
        fs::write(folder.join("barrier.end.1"), "").unwrap();
        assert_eq!(barrier().unwrap(), "all are here\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn output_is_shown_in_whole_lines_as_it_grows() {
        let folder = std::env::temp_dir().join(format!("xtask-tail-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut tail = Tail::of(0, &folder);
        tail.read(false, false).unwrap();
        fs::write(folder.join("output.0"), "one\ntw").unwrap();
        tail.read(false, false).unwrap();
        assert_eq!((tail.read, tail.open.as_str()), (6, "tw"));
        tail.read(false, true).unwrap();
        assert_eq!(tail.open, "");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_of_something_else_is_not_emptied() {
        let folder = std::env::temp_dir().join(format!("xtask-empty-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("thesis.tex"), "").unwrap();
        assert!(empty(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
