//! Jobs over several hosts, by an agent that remains on this host: each "host" is a daemon of its
//! own. The ranks do not communicate by MPI.

mod run;

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use run::{Ran, children_of, command, eventually, finish, processes, rank, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a busy machine needs, shorter than the ranks sleep.
const SOON: Duration = Duration::from_secs(5);

/// Does what ssh does with its arguments, but on this host.
const AGENT: &str = "tests/agent.sh";

fn agent() -> String {
    format!("{}/{AGENT}", env!("CARGO_MANIFEST_DIR"))
}

fn over_hosts(hosts: &str, rest: &[&str]) -> Command {
    let agent = agent();
    let mut arguments = vec!["--agent", &agent, "--hosts", hosts];
    arguments.extend(rest);
    command(&arguments)
}

fn mpiexec(hosts: &str, line: &str) -> Ran {
    let rank = rank();
    let words: Vec<&str> =
        line.split(' ').map(|word| if word == "RANK" { &rank } else { word }).collect();
    finish(spawn(&mut over_hosts(hosts, &words)))
}

fn script(hosts: &str, options: &[&str], text: &str) -> Ran {
    finish(spawn(&mut over_hosts(hosts, &[options, &["sh", "-c", text]].concat())))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_know_their_place_in_the_job_and_on_their_host() {
    let line = "echo $VERBENA_RANK/$VERBENA_SIZE $VERBENA_LOCAL_RANK/$VERBENA_LOCAL_SIZE";
    let ran = script("a:2,b:1", &[], line);
    let places = vec!["0/3 0/2", "1/3 1/2", "2/3 0/1"];
    assert_eq!((ran.code, sorted(&ran.out)), (0, places.clone()), "{ran:?}");
    let line = "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE \
                $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE";
    let ran = script("a:2,b:1", &[], line);
    assert_eq!((ran.code, sorted(&ran.out)), (0, places), "{ran:?}");
    let ran = script("a:2,b:1", &[], "echo $MPI_LOCALRANKID/$MPI_LOCALNRANKS");
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["0/1", "0/2", "1/2"]), "{ran:?}");
    let ran = mpiexec("a:2,b:2", "RANK init who finalize");
    let expected = vec![
        "0 of 4 running=true",
        "1 of 4 running=true",
        "2 of 4 running=true",
        "3 of 4 running=true",
    ];
    assert_eq!((ran.code, sorted(&ran.out), ran.err.as_str()), (0, expected, ""), "{ran:?}");
}

#[test]
fn hosts_get_ranks_in_turn() {
    let in_turn = ["-n", "6", "--map-by", "node"];
    let hosts = "a:4,b:1,c:2";
    let line = "echo $VERBENA_RANK/$VERBENA_SIZE $VERBENA_LOCAL_RANK/$VERBENA_LOCAL_SIZE $0";
    let ran = script(hosts, &in_turn, line);
    let places =
        vec!["0/6 0/3 sh", "1/6 0/1 sh", "2/6 0/2 sh", "3/6 1/3 sh", "4/6 1/2 sh", "5/6 2/3 sh"];
    assert_eq!((ran.code, sorted(&ran.out)), (0, places), "{ran:?}");
    // Programs, variables, input and the store are by rank, also below another daemon.
    let narrow = ["--set", "launch.tree_width=1", "--map-by", "node", "--stdin", "3", "-l"];
    let programs = ["-n", "4", "sh", "-c", "cat", ":", "-n", "2", "sh", "-c", "echo second"];
    let mut child =
        spawn(over_hosts(hosts, &[&narrow[..], &programs].concat()).stdin(Stdio::piped()));
    run::feed(&mut child, b"typed\n");
    let ran = finish(child);
    let lines = vec!["[3] typed", "[4] second", "[5] second"];
    assert_eq!((ran.code, sorted(&ran.out)), (0, lines), "{ran:?}");
    let ran = mpiexec(hosts, "-n 6 --map-by node RANK init 4:put=found value finalize");
    assert_eq!((ran.code, ran.out.as_str()), (0, &*"found\n".repeat(6)), "{ran:?}");
}

