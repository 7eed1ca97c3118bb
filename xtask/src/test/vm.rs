//! Real ibverbs over Soft-RoCE, in virtual machines (see [`crate::vm`]).
//!
//! Speed means nothing here: the processors are emulated, and others use the host's. Therefore time
//! limits only end runs that hang: they are ten times what is needed. Programs of others run where
//! no packets are lost, for theirs do not all get over it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{Options, Tally, hosts, programs, report_failure};
use crate::command::{quietly, quoted, show};
use crate::project::Project;
use crate::set_up;
use crate::steps::say;
use crate::vm::{self, Kernel, Machines, Plan, run};

/// One boot: a name, machines, a command, and a word that all guests' outputs have.
struct Case {
    name: &'static str,
    machines: Machines,
    /// Words in it stand for paths: `SUITE` stands for the conformance suite of the verbs
    /// transport, `BIN` for the folder of installed programs, `STREAM`, `SINGLE`, `DYING` and
    /// `LARGE` for C programs. `FOREIGN` stands for a job of this transport with peers in C and
    /// over another crate. `MODULE` stands for a kernel module that replaces XPMEM.
    command: &'static str,
    expected: &'static str,
    /// Packets must have been lost, and sent again.
    lossy: bool,
}

/// The last of three guests loses its power in the middle of a stream of messages. `mpiexec`
/// reports that after five seconds of silence; the longer limit is for a busy machine. Then nothing
/// of the job is left on the other two, each of which looks for itself.
const DEATH: &str = r#"cd /tmp; ulimit -l unlimited
left() { local name; for name in stream mpiexec dbclient; do pgrep -lx $name; done; }
none_is_left() { local n; for ((n = 0; n < 300; n++)); do [ -z "$(left)" ] && return; sleep 0.1; done; left; return 1; }
[ $VM_ID != 2 ] || exec sleep infinity
[ $VM_ID = 0 ] || { vm_barrier end; none_is_left && echo "vm2 and its ranks were reported in time"; exit; }
for host in $VM_PEERS; do $VM_SSH $host true || exit; done
(until [ -e $VM_RESULTS/a_tenth ]; do sleep 0.1; done; echo $SECONDS >died; vm_die 2) &
BIN/mpiexec --timeout 200 --dead-after 5 --agent $VM_SSH --hosts vm0:2,vm1:2,vm2:2 STREAM 300000 $VM_RESULTS/a_tenth 2>said
code=$?; took=$((SECONDS - $(cat died))); cat said; vm_barrier end
echo "exit code $code, $took s after its death"
grep -q 'lost host vm2 with ranks 4 to 5: no message for 5 s (--dead-after)' said && [ $code = 1 ] &&
  [ $took -le 30 ] && none_is_left && echo "vm2 and its ranks were reported in time""#;

/// Each guest has a second device, on a virtual card with an address of its own. Of messages of 1
/// MiB each device carries a part. The connection of the second device begins with the first of
/// them: what is sent until it is ready goes through the first device alone, here what belongs to
/// the first of eight rounds. Both cards are on one wire: without `arp_ignore` each answers for the
/// other's address, and what comes to the wrong card is dropped by its device.
const RAILS: &str = r#"cd /tmp; ulimit -l unlimited
echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; vm_barrier quiet
ip link add link eth0 name eth1 type macvlan mode bridge && ip link set eth1 mtu $VM_MTU up &&
  ip addr add 10.78.0.$((VM_ID + 1))/24 dev eth1 && rdma link add rxe1 type rxe netdev eth1 || exit
vm_barrier devices
sent() { cat /sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts; }
before0=$(sent rxe0) before1=$(sent rxe1); vm_barrier counted
[ $VM_ID != 0 ] || for way in read write; do
  BIN/mpiexec --timeout 200 --agent $VM_SSH --hosts vm0:1,vm1:1 --set inter.transport=verbs \
    --set verbs.devices=rxe0,rxe1 --set verbs.rendezvous=$way LARGE 2 1048576 8 || touch $VM_RESULTS/failed
