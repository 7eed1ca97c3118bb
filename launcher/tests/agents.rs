//! Daemons that the agents of resource managers start: stand-ins run them on this host.

mod run;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use run::{Ran, command, feed, finish, spawn};

/// Takes the options of qrsh; its -nostdin has no value.
const QRSH: &str = r#"#!/bin/sh
while :; do
    case $1 in
    -inherit) shift ;;
    -nostdin) exec </dev/null; shift ;;
    -*) echo "qrsh: unknown option $1" >&2; exit 1 ;;
    *) break ;;
    esac
done
shift
exec sh -c "$*"
"#;

/// Refuses variables that srun takes as options of the step, and sets those of the node.
const SRUN: &str = r#"#!/bin/sh
options='CPUS_PER_TASK|GPUS_PER_TASK|NTASKS|NTASKS_PER_NODE|MEM_PER_CPU|LABELIO|STDOUTMODE'
env | grep -E "^(SLURM|SRUN)_($options)=" >&2 && exit 1
for word; do
    case $word in --nodelist=*) node=${word#*=} ;; esac
done
CUDA_VISIBLE_DEVICES=gpus-of-$node SLURMD_NODENAME=$node exec sh -c "$word"
"#;

/// Writes a program into a folder of its own. Returns the folder.
fn stand_in(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stand-in-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Returns a command for `mpiexec` that finds programs of a folder first.
fn with_path(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.display()));
    command
}

fn sorted(ran: &Ran) -> Vec<&str> {
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn qrsh_starts_daemons_with_standard_input() {
    let folder = stand_in("qrsh", QRSH);
    let words = ["--launcher", "sge", "--hosts", "a,b", "sh", "-c", "echo $VERBENA_RANK $(cat)"];
    let mut child = spawn(with_path(&folder, &words).stdin(Stdio::piped()));
    feed(&mut child, b"text\n");
    let ran = finish(child);
    assert_eq!((ran.code, sorted(&ran), &*ran.err), (0, vec!["0 text", "1"], ""), "{ran:?}");
}

#[test]
fn srun_starts_daemons_without_the_options_of_the_job_and_nodes_keep_their_variables() {
    let folder = stand_in("srun", SRUN);
    let line = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK $SLURM_LABELIO";
    let mut command = with_path(&folder, &["sh", "-c", line]);
    command.envs([
        ("SLURM_JOB_ID", "77"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_NTASKS_PER_NODE", "1"),
        ("SLURM_CPUS_PER_TASK", "3"),
        ("SRUN_CPUS_PER_TASK", "3"),
        ("SLURM_GPUS_PER_TASK", "1"),
        ("SLURM_MEM_PER_CPU", "100"),
        ("SLURM_LABELIO", "1"),
        ("SLURM_STDOUTMODE", "file"),
        ("SLURMD_NODENAME", "n1"),
        ("CUDA_VISIBLE_DEVICES", "those of mpiexec"),
    ]);
    let ran = finish(spawn(&mut command));
    let expected = vec!["n1 gpus-of-n1 3 1", "n2 gpus-of-n2 3 1"];
    assert_eq!((ran.code, sorted(&ran), &*ran.err), (0, expected, ""), "{ran:?}");
    // A variable of the command line is that of all ranks.
    let words = ["-x", "CUDA_VISIBLE_DEVICES=5", "--launcher", "slurm", "--hosts", "n3"];
    let words = [&words[..], &["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]].concat();
    let ran = finish(spawn(&mut with_path(&folder, &words)));
    assert_eq!((ran.code, &*ran.out), (0, "5\n"), "{ran:?}");
}
