//! The verbs transport on the stand-in device: the conformance suite within one process, and MPI
//! jobs between pretended hosts, whose agent remains on this host. No rights are needed.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Options, Tally, programs, python, report_failure, rust};
use crate::command::{capture, line};
use crate::project::Project;
use crate::steps::Step;

/// The devices of the conformance suite, two in its one process.
const DEVICES: &str = "stand0,stand1";
/// What they do: nothing that breaks a connection, since the suite does that itself.
const CALM: &str = "devices=stand0/ib,stand1/ib late=50";
/// What the adapters of the jobs' hosts do; each job has a seed of its own.
const ROUGH: &str = "late=300 lots=100 place=300 overtake=1 prefetch=3 rnr=2000";
/// How the programs run: a name, what the network does besides, and knobs. Every program runs as
/// adapters will run it ([`BY_EAGER_RDMA`]), in one of the other ways by turns, and programs on
/// windows where connections break ([`BROKEN`]) and without any ([`DYNAMIC`]) as well.
const WAYS: [(&str, &str, &[&str]); 6] = [
    ("between pretended hosts", "", &["wait.spin=0s"]),
    (
        "by eager RDMA where packets are lost",
        "loss=500 atomics=2",
        // A process that sleeps after each message has no channel.
        &["verbs.eager_rdma_threshold=0", "verbs.ack_timeout=8", "wait.spin=20us"],
    ),
    (
        "with one connection for each rank where packets are lost",
        "loss=500",
        &["verbs.connections=1", "verbs.ack_timeout=8", "wait.spin=0s"],
    ),
    (
        "by writes over several ports",
        "devices=stand0/ib,stand1/ib ports=2 early=1 atomics=2",
        &["verbs.max_rails=4", "verbs.rendezvous=write", "wait.spin=0s"],
    ),
    (
        "where one packet in a hundred is lost and connections break",
        "loss=10000 broken=500",
        &["verbs.ack_timeout=8", "wait.spin=0s"],
    ),
    (
        "by dynamic connections where packets are lost",
        "dc=1 loss=500 early=1",
        &["verbs.dynamic=on", "verbs.connect_after=1000000", "verbs.ack_timeout=8", "wait.spin=0s"],
    ),
];
/// The way of adapters: frames are written from the first one on by ranks that poll for a while.
const BY_EAGER_RDMA: usize = 1;
/// The way of links that flap.
const BROKEN: usize = 4;
/// The way without connections.
const DYNAMIC: usize = 5;
/// The programs on windows that run in both of these.
const WINDOWS: [&str; 3] = ["one_sided", "window_load", "word_atomics"];
/// The ranks of most jobs: two on each of two pretended hosts.
const HOSTS: &str = "a:2,b:2";
/// The programs: those that report the most in a few seconds each.
const PROGRAMS: [&str; 23] = [
    "cancel receives",
    "cancel sends",
    "collectives",
    "communicators",
    "completion",
    "datatypes",
    "fork",
    "intercomms",
    "many_large",
    "neighbors",
    "one_sided",
    "order",
    "overlap",
    "persistent",
    "probes",
    "ring",
    "send_modes",
    "stress",
    "threads",
    "wildcards",
    "window_load",
    "word_atomics",
    "word_atomics that are left to devices",
];

/// What a device does that reaches one host from the other no more, and the programs that run
/// then. They begin as if both had RDMA, and continue by TCP.
const CUTS: [(&str, &str); 3] =
    [("cut=0>2", "ring"), ("cut=2>0", "one_sided"), ("cut=0>2,2>0", "ring")];
/// A text of the line that says so.
const FALLBACK: &str = " over TCP although both have RDMA devices of one network";

/// The program of a large job, its pretended hosts and the ranks of each.
const MANY_RANKS: &str = "many_ranks";
const MANY: (usize, usize) = (8, 8);
/// Those of a thorough run.
const MOST: (usize, usize) = (64, 8);
/// Longest time of either.
const MANY_LIMIT: Duration = Duration::from_secs(300);

/// What the devices offer, a program on windows, and whether devices do its atomics then.
const ATOMICS: [(&str, &str, bool); 4] = [
    ("atomics=1", "word_atomics", false),
    ("atomics=1", "word_atomics that are left to devices", true),
    ("atomics=2", "word_atomics", true),
    ("atomics=0", "word_atomics that are left to devices", false),
];