done
vm_barrier end
primary=$(($(sent rxe0) - before0)) secondary=$(($(sent rxe1) - before1))
echo "packets: rxe0 $primary, rxe1 $secondary"
[ ! -e $VM_RESULTS/failed ] && [ $((3 * primary)) -ge $secondary ] && [ $((3 * secondary)) -ge $primary ] &&
  echo both devices have carried their share"#;

/// Connection requests without an answer, because no route leads from one address to the other.
/// Then single copy by processes without the right to trace, which Yama allows or refuses.
const REFUSALS: &str = r#"cd /tmp; ulimit -l unlimited
ip addr add 192.168.9$VM_ID.1/32 dev eth0; vm_barrier addresses
for id in 0 1; do ip neigh replace 192.168.9$id.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent; done
[ $VM_ID = 0 ] || { vm_barrier end; echo all was refused as it should be; exit; }
BIN/mpiexec --timeout 100 --agent $VM_SSH --hosts vm0:1,vm1:1 --set inter.transport=verbs --set verbs.gid_index=2 --set verbs.connect_warn_after=3s STREAM 100 x 2>said &
until grep -q 'without an answer' said || ! kill -0 $!; do sleep 0.1; done
sleep 1; kill $!; wait $!; cat said; vm_barrier end
[ $(grep -c 'rank 0 has called rank 1 (192.168.91.1) for 3 s over RDMA without an answer' said) = 1 ] || exit 1
for row in "0 read" "1 read" "2 refused" "3 refused"; do
  echo ${row% *} >/proc/sys/kernel/yama/ptrace_scope && echo kernel.yama.ptrace_scope is ${row% *} &&
    setpriv --inh-caps -sys_ptrace --bounding-set -sys_ptrace BIN/mpiexec --timeout 100 -n 2 SINGLE ${row#* } || exit 1
done
echo all was refused as it should be"#;

/// Single copy by mapping (XPMEM) where the kernel refuses to read; then senders that are killed
/// while a receiver reads their memory.
const XPMEM: &str = r#"cd /tmp; insmod MODULE || exit
echo 3 >/proc/sys/kernel/yama/ptrace_scope
BIN/mpiexec --explain --timeout 100 -n 2 SINGLE read >said 2>&1; code=$?; cat said
[ $code = 0 ] && grep -q 'single copy, .* chosen: XPMEM' said || exit 1
BIN/mpiexec --timeout 100 -n 2 --set shm.single_copy=readv SINGLE refused || exit
for ms in 6 7 8 10 12 15 20 30; do
  BIN/mpiexec --timeout 100 -n 2 DYING $ms >said 2>&1; code=$?; cat said
  [ $code = 137 ] && grep -q 'rank 0 .* was killed by signal 9' said || exit 1
done
echo all was read in place"#;

/// Devices that are removed under an endless job: first a second rail, without which the job goes
/// on, then the last device. Removing a network device removes the device of `rdma_rxe` on it, but
/// without an event; `ip link delete` waits until its users end.
const REMOVALS: &str = r#"cd /tmp; ulimit -l unlimited
printf '#!/bin/sh\nshift; exec bash -c "$*"\n' >agent; chmod +x agent
ip link add rail0 type veth peer name rail1; ip link set rail1 up; ip link set rail0 up; ip addr add 10.9.9.1/24 dev rail0
rdma link add rxe9 type rxe netdev rail0
BIN/mpiexec --timeout 100 --agent ./agent --hosts localhost:1,other:1 --set verbs.devices=rxe0 --set verbs.rails=rxe9 \
  STREAM 2000000000 $PWD/begun 120000 2>said & job=$!
until_it() { until "$@"; do kill -0 $job || return; sleep 0.1; done; }
sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
goes_on() { [ $(sent) -gt $((before + 2000)) ]; }
is_removed='of this host has failed or was removed'
until_it [ -e begun ] && { ip link delete rail0 & } &&
  until_it grep -q "goes on without one of its RDMA ports, and with rxe0: the RDMA device rxe9 $is_removed" said &&
  before=$(sent) && until_it goes_on && { ip link delete eth0 & }
wait $job; code=$?; cat said; echo "exit code $code"; wait
[ $code != 0 ] && [ $code != 124 ] && grep -q "cannot be reached: the RDMA device rxe0 $is_removed" said && echo "all went as devices go""#;

fn cases() -> [Case; 10] {
    [
        Case {
            name: "two guests and their devices",
            machines: Machines::guests(2),
            command: "vm_between ibv_rc_pingpong -g $VM_GID -n 100 -e && vm_between ib_write_bw -F -x $VM_GID -n 20 \
                      && [ \"$($VM_SSH $VM_PEERS echo through ssh from $VM_ID)\" = \"through ssh from $VM_ID\" ] \
                      && ulimit -l unlimited && BIN/verbena doctor --rdma && vm_barrier end && echo well done",
            expected: "well done",
            lossy: false,
        },
        Case {
            name: "the verbs transport",
            machines: Machines::pair(None),
            // The suite's own number of rounds is 10,000.
            command: "export VERBENA_TEST_DEVICES=\"$VM_DEVICES\" VERBENA_TEST_ROUNDS=1000; ulimit -l unlimited; \
                      timeout 500 SUITE --test-threads 1 storms connection never lies gone stale differ rings",
            expected: "test connections_that_break ... ok",
            lossy: false,
        },
        Case {
            name: "the verbs transport where packets are lost",
            machines: Machines::pair(Some("1%")),
            command: "export VERBENA_TEST_DEVICES=\"$VM_DEVICES\"; ulimit -l unlimited; \
                      timeout 500 SUITE --test-threads 1 connection rings",
            expected: "test connections_that_break ... ok",
            lossy: true,
        },
        Case {
            name: "the verbs transport where packets overtake",
            machines: Machines::pair(None).reordering("5%"),
            command: "export VERBENA_TEST_DEVICES=\"$VM_DEVICES\"; ulimit -l unlimited; \
                      timeout 500 SUITE --test-threads 1 rings",
            expected: "test rings_change_hands ... ok",
            lossy: true,
        },
        Case {
            name: "foreign peers",
            machines: Machines::pair(None),
            command: "ulimit -l unlimited; timeout 300 FOREIGN",
            expected: "all have met",
            lossy: false,
        },
        Case {
            name: "devices that are removed",
            machines: Machines::pair(None),
            command: REMOVALS,
            expected: "all went as devices go",
            lossy: false,
        },
        Case {
            name: "three guests of which one dies",
            machines: Machines::guests(3),
            command: DEATH,
            expected: "vm2 and its ranks were reported in time",
            lossy: false,
        },
        Case {
            name: "what is refused",
            machines: Machines::guests(2),
            command: REFUSALS,
            expected: "all was refused as it should be",
            lossy: false,
        },
        Case {
            name: "XPMEM",
            machines: Machines::guests(1),
            command: XPMEM,
            expected: "all was read in place",
            lossy: false,
        },
        Case {
            name: "two devices in each of two guests",
            machines: Machines::guests(2),
            command: RAILS,
            expected: "both devices have carried their share",
            lossy: false,
        },
    ]
}

/// Boots that are made however late it is.
const FEWEST_BOOTS: usize = 5;

/// Runs the boots whose name contains the filter, beginning with another for each seed. What has
/// not begun at the `deadline` is left out, but for [`FEWEST_BOOTS`].
pub(super) fn test(
    project: &Project,
    options: &Options,
    deadline: Option<Instant>,
) -> Result<Tally> {
    let kernel = match vm::set_up(project) {
        Ok(kernel) => kernel,
        Err(why) => {
            say!("skipped: there can be no virtual machines here: {why:#}");
            return Ok(Tally { skipped: 1, ..Tally::default() });
        }
    };
    let (cases, boots) = (cases(), hosts::boots());
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.extend(boots.iter().map(|boot| boot.name));
    names.retain(|name| options.filter.as_ref().is_none_or(|filter| name.contains(filter)));
    let first = options.seed as usize % names.len().max(1);
    names.rotate_left(first);
    let mut tally = Tally::default();
    for (made, name) in names.into_iter().enumerate() {
        if made >= FEWEST_BOOTS && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            say!("   left out, for it is late: {name}");
            tally.skipped += 1;
            continue;
        }
        let start = Instant::now();
        let ran = match cases.iter().find(|case| case.name == name) {
            Some(case) => case.run(project, options, &kernel),
            None => {
                let boot = boots.iter().find(|boot| boot.name == name).expect("one of both");
                boot.run(project, options, &kernel)
            }
        };
        say!("   {name}: {:.0} s", start.elapsed().as_secs_f64());
        tally += ran.unwrap_or_else(|error| {
            report_failure(name, &format!("{error:#}"), "");
            Tally { failed: 1, ..Tally::default() }
        });
    }
    Ok(tally)
}

