//! Jobs that ranks spawn: numbers, values, refusals, failures, and no process is left.

mod run;

use std::time::{Duration, Instant};

use run::{command, eventually, finish, mpiexec, processes, rank, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a busy machine needs, shorter than the ranks sleep.
const SOON: Duration = Duration::from_secs(5);

/// Options of a job on this host alone, and of one with a daemon.
const PLACES: [&str; 2] = ["", "--hosts localhost:9 "];

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_spawned_job_has_further_numbers_and_shares_the_store() {
    for options in PLACES {
        let ran = mpiexec(&format!(
            "{options}-n 2 RANK init put_own=outer 0:sleep=0.2 \
             0:spawn=2;self;init;put_own=inner;value_of=1;numbers;sleep=0.5;finalize 0:value_of=3 numbers \
             finalize"
        ));
        let expected = [
            "0 of 0..2, parent None",
            "1 of 0..2, parent None",
            "2 of 2..4, parent Some(0)",
            "3 of 2..4, parent Some(0)",
            "inner",
            "outer",
            "outer",
            "spawned from 2",
        ];
        assert_eq!(sorted(&ran.out), expected, "{ran:?}");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    }
}

#[test]
fn a_spawned_job_spawns_and_jobs_find_each_other() {
    for options in PLACES {
        // A value is known as long as the job of its process runs.
        let inner = "spawn=1|self|init|value_of=1|value_of=0|put_own=third|sleep=0.5|finalize";
        let ran = mpiexec(&format!(
            "{options}-n 1 RANK init put_own=first \
             0:spawn=1;self;init;put_own=second;{inner};value_of=2;finalize 0:value_of=2 finalize"
        ));
        let expected = ["first", "second", "spawned from 1", "spawned from 2", "third", "third"];
        assert_eq!(sorted(&ran.out), expected, "{ran:?}");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    }
}

#[test]
fn a_spawned_job_on_other_hosts_has_daemons_of_its_own() {
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent.sh");
    let ran = mpiexec(&format!(
        "--agent {agent} -n 1 RANK init put_own=outer \
         0:spawn=2@a,b;self;init;value_of=0;numbers;finalize finalize"
    ));
    let expected = [
        "1 of 1..3, parent Some(0)",
        "2 of 1..3, parent Some(0)",
        "outer",
        "outer",
        "spawned from 1",
    ];
    assert_eq!((ran.code, sorted(&ran.out)), (0, expected.to_vec()), "{ran:?}");
}

#[test]
fn a_program_that_cannot_run_is_refused_and_the_job_goes_on() {
    for (options, host) in PLACES.into_iter().zip(["", " (on "]) {
        let ran = mpiexec(&format!("{options}-n 1 RANK init spawn=2;./nope print=on finalize"));
        let refused = format!("refused: cannot run ./nope: no such file{host}");
        assert!(ran.out.starts_with(&refused) && ran.out.ends_with("\non\n"), "{ran:?}");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    }
    let ran = mpiexec("-n 1 RANK init spawn=0;self finalize");
    assert_eq!((ran.code, ran.out.as_str()), (0, "refused: the number of processes is 0\n"));
}

#[test]
fn a_spawned_job_that_fails_ends_the_one_that_has_spawned_it() {
    for options in PLACES {
        let ran = mpiexec(&format!(
            "{options}-n 2 RANK init 1:spawn=2;self;init;0:abort=3,bad;sleep=30 sleep=30"
        ));
        assert!(ran.code == 3 && ran.time < SOON, "{ran:?}");
        let lines: Vec<&str> = ran.err.lines().collect();
        assert!(lines[0].starts_with("mpiexec: bad (pid "), "{ran:?}");
        let line = format!(
            "mpiexec: the job that process 1 has spawned (processes 2 to 3, `{}`) has failed; \
             ending the job",
            rank()
        );
        assert_eq!(lines[1..], [line], "{ran:?}");
    }
}

#[test]
fn others_go_on_if_the_user_wants_that() {
    let ran = mpiexec(
        "--on-failure continue -n 1 RANK init spawn=1;self;init;abort=3,bad sleep=1 print=on \
         finalize",
    );
    assert_eq!((ran.code, sorted(&ran.out)), (3, vec!["on", "spawned from 1"]), "{ran:?}");
    assert!(ran.err.contains("`) has failed\n"), "{ran:?}");
}

#[test]
fn a_rank_whose_job_goes_on_without_it_has_failed_for_all_jobs() {
    for options in PLACES {
        let ran = mpiexec(&format!(
            "{options}--on-failure continue -n 1 RANK init 0:spawn=2;self;init;1:kill=9;finalize \
             await_failure=2 0:spawn=1;self;init;sleep=0.2;kill=9 await_failure=3 finalize"
        ));
        let of = |number: u32| ran.out.lines().any(|line| line.starts_with(&format!("{number}..")));
        assert!(ran.code == 137 && of(2) && of(3), "{ran:?}");
    }
}

#[test]
fn a_spawned_program_without_mpi_ends_the_job() {
    for options in PLACES {
        let ran = mpiexec(&format!("{options}-n 1 RANK init spawn=1;/bin/true sleep=30"));
        assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
        assert!(ran.err.contains("none of its processes called MPI_Init"), "{ran:?}");
    }
}

#[test]
fn the_job_lasts_as_long_as_those_that_it_has_spawned() {
    for options in PLACES {
        let ran = mpiexec(&format!(
            "{options}-n 1 RANK init spawn=1;self;init;sleep=0.7;print=late;finalize finalize"
        ));
        assert_eq!((ran.code, ran.out.as_str()), (0, "spawned from 1\nlate\n"), "{ran:?}");
    }
}

#[test]
fn a_failure_or_the_time_limit_ends_spawned_jobs() {
    for options in PLACES {
        for (end, code) in [("0:abort=5,over", 5), ("sleep=30", 124)] {
            let limit = if code == 124 { "--timeout 1 " } else { "" };
            let sleep = format!("sleep={}", unique_sleep());
            let ran = mpiexec(&format!(
                "{options}{limit}-n 1 RANK init spawn=2;self;init;{sleep} sleep=0.3 {end}"
            ));
            assert!(ran.code == code && ran.time < SOON, "{ran:?}");
            assert_eq!(processes(&sleep), 0, "{ran:?}");
        }
    }
}

#[test]
fn a_signal_to_mpiexec_ends_spawned_jobs() {
    for options in PLACES {
        for signal in [Signal::TERM, Signal::KILL] {
            let sleep = format!("sleep={}", unique_sleep());
            let steps = format!("spawn=2;self;init;{sleep}");
            let rank = rank();
            let mut words: Vec<&str> = options.split_whitespace().collect();
            words.extend(["-n", "1", &rank, "init", &steps, "sleep=30"]);
            let child = spawn(&mut command(&words));
            eventually("the spawned ranks run", || processes(&sleep) == 2);
            let began = Instant::now();
            kill_process(Pid::from_child(&child), signal).unwrap();
            let ran = finish(child);
            assert_eq!(ran.code, if signal == Signal::TERM { 143 } else { -1 }, "{ran:?}");
            eventually("all are ended", || processes(&sleep) == 0);
            assert!(began.elapsed() < SOON, "{ran:?}");
        }
    }
}

#[test]
fn spawned_processes_get_the_signal_and_have_time_to_end() {
    for options in PLACES {
        let sleep = unique_sleep();
        let script = format!("trap 'echo saved' TERM| echo ready >&2| sleep {sleep} & wait");
        let steps = format!("spawn=1;/bin/sh;-c;{script}");
        let rank = rank();
        let mut words: Vec<&str> = options.split_whitespace().collect();
        words.extend(["-n", "1", &rank, "init", &steps, "sleep=30"]);
        let child = spawn(&mut command(&words));
        eventually("the spawned process runs", || processes(&sleep) == 1);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let ran = finish(child);
        assert!(ran.code == 143 && ran.out.contains("saved\n"), "{ran:?}");
        eventually("all are ended", || processes(&sleep) == 0);
    }
}

#[test]
fn lines_and_files_carry_the_numbers_of_processes() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("spawned");
    let _ = std::fs::remove_dir_all(&folder);
    let steps = "RANK init 0:spawn=1;self;init;print=in;finalize 1:print=out finalize";
    let ran = mpiexec(&format!("--output {} -n 2 {steps}", folder.display()));
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!((text("rank.1.out"), text("rank.2.out")), ("out\n".into(), "in\n".into()));
    let ran = mpiexec(&format!("--tag-output -n 2 {steps}"));
    assert_eq!(sorted(&ran.out), ["[0] spawned from 2", "[1] out", "[2] in"], "{ran:?}");
}

