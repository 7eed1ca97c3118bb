//! Input and output: whole lines, tags, back-pressure, standard input.

mod run;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use run::{command, feed, finish, mpiexec, script, spawn};

#[test]
fn lines_of_different_ranks_never_mix() {
    let write = "i=0; while [ $i -lt 300 ]; do printf 'rank %s ' $VERBENA_RANK; printf 'says '; \
                 echo $i; i=$((i+1)); done";
    let ran = script("-n 4", write);
    assert_eq!(ran.out.lines().count(), 1200);
    for line in ran.out.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words.len() == 4 && words[0] == "rank" && words[2] == "says", "{line}");
    }
}

#[test]
fn tags_name_the_rank_and_streams_are_separate() {
    let ran = script("-l -n 2", "echo out; echo err >&2; printf end");
    let mut out: Vec<&str> = ran.out.lines().collect();
    out.sort_unstable();
    assert_eq!(out, ["[0] end", "[0] out", "[1] end", "[1] out"]);
    let mut err: Vec<&str> = ran.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["[0] err", "[1] err"]);
    assert_eq!(script("-n 1", "printf end").out, "end");
}

#[test]
fn a_folder_gets_a_file_for_each_stream_of_a_rank() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("output/of-ranks");
    let _ = std::fs::remove_dir_all(&path);
    let options = format!("--output {} --tag-output -n 2", path.display());
    let ran = script(&options, "echo out $VERBENA_RANK; echo err >&2; printf end");
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(read("rank.0.out"), "[0] out 0\n[0] end");
    assert_eq!(
        (read("rank.1.out"), read("rank.1.err")),
        ("[1] out 1\n[1] end".into(), "[1] err\n".into())
    );
    let refused = script("--output /proc/none -n 1", "echo out");
    assert!(
        refused.err.contains("--output /proc/none: cannot create the folder"),
        "{}",
        refused.err
    );
    let full = script("--output /dev/null/x -n 1", "echo out");
    assert_eq!(full.code, 2);
}

#[test]
fn a_folder_gets_all_files_under_a_low_limit_of_open_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("output-of-many");
    let _ = std::fs::remove_dir_all(&folder);
    // Three descriptors for each rank are few enough, five are not.
    let mut sh = Command::new("sh");
    let mpiexec = env!("CARGO_BIN_EXE_mpiexec");
    sh.args(["-c", "ulimit -Sn 100; exec \"$@\"", "sh", mpiexec, "-n", "24", "--output"]);
    let ran = finish(spawn(sh.arg(&folder).args(["sh", "-c", "ulimit -Sn"])));
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{ran:?}");
    for rank in 0..24 {
        let text = std::fs::read_to_string(folder.join(format!("rank.{rank}.out"))).unwrap();
        assert_eq!(text, "100\n", "{rank}");
    }
}

#[test]
fn output_that_cannot_be_written_ends_the_job_with_the_reason() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = command(&["-n", "2", "sh", "-c", "echo line; sleep 30"]);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    let why = "mpiexec: cannot write the ranks' output: No space left on device (os error 28); \
               ending the job\n";
    assert_eq!((ended.status.code(), err.as_str()), (Some(1), why));
}

#[test]
fn lines_can_carry_the_time() {
    let ran = script("--timestamp-output -l -n 1", "echo out");
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert_eq!(words[1..], ["[0]", "out"]);
    let time = words[0].as_bytes();
    assert!(time.len() == 24 && time[10] == b'T' && time[23] == b'Z', "{}", words[0]);
}

#[test]
fn nothing_is_lost_when_the_reader_is_slow() {
    let mut child = spawn(&mut command(&["-n", "4", "sh", "-c", "seq 1 100000"]));
    std::thread::sleep(Duration::from_millis(300));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success());
    let sum: u64 = out.lines().map(|line| line.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 4 * 100_000 * 100_001 / 2);
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_a_timeout() {
    let mut child = spawn(&mut command(&["--timeout", "0.5", "-n", "2", "yes"]));
    let mut err = child.stderr.take().unwrap();
    let mut first = [0; 10];
    err.read_exact(&mut first).unwrap();
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
}

#[test]
fn a_long_line_comes_through() {
    let ran = script("-n 1", "head -c 5000000 /dev/zero | tr '\\0' x");
    assert_eq!(ran.out.len(), 5_000_000);
}

#[test]
fn a_reader_that_goes_away_ends_the_job_quietly() {
    let mut child = spawn(&mut command(&["-n", "3", "yes"]));
    let mut some = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(141), ""));
}

fn with_input(arguments: &[&str], input: &[u8]) -> run::Ran {
    let mut child = spawn(command(arguments).stdin(Stdio::piped()));
    feed(&mut child, input);
    finish(child)
}

#[test]
fn standard_input_goes_to_rank_0_by_default() {
    let show = "echo $VERBENA_RANK:$(cat)";
    let lines = |arguments: &[&str]| {
        let mut lines: Vec<String> =
            with_input(arguments, b"text\n").out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&["-n", "3", "sh", "-c", show]), ["0:text", "1:", "2:"]);
    assert_eq!(lines(&["-n", "3", "--stdin", "1", "sh", "-c", show]), ["0:", "1:text", "2:"]);
    assert_eq!(
        lines(&["-n", "3", "--stdin", "all", "sh", "-c", show]),
        ["0:text", "1:text", "2:text"]
    );
    assert_eq!(lines(&["-n", "3", "--stdin=none", "sh", "-c", show]), ["0:", "1:", "2:"]);
}

#[test]
fn much_input_reaches_all_ranks_that_want_it() {
    let input: Vec<u8> = (0..200_000u32).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    let ran = with_input(&["-n", "2", "--stdin", "all", "sh", "-c", "wc -c; sleep 0.1"], &input);
    assert_eq!(ran.out, format!("{}\n", input.len()).repeat(2));
    let one = with_input(
        &["-n", "2", "--stdin", "all", "sh", "-c", "test $VERBENA_RANK = 0 || wc -c"],
        &input,
    );
    assert_eq!(one.out, format!("{}\n", input.len()));
}

#[test]
fn the_last_output_of_a_rank_stands_before_our_report() {
    let ran = mpiexec("-n 2 RANK init 0:print=last 0:kill=9 sleep=30");
    assert_eq!((ran.out.as_str(), ran.code), ("last\n", 137), "{ran:?}");
    let both = script("-n 1", "exec 2>&1; echo words; exit 3");
    assert_eq!(both.out, "words\n");
}
