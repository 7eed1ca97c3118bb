//! Jobs that are started apart with one `--group`: in any order, at once, with failures, signals
//! and leftovers of earlier groups. None ends another one, and no keeper is left.

mod run;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use run::{Ran, Running, command, eventually, finish, processes, rank, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a busy machine needs, shorter than the ranks sleep.
const SOON: Duration = Duration::from_secs(8);

/// Options of a job on this host alone, of one with a daemon, and of one on pretended hosts.
const PLACES: [&str; 3] = [
    "",
    "--hosts localhost:9 ",
    concat!("--agent ", env!("CARGO_MANIFEST_DIR"), "/tests/agent.sh --hosts a:1,b:1,c:9 "),
];

/// A group of its own, whose file is removed at the end.
struct Group {
    folder: PathBuf,
}

impl Group {
    fn new(name: &str) -> Group {
        let name = format!("groups-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        Group { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("ocean")
    }

    /// Starts `mpiexec --group` with the words of a line; `RANK` is the rank program.
    fn start(&self, line: &str) -> Running {
        let (file, rank) = (self.file(), rank());
        let mut words = vec!["--group", file.to_str().unwrap()];
        words.extend(line.split(' ').map(|word| if word == "RANK" { &rank } else { word }));
        spawn(&mut command(&words))
    }

    /// Starts a job of one section, and waits until its ranks run: then it has joined.
    fn start_first(&self, line: &str) -> Running {
        let mark = format!("mark={}", unique_sleep());
        let child = self.start(&line.replace(" init", &format!(" init {mark}")));
        eventually("a rank runs", || ranks(&mark) > 0);
        child
    }

    /// Waits until processes have published these names: they are in MPI.
    fn await_names(&self, names: &[&str]) {
        let steps: String = names.iter().map(|name| format!("await_name={name} ")).collect();
        assert_eq!(self.run(&format!("-n 1 RANK init {steps}finalize")).code, 0);
    }

    fn run(&self, line: &str) -> Ran {
        finish(self.start(line))
    }

    /// Returns the content of the file.
    fn entry(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }

    fn keeper(&self) -> Pid {
        Pid::from_raw(self.entry()["process"].as_i64().unwrap() as i32).unwrap()
    }

    /// Waits until the keeper has ended: it removes its file last.
    fn is_over(&self) {
        eventually("the keeper ends", || !self.file().exists());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns how many ranks have this step. `mpiexec` has it, too, and so has for a moment what it
/// starts.
fn ranks(step: &str) -> usize {
    let rank = rank();
    let folder = std::fs::read_dir("/proc").unwrap();
    let lines = folder.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let is_it = |line: &Vec<u8>| {
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(rank.as_bytes()) && words.any(|word| word == step.as_bytes())
    };
    lines.filter(is_it).count()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Asserts that a job has ended well with these lines in some order.
fn assert_fine(ran: &Ran, expected: &[&str]) {
    assert_eq!((ran.code, sorted(&ran.out)), (0, expected.to_vec()), "{ran:?}");
    assert_eq!(ran.err, "", "{ran:?}");
}

/// A job that offers a name, and one that looks for it and ends the first one by another name.
const SERVER: &str =
    "-n 2 RANK init 0:put_own=here 0:publish_number=server 0:await_name=client finalize";
const CLIENT: &str = "-n 3 RANK init 0:await_name=server 0:value_of_published=server \
                      0:publish_number=client 0:sleep=0.3 finalize";

#[test]
fn jobs_meet_in_either_order_on_any_hosts() {
    for options in PLACES {
        let group = Group::new("order");
        let server = group.start_first(&format!("{options}{SERVER}"));
        let client = group.run(&format!("{options}{CLIENT}"));
        assert_eq!((client.code, client.err.as_str()), (0, ""), "{client:?}");
        assert!(client.out.ends_with("here\n"), "{client:?}");
        assert_fine(&finish(server), &["3"]);
        group.is_over();
        let client = group.start_first(&format!("{options}{CLIENT}"));
        assert_fine(&group.run(&format!("{options}{SERVER}")), &["1"]);
        assert_fine(&finish(client), &["4", "here"]);
        group.is_over();
    }
}

#[test]
fn of_jobs_that_start_at_once_one_starts_the_keeper() {
    let group = Group::new("once");
    for _ in 0..10 {
        let jobs: Vec<Running> = (0..4)
            .map(|own| {
                let others = (0..4).map(|other| format!(" await_name=job{other}"));
                let others: String = others.collect();
                group.start(&format!(
                    "-n 1 RANK init publish_number=job{own}{others} sleep=0.2 finalize"
                ))
            })
            .collect();
        let ends: Vec<Ran> = jobs.into_iter().map(finish).collect();
        for ran in &ends {
            assert_fine(ran, &["1", "2", "3", "4"]);
        }
        group.is_over();
    }
}

#[test]
fn jobs_come_and_go() {
    let group = Group::new("come");
    let first = group.start_first("-n 1 RANK init publish_number=first await_name=second finalize");
    let second = group
        .start("-n 1 RANK init await_name=first publish_number=second await_name=third finalize");
    assert_fine(&finish(first), &["2"]);
    // The first one has left; its names are gone with it, and its numbers are not used again.
    let third = group.run(
        "-n 2 RANK init 0:look_up=first 0:publish_number=third 1:numbers sleep=0.4 \
         finalize",
    );
    assert_fine(&third, &["4 of 3..5, parent None", "Missing"]);
    assert_fine(&finish(second), &["1", "3"]);
    group.is_over();
    assert_fine(&group.run("-n 1 RANK init numbers finalize"), &["1 of 1..2, parent None"]);
    group.is_over();
}

#[test]
fn who_asks_for_the_address_of_a_process_that_has_ended_is_told() {
    let group = Group::new("ended");
    let early = "-n 1 RANK init publish_number=early get_of=2 await_failure sleep=1 finalize";
    let early = group.start_first(early);
    assert_fine(&group.run("-n 1 RANK init await_name=early finalize"), &["1"]);
    let late = group.run("-n 1 RANK init get_of=2 await_failure finalize");
    assert_fine(&late, &["2..3: its job has ended"]);
    assert_fine(&finish(early), &["2..3: its job has ended"]);
    group.is_over();
}

#[test]
fn a_job_of_a_group_spawns_and_labels_its_own_ranks_from_zero() {
    for options in PLACES {
        let group = Group::new("spawn");
        let other = group.start_first(&format!("-n 2 RANK init 1:put_own=other {SLEEP}"));
        let ran = group.run(&format!(
            "{options}--tag-output -n 2 RANK init \
             1:spawn=1;self;init;numbers;value_of=2;spawn=1|self|init|print=inner|finalize;finalize \
             finalize"
        ));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        let expected = [
            "[1] spawned from 5",
            "[2] 5 of 5..6, parent Some(4)",
            "[2] other",
            "[2] spawned from 6",
            "[3] inner",
        ];
        assert_eq!(sorted(&ran.out), expected, "{ran:?}");
        kill_process(Pid::from_child(&other), Signal::TERM).unwrap();
        finish(other);
        group.is_over();
    }
}

/// Steps of a job that others come and go beside.
const SLEEP: &str = "sleep=30";

#[test]
fn a_job_that_fails_ends_no_other_and_its_processes_have_failed() {
    for options in PLACES {
        let group = Group::new("fails");
        let watch = format!(
            "{options}-n 2 RANK init 0:publish_number=watch0 1:publish_number=watch1 await_failure \
             look_up=bad finalize"
        );
        let watch = group.start_first(&watch);
        let ran = group.run(&format!(
            "{options}-n 2 RANK init 0:await_name=watch0 0:await_name=watch1 0:publish_number=bad 0:abort=3,bad {SLEEP}"
        ));
        assert!(ran.code == 3 && ran.time < SOON, "{ran:?}");
        let ran = finish(watch);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert_eq!(ran.out.matches("3..5: its job `").count(), 2, "{ran:?}");
        assert_eq!(ran.out.matches("has failed: it has ended with exit code 3\n").count(), 2);
        assert_eq!(ran.out.matches("Missing\n").count(), 2, "{ran:?}");
        group.is_over();
    }
}

#[test]
fn a_process_has_failed_for_all_jobs_though_its_own_goes_on() {
    for options in PLACES {
        let group = Group::new("continues");
        let watch = group.start_first("-n 1 RANK init publish_number=watch await_failure finalize");
        let other = group.start(&format!(
            "{options}--on-failure continue -n 2 RANK init await_name=watch 1:kill=9 {SLEEP}"
        ));
        let ran = finish(watch);
        assert_eq!(ran.out, "3..4: its process was killed by signal 9 (Killed)\n", "{ran:?}");
        assert!(ran.code == 0 && ran.time < SOON, "{ran:?}");
        kill_process(Pid::from_child(&other), Signal::TERM).unwrap();
        finish(other);
        group.is_over();
    }
}

#[test]
fn a_job_that_is_killed_ends_no_other() {
    let group = Group::new("killed");
    let watch = group.start("-n 1 RANK init publish_number=watch await_failure finalize");
    let sleep = format!("sleep={}", unique_sleep());
    let victim = group
        .start(&format!("-n 2 RANK init 0:await_name=watch 0:spawn=1;self;init;{sleep} {sleep}"));
    eventually("all ranks run", || ranks(&sleep) == 3);
    kill_process(Pid::from_child(&victim), Signal::KILL).unwrap();
    let ran = finish(watch);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("the connection to its mpiexec has ended"), "{ran:?}");
    assert_eq!(finish(victim).code, -1);
    eventually("no rank is left", || processes(&sleep) == 0);
    group.is_over();
}

#[test]
fn a_signal_ends_one_job() {
    for (options, signal) in PLACES.into_iter().zip([Signal::INT, Signal::TERM, Signal::INT]) {
        let group = Group::new("signal");
        let sleep = format!("sleep={}", unique_sleep());
        let first = group.start(&format!("{options}-n 2 RANK init 0:publish_number=one {sleep}"));
        eventually("the first job runs", || ranks(&sleep) == 2);
        let other =
            "-n 1 RANK init await_name=one publish_number=two await_failure print=on finalize";
        let other = group.start(&format!("{options}{other}"));
        group.await_names(&["two"]);
        kill_process(Pid::from_child(&first), signal).unwrap();
        let ran = finish(first);
        assert_eq!(ran.code, 128 + signal.as_raw(), "{ran:?}");
        let ran = finish(other);
        assert!(ran.code == 0 && ran.out.ends_with("on\n") && ran.err.is_empty(), "{ran:?}");
        group.is_over();
    }
}

#[test]
fn a_job_goes_on_without_its_keeper_and_a_stale_file_is_replaced() {
    for options in PLACES {
        let group = Group::new("keeper");
        let job = group.start_first(&format!(
            "{options}-n 2 RANK init 0:publish_number=own 0:await_failure 0:look_up=own \
             0:publish=own,again 0:look_up=own 0:spawn=1;self 1:put_own=mine 1:sleep=0.5 \
             0:value_of=2 print=on finalize"
        ));
        group.await_names(&["own"]);
        let stale = std::fs::read(group.file()).unwrap();
        kill_process(group.keeper(), Signal::KILL).unwrap();
        let ran = finish(job);
        assert_eq!(ran.code, 0, "{ran:?}");
        let line = format!(
            "mpiexec: the keeper of the group {} has ended: this job goes on without the others of \
             it\n",
            group.file().display()
        );
        assert_eq!(ran.err, line, "{ran:?}");
        let lines: Vec<&str> = ran.out.lines().filter(|line| !line.contains("..")).collect();
        let refused = "refused: the keeper of the group has ended, which gives out the numbers of \
                       processes";
        assert_eq!(lines[..4], ["Missing", "Done", "again", refused], "{ran:?}");
        assert_eq!(sorted(&lines[4..].join("\n")), ["mine", "on", "on"], "{ran:?}");
        assert!(ran.out.contains("the keeper of the group has ended\n"), "{ran:?}");
        assert_eq!(std::fs::read(group.file()).unwrap(), stale);
        let jobs =
            ["a", "b", "c"].map(|_| group.start("-n 1 RANK init sleep=0.3 numbers finalize"));
        let ends = jobs.map(finish);
        let all: String = ends.iter().map(|ran| ran.out.as_str()).collect();
        let expected = [1, 2, 3].map(|n| format!("{n} of {n}..{}, parent None", n + 1));
        assert_eq!(sorted(&all), expected, "one keeper for all: {ends:?}");
        group.is_over();
    }
}

#[test]
fn a_request_that_the_keeper_did_not_answer_is_answered() {
    let group = Group::new("unanswered");
    let job =
        group.start_first("-n 1 RANK init sleep=0.6 look_up=x spawn=1;self print=on finalize");
    kill_process(group.keeper(), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    kill_process(group.keeper(), Signal::KILL).unwrap();
    let ran = finish(job);
    assert!(ran.code == 0 && ran.out.starts_with("Missing\nrefused: the keeper"), "{ran:?}");
    let group = Group::new("unanswered-job");
    let job = group.start_first("-n 1 RANK init sleep=0.6 spawn=1;self print=on finalize");
    kill_process(group.keeper(), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    kill_process(group.keeper(), Signal::KILL).unwrap();
    let ran = finish(job);
    assert!(ran.code == 0 && ran.out.starts_with("refused: the keeper"), "{ran:?}");
}

#[test]
fn jobs_have_stalled_if_the_ranks_of_all_wait() {
    let group = Group::new("stall");
    let wait = "--stall-timeout 1 -n 1 RANK init call=MPI_Recv wait=0,events sleep=4 finalize";
    let waits = group.start(wait);
    let computes = group.run("--stall-timeout 1 -n 1 RANK init compute=4.5 finalize");
    assert_fine(&computes, &[]);
    assert_fine(&finish(waits), &[]);
    let both = [group.start(wait), group.start(&format!("--hosts localhost:1 {wait}"))];
    for ran in both.map(finish) {
        assert_eq!((ran.code, ran.err.matches("no progress for 1 s").count()), (0, 1), "{ran:?}");
        assert_eq!(ran.err.matches("MPI_Recv").count(), 1, "{ran:?}");
    }
    group.is_over();
}

#[test]
fn each_stall_of_a_group_is_reported_also_beside_a_job_that_reports_none() {
    let group = Group::new("again");
    let wait = "call=MPI_Recv wait=0,events sleep";
    let loud = format!("--stall-timeout 1 -n 1 RANK init {wait}=3 compute=1 {wait}=13 finalize");
    let loud = group.start_first(&loud);
    // Joins after a stall of the first job, and is itself silent.
    std::thread::sleep(Duration::from_millis(2500));
    let silent = group.run(&format!("--stall-timeout 0 -n 1 RANK init {wait}=13 finalize"));
    assert_fine(&silent, &[]);
    let ran = finish(loud);
    assert_eq!((ran.code, ran.err.matches("no progress for 1 s").count()), (0, 2), "{ran:?}");
    group.is_over();
}

#[test]
fn a_job_that_the_user_stops_makes_no_progress() {
    for options in PLACES {
        let group = Group::new("stopped");
        let stopped = format!("{options}--stall-timeout 1 -n 1 RANK init compute=5 finalize");
        let stopped = group.start_first(&stopped);
        kill_process(Pid::from_child(&stopped), Signal::TSTP).unwrap();
        let waits = "--stall-timeout 1 -n 1 RANK init call=MPI_Recv wait=0,events sleep=3 finalize";
        let ran = group.run(waits);
        assert_eq!((ran.code, ran.err.matches("no progress for 1 s").count()), (0, 1), "{ran:?}");
        kill_process(Pid::from_child(&stopped), Signal::CONT).unwrap();
        assert_eq!(finish(stopped).code, 0);
        group.is_over();
    }
}

#[test]
fn what_is_wrong_with_a_group_is_said_with_the_remedy() {
    let group = Group::new("wrong");
    let refused = |text: &str, code: i32| {
        let ran = group.run("-n 1 RANK init finalize");
        assert!(ran.err.contains(text) && ran.time < SOON, "{text}: {ran:?}");
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{ran:?}");
    };
    let write = |text: &str| {
        use std::os::unix::fs::OpenOptionsExt as _;
        let _ = std::fs::remove_file(group.file());
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(group.file()).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    // Another file of the user.
    std::fs::create_dir(&group.folder).unwrap();
    write("some text");
    refused("it is another file, or was changed; use another name or path, or remove it", 1);
    std::fs::set_permissions(group.file(), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    refused("nobody else may read", 1);
    std::fs::remove_file(group.file()).unwrap();
    // Another version, another secret, and another host.
    let job = group.start_first("-n 1 RANK init sleep=4 finalize");
    eventually("it has joined", || group.file().exists());
    let entry = std::fs::read_to_string(group.file()).unwrap();
    let mut other = group.entry();
    other["host"] = "elsewhere".into();
    other["boot"] = "other".into();
    other["addresses"] = serde_json::json!(["127.0.0.1:9"]);
    // In place: the keeper holds the lock of this file.
    std::fs::write(group.file(), entry.replace("\"verbena\":\"", "\"verbena\":\"9.")).unwrap();
    refused("use one installation for all, or another name", 1);
    std::fs::write(group.file(), &entry).unwrap();
    assert_eq!(finish(job).code, 0);
    group.is_over();
    write(&other.to_string());
    refused("it has no address that other hosts can use", 1);
    assert!(group.file().exists());
    std::fs::remove_file(group.file()).unwrap();
    // A file that cannot be written, and names that are none.
    let ran = finish(spawn(&mut command(&["--group", "/proc/ocean", "-n", "1", "true"])));
    assert!(ran.code == 1 && ran.err.contains("cannot write the group's file"), "{ran:?}");
    for name in ["", ".ocean"] {
        let ran = finish(spawn(&mut command(&["--group", name, "-n", "1", "true"])));
        assert!(ran.code == 2 && ran.err.contains("--group"), "{ran:?}");
    }
    let mut homeless = command(&["--group", "ocean", "-n", "1", "true"]);
    let ran = finish(spawn(homeless.env_remove("HOME").env_remove("XDG_CACHE_HOME")));
    assert!(ran.code == 2 && ran.err.contains("--group ./ocean"), "{ran:?}");
}

#[test]
fn a_name_is_a_file_of_the_users_cache() {
    let group = Group::new("cache");
    let rank = rank();
    let mut command =
        command(&["--group", "ocean", "-n", "1", &rank, "init", "sleep=1", "finalize"]);
    let child = spawn(command.env("XDG_CACHE_HOME", &group.folder));
    let file = group.folder.join("verbena/groups/ocean");
    eventually("the file is there", || file.exists());
    assert_eq!(finish(child).code, 0);
    eventually("the file is gone", || !file.exists());
}

#[test]
fn the_keeper_holds_no_stream_and_ignores_strangers() {
    let group = Group::new("strangers");
    let began = Instant::now();
    let job = group.start_first("-n 1 RANK init sleep=1 publish_number=own sleep=1 finalize");
    let addresses = group.entry()["addresses"].clone();
    let address = addresses
        .as_array()
        .unwrap()
        .iter()
        .find_map(|address| address.as_str().filter(|address| address.starts_with("127.")));
    let strangers: Vec<std::net::TcpStream> = (0..300)
        .map(|number| {
            let mut stranger = std::net::TcpStream::connect(address.unwrap()).unwrap();
            let bytes = [number as u8; 100];
            let _ = std::io::Write::write_all(&mut stranger, &bytes[..number % 100]);
            stranger
        })
        .collect();
    let other = group.run("-n 1 RANK init await_name=own finalize");
    assert_fine(&other, &["1"]);
    assert_fine(&finish(job), &[]);
    assert!(began.elapsed() < SOON);
    drop(strangers);
    group.is_over();
}

#[test]
fn only_mpiexec_starts_a_keeper() {
    let ran = finish(spawn(&mut command(&["--group-keeper"])));
    assert!(ran.code == 2 && ran.err.contains("is used by mpiexec itself"), "{ran:?}");
}
