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
