//! The end of a job: codes, deaths, aborts, signals; and no process is left.

mod run;

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use run::{command, eventually, finish, mpiexec, processes, rank, script, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a busy machine needs, shorter than the ranks sleep.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn the_outcome_is_written_as_json() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("outcome.json");
    let read = || -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
    };
    let options = format!("--report-outcome {} -n 3", path.display());
    assert_eq!(script(&options, "[ $VERBENA_RANK != 1 ] || kill -9 $$").code, 137);
    let report = read();
    assert_eq!((&report["exit_code"], &report["ranks"]), (&137.into(), &3.into()));
    let failure = &report["first_failure"];
    assert_eq!((&failure["rank"], &failure["signal"]), (&1.into(), &"Killed".into()));
    assert!(report["messages"][0].as_str().unwrap().contains("rank 1"), "{report}");
    assert_eq!(script(&options, "true").code, 0);
    assert_eq!((&read()["exit_code"], &read()["first_failure"]), (&0.into(), &().into()));
    assert_eq!(mpiexec(&format!("{options} ./nope")).code, 127);
    assert!(read()["messages"][0].as_str().unwrap().contains("./nope"));
}

/// A device that was replaced by a file would be missing for the whole host.
#[test]
fn a_pipe_or_a_link_gets_the_outcome_and_stays() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("outcomes");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let [pipe, link, file] = ["pipe", "link", "file"].map(|name| folder.join(name));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(&file, &link).unwrap();
    // Opened for both directions: opening waits for nobody.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    assert_eq!(script(&format!("--report-outcome {} -n 1", pipe.display()), "true").code, 0);
    assert_eq!(script(&format!("--report-outcome {} -n 1", link.display()), "true").code, 0);
    assert!(link.is_symlink() && file.is_file());
    assert!(!pipe.is_file(), "a file has replaced the pipe");
    assert_eq!(BufReader::new(reader).lines().next().unwrap().unwrap(), "{");
}

#[test]
fn the_first_failure_is_the_exit_code() {
    assert_eq!(script("-n 3", "exit 0").code, 0);
    assert_eq!(script("-n 3", "test $VERBENA_RANK = 1 || exit 0; exit 7").code, 7);
    let ran = script("-n 2", "sleep 0.$VERBENA_RANK; exit 4$VERBENA_RANK");
    assert_eq!(ran.code, 40);
    let rows: Vec<&str> = ran.err.lines().collect();
    assert!(
        rows[0].starts_with("mpiexec: rank 0 (pid ") && rows[0].ends_with(" exited with code 40"),
        "{ran:?}"
    );
    assert_eq!(rows[1..], ["mpiexec: also failed: rank 1 (exited with code 41)"], "{ran:?}");
}

#[test]
fn a_rank_that_leaves_after_finalize_ends_nothing() {
    let ran = mpiexec("-n 3 RANK init 0:finalize 0:exit=3 sleep=0.3 print=done finalize");
    assert_eq!((ran.code, ran.out.as_str()), (3, "done\ndone\n"), "{ran:?}");
    assert_eq!(mpiexec("-n 3 RANK init who finalize").code, 0);
}

