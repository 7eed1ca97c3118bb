//! Ranks that a process manager has started: a stand-in speaks PMI-1 with them.

mod run;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use run::{Ran, finish, rank, spawn};
use rustix::io::{FdFlags, fcntl_setfd};

/// The job of a stand-in: its store, and its fence.
struct Manager {
    values: Mutex<HashMap<String, String>>,
    fence: Barrier,
    limit: usize,
    /// The last command of each rank.
    last: Mutex<Vec<String>>,
}

/// Starts two ranks with these steps under a manager whose values have at most `limit` bytes.
fn run_two(steps: &[&str], limit: usize) -> (Vec<Ran>, Vec<String>) {
    run_two_with(steps, limit, &[])
}

/// Starts two ranks as [`run_two`] does, with more variables.
fn run_two_with(
    steps: &[&str],
    limit: usize,
    variables: &[(&str, &str)],
) -> (Vec<Ran>, Vec<String>) {
    let map = ("PMI_process_mapping".to_owned(), "(vector,(0,1,2))".to_owned());
    let values = Mutex::new(HashMap::from([map]));
    let last = Mutex::default();
    let manager = Arc::new(Manager { values, fence: Barrier::new(2), limit, last });
    let (mut running, mut serving) = (Vec::new(), Vec::new());
    for number in 0..2 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
        let mut command = Command::new(rank());
        command.args(steps).env("PMI_RANK", number.to_string()).env("PMI_SIZE", "2");
        command.env("PMI_FD", theirs.as_raw_fd().to_string()).env("VERBENA_RANK", "none");
        command.envs(variables.iter().copied());
        running.push(spawn(&mut command));
        drop(theirs);
        let manager = Arc::clone(&manager);
        serving.push(thread::spawn(move || manager.serve(ours)));
    }
    let ran = running.into_iter().map(finish).collect();
    serving.into_iter().for_each(|thread| thread.join().unwrap());
    (ran, manager.last.lock().unwrap().clone())
}

impl Manager {
    fn serve(&self, stream: UnixStream) {
        let mut answers = stream.try_clone().unwrap();
        let mut last = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let words: HashMap<&str, &str> =
                line.split(' ').filter_map(|word| word.split_once('=')).collect();
            last = words["cmd"].to_owned();
            let answer = self.answer(&words);
            if writeln!(answers, "{answer}").is_err() {
                break;
            }
        }
        self.last.lock().unwrap().push(last);
    }

    fn answer(&self, words: &HashMap<&str, &str>) -> String {
        match words["cmd"] {
            "init" if words["pmi_version"] != "1" => "cmd=response_to_init rc=-1".into(),
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_maxes" => {
                format!("cmd=maxes kvsname_max=64 keylen_max=64 vallen_max={}", self.limit)
            }
            "get_appnum" => "cmd=appnum rc=0 appnum=1".into(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_0".into(),
            "put" => {
                assert!(words["value"].len() < self.limit, "{}", words["value"]);
                let (key, value) = (words["key"].to_owned(), words["value"].to_owned());
                self.values.lock().unwrap().insert(key, value);
                "cmd=put_result rc=0 msg=success".into()
            }
            "get" => match self.values.lock().unwrap().get(words["key"]) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".into(),
            },
            "barrier_in" => {
                self.fence.wait();
                "cmd=barrier_out rc=0".into()
            }
            "finalize" => "cmd=finalize_ack rc=0".into(),
            other => panic!("unknown command {other}"),
        }
    }
}

#[test]
fn ranks_of_another_manager_find_their_job() {
    // Values in one piece, and in many. MPI_Finalize has a barrier; here the ranks sleep.
    for limit in [1024, 24] {
        let (ran, last) = run_two(&["init", "who", "sleep=0.5", "finalize"], limit);
        assert_eq!(last, ["finalize"; 2]);
        for (number, ran) in ran.iter().enumerate() {
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
            assert_eq!(ran.out, format!("{number} of 2 running=true\n"));
        }
    }
}

#[test]
fn ranks_of_another_manager_share_an_mpiexec_that_spawns() {
    let launcher = concat!("shared_launcher=", env!("CARGO_BIN_EXE_mpiexec"));
    let first = concat!("0:shared_launcher=", env!("CARGO_BIN_EXE_mpiexec"));
    let (spawn, value) = ("0:spawn=1;self;init;numbers;value_of=0;finalize", "0:put_own=lone");
    // Both join, or the second rank never does.
    for launcher in [launcher, first] {
        let steps = ["init", launcher, value, spawn, "sleep=0.5", "finalize", "leave_own_launcher"];
        let (ran, last) = run_two(&steps, 1024);
        assert_eq!(last, ["finalize"; 2]);
        assert!(ran.iter().all(|ran| (ran.code, ran.err.as_str()) == (0, "")), "{ran:?}");
        let out = format!("{}{}", ran[0].out, ran[1].out);
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["2 of 2..3, parent Some(0)", "lone", "spawned from 2"], "{ran:?}");
    }
}

#[test]
fn a_failure_of_one_rank_ends_those_that_share_its_mpiexec() {
    let launcher = concat!("shared_launcher=", env!("CARGO_BIN_EXE_mpiexec"));
    let (ran, _) = run_two(&["init", launcher, "sleep=0.5", "0:exit=3", "sleep=30"], 1024);
    assert_eq!((ran[0].code, ran[1].code), (3, -1), "by SIGTERM: {ran:?}");
    assert!(ran.iter().any(|ran| ran.err.contains("rank 0 (pid ")), "{ran:?}");
}

#[test]
fn the_number_of_the_program_is_the_managers() {
    let (ran, _) = run_two(&["init", "appnum", "sleep=0.2", "finalize"], 1024);
    for (number, ran) in ran.iter().enumerate() {
        assert_eq!(ran.out, format!("{number} has appnum Some(1)\n"), "{ran:?}");
    }
    // Without a launcher the process is no program of a command line.
    let ran = finish(spawn(Command::new(rank()).args(["init", "appnum"])));
    assert_eq!(ran.out, "0 has appnum None\n", "{ran:?}");
}

#[test]
fn a_manager_within_a_step_of_slurm_is_asked_for_the_protocol() {
    // As Flux, it answers the greeting of PMI-2 with an error.
    let variables = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("PMI_JOBID", "7.0")];
    let (ran, last) = run_two_with(&["init", "who", "sleep=0.5", "finalize"], 1024, &variables);
    assert_eq!(last, ["finalize"; 2]);
    for (number, ran) in ran.iter().enumerate() {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert_eq!(ran.out, format!("{number} of 2 running=true\n"));
    }
}

#[test]
fn ranks_take_leave_when_they_exit_and_only_after_mpi_finalize() {
    // The store is there after MPI_Finalize, for sessions.
    let (ran, last) = run_two(&["init", "sleep=0.2", "finalize", "put=late"], 1024);
    assert!(ran.iter().all(|ran| ran.code == 0), "{ran:?}");
    assert_eq!(last, ["finalize"; 2]);
    let (_, last) = run_two(&["init", "sleep=0.2", "put=early"], 1024);
    assert_eq!(last, ["put"; 2], "an exit in MPI is a failure");
}

#[test]
fn a_manager_that_goes_away_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
    let mut command = Command::new(rank());
    command.args(["init", "who"]).env("PMI_RANK", "0").env("PMI_SIZE", "2");
    let child = spawn(command.env("PMI_FD", theirs.as_raw_fd().to_string()));
    drop((ours, theirs));
    let ran = finish(child);
    assert!(ran.code == 9 && ran.err.contains("the connection to a PMI-1 launcher"), "{ran:?}");
}