#[test]
fn jobs_have_stalled_if_the_ranks_of_all_wait() {
    for options in PLACES {
        let run = |inner: &str| {
            mpiexec(&format!(
                "{options}--stall-timeout 1 -n 1 RANK init spawn=1;self;init;{inner};finalize \
                 call=MPI_Recv wait=0,events sleep=4 finalize"
            ))
        };
        let ran = run("compute=4.5");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        let ran = run("call=MPI_Recv;wait=0,events;sleep=4");
        let count = |text: &str| ran.err.matches(text).count();
        assert_eq!((ran.code, count("no progress for 1 s")), (0, 1), "{ran:?}");
        assert_eq!(count("MPI_Recv"), 2, "{ran:?}");
    }
}

/// Returns a process that was started alone and starts an `mpiexec` for itself, with these steps.
fn alone(steps: &str) -> std::process::Command {
    let mut command = std::process::Command::new(rank());
    let launcher = concat!("own_launcher=", env!("CARGO_BIN_EXE_mpiexec"));
    command.args(["init", launcher]).args(steps.split(' ')).stdin(std::process::Stdio::null());
    command
}

#[test]
fn a_process_that_was_started_alone_spawns() {
    let ran = finish(spawn(&mut alone(
        "put_own=lone spawn=2;self;init;numbers;value_of=0;finalize sleep=0.3 \
         spawn=1;self;init;numbers;sleep=0.3;print=last;finalize finalize leave_own_launcher \
         print=done",
    )));
    let expected = [
        "1 of 1..3, parent Some(0)",
        "2 of 1..3, parent Some(0)",
        "3 of 3..4, parent Some(0)",
        "done",
        "last",
        "lone",
        "lone",
        "spawned from 1",
        "spawned from 3",
    ];
    assert_eq!((ran.code, sorted(&ran.out)), (0, expected.to_vec()), "{ran:?}");
    assert!(ran.out.ends_with("last\ndone\n"), "it waits for the last output: {ran:?}");
    assert_eq!(ran.err, "", "{ran:?}");
}

