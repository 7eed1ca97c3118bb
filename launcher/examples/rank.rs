//! A rank for the launcher's tests: stands in for an MPI program, with the bootstrap library
//! alone. Each argument is a step, `[RANK:]VERB[=VALUE]`; steps of other ranks are skipped.

use std::os::unix::process::CommandExt;
use std::process::exit;
use std::time::{Duration, Instant};

use bootstrap::calls::Call;
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
        if verb == "init" {
            let joined = Job::from_environment().unwrap_or_else(|error| {
                eprintln!("{error}");
                exit(9)
            });
            let joined = joined.unwrap_or_else(|| Job::singleton().unwrap());
            number = joined.rank;
            job = Some(joined);
        } else {
            act(verb, value, job.as_ref());
        }
    }
}

fn act(verb: &str, value: &str, job: Option<&Job>) {
    let mpi = || job.expect("init comes first");
    match verb {
        "call" => mpi()
            .status_entry()
            .enter(Call::all().find(|call| call.name() == value).unwrap().index()),
        "wait" => mpi().status_entry().set_blocked(&BlockedOn {
            kind: BlockedKind::Message,
            peer: Some(value.parse().unwrap()),
            world_rank: Some(value.parse().unwrap()),
            tag: None,
            context: WORLD_CONTEXT,
            comm_size: mpi().size,
            since: bootstrap::status_page::monotonic_nanos(),
        }),
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
        "who" => println!(
            "{} of {} running={}",
            mpi().rank,
            mpi().size,
            mpi().status_entry().state() == RankState::Running
        ),
        "appnum" => println!("{} has appnum {:?}", mpi().rank, mpi().appnum),
        "print" => println!("{value}"),
        "sleep" => std::thread::sleep(Duration::from_secs_f64(value.parse().unwrap())),
        "compute" => {
            let end = Instant::now() + Duration::from_secs_f64(value.parse().unwrap());
            while Instant::now() < end {}
        }
        "exit" => exit(value.parse().unwrap()),
        // In a shell, since Rust installs handlers for some signals.
        "kill" => {
            let line = format!("kill -{value} $$; sleep 10");
            let error = std::process::Command::new("/bin/sh").args(["-c", &line]).exec();
            panic!("{error}")
        }
        "run" => {
            let status =
                std::process::Command::new("/bin/sh").args(["-c", value]).status().unwrap();
            println!("ran: {:?}", status.code());
        }
        other => panic!("no such step: {other}"),
    }
}