#[test]
fn reports_name_ranks_and_hosts_that_were_dealt_in_turn() {
    let steps = "RANK init call=MPI_Recv 0:wait=3 1:wait=0 2:wait=0 3:wait=0 looks=2.5 finalize";
    let ran = mpiexec("a:2,b:2", &format!("--map-by node --stall-timeout 0.4 {steps}"));
    let table_of = |host: &str| {
        let (_, table) = ran.err.split_once(&format!("2 ranks on {host}, ")).unwrap();
        let rows = table.lines().skip(2).take(2);
        let first = |row: &str| row.split_whitespace().next().unwrap().to_owned();
        rows.map(first).collect::<Vec<String>>()
    };
    assert_eq!((ran.code, table_of("a"), table_of("b")), (0, own("0 2"), own("1 3")), "{ran:?}");
    assert!(ran.err.contains("ranks 0 and 3 wait for each other\n"), "{ran:?}");
    let death = "test $VERBENA_RANK = 2 && sleep 0.2 && kill -9 $$; sleep 30";
    let ran = script("a:2,b:2", &["--map-by", "node"], death);
    let line = " on a) was killed by signal 9 (Killed); ending the job (4 ranks)";
    assert!(ran.code == 137 && ran.err.starts_with("mpiexec: rank 2 (pid "), "{ran:?}");
    assert!(ran.err.contains(line), "{ran:?}");
}

