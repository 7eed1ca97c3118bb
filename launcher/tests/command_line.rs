//! The command line of `mpiexec`: options, environment, wrong usage.

mod run;

use std::path::Path;

use run::{command, finish, mpiexec, script, spawn};

/// Expects one line, this exit code, and nothing on standard output.
fn refused(line: &str, code: i32, says: &str) {
    let ran = mpiexec(line);
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{line}: {ran:?}");
    assert!(ran.err.starts_with("mpiexec: ") && ran.err.contains(says), "{line}: {ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{line}: {ran:?}");
}

#[test]
fn wrong_use_is_one_line() {
    refused("-n 2 ./nope", 127, "cannot run ./nope: no such file");
    refused("-n 2 no-such-program-anywhere", 127, "no such program in PATH");
    refused("-n 2 /etc/passwd", 126, "chmod +x");
    refused("-n 2 /tmp", 126, "it is a directory");
    refused("-n 2 -wdir /nowhere true", 126, "cannot enter /nowhere");
    refused("-n 0 true", 2, "from 1 to 65536");
    refused("-n -3 true", 2, "from 1 to 65536");
    refused("-n 99999999999999 true", 2, "from 1 to 65536");
    refused("-n", 2, "needs N");
    refused("-n 2", 2, "no program given");
    refused("--tiemout 2 true", 2, "did you mean --timeout?");
    refused("-ppn x true", 2, "from 1 to 65536");
}

#[test]
fn a_command_whose_output_is_lost_ends_in_order() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    let closed = || std::io::pipe().unwrap().1.into();
    let [mpiexec, verbena] = [env!("CARGO_BIN_EXE_mpiexec"), env!("CARGO_BIN_EXE_verbena")];
    let simulate = ["simulate", "barrier", "--hosts", "2", "--ranks-per-host", "2"];
    for (program, words) in
        [(mpiexec, &["--help"][..]), (verbena, &["config"]), (verbena, &simulate)]
    {
        let run = |stdout: std::process::Stdio| {
            let mut command = std::process::Command::new(program);
            let ran = command.args(words).stdout(stdout).output().unwrap();
            (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
        };
        let (code, err) = run(full());
        assert!(code == Some(1) && err.lines().count() == 1, "{words:?}: {code:?} {err}");
        assert!(err.contains("cannot write to standard output: No space left"), "{err}");
        // As programs that SIGPIPE kills, whose shell gives this code.
        assert_eq!(run(closed()), (Some(141), String::new()), "{words:?}");
    }
}

#[test]
fn top_refuses_intervals_out_of_range() {
    for interval in ["0", "nan", "1e19", "1e300"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_verbena"));
        let ran = command.args(["top", "--once", "--interval", interval]).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(1) && err.ends_with("must be 0.02 to 86400\n"), "{err}");
    }
}

#[test]
fn an_mpiexec_in_a_rank_knows_the_variables_of_its_job() {
    let ran = script("-n 2", &format!("{} -n 1 echo inside", env!("CARGO_BIN_EXE_mpiexec")));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "inside\ninside\n", ""));
}