impl Case {
    fn run(&self, project: &Project, options: &Options, kernel: &Kernel) -> Result<Tally> {
        let mut command = self.command.to_owned();
        if command.contains("SUITE") {
            command = command.replace("SUITE", &suite(project)?.display().to_string());
        }
        if command.contains("FOREIGN") {
            command = command.replace("FOREIGN", &foreign(project)?);
        }
        for (word, program) in [
            ("STREAM", "stream"),
            ("SINGLE", "single_copy"),
            ("DYING", "dying_sender"),
            ("LARGE", "many_large"),
        ] {
            if command.contains(word) {
                let program = programs::compiled(project, options, program)?;
                command = command.replace(word, &program.display().to_string());
            }
        }
        if command.contains("MODULE") {
            let module = kernel.compile(project, &project.root.join("tests/xpmem"))?;
            command = command.replace("MODULE", &module.display().to_string());
        }
        command = command.replace("BIN", &project.prefix().join("bin").display().to_string());
        let outcome = run(
            project,
            kernel,
            &Plan {
                machines: self.machines.clone(),
                commands: vec![command],
                link_down: Vec::new(),
                timeout: Duration::from_secs(600),
                results: project.target.join("vm/test"),
                show: false,
            },
        )?;
        let alive = outcome.guests.iter().filter(|guest| !guest.died);
        let outputs: Vec<&str> = alive.map(|guest| guest.output.as_str()).collect();
        let printed = outputs.join("---\n");
        anyhow::ensure!(outcome.success(), "{}{printed}", outcome.summary());
        anyhow::ensure!(
            outputs.iter().all(|output| output.contains(self.expected)),
            "no `{}` in\n{printed}",
            self.expected
        );
        anyhow::ensure!(
            !self.lossy || outcome.counter("_err") + outcome.counter("duplicate") > 0,
            "nothing was lost\n{}",
            outcome.summary()
        );
        Ok(Tally { passed: 1, ..Tally::default() })
    }
}

