//! Jobs on hosts that dial in: each "host" is an agent (`mpiexec --join`) on this machine, and no
//! ssh or other agent is there.

mod run;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use run::{Ran, Running, command, eventually, finish, processes, rank, spawn, unique_sleep};
use rustix::process::{Pid, Signal, kill_process};

const TOKEN: &str = "the token of these tests, 32 bytes";

/// A port, and agents of a job that listens there.
struct Stage {
    address: String,
    agents: Vec<Running>,
}

impl Stage {
    /// Starts agents, which dial until `mpiexec` listens.
    fn with_agents(count: usize) -> Stage {
        let mut stage = Stage { address: free_address(), agents: Vec::new() };
        stage.agents = (0..count).map(|_| spawn(&mut stage.agent(TOKEN))).collect();
        stage
    }

    fn agent(&self, token: &str) -> Command {
        let mut command = command(&["--join", &self.address, "--slots", "2"]);
        command.env("VERBENA_TOKEN", token);
        command
    }

    /// Returns an `mpiexec` that waits for so many agents.
    fn mpiexec(&self, agents: usize, rest: &[&str]) -> Command {
        let agents = agents.to_string();
        let mut words = vec!["--accept", &agents, "--listen", &self.address];
        words.extend(rest);
        let mut command = command(&words);
        command.env("VERBENA_TOKEN", TOKEN);
        command
    }

    fn finish_agents(&mut self) -> Vec<Ran> {
        self.agents.drain(..).map(finish).collect()
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn kill(child: &Running, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn agents_that_were_there_first_run_the_ranks_and_share_a_store() {
    let mut stage = Stage::with_agents(2);
    let rank = rank();
    let steps = [&rank, "init", "3:sleep=0.1", "3:put=found", "value", "who", "finalize"];
    let ran = finish(spawn(&mut stage.mpiexec(2, &steps)));
    let mut expected = vec!["found"; 4];
    let who: Vec<String> = (0..4).map(|n| format!("{n} of 4 running=true")).collect();
    expected.extend(who.iter().map(String::as_str));
    expected.sort_unstable();
    assert_eq!((ran.code, sorted(&ran.out), ran.err.as_str()), (0, expected, ""), "{ran:?}");
    let agents = stage.finish_agents();
    assert!(agents.iter().all(|ran| ran.code == 0 && ran.err.is_empty()), "{agents:?}");
}

#[test]
fn the_token_is_in_no_argument_and_in_no_environment_of_a_rank() {
    let folder = std::env::temp_dir().join(format!("verbena-token-{}", std::process::id()));
    std::fs::write(&folder, format!("{TOKEN}\n")).unwrap();
    let mut stage = Stage::with_agents(1);
    let line = "tr '\\0' '\\n' </proc/$PPID/environ | grep -c TOKEN; env | grep -c TOKEN; echo end";
    let mut command = stage.mpiexec(1, &["-n", "1", "--token-file"]);
    command.arg(&folder).args(["sh", "-c", line]);
    let ran = finish(spawn(&mut command));
    std::fs::remove_file(&folder).unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (0, "0\n0\nend\n"), "{ran:?}");
    assert!(stage.finish_agents().iter().all(|ran| ran.code == 0));
}

#[test]
fn a_large_output_and_a_large_input_pass() {
    let mut stage = Stage::with_agents(1);
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let mut command = stage.mpiexec(1, &["-n", "1", "cat"]);
    let mut child = spawn(command.stdin(std::process::Stdio::piped()));
    let mut input = child.stdin.take().unwrap();
    let expected = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let ran = finish(child);
    writer.join().unwrap();
    assert!(ran.code == 0 && ran.out.as_bytes() == expected, "{} {}", ran.code, ran.out.len());
    assert!(stage.finish_agents().iter().all(|ran| ran.code == 0));
}

#[test]
fn strangers_cost_their_connection_alone() {
    let mut stage = Stage { address: free_address(), agents: Vec::new() };
    let child = spawn(&mut stage.mpiexec(1, &["-n", "1", "echo", "here"]));
    eventually("it listens", || TcpStream::connect(&stage.address).is_ok());
    // More than it keeps at once; some send what is no TLS.
    let strangers: Vec<TcpStream> = (0..300u32)
        .filter_map(|number| {
            let mut stranger = TcpStream::connect(&stage.address).ok()?;
            let text = [&b"GET / HTTP/1.1\r\n\r\n"[..], b"", &[0xff; 999]];
            stranger.write_all(text[number as usize % 3]).ok()?;
            Some(stranger)
        })
        .collect();
    stage.agents.push(spawn(&mut stage.agent(TOKEN)));
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "here\n", ""), "{ran:?}");
    drop(strangers);
    assert!(stage.finish_agents().iter().all(|ran| ran.code == 0));
}