#[test]
fn a_script_whose_interpreter_is_missing_is_distinguished() {
    let folder = std::env::temp_dir().join(format!("verbena-launcher-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = write("missing.py", "#!/nowhere/python\n");
    refused(&format!("-n 2 {missing}"), 127, "interpreter");
    let plain = write("plain", "echo rank $VERBENA_RANK $1\n");
    assert_eq!(mpiexec(&format!("-n 1 {plain} x")).out, "rank 0 x\n");
    let inside = mpiexec(&format!("-n 1 -wdir {} ./plain y", folder.display()));
    assert_eq!(inside.out, "rank 0 y\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn ranks_that_all_ran_alone_have_an_explanation() {
    // Like a program that is linked to MPICH.
    let other = std::env::temp_dir().join(format!("verbena-other-{}", std::process::id()));
    let mut bytes = std::fs::read("/bin/true").unwrap();
    bytes.extend(b"\0libmpi.so.12\0");
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let why = "is linked to another MPI library (libmpi.so.12), so each rank ran alone; this \
               mpiexec starts programs that use libmpi_abi.so.1: compile with";
    for (options, is_told) in [("-n 2", true), ("--hosts localhost:2", true), ("-n 1", false)] {
        let ran = mpiexec(&format!("{options} {}", other.display()));
        let seen = (ran.code, ran.err.contains(why), ran.err.is_empty());
        assert_eq!(seen, (i32::from(is_told), is_told, !is_told), "{ran:?}");
    }
    std::fs::remove_file(&other).unwrap();
    assert_eq!(mpiexec("-n 2 true").err, "");
}

#[test]
fn ranks_that_load_another_mpi_have_an_explanation() {
    let folder = std::env::temp_dir().join(format!("verbena-loads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    loads_another_mpi(&folder.join("libmpi.so.40"), "compile with Verbena's mpicc");
    // The standard ABI: the program need not be compiled again.
    loads_another_mpi(&folder.join("libmpi_abi.so.1"), "mpiexec -x LD_PRELOAD=");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn loads_another_mpi(library: &Path, remedy: &str) {
    let source = library.with_file_name("empty.c");
    std::fs::write(&source, "int verbena_test_empty;\n").unwrap();
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([library, &source])
        .status();
    assert!(compiler.unwrap().success());
    let line = format!("LD_PRELOAD={} sleep 0.5; true", library.display());
    for options in [&["-n", "2"][..], &["--hosts", "localhost:2"]] {
        let ran = finish(spawn(&mut command(&[options, &["sh", "-c", &line]].concat())));
        let why = format!("sh has loaded another MPI library ({})", library.display());
        assert!(ran.code == 1 && ran.err.contains(&why), "{ran:?}");
        assert!(ran.err.contains(remedy), "{ran:?}");
    }
    let ran = finish(spawn(&mut command(&["-n", "1", "sh", "-c", &line])));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "one rank is not wrong");
}

#[test]
fn a_program_that_does_not_find_its_library_has_an_explanation() {
    let program = std::env::temp_dir().join(format!("verbena-needs-{}", std::process::id()));
    let mut bytes = std::fs::read("/bin/sh").unwrap();
    bytes.extend(b"\0libmpi_abi.so.1\0");
    std::fs::write(&program, bytes).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let words = ["-n", "1", "true", ":", "-n", "2", program.to_str().unwrap(), "-c", "exit 127"];
    let ran = finish(spawn(&mut command(&words)));
    let why = format!("{} needs libmpi_abi.so.1: if the loader", program.display());
    assert!(ran.code == 127 && ran.err.contains(&why), "{ran:?}");
    assert!(ran.err.contains("LD_LIBRARY_PATH="), "{ran:?}");
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = mpiexec("--help");
    assert!(help.code == 0 && help.out.contains("mpiexec -n 4 ./a.out") && help.err.is_empty());
    assert!(mpiexec("--version").out.starts_with("mpiexec (Verbena) "));
}

#[test]
fn variables_reach_the_ranks_they_are_for() {
    let mut arguments =
        "-genv A all -x B=two -n 1 -env C first sh -c".split(' ').collect::<Vec<_>>();
    let show = "echo $VERBENA_RANK/$VERBENA_SIZE $A $B $C";
    arguments.extend([show, ":", "-n", "1", "sh", "-c", show]);
    let ran = finish(spawn(&mut command(&arguments)));
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/2 all two first", "1/2 all two"]);
    let ran = finish(spawn(
        command(&["-x", "A=new", "sh", "-c", "env | grep -c ^A=; echo $A"]).env("A", "old"),
    ));
    assert_eq!(ran.out, "1\nnew\n");
}

#[test]
fn knobs_are_checked_once_and_passed_on() {
    let set = [
        "--set",
        "coll.window=4",
        "--set",
        "shm.eager_max=4K",
        "sh",
        "-c",
        "echo \"$VERBENA_SET\"",
    ];
    let ran = finish(spawn(command(&set).env("VERBENA_SET", "coll.window=3")));
    assert_eq!(ran.out, "coll.window=3\ncoll.window=4\nshm.eager_max=4K\n", "{ran:?}");
    refused("--set coll.windw=4 true", 2, "did you mean \"coll.window\"?");
    refused("--set coll.window=much true", 2, "coll.window");
    refused("--config /nowhere.toml true", 2, "/nowhere.toml");
    // Also in variables for the ranks: each rank would report it.
    for option in [
        "-x VERBENA_COLL_WINDOW=much",
        "-genv VERBENA_COLL_WINDOW much",
        "-env VERBENA_COLL_WINDOW much",
    ] {
        refused(&format!("{option} -n 4 true"), 2, "VERBENA_COLL_WINDOW: coll.window");
    }
    // An unknown variable is named once and ignored.
    for option in ["-x VERBENA_COLL_WINDWO=3", "-env VERBENA_COLL_WINDWO 3"] {
        let ran = mpiexec(&format!("-n 1 true : {option} -n 2 true"));
        assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{ran:?}");
        assert!(ran.err.contains("did you mean \"VERBENA_COLL_WINDOW\"?"), "{ran:?}");
    }
    let mended = ["-x", "VERBENA_COLL_WINDOW=4", "true"];
    assert_eq!(finish(spawn(command(&mended).env("VERBENA_COLL_WINDOW", "much"))).code, 0);
    let verbena = |arguments: &[&str]| {
        finish(spawn(std::process::Command::new(env!("CARGO_BIN_EXE_verbena")).args(arguments)))
    };
    let table = verbena(&["config", "--set", "coll.window=4"]).out;
    assert!(
        table.lines().any(|line| line.starts_with("coll.window ") && line.contains("--set")),
        "{table}"
    );
    assert_eq!(verbena(&["config", "--set", "x=1"]).code, 1);
    assert!(verbena(&["version"]).out.starts_with("Verbena "));
    assert!(verbena(&["coverage"]).out.lines().last().unwrap().starts_with("all "));
    assert_eq!(verbena(&["coverage", "--missing", "info"]).code, 0);
    assert_eq!(verbena(&["coverage", "nothing"]).code, 1);
    assert_eq!(verbena(&["coverage", "mpi_send"]).out, "yes MPI_Send (Point-to-point)\n");
    let rma = verbena(&["coverage", "rma"]).out;
    assert!(rma.lines().nth(1).is_some_and(|line| line.starts_with("One-sided (RMA) ")), "{rma}");
    assert!(rma.contains("MPI_Win_create\n") && !rma.contains("MPI_Send\n"), "{rma}");
    assert!(verbena(&["topology"]).out.contains("hardware thread"));
}

#[test]
fn what_other_launchers_need_is_accepted() {
    assert_eq!(
        script("--oversubscribe --allow-run-as-root -envall -np 3", "echo x").out,
        "x\nx\nx\n"
    );
}

#[test]
fn a_name_without_a_path_is_found_and_the_rest_is_the_programs() {
    assert_eq!(mpiexec("-n 1 echo -n 5 --help").out, "5 --help");
}

#[test]
fn more_ranks_than_a_small_file_limit_allows() {
    let limited = |soft: u32, hard: u32, ranks: u32| {
        let line = format!(
            "ulimit -Sn {soft}; ulimit -Hn {hard}; exec {} -n {ranks} sh -c 'ulimit -Sn'",
            env!("CARGO_BIN_EXE_mpiexec")
        );
        finish(spawn(std::process::Command::new("bash").args(["-c", &line])))
    };
    let small = limited(64, 64, 8);
    assert_eq!((small.code, small.out.as_str()), (0, "64\n".repeat(8).as_str()), "{small:?}");
    let raised = limited(64, 1024, 100);
    assert_eq!((raised.code, raised.out.as_str()), (0, "64\n".repeat(100).as_str()), "{raised:?}");
    let refused = limited(64, 64, 100);
    assert!(
        refused.code == 1 && refused.err.contains("324 open files and the limit is 64"),
        "{refused:?}"
    );
    assert_eq!(refused.err.lines().count(), 1);
}

#[test]
fn nothing_is_needed_of_the_surroundings() {
    let mut bare = command(&["-n", "2", "/bin/sh", "-c", "echo $HOME$VERBENA_SIZE"]);
    let ran = finish(spawn(bare.env_clear().env("TMPDIR", "/nowhere").current_dir("/")));
    assert_eq!((ran.code, ran.out.as_str()), (0, "2\n2\n"));
}

#[test]
fn mpiexec_does_not_load_hwloc() {
    let map = script("-n 1", "grep -c hwloc /proc/$PPID/maps");
    assert_eq!(map.out, "0\n");
}

#[test]
fn ranks_are_bound_only_on_request() {
    let own = "grep Cpus_allowed_list /proc/self/status | cut -f2";
    let free = finish(spawn(std::process::Command::new("sh").args(["-c", own]))).out;
    assert_eq!(script("-n 2", own).out, free.repeat(2));
    let bound = script("-n 2 --bind-to core --report-bindings", own);
    assert_eq!(bound.code, 0, "{bound:?}");
    assert_eq!(
        bound.err.lines().filter(|line| line.contains("is bound to package")).count(),
        2,
        "{bound:?}"
    );
    let first = bound.out.lines().next().unwrap();
    assert!(free.trim() == "0" || first != free.trim(), "{bound:?}");
    let unbound = script("-n 1 --report-bindings", "true");
    assert!(unbound.err.contains("rank 0 is not bound"), "{unbound:?}");
    assert_eq!(script("-n 9 -bind-to hwthread", "true").code, 0);
}

#[test]
fn the_doctor_reports_what_there_is() {
    let ran =
        std::process::Command::new(env!("CARGO_BIN_EXE_verbena")).arg("doctor").output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    for check in ["processors", "shared memory", "single copy", "open files", "RDMA port"] {
        assert_eq!(out.lines().filter(|line| line.contains(check)).count(), 1, "{check}: {out}");
    }
    assert!(out.contains("yes shared memory  64 MiB"), "{out}");
    // A missing device is an error if RDMA is required.
    let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_verbena"));
    let ran = doctor
        .args(["doctor", "--rdma"])
        .env("VERBENA_VERBS_DEVICES", "no_such_0")
        .output()
        .unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert!(!ran.status.success() && out.contains("BAD RDMA port"), "{out}");
}
