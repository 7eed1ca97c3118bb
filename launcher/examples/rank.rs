//! A rank for the launcher's tests: stands in for an MPI program, with the bootstrap library
//! alone. Each argument is a step, `[RANK:]VERB[=VALUE]`; steps of other ranks are skipped.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use bootstrap::calls::Call;
use bootstrap::hand_over;
use bootstrap::service_names::{NameAnswer, NameRequest};
use bootstrap::spawning::{SpawnAnswer, SpawnRequest, SpawnSection};
use bootstrap::status_page::monotonic_nanos;
use bootstrap::{BlockedKind, BlockedOn, Job, RankState, WORLD_CONTEXT};

fn main() {
    let mut job = None;
    let mut number: u32 =
        std::env::var("VERBENA_RANK").ok().and_then(|rank| rank.parse().ok()).unwrap_or(0);
    for step in std::env::args().skip(1) {
        let (only, step) = match step.split_once(':') {
            Some((rank, step)) => (rank.parse().ok(), step.to_owned()),
            None => (None, step),
        };
        if only.is_some_and(|rank: u32| rank != number) {
            continue;
        }
        let (verb, value) = step.split_once('=').unwrap_or((&step, ""));
        if verb == "own_launcher" {
            start_launcher(job.as_mut().expect("init comes first"), value);
        } else if verb == "shared_launcher" {
            share_launcher(job.as_mut().expect("init comes first"), value);
        } else if verb == "leave_own_launcher" {
            job.as_mut().expect("init comes first").leave_own_launcher();
        } else if verb == "init" {
            let joined = Job::from_environment().unwrap_or_else(|error| {
                eprintln!("{error}");
                exit(9)
            });
            let joined = joined.unwrap_or_else(|| Job::singleton().unwrap());
            number = joined.rank();
            job = Some(joined);
        } else {
            act(verb, value, job.as_ref());
        }
    }
}

/// Starts this `mpiexec` for a process that was started alone, as the library does.
fn start_launcher(job: &mut Job, mpiexec: &str) {
    let (ours, theirs) = hand_over::socket().unwrap();
    let mut command = Command::new(mpiexec);
    let status = command.arg(hand_over::LAUNCHER_OPTION).stdin(theirs).status().unwrap();
    assert!(status.success());
    let rank = hand_over::receive(ours.as_fd(), 10).expect("it serves this process");
    job.join_own_launcher((ours, None), rank).unwrap();
}

/// Starts this `mpiexec` for all ranks of a process manager's job, unless another rank has; and
/// joins it, as the library does.
fn share_launcher(job: &mut Job, mpiexec: &str) {
    let began = Instant::now();
    let started = job.status_page().begin_own_launcher().then(|| {
        let callers = loop {
            match job.callers().unwrap() {
                Some(callers) => break callers,
                None => pause(began),
            }
        };
        let (ours, theirs) = hand_over::socket().unwrap();
        callers.send(ours.as_fd()).unwrap();
        let mut command = Command::new(mpiexec);
        let status = command.arg(hand_over::LAUNCHER_OF_SEVERAL_OPTION).stdin(theirs).status();
        assert!(status.unwrap().success());
        job.status_page().own_launcher_started(true);
        ours
    });
    let stand_in = hand_over::connect_to((job.id(), job.rank()), 10, || false).unwrap();
    let rank = hand_over::receive(stand_in.as_fd(), 10).expect("it serves this process");
    job.join_own_launcher((stand_in, started), rank).unwrap();
}

/// Returns the record of a wait for `RANK[,WORD...]`; the words say what else may happen.
fn blocked(value: &str, comm_size: u32) -> BlockedOn {
    let mut words = value.split(',');
    let rank = words.next().map(|rank| rank.parse().unwrap());
    let mut blocked = BlockedOn {
        kind: BlockedKind::Message,
        peer: rank,
        world_rank: rank,
        context: WORLD_CONTEXT,
        comm_size,
        since: monotonic_nanos(),
        ..BlockedOn::default()
    };
    for word in words {
        match word {
            "collective" => blocked.kind = BlockedKind::Collective(1),
            "rest" => blocked.kind = BlockedKind::RestOfMessage,
            "events" => blocked.meanwhile.other_events = true,
            "work" => blocked.meanwhile.other_work = true,
            "threads" => blocked.meanwhile.other_threads = true,
            other => panic!("no such word: {other}"),
        }
    }
    blocked
}

/// Spawns `N[@HOST];PROGRAM[;ARGUMENT]...`: `self` is this program, and `|` stands for a semicolon.
fn spawn(value: &str, job: &Job) {
    let mut words = value.split(';');
    let count = words.next().unwrap();
    let (count, host) = count.split_once('@').map_or((count, None), |(n, host)| (n, Some(host)));
    let program = match words.next().unwrap() {
        "self" => std::env::current_exe().unwrap().into(),
        program => program.into(),
    };
    let section = SpawnSection {
        program,
        arguments: words.map(|word| word.replace('|', ";").into()).collect(),
        processes: count.parse().unwrap(),
        hosts: host.map(str::to_owned),
        ..SpawnSection::default()
    };
    match job.control().unwrap().ask_spawn(SpawnRequest { sections: vec![section] }).unwrap() {
        SpawnAnswer::Started { first } => println!("spawned from {first}"),
        SpawnAnswer::Refused(why) => println!("refused: {why}"),
    }
}

/// Pauses in a wait that began then, which must not last when a test has failed.
fn pause(began: Instant) {
    assert!(began.elapsed() < Duration::from_secs(30), "what is awaited has not come");
    std::thread::sleep(Duration::from_millis(10));
}

