//! Hosts that dial in, as pods of Kubernetes do: each in a network namespace with a host name of
//! its own, `mpiexec` in another one, and no ssh between them. Agents start first.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{LIMIT, is_ok};
use crate::command::{Ran, capture};
use crate::test::tcp::Network;
use crate::test::{Tally, report_failure};

/// Pods that run two ranks each.
const PODS: usize = 2;
/// Where `mpiexec` listens.
const PORT: u16 = 7000;
const TOKEN: &str = "a token of a test, of 34 characters";

/// Runs a job on pods, and one that loses a pod.
pub(super) fn test(mpiexec: &Path, programs: &Path) -> Result<Tally> {
    let network = Network::new(PODS + 1)?;
    let mut tally = Tally::default();
    for (name, loses_pod) in [("pods that dial in", false), ("a pod is lost", true)] {
        let agents: Result<Vec<Child>> =
            (1..=PODS).map(|pod| agent(&network, pod, mpiexec)).collect();
        let mut agents = agents?;
        let mut command = within(&network, 0, mpiexec);
        command.args(["--accept", &PODS.to_string(), "--listen", &address()]);
        command.args(["--set", "inter.transport=tcp", "--set", "wait.spin=0"]);
        if loses_pod {
            // The last rank ends the agent of its pod, once a job has shown that all ranks run.
            let hello = programs.join("hello");
            let kill = format!("kill -9 {}", agents[PODS - 1].id());
            let line =
                format!("{}; test $VERBENA_RANK = 3 && {kill}; exec sleep 30", hello.display());
            command.args(["sh", "-c", &line]);
        } else {
            command.arg(programs.join("collectives"));
        }
        let ran = capture(&mut command, None, LIMIT)?;
        let codes: Vec<Option<i32>> = agents.iter_mut().map(end).collect();
        let is_right = if loses_pod { is_lost(&ran) } else { is_ok(&ran) };
        match is_right && codes[0] == Some(0) {
            true => tally.passed += 1,
            false => {
                let why = format!("{}, agents {codes:?}", ran.ending());
                report_failure(name, &why, &ran.output());
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

fn is_lost(ran: &Ran) -> bool {
    ran.code() == 1 && ran.stderr.contains("lost host pod-2 with ranks 2 to 3: its connection was")
}

fn address() -> String {
    format!("{}:{PORT}", Network::address(0))
}

/// Returns `mpiexec` in a namespace.
fn within(network: &Network, host: usize, mpiexec: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &network.host(host)]).arg(mpiexec);
    command.env("VERBENA_TOKEN", TOKEN);
    command
}

fn agent(network: &Network, pod: usize, mpiexec: &Path) -> Result<Child> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &network.host(pod), "unshare", "--uts", "sh", "-c"]);
    command.arg(format!("hostname pod-{pod} && exec \"$0\" \"$@\"")).arg(mpiexec);
    command.args(["--join", &address(), "--slots", "2", "--start-timeout", "30"]);
    command.env("VERBENA_TOKEN", TOKEN).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command.stderr(Stdio::null()).spawn()?)
}

/// Waits for the end of an agent. Returns its exit code; `None` if a signal has ended it.
fn end(agent: &mut Child) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Ok(Some(status)) = agent.try_wait() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = agent.kill();
    agent.wait().ok()?.code()
}