/// Runs the suite and the jobs.
pub(super) fn test(project: &Project, options: &Options, step: &Step) -> Result<Tally> {
    let library = project.target.join("checked/deps/libverbs_device.so").display().to_string();
    let environment = [
        ("VERBENA_TEST_LIBRARY", library.as_str()),
        ("VERBENA_TEST_DEVICES", DEVICES),
        ("VERBENA_TEST_ROUNDS", "1000"),
        ("VERBS_DEVICE_OPTIONS", CALM),
    ];
    let mut tally =
        rust::conformance_verbs(project, step, options.filter.as_deref(), &environment)?;
    for (seed, (case, words)) in (1..).zip(programs::for_hosts(project, options, true)?) {
        let is_meant =
            options.filter.as_ref().is_none_or(|filter| case.name.contains(filter.as_str()));
        if !is_meant || !PROGRAMS.contains(&case.name.as_str()) {
            continue;
        }
        let others = [0, 2, 3, DYNAMIC];
        let is_on_windows = WINDOWS.contains(&case.name.as_str());
        let also = [BROKEN, DYNAMIC].into_iter().filter(|_| is_on_windows);
        for way in [BY_EAGER_RDMA, others[seed % others.len()]].into_iter().chain(also) {
            let mut mpiexec = job(project, &library, seed, way);
            let ran = capture(mpiexec.args(&words), None, Duration::from_secs(case.timeout))?;
            let wrong = programs::verdict(&case, &ran);
            if wrong.is_empty() {
                tally.passed += 1;
                continue;
            }
            let output = format!("    $ {}\n{}", line(&mpiexec), ran.output().trim_end());
            let name = format!("{} {}", case.name, WAYS[way].0);
            report_failure(&name, &wrong.join("; "), &output);
            tally.failed += 1;
        }
    }
    if options.filter.as_ref().is_none_or(|filter| "mpi4py fork".contains(filter.as_str())) {
        let mut mpiexec = job(project, &library, 0, 0);
        mpiexec.args(python::fork(project)?);
        tally += python::judge(mpiexec, "fork between pretended hosts", 4)?;
    }
    if options.filter.as_ref().is_none_or(|filter| MANY_RANKS.contains(filter.as_str())) {
        let most = options.thorough.then_some(MOST);
        for (hosts, ranks) in [MANY].into_iter().chain(most) {
            tally += many_ranks(project, options, &library, hosts, ranks)?;
        }
    }
    for (seed, (cut, name)) in (0..).zip(CUTS) {
        if options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            tally += fallback(project, options, &library, (seed, cut, name))?;
        }
    }
    for (atomics, case, is_used) in ATOMICS {
        if options.filter.as_ref().is_none_or(|filter| case.contains(filter.as_str())) {
            tally += by_device(project, options, &library, (atomics, case, is_used))?;
        }
    }
    Ok(tally)
}

/// Runs a job of many ranks, so many on each of so many hosts.
fn many_ranks(
    project: &Project,
    options: &Options,
    library: &str,
    hosts: usize,
    ranks: usize,
) -> Result<Tally> {
    let program = programs::compiled(project, options, MANY_RANKS)?;
    let list: Vec<String> = (0..hosts).map(|host| format!("h{host}:{ranks}")).collect();
    let mut mpiexec = job_on(project, library, &list.join(","), hosts, 0);
    let ran = capture(mpiexec.arg(program), None, MANY_LIMIT)?;
    if ran.success() && ran.stdout == "ok\n" && ran.stderr.is_empty() {
        return Ok(Tally { passed: 1, ..Tally::default() });
    }
    let output = format!("    $ {}\n{}", line(&mpiexec), ran.output().trim_end());
    report_failure(&format!("{MANY_RANKS} on {hosts} hosts"), &ran.ending(), &output);
    Ok(Tally { failed: 1, ..Tally::default() })
}