fn own(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

#[test]
fn ranks_know_the_number_of_their_program_on_the_command_line() {
    let steps = "RANK init appnum finalize";
    let line = format!("-n 1 {steps} : -n 2 {steps} : {steps}");
    let expected = ["0 has appnum Some(0)", "1 has appnum Some(1)", "2 has appnum Some(1)"];
    // The second program is on both hosts, and the second host has no rank of the first.
    for ran in [mpiexec("a:2,b:2", &line), run::mpiexec(&line)] {
        assert_eq!((ran.code, &sorted(&ran.out)[..3]), (0, &expected[..]), "{ran:?}");
        assert!(ran.out.contains("3 has appnum Some(2)\n"), "{ran:?}");
    }
}

#[test]
fn programs_variables_and_the_folder_are_those_of_the_user() {
    let ran = finish(spawn(
        over_hosts(
            "a:1,b:1",
            &[
                "-n",
                "1",
                "sh",
                "-c",
                "echo one $A $PWD",
                ":",
                "-x",
                "B=2",
                "sh",
                "-c",
                "echo two $A$B",
            ],
        )
        .env("A", "it's me")
        .current_dir("/usr"),
    ));
    assert_eq!(
        (ran.code, sorted(&ran.out)),
        (0, vec!["one it's me /usr", "two it's me2"]),
        "{ran:?}"
    );
}

#[test]
fn each_program_runs_on_its_own_hosts() {
    let agent = agent();
    let show = "echo $0 $VERBENA_RANK $VERBENA_LOCAL_RANK/$VERBENA_LOCAL_SIZE";
    let first = ["--agent", &agent, "-n", "1", "--host", "a", "sh", "-c", show, "first", ":"];
    let rest = ["-n", "3", "--host", "b", "sh", "-c", show, "rest"];
    let ran = finish(spawn(&mut command(&[&first[..], &rest].concat())));
    let expected = vec!["first 0 0/1", "rest 1 0/3", "rest 2 1/3", "rest 3 2/3"];
    assert_eq!((ran.code, sorted(&ran.out)), (0, expected), "{ran:?}");
    // The first host again, after another one.
    let last = [":", "-n", "1", "--host", "a", "sh", "-c", show, "last"];
    let ran = finish(spawn(&mut command(&[&first[..], &rest, &last].concat())));
    let expected = vec!["first 0 0/2", "last 4 1/2", "rest 1 0/3", "rest 2 1/3", "rest 3 2/3"];
    assert_eq!((ran.code, sorted(&ran.out)), (0, expected), "{ran:?}");
}

#[test]
fn lines_stay_whole_and_carry_their_rank() {
    let ran = script(
        "a:1,b:1",
        &["-l"],
        "printf 'x %0900d ' 0; sleep 0.1; echo end; echo bad >&2; printf open",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    for line in ran.out.lines() {
        assert!(line.starts_with("[0] ") || line.starts_with("[1] "), "{line}");
        assert!(line.ends_with(" end") || line.ends_with("] open"), "{line}");
    }
    assert_eq!(sorted(&ran.err), ["[0] bad", "[1] bad"]);
}

#[test]
fn a_death_is_named_and_ends_the_ranks_of_all_hosts() {
    let mark = unique_sleep();
    let line = format!(
        "test $VERBENA_RANK = 2 && sleep 0.2 && kill -9 $$; sleep {mark} & sleep {mark}; sleep \
         {mark}"
    );
    let ran = script("near:2,far:2", &[], &line);
    assert!(ran.code == 137 && ran.time < SOON, "{ran:?}");
    assert!(
        ran.err.starts_with("mpiexec: rank 2 (pid ") && ran.err.lines().count() == 1,
        "{ran:?}"
    );
    assert!(
        ran.err.contains(" on far) was killed by signal 9 (Killed); ending the job (4 ranks)"),
        "{ran:?}"
    );
    assert_eq!(processes(&mark), 0);
    let inside =
        mpiexec("near:2,far:2", "RANK init 3:call=MPI_Recv 3:sleep=0.2 3:kill=11 sleep=30");
    assert!(
        inside.code == 139
            && inside
                .err
                .contains("on far) was killed by signal 11 (Segmentation fault) in MPI_Recv")
    );
}

#[test]
fn an_abort_and_a_missing_rank_end_the_job_on_all_hosts() {
    let ran = mpiexec("a:1,b:2", "RANK init 2:abort=42,enough sleep=30");
    assert!(
        ran.code == 42 && ran.time < SOON && ran.err.starts_with("mpiexec: enough (pid "),
        "{ran:?}"
    );
    let ran = mpiexec("a:1,b:1", "RANK 1:exit=6 sleep=0.3 init sleep=30");
    assert!(
        ran.code == 6
            && ran.time < SOON
            && ran.err.contains("rank 1 ended without MPI_Init and other ranks would wait for it"),
        "{ran:?}"
    );
    let both = script("a,b", &[], "sleep 0.$VERBENA_RANK; exit 4$VERBENA_RANK");
    assert!(
        both.code == 40 && both.err.ends_with("also failed: rank 1 (exited with code 41)\n"),
        "{both:?}"
    );
}

#[test]
fn ranks_that_all_lack_finalize_are_named_without_a_failure() {
    let ran = mpiexec("a:1,b:2", "RANK init 1:sleep=0.1");
    assert!(ran.code == 0 && ran.time < SOON, "{ran:?}");
    let line = "mpiexec: ranks 0-2 exited with code 0 without calling MPI_Finalize, which MPI";
    assert!(ran.err.starts_with(line) && ran.err.lines().count() == 1, "{ran:?}");
    let ran = mpiexec("a:1,b:1", "RANK init 1:finalize");
    assert!(ran.code == 0 && ran.err.contains("rank 0 exited with code 0 without"), "{ran:?}");
    let ran = mpiexec("a:1,b:1", "RANK init 1:sleep=0.2 1:exit=3");
    assert!(ran.code == 3 && ran.time < SOON, "{ran:?}");
    let ran = mpiexec("a:1,b:1", "RANK init 1:sleep=30");
    let line = "exited with code 0 without calling MPI_Finalize; ending the job (2 ranks)";
    assert!(ran.code == 1 && ran.time < SOON && ran.err.contains(line), "{ran:?}");
    assert!(ran.time > Duration::from_secs(1), "{ran:?}");
}

#[test]
fn transports_are_explained_even_if_a_rank_of_another_host_never_calls_mpi_init() {
    let ran =
        mpiexec("a:1,b:2", "--explain RANK 2:sleep=0.5 2:exit=6 init explain=direct sleep=30");
    assert!(ran.code == 6 && ran.time < SOON, "{ran:?}");
    assert!(ran.err.contains("  route, ranks 0-1:    direct\n"), "{ran:?}");
    assert!(
        ran.err.contains("  transports, rank 2:  unknown: MPI_Init was not completed\n"),
        "{ran:?}"
    );
}

#[test]
fn a_host_that_is_lost_ends_the_job() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts("a:1,b:1", &["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 3);
    // The daemon of the second host is the parent of the rank there.
    let daemons = children_of(child.id());
    assert_eq!(daemons.len(), 2);
    kill_process(Pid::from_raw(daemons[1] as i32).unwrap(), Signal::KILL).unwrap();
    let ran = finish(child);
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    assert!(
        ran.err.contains(
            "lost host b with rank 1: its connection was killed by signal 9; ending the job (2 \
             ranks)"
        ),
        "{ran:?}"
    );
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn a_host_that_falls_silent_ends_the_job() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts("a:1,b:2", &["--dead-after", "1", "sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 4);
    // Like a machine that has lost its power: no message comes, and no connection closes.
    let daemon = Pid::from_raw(children_of(child.id())[1] as i32).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let ran = finish(child);
    assert!(ran.code == 1 && ran.time < 10 * SOON, "{ran:?}");
    let expected = "lost host b with ranks 1 to 2: no message for 1 s (--dead-after), the machine \
                    is down or unreachable; ending the job (3 ranks)";
    assert!(ran.err.contains(expected), "{ran:?}");
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn a_mpiexec_that_falls_silent_takes_the_ranks_of_all_hosts_along() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts("a:1,b:1", &["--dead-after", "1", "sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 3);
    let mpiexec = Pid::from_child(&child);
    kill_process(mpiexec, Signal::STOP).unwrap();
    // mpiexec is left: its arguments have the word, too.
    eventually("ranks are gone", || processes(&mark) <= 1);
    kill_process(mpiexec, Signal::CONT).unwrap();
    let ran = finish(child);
    // Of either host: both have lost it.
    let why = ": no message of mpiexec has reached it for 1 s (--dead-after); ending the";
    assert!(ran.code == 1 && ran.err.contains(why), "{ran:?}");
}

#[test]
fn a_host_that_is_heard_and_hears_nothing_is_the_culprit() {
    let mark = unique_sleep();
    let folder = std::env::temp_dir().join(format!("verbena-deaf-{}", std::process::id()));
    std::fs::write(&folder, "shift\ncat | sh -c \"$*\"\n").unwrap();
    let agent = format!("sh {}", folder.display());
    // Its output is heard, so that mpiexec itself suspects nothing.
    let line = format!("while :; do echo here; sleep 0.1; done; exec sleep {mark}");
    let child = spawn(&mut command(&[
        "--agent",
        &agent,
        "--hosts",
        "a",
        "--dead-after",
        "1",
        "sh",
        "-c",
        &line,
    ]));
    // A process that is about to become the agent still has the command line of mpiexec.
    let cat = || children_of(*children_of(child.id()).first()?).first().copied();
    eventually("the rank runs", || cat().is_some() && processes(&line) == 2);
    kill_process(Pid::from_raw(cat().unwrap() as i32).unwrap(), Signal::STOP).unwrap();
    let ran = finish(child);
    std::fs::remove_file(&folder).unwrap();
    let why = "mpiexec: lost host a with rank 0: no message of mpiexec has reached it for 1 s \
               (--dead-after); ending the job (1 ranks)\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, why), "{ran:?}");
    eventually("the rank is gone", || processes(&line) == 0);
}

#[test]
fn a_job_that_the_user_has_stopped_is_silent_and_goes_on() {
    let mark = unique_sleep();
    // Rank 0 waits for rank 1, which computes: no stall, unless stopped ranks are judged.
    let line = "--dead-after 1 --stall-timeout 0.8 --stall-abort RANK init 0:call=MPI_Recv \
                0:wait=1 1:compute=60 0:sleep=60";
    let (rank, mark) = (rank(), format!("print={mark}"));
    let words = line.split(' ').map(|word| if word == "RANK" { rank.as_str() } else { word });
    let words: Vec<&str> = words.chain([mark.as_str()]).collect();
    let child = spawn(&mut over_hosts("a:1,b:1", &words));
    eventually("ranks run", || processes(&mark) >= 3);
    let mpiexec = Pid::from_child(&child);
    std::thread::sleep(Duration::from_millis(300));
    kill_process(mpiexec, Signal::TSTP).unwrap();
    std::thread::sleep(SOON);
    assert!(processes(&mark) >= 3, "ranks of a stopped job are gone");
    kill_process(mpiexec, Signal::CONT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(mpiexec, Signal::TERM).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.err.as_str()), (128 + 15, ""), "{ran:?}");
}

#[test]
fn a_killed_mpiexec_takes_the_ranks_of_all_hosts_along() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts("a:2,b:2", &["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 5);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, -1);
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn signals_reach_ranks_everywhere() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts(
        "a:1,b:1",
        &["sh", "-c", &format!("trap 'echo saved; exit 0' INT; sleep {mark} & wait")],
    ));
    eventually("ranks run", || processes(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (130, "saved\nsaved\n"), "{ran:?}");
    assert!(ran.time < SOON && processes(&mark) == 0, "{ran:?}");
}

#[test]
fn a_timeout_reports_what_the_ranks_of_each_host_did() {
    let ran = mpiexec("a:1,b:1", "--timeout 0.6 RANK 1:init 1:call=MPI_Wait 1:wait=0 sleep=30");
    assert!(ran.code == 124 && ran.time < SOON, "{ran:?}");
    assert!(
        ran.err.contains("\n     1  ")
            && ran.err.contains("waiting  MPI_Wait")
            && ran.err.contains("message from rank 0, any tag, MPI_COMM_WORLD"),
        "{ran:?}"
    );
    assert!(ran.err.contains("\n     0  ") && ran.err.contains("not in MPI"), "{ran:?}");
}

#[test]
fn a_stall_is_one_of_all_hosts() {
    let steps = "RANK init call=MPI_Recv 0:wait=1 1:wait=0 looks=2.5 finalize";
    let ran = mpiexec("a:1,b:1", &format!("--stall-timeout 0.4 {steps}"));
    let tables = ran.err.matches("waits for\n").count();
    assert_eq!(
        (ran.code, ran.err.matches("--stall-timeout").count(), tables),
        (0, 1, 2),
        "{ran:?}"
    );
    assert!(ran.err.ends_with("mpiexec: ranks 0 and 1 wait for each other\n"), "{ran:?}");
    // A rank of the other host is asleep outside of MPI.
    let steps = "RANK init 0:call=MPI_Recv 0:wait=1 sleep=2.5 finalize";
    let ran = mpiexec("a:1,b:1", &format!("--stall-timeout 0.4 {steps}"));
    assert!(ran.code == 0 && ran.err.contains("rank 1 (pid "), "{ran:?}");
    assert!(ran.err.contains("has been outside of MPI without computing for"), "{ran:?}");
    let steps = "RANK init 0:call=MPI_Recv 0:wait=1 1:compute=2 0:sleep=2 finalize";
    let ran = mpiexec("a:1,b:1", &format!("--stall-timeout 0.4 {steps}"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn ranks_of_several_hosts_that_wait_for_each_other_end_the_job_if_that_is_proved() {
    let options = "--stall-timeout 0.4 --stall-abort";
    let steps = "RANK init call=MPI_Recv 0:wait=1 1:wait=0";
    let ran = mpiexec("a:1,b:1", &format!("{options} {steps} looks=20 finalize"));
    assert!(ran.code == 125 && ran.err.contains("ending the job (--stall-abort)"), "{ran:?}");
    // Rank 1 has not looked since it began to wait.
    let ran = mpiexec("a:1,b:1", &format!("{options} {steps} 0:looks=5 1:sleep=5 finalize"));
    assert!(ran.code == 0 && !ran.err.contains("each other"), "{ran:?}");
}

#[test]
fn the_table_is_printed_without_a_host_that_does_not_answer() {
    let mark = unique_sleep();
    let child = spawn(&mut over_hosts("a:1,b:2", &["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 4);
    let (mpiexec, daemon) =
        (Pid::from_child(&child), Pid::from_raw(children_of(child.id())[1] as i32).unwrap());
    kill_process(daemon, Signal::STOP).unwrap();
    kill_process(mpiexec, Signal::QUIT).unwrap();
    std::thread::sleep(Duration::from_millis(4500));
    kill_process(daemon, Signal::CONT).unwrap();
    kill_process(mpiexec, Signal::TERM).unwrap();
    let ran = finish(child);
    assert!(
        ran.err.contains("1 rank on a, ") && ran.err.contains("ranks 1 to 2 on b: no answer"),
        "{ran:?}"
    );
}

#[test]
fn a_host_whose_ranks_have_ended_may_be_silent() {
    let ran = script("a:1,b:1", &["--timeout", "1"], "[ $VERBENA_RANK = 1 ] || sleep 30");
    assert!(ran.code == 124 && ran.time < SOON, "{ran:?}");
    assert!(ran.err.contains("1 rank on a, ") && ran.err.contains("1 rank on b, "), "{ran:?}");
    assert!(ran.err.contains("  exit code 0\n"), "{ran:?}");
}

#[test]
fn waiting_for_an_absent_rank_of_another_host_ends_the_job() {
    let ran = mpiexec("a:1,b:2", "-n 1 true : -n 2 RANK init call=MPI_Barrier 2:wait=0 sleep=30");
    assert!(ran.code == 1 && ran.time < SOON, "{ran:?}");
    let why = "mpiexec: rank 0 ended without MPI_Init and rank 2 waits for it in MPI_Barrier; \
               ending the job (3 ranks)\n";
    assert_eq!(ran.err, why, "{ran:?}");
    let line = "-n 1 true : -n 2 RANK init call=MPI_Recv 2:wait=1 sleep=0.4 finalize";
    assert_eq!(mpiexec("a:1,b:2", line).code, 0);
}

#[test]
fn a_signal_while_a_rank_is_stopped_blames_no_rank() {
    let mark = unique_sleep();
    let stop = format!("test $VERBENA_RANK = 1 && kill -STOP $$; exec sleep {mark}");
    let child = spawn(&mut over_hosts("a:1,b:1", &["sh", "-c", &stop]));
    eventually("rank 0 runs", || processes(&mark) == 1);
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.err.as_str()), (143, ""), "{ran:?}");
    assert!(ran.time < SOON && processes(&mark) == 0, "{ran:?}");
}

#[test]
fn an_agent_that_never_says_a_word_is_given_up() {
    let mark = unique_sleep();
    let run = |agent: &str| {
        let words = ["--start-timeout", "1.5", "--agent", agent, "--hosts", "a,b", "true"];
        finish(spawn(&mut command(&words)))
    };
    let folder = std::env::temp_dir().join(format!("verbena-agents-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let silent = run(&write("silent", format!("exec sleep {mark}")));
    assert!(silent.code == 1 && silent.time < SOON, "{silent:?}");
    assert!(silent.err.contains("cannot start rank 0 on a: no message from its daemon for 1.5 s"));
    // Its output is held open by another process.
    let leaves = run(&write("leaves", format!("sleep {mark} 2>/dev/null & exit 3")));
    assert!(leaves.code == 1 && leaves.time < SOON, "{leaves:?}");
    assert!(leaves.err.contains(" on a: `"), "{leaves:?}");
    assert!(leaves.err.contains("a ...` ended with exit code 3; run"), "{leaves:?}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(processes(&mark), 0);
}

#[test]
fn ranks_of_all_hosts_share_a_store() {
    let ran = mpiexec("a:1,b:2", "RANK init 2:sleep=0.2 2:put=found value finalize");
    assert_eq!((ran.code, ran.out.as_str()), (0, "found\nfound\nfound\n"), "{ran:?}");
}

#[test]
fn standard_input_reaches_the_rank_that_wants_it() {
    let bytes: Vec<u8> = (0..200_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    for (options, expected) in [(&[][..], 1), (&["--stdin", "1"], 1), (&["--stdin", "all"], 2)] {
        let mut child = spawn(
            over_hosts("a:1,b:1", &[options, &["sh", "-c", "wc -c"]].concat())
                .stdin(Stdio::piped()),
        );
        run::feed(&mut child, &bytes);
        let ran = finish(child);
        let full = ran.out.lines().filter(|line| *line == bytes.len().to_string()).count();
        assert_eq!((ran.code, full), (0, expected), "{ran:?}");
    }
}

#[test]
fn a_job_in_the_background_leaves_the_terminal_alone() {
    // Job control puts mpiexec into a process group of its own, in the background.
    let line = "set -m; $MPIEXEC --agent $AGENT --hosts a:2 sh -c \"$RANKS\" & wait; echo end";
    let mark = unique_sleep();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", line, "/dev/null"]).stdin(Stdio::piped());
    terminal.env("SHELL", "/bin/sh").env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"));
    terminal
        .env("AGENT", agent())
        .env("RANKS", format!("sleep {mark} & sleep 1; kill $!; echo over"));
    let mut child = spawn(&mut terminal);
    eventually("ranks run", || processes(&mark) == 2);
    child.stdin.as_mut().unwrap().write_all(b"typed\n").unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, &*ran.out), (0, "typed\r\nover\r\nover\r\nend\r\n"), "{ran:?}");
}

#[test]
fn output_that_cannot_be_written_ends_the_job_with_the_reason() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut over_hosts = over_hosts("a:1,b:1", &["sh", "-c", "echo line; sleep 30"]);
    let child = over_hosts.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    let why = "mpiexec: cannot write the ranks' output: No space left on device (os error 28); \
               ending the job\n";
    assert_eq!((ended.status.code(), err.as_str()), (Some(1), why));
    // A reader that has gone is no failure to report.
    let mut over_hosts = self::over_hosts("a:1,b:1", &["yes"]);
    let mut child = over_hosts.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(128 + 13), &b""[..]));
}

#[test]
fn a_folder_gets_all_files_under_a_low_limit_of_open_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("output-of-hosts");
    let _ = std::fs::remove_dir_all(&folder);
    let (agent, mpiexec) = (agent(), env!("CARGO_BIN_EXE_mpiexec"));
    let mut sh = Command::new("sh");
    sh.args(["-c", "ulimit -Sn 48; exec \"$@\"", "sh", mpiexec, "--agent", &agent]);
    sh.args(["--hosts", "a:12,b:12", "--output", folder.to_str().unwrap(), "echo", "line"]);
    let ran = finish(spawn(&mut sh));
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{ran:?}");
    for rank in 0..24 {
        let text = std::fs::read_to_string(folder.join(format!("rank.{rank}.out"))).unwrap();
        assert_eq!(text, "line\n", "{rank}");
    }
}

#[test]
fn what_cannot_start_is_reported_with_the_host() {
    let ran = mpiexec("a:1,b:1", "/no/such/program");
    assert!(
        ran.code == 127 && ran.err.contains("cannot run /no/such/program: no such file (on "),
        "{ran:?}"
    );
    let none = finish(spawn(&mut command(&["--agent", "/no/such/agent", "--hosts", "a", "true"])));
    assert!(
        none.code == 1 && none.err.contains("cannot start on a: /no/such/agent: No such file"),
        "{none:?}"
    );
    let refuses = finish(spawn(&mut command(&["--agent", "false", "--hosts", "a:2", "true"])));
    assert!(
        refuses
            .err
            .contains("cannot start ranks 0 to 1 on a: `false a ...` ended with exit code 1"),
        "{refuses:?}"
    );
    let greets =
        finish(spawn(&mut command(&["--agent", "echo Welcome to", "--hosts", "a", "true"])));
    assert!(greets.code == 1 && greets.err.contains("printed \"Welcome to a"), "{greets:?}");
}

#[test]
fn a_daemon_refuses_input_that_is_not_from_mpiexec() {
    for (input, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "longer than allowed"),
        (&b"\x02\0\0\0\xff\xff"[..], "unexpected first message"),
        (&b"\x02\0"[..], "mpiexec has closed the connection"),
    ] {
        let mut child = spawn(command(&["--daemon"]).stdin(Stdio::piped()));
        run::feed(&mut child, input);
        let ran = finish(child);
        assert!(ran.code == 1 && ran.err.contains(why), "{ran:?}");
    }
}

#[test]
fn this_host_needs_no_agent() {
    let ran = finish(spawn(&mut command(&["--hosts", "localhost:2", "echo", "here"])));
    assert_eq!((ran.code, ran.out.as_str()), (0, "here\nhere\n"), "{ran:?}");
}

#[test]
fn a_rank_file_places_ranks_on_hosts_and_cores() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ranks");
    let path = path.to_str().unwrap();
    std::fs::write(path, "rank 0=a slot=0:0\nrank 1=b slot=0\nrank 2=a\n").unwrap();
    let agent = agent();
    let words = ["--agent", &agent, "--rankfile", path, "--report-bindings", "-l", "sh", "-c"];
    let line = "grep Cpus_allowed_list /proc/self/status | wc -l";
    let ran = finish(spawn(&mut command(&[&words[..], &[line]].concat())));
    assert_eq!((ran.code, sorted(&ran.out)), (0, vec!["[0] 1", "[1] 1", "[2] 1"]), "{ran:?}");
    for rank in 0..3 {
        assert!(ran.err.contains(&format!("rank {rank} is bound to package ")), "{ran:?}");
    }
    std::fs::write(path, "rank 0=localhost slot=0:9999\n").unwrap();
    let ran = finish(spawn(&mut command(&["--rankfile", path, "true"])));
    assert!(ran.code == 1 && ran.err.contains("cannot bind rank 0: package 0 has no"), "{ran:?}");
}
