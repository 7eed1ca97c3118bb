//! The workspace keeps its shape: dependencies between crates point down, `unsafe` occurs only in
//! the files that are listed, files are short, and the functions that the documents name exist.

#[path = "architecture/imports.rs"]
mod imports;
#[path = "architecture/prose.rs"]
mod prose;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use imports::Graph;

/// The crates from the top down. A crate may depend only on crates of lower lines.
/// Crates of one line do not see each other.
const CRATES: &[&[&str]] = &[
    &["tests", "xtask"],
    &["mpi-abi", "launcher", "fortran", "foreign-abi", "mpi"],
    &["runtime", "simulator", "mpi-derive", "abi-client"],
    &["collectives", "io"],
    &["pt2pt", "rma", "verbs-device"],
    &["objects", "shm-transport", "tcp-transport", "verbs-transport", "bootstrap"],
    &["config", "fabric", "progress"],
];

/// Files that may contain `unsafe`, by folder or by name. The C interface and its callers are
/// unsafe throughout; the derive macro writes unsafe code.
const UNSAFE: &[&str] = &[
    "abi-client/src/jump.rs",
    "abi-client/src/probe.rs",
    "bootstrap/src/status_page.rs",
    "bootstrap/src/inherited_fd.rs",
    "bootstrap/src/leave.rs",
    "bootstrap/src/process_manager/pmix.rs",
    "fabric/src/copy.rs",
    "fabric/src/user_buf.rs",
    "fabric/src/valgrind.rs",
    "foreign-abi/src/",
    "fortran/src/",
    "io/src/disk.rs",
    "io/src/shared_word.rs",
    "io/src/staging.rs",
    "io/src/uring/kernel.rs",
    "io/src/vectored.rs",
    "io/src/workers.rs",
    "launcher/src/detached.rs",
    "launcher/src/signals.rs",
    "launcher/src/spawn.rs",
    "mpi-abi/src/",
    "mpi-derive/src/implementation.rs",
    "mpi/src/",
    "objects/src/buffer.rs",
    "objects/src/datatype/copy.rs",
    "objects/src/op.rs",
    "objects/src/op/kernels.rs",
    "objects/src/op/packed.rs",
    "objects/src/op/x87.rs",
    "objects/src/scratch.rs",
    "progress/src/affinity.rs",
    "progress/src/fake.rs",
    "progress/src/fd_waker.rs",
    "progress/src/futex.rs",
    "progress/src/global_lock.rs",
    "progress/src/leader_followers.rs",
    "progress/src/park.rs",
    "progress/src/signals.rs",
    "progress/src/thread.rs",
    "progress/src/waiter.rs",
    "rma/src/attached.rs",
    "rma/src/confirmation.rs",
    "rma/src/control.rs",
    "rma/src/device_atomic.rs",
    "rma/src/mailbox.rs",
    "rma/src/atomic.rs",
    "rma/src/steps.rs",
    "runtime/src/abort.rs",
    "runtime/src/announcement.rs",
    "runtime/src/bsend.rs",
    "runtime/src/collective.rs",
    "runtime/src/file_exchange.rs",
    "runtime/src/file_words.rs",
    "runtime/src/generalized.rs",
    "runtime/src/guarded.rs",
    "runtime/src/control_channel.rs",
    "runtime/src/launcher_program.rs",
    "runtime/src/status_page.rs",
    "runtime/src/topology.rs",
    "runtime/src/window/create.rs",
    "shm-transport/src/body.rs",
    "shm-transport/src/coll_segment.rs",
    "shm-transport/src/bounce.rs",
    "shm-transport/src/ring/consumer.rs",
    "shm-transport/src/ring/memory.rs",
    "shm-transport/src/ring/producer.rs",
    "shm-transport/src/rma.rs",
    "shm-transport/src/meet.rs",
    "shm-transport/src/memory_file.rs",
    "shm-transport/src/segment.rs",
    "shm-transport/src/window.rs",
    "shm-transport/src/recycle.rs",
    "shm-transport/src/single_copy/",
    "shm-transport/src/event_count.rs",
    "tcp-transport/src/ifaddrs.rs",
    "tcp-transport/src/sys.rs",
    "tests/src/bytes.rs",
    "tests/src/device.rs",
    "tests/src/idle.rs",
    "verbs-device/src/calls/",
    "verbs-device/src/forks.rs",
    "verbs-device/src/memory.rs",
    "verbs-device/src/objects.rs",
    "verbs-transport/src/endpoint/send_queue.rs",
    "verbs-transport/src/ibv/",
    "verbs-transport/src/memory.rs",
    "verbs-transport/src/own_atomics.rs",
    "verbs-transport/src/uffd.rs",
];

/// Crates whose files must not import each other in circles.
const ACYCLIC: &[&str] = &[
    "bootstrap",
    "collectives",
    "config",
    "fabric",
    "io",
    "launcher",
    "mpi",
    "mpi-abi",
    "mpi-derive",
    "objects",
    "progress",
    "pt2pt",
    "rma",
    "runtime",
    "shm-transport",
    "simulator",
    "tcp-transport",
    "verbs-device",
    "verbs-transport",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .to_owned()
}

/// All Rust files of a crate below `folder` (`src` or everything), relative to the root.
fn sources(member: &str, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(member).join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn crates() -> impl Iterator<Item = &'static str> {
    CRATES.iter().flat_map(|level| level.iter().copied())
}