#[test]
fn a_crash_ends_the_job_and_is_named() {
    let ran = mpiexec("-n 4 RANK init 2:call=MPI_Recv 2:sleep=0.2 2:kill=11 sleep=30");
    assert!(ran.code == 139 && ran.time < SOON, "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    assert!(ran.err.starts_with("mpiexec: rank 2 (pid "), "{ran:?}");
    assert!(
        ran.err.contains(
            "was killed by signal 11 (Segmentation fault) in MPI_Recv; ending the job (4 ranks)\n"
        ),
        "{ran:?}"
    );
}

#[test]
fn an_exit_between_init_and_finalize_ends_the_job() {
    for (code, expected) in [(0, 1), (5, 5)] {
        let ran = mpiexec(&format!("-n 3 RANK init 1:exit={code} sleep=30"));
        assert!(ran.code == expected && ran.time < SOON, "{ran:?}");
        assert!(
            ran.err
                .contains(&format!("exited with code {code} without calling MPI_Finalize; ending")),
            "{ran:?}"
        );
    }
}

#[test]
fn a_stall_report_has_stacks() {
    use std::os::unix::fs::PermissionsExt as _;
    // A stand-in for the tool of elfutils, which attaches to nothing.
    let folder = std::env::temp_dir().join(format!("verbena-stacks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tool = folder.join("eu-stack");
    std::fs::write(&tool, "#!/bin/sh\necho \"TID $4:\"\necho '#0 in_a_lock'\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let rank = rank();
    let line = "--stall-timeout 0.4 --stack-traces -n 2 RANK init 0:call=MPI_Recv 0:wait=1 sleep=6";
    let words: Vec<&str> =
        line.split(' ').map(|word| if word == "RANK" { &rank } else { word }).collect();
    let ran = finish(spawn(command(&words).env("PATH", path)));
    std::fs::remove_dir_all(&folder).unwrap();
    for rank in 0..2 {
        assert!(ran.err.contains(&format!("the stack of rank {rank} (pid ")), "{ran:?}");
    }
    assert!(ran.err.contains("\n  #0 in_a_lock\n"), "{ran:?}");
}

#[test]
fn ranks_that_all_lack_finalize_are_named_without_a_failure() {
    let ran = mpiexec("-n 3 RANK init 1:sleep=0.1");
    assert!(ran.code == 0 && ran.time < SOON, "{ran:?}");
    let line = "ranks 0-2 exited with code 0 without calling MPI_Finalize";
    assert!(ran.err.contains(line), "{ran:?}");
    let ran = mpiexec("-n 2 RANK init 1:finalize");
    assert!(ran.code == 0, "{ran:?}");
    assert!(ran.err.contains("rank 0 exited with code 0 without calling"), "{ran:?}");
    let ran = mpiexec("-n 2 RANK init 1:exit=3");
    assert!(ran.code == 3, "{ran:?}");
}

#[test]
fn a_rank_missing_from_mpi_ends_those_that_would_wait() {
    let ran = mpiexec("-n 2 RANK 1:exit=6 sleep=0.2 init sleep=30");
    assert!(ran.code == 6 && ran.time < SOON, "{ran:?}");
    let why = "mpiexec: rank 1 ended without MPI_Init and other ranks would wait for it; ending \
               the job (2 ranks)";
    assert_eq!(ran.err.lines().nth(1), Some(why), "{ran:?}");
    assert_eq!(mpiexec("-n 2 RANK 1:exit=0 sleep=0.1 init finalize").code, 0);
}

#[test]
fn waiting_for_a_rank_that_ended_well_without_mpi_ends_the_job() {
    let ran = mpiexec("-n 1 true : -n 2 RANK init call=MPI_Barrier 2:wait=0 sleep=30");
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    let why = "mpiexec: rank 0 ended without MPI_Init and rank 2 waits for it in MPI_Barrier; \
               ending the job (3 ranks)\n";
    assert_eq!(ran.err, why, "{ran:?}");
    // A rank that ends after the others have begun to wait.
    let ran = mpiexec("-n 1 sleep 0.5 : -n 1 RANK init call=MPI_Recv wait=0 sleep=30");
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    assert!(ran.err.contains("rank 1 waits for it in MPI_Recv; ending"), "{ran:?}");
    // No rank waits for the absent one.
    let ran = mpiexec("-n 1 true : -n 2 RANK init call=MPI_Recv 2:wait=1 sleep=0.4 finalize");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn what_ends_the_job_is_reported_after_a_failure_that_did_not() {
    let ran = mpiexec("-n 3 RANK init 0:finalize 0:exit=3 sleep=0.3 1:kill=11 sleep=30");
    assert!(ran.code == 3 && ran.time < SOON, "{ran:?}");
    let rows: Vec<&str> = ran.err.lines().collect();
    assert!(
        rows[0].starts_with("mpiexec: rank 0 (pid ") && rows[0].ends_with(" exited with code 3"),
        "{ran:?}"
    );
    assert!(
        rows[1].starts_with("mpiexec: rank 1 (pid ")
            && rows[1].ends_with("; ending the job (3 ranks)"),
        "{ran:?}"
    );
}

#[test]
fn transports_are_explained_even_if_a_rank_never_calls_mpi_init() {
    let ran = mpiexec("--explain -n 3 RANK 1:sleep=0.5 1:exit=6 init explain=direct sleep=30");
    assert!(ran.code == 6 && ran.time < SOON, "{ran:?}");
    assert!(ran.err.contains("  route, ranks 0,2:    direct\n"), "{ran:?}");
    assert!(
        ran.err.contains("  transports, rank 1:  unknown: MPI_Init was not completed\n"),
        "{ran:?}"
    );
    let ran = mpiexec("--explain -n 2 echo x");
    assert_eq!(ran.err, "mpiexec: nothing to explain: no rank completed MPI_Init\n");
    let ran = mpiexec("--explain -n 2 RANK init explain=direct finalize");
    assert_eq!(ran.err, "mpiexec: transports of this job:\n  route, ranks 0-1:  direct\n");
}

#[test]
fn an_abort_ends_the_job_with_its_code_and_words() {
    let ran = mpiexec("-n 3 RANK init 1:abort=42,enough sleep=30");
    assert!(ran.code == 42 && ran.time < SOON, "{ran:?}");
    assert!(
        ran.err.starts_with("mpiexec: enough (pid ") && ran.err.lines().count() == 1,
        "{ran:?}"
    );
    let all = mpiexec("-n 4 RANK init print=before abort=3,together");
    assert_eq!((all.code, all.err.lines().count()), (3, 1), "{all:?}");
}

#[test]
fn ranks_that_ignore_sigterm_die_as_well() {
    let mark = unique_sleep();
    let ran = script(
        "-n 3",
        &format!("trap '' TERM; test $VERBENA_RANK = 0 && kill -9 $$; sleep {mark}; sleep 50"),
    );
    assert!(ran.code == 137 && ran.time < SOON, "{ran:?}");
    assert_eq!(processes(&mark), 0);
}

#[test]
fn nothing_that_ranks_started_is_left() {
    let mark = unique_sleep();
    let ran = script(
        "-n 2",
        &format!(
            "sleep {mark} & setsid sleep {mark} & (trap '' TERM; setsid sleep {mark}) & exit 0"
        ),
    );
    assert!(ran.code == 0 && ran.time < SOON, "{ran:?}");
    assert_eq!(processes(&mark), 0);
}

#[test]
fn a_killed_mpiexec_takes_its_ranks_along() {
    let mark = unique_sleep();
    let child = spawn(&mut command(&["-n", "3", "sleep", &mark]));
    eventually("ranks run", || processes(&mark) == 4);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, -1);
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn a_killed_mpiexec_takes_along_what_its_ranks_have_started() {
    let mark = unique_sleep();
    // Behind a wrapper, in a session of its own, and without an environment.
    let lines = format!("sleep {mark} & setsid sleep {mark} & env -i sleep {mark}; true");
    let child = spawn(&mut command(&["-n", "2", "sh", "-c", &lines]));
    eventually("processes run", || processes(&mark) == 6);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, -1);
    eventually("processes are gone", || processes(&mark) == 0);
}

#[test]
fn signals_are_passed_on() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mark = unique_sleep();
        let child = spawn(&mut command(&["-n", "3", "sleep", &mark]));
        eventually("ranks run", || processes(&mark) == 4);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ran = finish(child);
        assert!(ran.code == code && ran.time < SOON, "{ran:?}");
        assert_eq!((ran.err.as_str(), processes(&mark)), ("", 0));
    }
}

#[test]
fn a_rank_may_take_its_time_and_a_second_signal_kills() {
    let mark = unique_sleep();
    let patient = format!("trap 'sleep 0.3; echo saved; exit 0' INT; sleep {mark} & wait");
    let child = spawn(&mut command(&["-n", "2", "sh", "-c", &patient]));
    eventually("ranks run", || processes(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (130, "saved\nsaved\n"), "{ran:?}");

    // A rank that dies of the signal does not take that time from the others.
    let mixed = format!("test $VERBENA_RANK = 0 && exec sleep {mark}; {patient}");
    let child = spawn(&mut command(&["-n", "2", "sh", "-c", &mixed]));
    eventually("ranks run", || processes(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ran = finish(child);
    assert!(ran.code == 143 && ran.time < SOON, "{ran:?}");
    let child = spawn(&mut command(&["-n", "2", "sh", "-c", &mixed]));
    eventually("ranks run", || processes(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (130, "saved\n"), "{ran:?}");

    let stubborn = format!("trap '' INT TERM; sleep {mark}; sleep {mark}");
    let mut child = spawn(&mut command(&["-n", "2", "sh", "-c", &stubborn]));
    eventually("ranks run", || processes(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("press Ctrl-C again"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(processes(&mark), 0);
}

#[test]
fn the_environment_sets_a_time_limit_unless_the_command_line_does() {
    let run =
        |limit: &str, words: &[&str]| finish(spawn(command(words).env("MPIEXEC_TIMEOUT", limit)));
    let ran = run("0.4", &["-n", "2", "sleep", "30"]);
    assert!(ran.code == 124 && ran.time < SOON, "{ran:?}");
    assert!(ran.err.contains("the time limit of 0.4 s is reached"), "{ran:?}");
    assert_eq!(run("0.1", &["--timeout", "20", "-n", "1", "sleep", "0.5"]).code, 0);
    for none in ["", "0", "-1"] {
        assert_eq!(run(none, &["-n", "1", "sleep", "0.1"]).code, 0, "{none}");
    }
    let ran = run("soon", &["-n", "1", "true"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("MPIEXEC_TIMEOUT soon: the time must be a positive"), "{ran:?}");
}

#[test]
fn a_timeout_reports_what_each_rank_did() {
    let ran = mpiexec("--timeout 0.4 -n 3 RANK 1:init 1:call=MPI_Wait 1:wait=0 2:exit=0 sleep=30");
    assert!(ran.code == 124 && ran.time < SOON, "{ran:?}");
    let rows: Vec<&str> = ran.err.lines().collect();
    assert!(rows[0].contains("--timeout"), "{ran:?}");
    assert!(rows[3].contains("not in MPI"), "{ran:?}");
    assert!(rows[4].contains("waiting      MPI_Wait   0."), "{ran:?}");
    assert!(rows[5].ends_with("  exit code 0"), "{ran:?}");
    assert_eq!(
        rows[6..],
        ["mpiexec: rank 1 waits for rank 0, which has not called MPI_Init"],
        "{ran:?}"
    );
}

#[test]
fn ranks_that_all_wait_are_reported_once_and_the_job_goes_on() {
    let steps = "RANK init call=MPI_Recv 0:wait=1 1:wait=0 looks=1.5 finalize";
    let ran = mpiexec(&format!("--stall-timeout 0.4 -n 2 {steps}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let rows: Vec<&str> = ran.err.lines().collect();
    assert_eq!((rows.len(), rows[5]), (6, "mpiexec: ranks 0 and 1 wait for each other"), "{ran:?}");
    assert!(
        rows[0].contains("no progress for 0.4 s (--stall-timeout, or launch.stall_timeout)")
            && rows[3].contains("MPI_Recv")
            && rows[3].contains("message from rank 1")
    );
    // No report if one of them does not wait, or computes meanwhile, or without a time.
    let ran = mpiexec(
        "--stall-timeout 0.4 -n 2 RANK init 0:call=MPI_Recv 0:wait=1 1:compute=1.5 0:sleep=1.5 finalize",
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = mpiexec(
        "--stall-timeout 0.4 -n 2 RANK init call=MPI_Recv 0:wait=1 1:wait=0 1:compute=1.5 \
         0:sleep=1.5 finalize",
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = mpiexec(&format!("--stall-timeout 0 -n 2 {steps}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn ranks_that_wait_for_each_other_are_named_within_five_seconds() {
    for (one, other) in [("1", "0"), ("1,collective", "0"), ("1,threads", "0,threads,work")] {
        // Workers of a library sleep until a thread of the process wakes them.
        let steps = format!(
            "--stall-abort -n 2 RANK worker init call=MPI_Recv 0:wait={one} 1:wait={other} looks=9"
        );
        let began = Instant::now();
        let ran = mpiexec(&steps);
        assert_eq!(ran.code, 125, "{one} {other}: {ran:?}");
        assert!(ran.err.contains("deadlock: ranks 0 and 1 wait for each other"), "{ran:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{ran:?}");
    }
}

/// Each job goes on, although its ranks seem to wait for each other for longer than it takes to
/// name a deadlock.
#[test]
fn only_a_proof_names_a_deadlock_or_ends_a_job() {
    let cases = [
        // Another event would end the wait.
        "init call=MPI_Waitany 0:wait=1,events 1:wait=0 looks=5",
        // The other rank's progress brings the event about.
        "init call=MPI_Wait 0:wait=1,collective 1:wait=0,work looks=5",
        "init call=MPI_Recv 0:wait=1,rest 1:wait=0 looks=5",
        // Another thread may call MPI.
        "0:thread=9 init call=MPI_Recv 0:wait=1,threads 1:wait=0 looks=5",
        "0:thread=9 init call=MPI_Recv 0:wait=0,threads 0:looks=5 1:sleep=5",
        // A rank has not looked since the other one waits: it is stopped, or copies for long.
        "init call=MPI_Recv 0:wait=1 1:sleep=0.5 1:wait=0 0:sleep=5 1:looks=5",
        // A rank has not called MPI_Init yet.
        "0:sleep=5 init 1:call=MPI_Recv 1:wait=0 1:looks=5",
    ];
    let jobs = cases.map(|steps| {
        let line = format!("--stall-timeout 0.4 --stall-abort -n 2 RANK {steps} finalize");
        std::thread::spawn(move || (mpiexec(&line), line))
    });
    for job in jobs {
        let (ran, line) = job.join().unwrap();
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        for words in ["deadlock", "for each other", "for itself", "ending"] {
            assert!(!ran.err.contains(words), "{line}: {ran:?}");
        }
    }
}

#[test]
fn a_rank_that_is_idle_outside_of_mpi_is_reported_with_its_position() {
    let steps = "RANK init 0:call=MPI_Recv 0:wait=1 sleep=2 finalize";
    let ran = mpiexec(&format!("--stall-timeout 0.4 -n 2 {steps}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let last = ran.err.lines().last().unwrap();
    assert!(last.starts_with("mpiexec: rank 1 (pid "), "{ran:?}");
    assert!(last.contains("has been outside of MPI without computing for 0."), "{ran:?}");
    assert!(last.contains("in state S (asleep), in the system call sleep"), "{ran:?}");
    // A child of a rank computes.
    let compute = format!("{} compute=1.5", rank());
    let steps = ["RANK", "init", "0:call=MPI_Recv", "0:wait=1", "0:sleep=1.5"];
    let words: Vec<String> = steps.iter().map(|word| word.replace("RANK", &rank())).collect();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let child = format!("1:run={compute}");
    words.splice(0..0, ["--stall-timeout", "0.4", "-n", "2"]);
    words.extend([child.as_str(), "finalize"]);
    assert_eq!(finish(spawn(&mut command(&words))).err, "");
}

#[test]
fn a_stopped_rank_is_reported() {
    let steps = "init 0:call=MPI_Recv 0:wait=1 1:kill=STOP sleep=30";
    let mut words = vec!["--stall-timeout", "0.4", "--timeout", "2", "-n", "2"];
    let rank = rank();
    words.push(&rank);
    words.extend(steps.split(' '));
    let ran = finish(spawn(&mut command(&words)));
    assert!(ran.err.contains("no progress for 0.4 s"), "{ran:?}");
    assert!(ran.err.contains(" is stopped by a signal (SIGSTOP or SIGTSTP)"), "{ran:?}");
    assert!(ran.err.contains("  stopped"), "{ran:?}");
}

#[test]
fn sigquit_prints_the_table_and_the_job_goes_on() {
    let mark = unique_sleep();
    let child =
        spawn(&mut command(&["-n", "2", "sh", "-c", &format!("timeout 1 sleep {mark}; echo on")]));
    eventually("ranks run", || processes(&mark) == 4);
    kill_process(Pid::from_child(&child), Signal::QUIT).unwrap();
    let ran = finish(child);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.lines().count()),
        (0, "on\non\n", 4),
        "{ran:?}"
    );
}

#[test]
fn ctrl_z_stops_the_ranks_and_continuing_wakes_them() {
    let count = "i=0; while [ $i -lt 5 ]; do i=$((i+1)); sleep 0.1; done; echo done";
    let began = std::time::Instant::now();
    let child = spawn(&mut command(&["-n", "2", "sh", "-c", count]));
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&child), Signal::TSTP).unwrap();
    std::thread::sleep(Duration::from_millis(900));
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\ndone\n"), "{ran:?}");
    assert!(began.elapsed() > Duration::from_millis(1300), "{ran:?}");
}

#[test]
fn a_job_runs_where_a_sandbox_refuses_system_calls() {
    let sandbox = rank().replace("examples/rank", "examples/sandbox");
    let run = |refused: &str, words: &[&str]| {
        let mut command = std::process::Command::new(&sandbox);
        let mpiexec = env!("CARGO_BIN_EXE_mpiexec");
        finish(spawn(
            command.args([refused, mpiexec]).args(words).stdin(std::process::Stdio::null()),
        ))
    };
    let rank = rank();
    let steps = ["-n", "2", &rank, "init", "who", "0:put=found", "value", "finalize"];
    for refused in ["memfd_create", "signalfd", "prctl", "memfd_create,signalfd,prctl,fallocate"] {
        let ran = run(refused, &steps);
        assert!(ran.code == 0 && ran.out.matches("found\n").count() == 2, "{refused}: {ran:?}");
        assert_eq!(ran.err, "", "{refused}");
    }
    let ran = run("memfd_create,signalfd", &["--explain", "-n", "2", "true"]);
    assert!(
        ran.err.contains(
            "memfd_create is refused: shared memory is a file without a name in /dev/shm"
        ) && ran.err.contains("signalfd is refused: a thread waits for signals"),
        "{ran:?}"
    );
    let ran = run("signalfd", &["--timeout", "0.3", "-n", "2", "sleep", "30"]);
    assert_eq!(ran.code, 124, "{ran:?}");
}

#[test]
fn ranks_share_a_store() {
    let ran = mpiexec("-n 3 RANK init 2:sleep=0.2 2:put=found value finalize");
    assert_eq!((ran.code, ran.out.as_str()), (0, "found\nfound\nfound\n"), "{ran:?}");
}

#[test]
fn garbage_on_the_control_socket_does_not_end_the_job() {
    let send = "printf '%0100d' 0 >&198; sleep 0.2; echo still here";
    let ran = finish(spawn(&mut command(&["-n", "1", "bash", "-c", send])));
    assert_eq!((ran.code, ran.out.as_str()), (0, "still here\n"), "{ran:?}");
    assert!(ran.err.contains("its control connection is closed"), "{ran:?}");
}

#[test]
fn every_process_finds_its_own_place() {
    let who = format!("{} init who", rank());
    // A wrapper may exec the program; a descendant of a rank is a job of its own.
    assert_eq!(script("-n 1", &format!("{who} finalize")).out, "0 of 1 running=true\n");
    let nested = format!("{} init run='{who} finalize' who finalize", rank());
    assert_eq!(
        script("-n 1", &nested).out,
        "0 of 1 running=true\nran: Some(0)\n0 of 1 running=true\n"
    );
    let inner = format!(
        "{} init run='{} -n 2 {who} finalize | sort' finalize",
        rank(),
        env!("CARGO_BIN_EXE_mpiexec")
    );
    assert_eq!(
        script("-n 1", &inner).out,
        "0 of 2 running=true\n1 of 2 running=true\nran: Some(0)\n"
    );
    // A second program of a rank, or one that lost its descriptors, is an error.
    let twice = script("-n 2", &format!("{who} finalize; {who} finalize"));
    assert!(twice.code == 9 && twice.err.contains("has already run an MPI program"), "{twice:?}");
    let closed = finish(spawn(&mut command(&[
        "-n",
        "2",
        "bash",
        "-c",
        &format!("exec 198>&- 199>&-; {who}"),
    ])));
    assert!(
        closed.code == 9 && closed.err.contains("were closed by a program in between"),
        "{closed:?}"
    );
}

#[test]
fn several_tasks_of_another_launcher_are_refused() {
    let task = |variables: &[(&str, &str)]| {
        finish(spawn(
            std::process::Command::new(rank())
                .args(["init", "who"])
                .envs(variables.iter().copied()),
        ))
    };
    let slurm = task(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")]);
    assert!(slurm.code == 9 && slurm.err.contains("task 1 of 4 by Slurm"), "{slurm:?}");
    assert_eq!(task(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).code, 9);
    assert_eq!(task(&[]).out, "0 of 1 running=true\n");
    let ours = finish(spawn(
        command(&["-n", "1", &rank(), "init", "who", "finalize"])
            .env("PMI_RANK", "1")
            .env("PMI_SIZE", "2"),
    ));
    assert_eq!(ours.out, "0 of 1 running=true\n");
}