fn act(verb: &str, value: &str, job: Option<&Job>) {
    let mpi = || job.expect("init comes first");
    let began = Instant::now();
    match verb {
        "call" => mpi()
            .status_entry()
            .enter(Call::all().find(|call| call.name() == value).unwrap().index()),
        "wait" => mpi().status_entry().set_blocked(&blocked(value, mpi().size)),
        // Looks for what it waits for during these seconds.
        "looks" => {
            let end = Instant::now() + Duration::from_secs_f64(value.parse().unwrap());
            // As a rank does: soon, and then every two seconds.
            std::thread::sleep(Duration::from_millis(300));
            while Instant::now() < end {
                let looked = monotonic_nanos();
                let blocked = mpi().status_entry().snapshot().blocked.unwrap();
                mpi().status_entry().set_blocked(&BlockedOn { looked, ..blocked });
                let rest = end.saturating_duration_since(Instant::now());
                std::thread::sleep(rest.min(Duration::from_secs(2)));
            }
        }
        "finalizing" => mpi().mark_finalizing(),
        "finalize" => mpi().mark_finalized(),
        "abort" => {
            let (code, message) = value.split_once(',').unwrap();
            assert!(mpi().abort(code.parse().unwrap(), message));
            exit(code.parse().unwrap())
        }
        "explain" => {
            mpi().control().unwrap().explain(vec![("route".into(), value.into())]).unwrap()
        }
        "put" => mpi().put("key", value.as_bytes()).unwrap(),
        "value" => println!("{}", String::from_utf8_lossy(&mpi().get("key").unwrap())),
        "spawn" => spawn(value, mpi()),
        "publish" => {
            let (name, value) = value.split_once(',').unwrap();
            let (name, value) = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
            let request = NameRequest::Publish { name, value };
            println!("{:?}", mpi().control().unwrap().ask_name(request).unwrap());
        }
        "look_up" => {
            let request = NameRequest::Lookup { name: value.as_bytes().to_vec() };
            match mpi().control().unwrap().ask_name(request).unwrap() {
                NameAnswer::Value(value) => println!("{}", String::from_utf8_lossy(&value)),
                answer => println!("{answer:?}"),
            }
        }
        // Waits until the name is published.
        "await_name" => loop {
            let request = NameRequest::Lookup { name: value.as_bytes().to_vec() };
            match mpi().control().unwrap().ask_name(request).unwrap() {
                NameAnswer::Value(value) => {
                    break println!("{}", String::from_utf8_lossy(&value));
                }
                _ => pause(began),
            }
        },
        // Waits until processes of another job have failed.
        // That of the process with this number, or any.
        "await_failure" => {
            let process: Option<u32> = value.parse().ok();
            let failed = loop {
                let ended = mpi().newly_ended().into_iter();
                let mut ended = ended
                    .filter(|ended| process.is_none_or(|process| ended.numbers.contains(&process)));
                match ended.find_map(|ended| Some((ended.numbers, ended.failure?))) {
                    Some(failed) => break failed,
                    None => pause(began),
                }
            };
            println!("{:?}: {}", failed.0, failed.1)
        }
        // Publishes the number of this process, or asks for the value of the one that has.
        "publish_number" => {
            let (name, value) = (value.as_bytes().to_vec(), mpi().number.to_string().into_bytes());
            let request = NameRequest::Publish { name, value };
            assert_eq!(mpi().control().unwrap().ask_name(request), Ok(NameAnswer::Done));
        }
        "value_of_published" => {
            let request = NameRequest::Lookup { name: value.as_bytes().to_vec() };
            let answer = mpi().control().unwrap().ask_name(request).unwrap();
            let NameAnswer::Value(number) = answer else { panic!("{answer:?}") };
            let key = format!("own/{}", String::from_utf8(number).unwrap());
            println!("{}", String::from_utf8_lossy(&mpi().get(&key).unwrap()))
        }
        "put_own" => mpi().put(&format!("own/{}", mpi().number), value.as_bytes()).unwrap(),
        "value_of" => {
            println!("{}", String::from_utf8_lossy(&mpi().get(&format!("own/{value}")).unwrap()))
        }
        // Asks for a value, and does not wait for it.
        "get_of" => mpi().control().unwrap().request(&format!("own/{value}")).unwrap(),
        "numbers" => {
            println!("{} of {:?}, parent {:?}", mpi().number, mpi().world(), mpi().parent)
        }
        "who" => println!(
            "{} of {} running={}",
            mpi().rank(),
            mpi().size,
            mpi().status_entry().state() == RankState::Running
        ),
        "appnum" => println!("{} has appnum {:?}", mpi().rank(), mpi().appnum),
        // For those who look for this process.
        "mark" => {}
        "print" => println!("{value}"),
        "sleep" => std::thread::sleep(Duration::from_secs_f64(value.parse().unwrap())),
        // A second thread, which does nothing for these seconds.
        "thread" => {
            let time = Duration::from_secs_f64(value.parse().unwrap());
            drop(std::thread::spawn(move || std::thread::sleep(time)));
        }
        "worker" => drop(std::thread::spawn(|| std::sync::mpsc::channel::<()>().1.recv())),
        "compute" => {
            let end = Instant::now() + Duration::from_secs_f64(value.parse().unwrap());
            while Instant::now() < end {}
        }
        "exit" => exit(value.parse().unwrap()),
        // In a shell, since Rust installs handlers for some signals.
        "kill" => {
            let line = format!("kill -{value} $$; sleep 10");
            let error = Command::new("/bin/sh").args(["-c", &line]).exec();
            panic!("{error}")
        }
        "run" => {
            let status = Command::new("/bin/sh").args(["-c", value]).status().unwrap();
            println!("ran: {:?}", status.code());
        }
        other => panic!("no such step: {other}"),
    }
}
