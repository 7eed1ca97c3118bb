//! The library and its header, as C and C++ programs meet them: compiled by the
//! system's compiler, linked, preloaded and loaded late.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// A folder for one test, with the library under the names that it is installed as.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(test: &str) -> Bench {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libmpi_abi.so", "libmpi_abi.so.1"] {
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
        Bench { folder }
    }

    /// The compiler with our header, in strict mode.
    fn compiler(&self, name: &str, standard: &str) -> Command {
        let mut command = Command::new(name);
        command.current_dir(&self.folder).args(STRICT).arg(format!("-std={standard}"));
        command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        command
    }

    /// Compiles and links sources into `program`.
    fn build(&self, program: &str, sources: &[&str]) -> PathBuf {
        let mut command = self.compiler("cc", "c11");
        command.args(sources.iter().map(|name| source(name))).args([
            "-o",
            program,
            "-L.",
            "-lmpi_abi",
            "-ldl",
        ]);
        check(command.arg(format!("-Wl,-rpath,{}", self.folder.display())));
        self.folder.join(program)
    }

    fn run(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.current_dir(&self.folder);
        command
    }
}

/// Returns the library that TEST_MPI_ABI_LIBRARY names, or builds it with this test's profile:
/// cargo builds no C library for a test.
fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(library) = std::env::var_os("TEST_MPI_ABI_LIBRARY") {
            return library.into();
        }
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).expect("target/debug/deps/test");
        let profile = built.file_name().unwrap().to_str().unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--profile"]);
        cargo.arg(if profile == "debug" { "dev" } else { profile });
        check(cargo.arg("--target-dir").arg(built.parent().unwrap()));
        built.join("libmpi_abi.so")
    });
    &LIBRARY
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Runs a command that must succeed and gives what it printed.
fn check(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout
}

/// Names of the table's functions.
fn functions() -> impl Iterator<Item = &'static str> {
    include_str!("../abi/functions.csv").lines().skip(1).map(|line| line.split(',').next().unwrap())
}

#[test]
fn the_header_is_plain_c_and_cxx() {
    let bench = Bench::new("header");
    let twice = "#include <mpi.h>\n#include <mpi.h>\nint main(void) { return MPI_SUCCESS; }\n";
    for (compiler, extension, standards) in
        [("cc", "c", ["c99", "c11", "gnu17"]), ("c++", "cc", ["c++11", "c++17", "gnu++20"])]
    {
        let file = format!("twice.{extension}");
        std::fs::write(bench.folder.join(&file), twice).unwrap();
        for standard in standards {
            check(bench.compiler(compiler, standard).args(["-fsyntax-only", &file]));
        }
    }
}

#[test]
fn constants_layouts_and_functions_are_those_of_the_tables() {
    let bench = Bench::new("tables");
    for (compiler, language, standard) in [("cc", "c", "c99"), ("c++", "c++", "c++11")] {
        let mut command = bench.compiler(compiler, standard);
        command.args(["-x", language]).arg(source("abi.c")).args([
            "-x",
            "none",
            "-o",
            language,
            "-L.",
            "-lmpi_abi",
        ]);
        check(command.arg(format!("-Wl,-rpath,{}", bench.folder.display())));
        let printed = check(&mut bench.run(language));
        assert_eq!(printed.trim(), format!("{} functions as the tables say", functions().count()));
    }
}

#[test]
fn both_names_of_every_function_are_exported_and_nothing_else() {
    let listed =
        check(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library()));
    let exported: BTreeSet<&str> =
        listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let expected: BTreeSet<String> =
        functions().flat_map(|name| [name.to_owned(), format!("P{name}")]).collect();
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(exported, expected);
}

#[test]
fn it_has_the_name_of_the_standard_and_needs_the_c_library_alone() {
    let entries = check(Command::new("readelf").args(["-dW"]).arg(library()));
    let named = |kind: &str| -> Vec<String> {
        let lines = entries.lines().filter(|line| line.contains(kind));
        lines
            .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
            .collect()
    };
    assert_eq!(named("(SONAME)"), ["libmpi_abi.so.1"]);
    for needed in named("(NEEDED)") {
        let system = ["libc.so", "libgcc_s.so", "libm.so", "ld-linux"];
        assert!(system.iter().any(|name| needed.starts_with(name)), "it needs {needed}");
    }
}

#[test]
fn it_loads_late_and_locally() {
    let bench = Bench::new("loaded");
    bench.build("loaded", &["programs/loaded.c"]);
    let printed = check(bench.run("loaded").arg(bench.folder.join("libmpi_abi.so.1")));
    assert!(printed.starts_with("Verbena "), "{printed}");
}

#[test]
fn versions_clocks_addresses_and_handles_as_integers() {
    let bench = Bench::new("inquiry");
    bench.build("inquiry", &["programs/inquiry.c"]);
    check(&mut bench.run("inquiry"));
}

#[test]
fn a_tool_takes_over_by_link_order() {
    let bench = Bench::new("link-order");
    bench.build("profiled", &["programs/sends.c", "programs/tool.c"]);
    assert_eq!(check(&mut bench.run("profiled")), "3 sends\ndone\n");
}

#[test]
fn a_tool_takes_over_by_preloading() {
    let bench = Bench::new("preload");
    bench.build("plain", &["programs/sends.c"]);
    let mut command = bench.compiler("cc", "c11");
    check(command.args(["-shared", "-fPIC", "-o", "tool.so"]).arg(source("programs/tool.c")));
    assert_eq!(check(&mut bench.run("plain")), "done\n");
    assert_eq!(
        check(bench.run("plain").env("LD_PRELOAD", bench.folder.join("tool.so"))),
        "3 sends\ndone\n"
    );
}