#[test]
fn another_token_is_refused_on_both_sides() {
    let stage = Stage { address: free_address(), agents: Vec::new() };
    let child = spawn(&mut stage.mpiexec(1, &["--start-timeout", "1.5", "true"]));
    let agent = finish(spawn(&mut stage.agent("another token, also long enough")));
    assert!(agent.code == 1 && agent.err.contains("has another token"), "{agent:?}");
    let ran = finish(child);
    assert_eq!(ran.code, 1, "{ran:?}");
    let why = format!("0 of 1 agents have dialed in to {} within 1.5 s", stage.address);
    assert!(ran.err.contains(&why) && ran.err.contains("without the token"), "{ran:?}");
}

#[test]
fn an_agent_that_nobody_answers_says_so() {
    let stage = Stage { address: free_address(), agents: Vec::new() };
    let ran = finish(spawn(stage.agent(TOKEN).args(["--start-timeout", "0.3"])));
    assert!(ran.code == 1 && ran.err.contains("no mpiexec has answered at"), "{ran:?}");
    let mut agent = spawn(&mut stage.agent(TOKEN));
    std::thread::sleep(std::time::Duration::from_millis(100));
    kill(&agent, Signal::TERM);
    let mut text = String::new();
    agent.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(!agent.wait().unwrap().success() && text.is_empty(), "{text}");
}

#[test]
fn a_death_ends_the_ranks_of_all_hosts_and_their_agents_in_order() {
    let mark = unique_sleep();
    let mut stage = Stage::with_agents(2);
    let line = format!("test $VERBENA_RANK = 2 && sleep 0.2 && kill -9 $$; exec sleep {mark}");
    let ran = finish(spawn(&mut stage.mpiexec(2, &["sh", "-c", &line])));
    assert_eq!(ran.code, 137, "{ran:?}");
    let why = "~2) was killed by signal 9 (Killed); ending the job (4 ranks)\n";
    assert!(ran.err.starts_with("mpiexec: rank 2 (pid ") && ran.err.ends_with(why), "{ran:?}");
    let agents = stage.finish_agents();
    assert!(agents.iter().all(|ran| ran.code == 0), "{agents:?}");
    eventually("ranks are gone", || processes(&mark) == 0);
}

#[test]
fn a_killed_mpiexec_ends_ranks_and_agents() {
    let mark = unique_sleep();
    let mut stage = Stage::with_agents(2);
    let child = spawn(&mut stage.mpiexec(2, &["sleep", &mark]));
    eventually("ranks run", || processes(&mark) >= 5);
    kill(&child, Signal::KILL);
    let agents = stage.finish_agents();
    assert!(
        agents.iter().all(|ran| ran.code == 1 && ran.err.contains("has ended before the job")),
        "{agents:?}"
    );
    eventually("ranks are gone", || processes(&mark) == 0);
    assert_eq!(finish(child).code, -1);
}

#[test]
fn an_agent_that_dies_is_a_lost_host() {
    let mark = unique_sleep();
    for signal in [Signal::KILL, Signal::TERM] {
        let mut stage = Stage::with_agents(2);
        let child = spawn(&mut stage.mpiexec(2, &["sleep", &mark]));
        eventually("ranks run", || processes(&mark) >= 5);
        kill(&stage.agents[0], signal);
        let ran = finish(child);
        assert!(ran.code == 1 && ran.err.contains("mpiexec: lost host "), "{ran:?}");
        assert!(ran.err.contains("its connection was closed; ending the job (4 ranks)"), "{ran:?}");
        stage.finish_agents();
        eventually("ranks are gone", || processes(&mark) == 0);
    }
}

#[test]
fn options_that_do_not_belong_together_are_refused() {
    for (words, why) in [
        (&["--accept", "2", "true"][..], "--listen ADDRESS:PORT and a token belong together"),
        (&["--accept", "2", "--listen", "7000", "true"], "must be ADDRESS:PORT"),
        (&["--accept", "0", "true"], "the number of agents must be from 1"),
        (
            &["--accept", "1", "--listen", "127.0.0.1:9", "--hosts", "a", "true"],
            "takes its hosts from those that dial in",
        ),
        (&["--join", "127.0.0.1:9", "./a.out"], "--join takes no program, and ./a.out follows"),
        (&["--slots", "2", "true"], "--slots is for --join"),
        (&["--accept", "1", "--listen", "127.0.0.1:9", "true"], "agents need a token"),
    ] {
        let ran = finish(spawn(command(words).env_remove("VERBENA_TOKEN")));
        assert!(ran.code == 2 && ran.err.contains(why), "{words:?}: {ran:?}");
    }
}