/// Runs a program on windows, and looks whether devices have done atomics.
fn by_device(
    project: &Project,
    options: &Options,
    library: &str,
    (atomics, name, is_used): (&str, &str, bool),
) -> Result<Tally> {
    let rows = programs::for_hosts(project, options, true)?;
    let Some((case, words)) = rows.into_iter().find(|(case, _)| case.name == name) else {
        return Ok(Tally::default());
    };
    let mut mpiexec = job(project, library, 1, 0);
    let fabric = format!("{}.{atomics}.{is_used}", std::process::id());
    mpiexec.env("VERBS_DEVICE_OPTIONS", format!("fabric={fabric} {atomics}"));
    mpiexec.args(["--set", "report.traffic=on"]);
    let ran = capture(mpiexec.args(&words), None, Duration::from_secs(case.timeout))?;
    let none = ran.stderr.lines().filter(|line| line.contains(" 0 atomics of 0 bytes")).count();
    let all = ran.stderr.lines().filter(|line| line.contains(" atomics of ")).count();
    if ran.success() && all > 0 && (none < all) == is_used {
        return Ok(Tally { passed: 1, ..Tally::default() });
    }
    let output = format!("    $ {}\n{}", line(&mpiexec), ran.output().trim_end());
    let why = format!("{}; {none} of {all} ranks did no atomics by a device", ran.ending());
    report_failure(&format!("{name} with {atomics}"), &why, &output);
    Ok(Tally { failed: 1, ..Tally::default() })
}

/// Runs a program between hosts whose devices do not reach each other.
fn fallback(
    project: &Project,
    options: &Options,
    library: &str,
    (seed, cut, name): (usize, &str, &str),
) -> Result<Tally> {
    let rows = programs::for_hosts(project, options, true)?;
    let Some((case, words)) = rows.into_iter().find(|(case, _)| case.name == name) else {
        return Ok(Tally::default());
    };
    let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
    mpiexec.arg("--agent").arg(project.root.join("launcher/tests/agent.sh"));
    mpiexec.args(["--hosts", HOSTS, "--set", "tcp.interfaces=127.0.0.1", "--set", "wait.spin=0s"]);
    mpiexec.args(["--set", "report.traffic=on", "--set"]).arg(format!("verbs.library={library}"));
    let fabric = format!("{}.cut.{seed}", std::process::id());
    mpiexec.env("VERBS_DEVICE_OPTIONS", format!("fabric={fabric} {cut}"));
    let ran = capture(mpiexec.args(&words), None, Duration::from_secs(case.timeout + 60))?;
    let (ours, other): (Vec<&str>, Vec<&str>) =
        ran.stderr.lines().partition(|line| line.starts_with("verbena: rank "));
    let other: String = other.iter().map(|line| format!("{line}\n")).collect();
    let mut wrong = programs::mismatches(&case, &ran.stdout, &other);
    if !ran.success() {
        wrong.push(ran.ending());
    }
    // The lower rank of each pair reports it, for all of its host.
    let reports = ours.iter().filter(|line| line.contains(FALLBACK)).count();
    if reports != 1 {
        wrong.push(format!("{reports} lines say that TCP is used"));
    }
    if !ours.iter().any(|line| line.contains(" bytes by TCP, 0 frames of 0 bytes by RDMA")) {
        wrong.push("no rank has used TCP alone".to_owned());
    }
    if wrong.is_empty() {
        return Ok(Tally { passed: 1, ..Tally::default() });
    }
    let output = format!("    $ {}\n{}", line(&mpiexec), ran.output().trim_end());
    report_failure(&format!("{name} with {cut}"), &wrong.join("; "), &output);
    Ok(Tally { failed: 1, ..Tally::default() })
}

/// Returns the start of the command of a job between two pretended hosts.
fn job(project: &Project, library: &str, seed: usize, way: usize) -> Command {
    job_on(project, library, HOSTS, seed, way)
}

/// Returns that of a job on these hosts.
fn job_on(project: &Project, library: &str, hosts: &str, seed: usize, way: usize) -> Command {
    let (_, network, knobs) = WAYS[way];
    let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
    mpiexec.arg("--agent").arg(project.root.join("launcher/tests/agent.sh"));
    mpiexec.args(["--hosts", hosts, "--set", "inter.transport=verbs", "--set"]);
    mpiexec.arg(format!("verbs.library={library}"));
    // Each pretended host believes that it has all processors: ranks must not spin for long.
    mpiexec.args(knobs.iter().flat_map(|knob| ["--set", knob]));
    let fabric = format!("{}.{seed}.{way}", std::process::id());
    let options = format!("fabric={fabric} seed={seed} {ROUGH} {network}");
    mpiexec.env("VERBS_DEVICE_OPTIONS", options);
    mpiexec
}