fn level(member: &str) -> usize {
    CRATES
        .iter()
        .position(|level| level.contains(&member))
        .unwrap_or_else(|| panic!("{member} is not in the list of crates"))
}

#[test]
fn dependencies_point_down() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = crate_of(package["name"].as_str().expect("a name")).expect("a package of ours");
        seen.insert(name.to_owned());
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let Some(other) = dependency["name"].as_str().and_then(crate_of) else { continue };
            assert!(
                level(name) < level(other),
                "{name} may not depend on {other}: it is not below"
            );
        }
    }
    assert_eq!(
        seen,
        crates().map(str::to_owned).collect(),
        "the crates of the list and of the workspace differ"
    );
}

fn crate_of(package: &str) -> Option<&str> {
    package.strip_prefix("verbena-")
}

#[test]
fn unsafe_code_is_only_in_listed_files() {
    let mut unused: BTreeSet<&str> = UNSAFE.iter().copied().collect();
    for path in crates().flat_map(|member| sources(member, "src")) {
        let name = path.to_string_lossy().into_owned();
        // Tests next to the code may make their own pointers.
        if name.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).expect("a source is text");
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
        let says = code.into_iter().any(|line| {
            ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"]
                .iter()
                .any(|word| line.contains(word))
                && !line.contains('"')
                && !line.contains("fn(")
        });
        let listed = UNSAFE.iter().find(|entry| name.starts_with(**entry));
        if let Some(entry) = listed {
            unused.remove(entry);
        }
        assert!(
            !says || listed.is_some(),
            "{name} has unsafe code but is not in the list of this test"
        );
    }
    assert!(unused.is_empty(), "listed but not there: {unused:?}");
}

#[test]
fn every_crate_root_rules_out_unsafe_code_or_lists_where() {
    for member in crates().filter(|member| !["mpi-abi", "fortran", "foreign-abi"].contains(member))
    {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| root().join(member).join(file));
        let root = roots
            .iter()
            .find(|file| file.exists())
            .unwrap_or_else(|| panic!("{member} has no root"));
        let text = fs::read_to_string(root).expect("a source is text");
        let ruled =
            text.contains("#![forbid(unsafe_code)]") || text.contains("#![deny(unsafe_code)]");
        assert!(ruled, "{} says nothing about unsafe code", root.display());
    }
}

#[test]
fn what_the_architecture_names_exists() {
    let text =
        fs::read_to_string(root().join("docs/architecture.md")).expect("the document exists");
    let mut named = 0;
    for word in text.split('`') {
        let Some((file, function)) = word.split_once(".rs::") else { continue };
        named += 1;
        let path = root().join(format!("{file}.rs"));
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{word}: {error}"));
        let defined =
            ["(", "<"].iter().any(|open| source.contains(&format!("fn {function}{open}")));
        assert!(defined, "docs/architecture.md names {word}, which does not exist");
    }
    assert!(named > 15, "the walk of a message is gone: only {named} lines name a function");
}

#[test]
fn files_are_short() {
    const MAX_LINES: usize = 800;
    for path in crates().flat_map(|member| sources(member, ".")) {
        let name = path.to_string_lossy().into_owned();
        if name.contains("/generated/") || name.ends_with("src/calls.rs") {
            continue;
        }
        let lines =
            fs::read_to_string(root().join(&path)).expect("a source is text").lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines; the wall is {MAX_LINES}");
    }
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut complaints = Vec::new();
    for member in ACYCLIC {
        let components = import_graph(member).components();
        complaints.extend(components.iter().map(|component| format!("{member}: {component}")));
    }
    assert!(complaints.is_empty(), "circles of imports:\n{}", complaints.join("\n"));
}

fn import_graph(member: &str) -> Graph {
    let root = root();
    let mut roots = vec![PathBuf::from(member).join("src/lib.rs")];
    for entry in fs::read_dir(root.join(member).join("src/bin")).into_iter().flatten().flatten() {
        let path = entry.path();
        let file = if path.is_dir() { path.join("main.rs") } else { path };
        roots.push(file.strip_prefix(&root).expect("below the root").to_owned());
    }
    let roots: Vec<&Path> =
        roots.iter().map(PathBuf::as_path).filter(|file| root.join(file).exists()).collect();
    Graph::of(&roots, &|path| fs::read_to_string(root.join(path)).ok())
}

#[test]
fn prose_ends_at_100_columns() {
    let code = crates().flat_map(|member| sources(member, "."));
    let texts = ["", "docs", "docs/contributing", "cluster-configs", ".github"]
        .into_iter()
        .flat_map(markdown);
    let mut complaints = Vec::new();
    for path in code.chain(texts) {
        let text = fs::read_to_string(root().join(&path)).expect("a source is text");
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let lines =
            if is_code { prose::long_comments(&text) } else { prose::long_paragraphs(&text) };
        complaints.extend(lines.iter().map(|line| format!("{}:{line}", path.display())));
    }
    let columns = prose::COLUMNS;
    assert!(complaints.is_empty(), "beyond column {columns}:\n{}", complaints.join("\n"));
}

/// The Markdown files of a folder, relative to the root.
fn markdown(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| Path::new(folder).join(entry.file_name()));
    names.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}