#[test]
fn a_process_without_standard_streams_does_not_print_into_its_connections() {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", r#"exec "$0" "$@" 0<&- 1>&-"#, &rank(), "init"]);
    command.arg(concat!("own_launcher=", env!("CARGO_BIN_EXE_mpiexec")));
    command.args(["print=lost", "spawn=1;self;init;finalize", "finalize", "leave_own_launcher"]);
    let ran = finish(spawn(&mut command));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn the_jobs_of_a_process_that_was_started_alone_end_with_it() {
    for (last, signal) in [("sleep=30", Some(Signal::KILL)), ("sleep=30", Some(Signal::TERM))]
        .into_iter()
        .chain([("exit=0", None), ("0:abort=5,over", None)])
    {
        let sleep = format!("sleep={}", unique_sleep());
        let child = spawn(&mut alone(&format!("spawn=2;self;init;{sleep} sleep=0.3 {last}")));
        if let Some(signal) = signal {
            eventually("the spawned ranks run", || processes(&sleep) == 2);
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        // Those that still run have its output.
        let ran = finish(child);
        assert!(ran.time < SOON && processes(&sleep) == 0, "{last}: {ran:?}");
    }
}

#[test]
fn a_job_that_fails_ends_the_process_that_was_started_alone() {
    let ran = finish(spawn(&mut alone("spawn=1;self;init;abort=3,bad sleep=30")));
    assert!(ran.code == -1 && ran.time < SOON, "by SIGTERM: {ran:?}");
    assert!(ran.err.starts_with("mpiexec: bad (pid "), "{ran:?}");
}

#[test]
fn only_a_process_starts_an_mpiexec_for_itself() {
    for option in ["--for-caller-apart", "--stand-in"] {
        let ran = finish(spawn(&mut command(&[option])));
        assert!(ran.code == 1 && ran.err.contains("is used by mpiexec itself"), "{ran:?}");
    }
}
