//! Jobs whose daemons start each other in a tree, on this host. With seven hosts and a width of two
//! `mpiexec` starts a and e; a starts b and d; b starts c; e starts f and g.

mod run;

use std::process::{Command, Stdio};
use std::time::Duration;

use run::{Ran, children_of, command, eventually, finish, processes, rank, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a busy machine needs, shorter than the ranks sleep.
const SOON: Duration = Duration::from_secs(10);

const HOSTS: &str = "a,b,c,d,e,f,g";

fn in_tree(rest: &[&str]) -> Command {
    let agent = format!("{}/tests/agent.sh", env!("CARGO_MANIFEST_DIR"));
    let mut words = vec!["--agent", &agent, "--hosts", HOSTS, "--tree-width", "2"];
    words.extend(rest);
    command(&words)
}

fn mpiexec(line: &str) -> Ran {
    let rank = rank();
    let words: Vec<&str> =
        line.split(' ').map(|word| if word == "RANK" { &rank } else { word }).collect();
    finish(spawn(&mut in_tree(&words)))
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[test]
fn ranks_of_all_levels_run_and_share_a_store() {
    let ran = mpiexec("-n 14 RANK init who finalize");
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..14).map(|n| format!("{n} of 14 running=true")).collect();
    expected.sort_unstable();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(lines, expected);
    let ran = mpiexec("RANK init 2:sleep=0.2 2:put=found value finalize");
    assert_eq!((ran.code, ran.out.as_str()), (0, "found\n".repeat(7).as_str()), "{ran:?}");
}

#[test]
fn programs_of_several_sections_start_in_their_order() {
    let ran = finish(spawn(&mut in_tree(&[
        "-l",
        "-n",
        "3",
        "sh",
        "-c",
        "echo one $VERBENA_RANK",
        ":",
        "-n",
        "4",
        "sh",
        "-c",
        "echo two $VERBENA_RANK",
    ])));
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    let expected =
        ["[0] one 0", "[1] one 1", "[2] one 2", "[3] two 3", "[4] two 4", "[5] two 5", "[6] two 6"];
    assert_eq!((ran.code, lines.as_slice()), (0, expected.as_slice()), "{ran:?}");
}

#[test]
fn standard_input_reaches_ranks_of_all_levels() {
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    for (which, expected) in [("2", 1), ("all", 7)] {
        let mut child =
            spawn(in_tree(&["--stdin", which, "sh", "-c", "wc -c"]).stdin(Stdio::piped()));
        run::feed(&mut child, &bytes);
        let ran = finish(child);
        let full = ran.out.lines().filter(|line| *line == bytes.len().to_string()).count();
        assert_eq!((ran.code, full), (0, expected), "{ran:?}");
    }
}

#[test]
fn a_death_on_a_leaf_is_named_and_ends_all_levels() {
    let mark = unique_sleep();
    let line = format!("test $VERBENA_RANK = 2 && sleep 0.2 && kill -9 $$; exec sleep {mark}");
    let ran = finish(spawn(&mut in_tree(&["sh", "-c", &line])));
    assert!(ran.code == 137 && ran.time < SOON, "{ran:?}");
    let why = " on c) was killed by signal 9 (Killed); ending the job (7 ranks)\n";
    assert!(ran.err.starts_with("mpiexec: rank 2 (pid ") && ran.err.ends_with(why), "{ran:?}");
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn a_daemon_in_the_middle_that_dies_is_named() {
    let mark = unique_sleep();
    let child = spawn(&mut in_tree(&["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 8);
    kill(children_of(child.id())[0], Signal::KILL);
    let ran = finish(child);
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    let why = "lost host a with rank 0 (and b, c, d, reached through it): its connection was \
               killed by signal 9; ending the job (7 ranks)\n";
    assert!(ran.err.contains(why), "{ran:?}");
    eventually("ranks of all hosts are gone", || processes(&mark) == 0);
}

#[test]
fn a_daemon_below_another_that_dies_is_named() {
    let mark = unique_sleep();
    let child = spawn(&mut in_tree(&["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 8);
    // Agents are started before ranks, and b before d.
    let daemon_b = children_of(children_of(child.id())[0])[0];
    kill(daemon_b, Signal::KILL);
    let ran = finish(child);
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    let why = "lost host b with rank 1 (and c, reached through it): its connection was killed by \
               signal 9; ending the job (7 ranks)\n";
    assert!(ran.err.contains(why), "{ran:?}");
    eventually("ranks of all hosts are gone", || processes(&mark) == 0);
}

#[test]
fn a_daemon_in_the_middle_that_falls_silent_is_named() {
    let mark = unique_sleep();
    let child = spawn(&mut in_tree(&["--dead-after", "1", "sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 8);
    kill(children_of(child.id())[0], Signal::STOP);
    let ran = finish(child);
    assert!(ran.code == 1 && ran.time < 2 * SOON, "{ran:?}");
    let why = "lost host a with rank 0 (and b, c, d, reached through it): no message for 1 s";
    assert!(ran.err.contains(why), "{ran:?}");
    eventually("ranks of all hosts are gone", || processes(&mark) == 0);
}

/// Hosts a, b and c, one below the other. Each needs 2 s to start its ranks, twice the silence
/// after which a host is lost.
#[test]
fn hosts_that_are_busy_with_starting_ranks_are_not_lost() {
    let folder = std::env::temp_dir().join(format!("verbena-slow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("slow_exec.so");
    let source = format!("{}/tests/slow_exec.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([library.as_os_str(), source.as_ref()]);
    assert!(compiler.arg("-ldl").status().unwrap().success(), "{compiler:?}");
    let agent = format!("{}/tests/agent.sh", env!("CARGO_MANIFEST_DIR"));
    let words = ["--agent", &agent, "--hosts", "a:5,b:5,c:5", "--tree-width", "1"];
    let rest = ["--dead-after", "1", "/bin/echo", "here"];
    let mut command = command(&[&words[..], &rest].concat());
    let ran = finish(spawn(command.env("LD_PRELOAD", &library).env("SLOW_EXEC", "/echo")));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.out, "here\n".repeat(15));
    assert!(ran.time > Duration::from_secs(2), "the start was not slow: {ran:?}");
}

#[test]
fn a_killed_mpiexec_takes_all_levels_along() {
    let mark = unique_sleep();
    let child = spawn(&mut in_tree(&["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 8);
    kill(child.id(), Signal::KILL);
    assert_eq!(finish(child).code, -1);
    eventually("ranks of all hosts are gone", || processes(&mark) == 0);
}

#[test]
fn signals_reach_all_levels() {
    let mark = unique_sleep();
    let trap = format!("trap 'echo saved; exit 0' INT; sleep {mark} & wait");
    let child = spawn(&mut in_tree(&["sh", "-c", &trap]));
    eventually("ranks run", || processes(&mark) == 7);
    kill(child.id(), Signal::INT);
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (130, "saved\n".repeat(7).as_str()), "{ran:?}");
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn others_are_told_of_all_hosts_that_a_lost_one_has_cut_off() {
    let mark = unique_sleep();
    let script = format!("[ $VERBENA_RANK -lt 4 ] && exec sleep {mark}; sleep 2; echo here");
    let child = spawn(&mut in_tree(&["--on-failure", "continue", "sh", "-c", &script]));
    eventually("ranks run", || processes(&mark) >= 4);
    kill(children_of(child.id())[0], Signal::KILL);
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (1, "here\nhere\nhere\n"), "{ran:?}");
    assert!(ran.err.contains("lost host a with rank 0 (and b, c, d, reached"), "{ran:?}");
    eventually("ranks of lost hosts are gone", || processes(&mark) == 0);
}

#[test]
fn the_table_has_the_ranks_of_all_levels() {
    let ran = mpiexec("--timeout 3 RANK 6:exit=0 init 2:call=MPI_Wait 2:wait=0 sleep=30");
    assert!(ran.code == 124 && ran.time < SOON, "{ran:?}");
    for host in ["a", "b", "c", "d", "e", "f", "g"] {
        assert!(ran.err.contains(&format!("1 rank on {host}, ")), "{host}: {ran:?}");
    }
    assert!(ran.err.contains("message from rank 0") && ran.err.contains("exit code 0"), "{ran:?}");
}

#[test]
fn a_stall_is_one_of_all_levels() {
    let steps = "RANK init call=MPI_Recv 0:wait=1 1:wait=2 2:wait=3 3:wait=4 4:wait=5 5:wait=6 \
                 6:wait=0 looks=3 finalize";
    let ran = mpiexec(&format!("--stall-timeout 0.4 {steps}"));
    assert_eq!((ran.code, ran.err.matches("--stall-timeout").count()), (0, 1), "{ran:?}");
    assert!(ran.err.contains("wait for each other"), "{ran:?}");
    let sleeps: Vec<String> = (0..6).map(|rank| format!("{rank}:sleep=2.5")).collect();
    let computes = steps.replace("6:wait=0", "6:compute=2.5").replace("looks=3", &sleeps.join(" "));
    let ran = mpiexec(&format!("--stall-timeout 0.8 {computes}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn an_absent_rank_of_another_level_is_noticed() {
    let line = "-n 1 true : -n 6 RANK init call=MPI_Barrier 2:wait=0 sleep=30";
    let ran = mpiexec(line);
    let why = "mpiexec: rank 0 ended without MPI_Init and rank 2 waits for it in MPI_Barrier; \
               ending the job (7 ranks)\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, why), "{ran:?}");
}

#[test]
fn a_daemon_that_another_cannot_start_is_reported_with_both_hosts() {
    let folder = std::env::temp_dir().join(format!("verbena-tree-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("agent");
    std::fs::write(&path, "#!/bin/sh\n[ \"$1\" = c ] && exit 9\nshift\nexec sh -c \"$*\"\n")
        .unwrap();
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = path.to_str().unwrap();
    let words = ["--agent", path, "--hosts", HOSTS, "--tree-width", "2", "sleep", "30"];
    let ran = finish(spawn(&mut command(&words)));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    let why = "agent c ...` ended with exit code 9; run `";
    assert!(ran.err.contains("cannot start rank 2 on c from b: `"), "{ran:?}");
    assert!(ran.err.contains(why) && ran.err.contains("--tree-width 65536"), "{ran:?}");
}