/// Builds the conformance suite of the verbs transport, which the guests run as it is.
fn suite(project: &Project) -> Result<PathBuf> {
    let suite =
        ["test", "--no-run", "--profile", "checked", "--workspace", "--test", "conformance_verbs"];
    executable(project.cargo(&suite))
}

/// The products of a build.
fn executable(mut cargo: Command) -> Result<PathBuf> {
    cargo.args(["--quiet", "--message-format", "json"]);
    let ran = quietly(&mut cargo, Duration::from_secs(1800))?;
    let messages =
        ran.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables.next_back().context("cargo names no executable")
}

/// The line that lets a process of ours meet a peer in C and one over the crate `ibverbs`.
fn foreign(project: &Project) -> Result<String> {
    let packages = [
        ("libibverbs-dev", "peers of others"),
        ("libclang-dev", "the bindings of the crate ibverbs"),
    ];
    set_up::provide(&packages, &show)?;
    // `cargo test` would build the example as a harness of no tests.
    let ours = ["build", "--profile", "checked", "--workspace", "--example", "verbs_foreign"];
    let ours = executable(project.cargo(&ours))?;
    let (folder, built) = (project.root.join("tests/foreign"), project.target.join("foreign"));
    let mut rust = project.cargo(&["build", "--locked", "--manifest-path"]);
    rust.arg(folder.join("Cargo.toml")).arg("--target-dir").arg(&built);
    let rust = executable(rust)?;
    let c = built.join("peer");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "peer.c", "ud.c", "-libverbs", "-o"]).arg(&c);
    quietly(cc.current_dir(&folder), Duration::from_secs(60))?;
    let words = [ours, c, rust].map(|path| quoted(&path.display().to_string())).join(" ");
    Ok(format!("{} $VM_GID {words}", quoted(&folder.join("meet.sh").display().to_string())))
}
