//! The listener for agents that dial in, among strangers that send hostile bytes.
//!
//! `VERBENA_TEST_HOSTILE` is the number of hostile connections (otherwise [`HOSTILE`]);
//! `VERBENA_TEST_SEED` repeats their bytes.

mod run;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use run::{command, eventually, finish, rank, spawn};
use rustls::Connection;
use tcp_transport::key_pair::KeyPair;

const TOKEN: &str = "the token of these tests, 32 bytes";
/// Hostile connections in a run.
const HOSTILE: u64 = 3_000;
/// Those after which the process has the buffers that it needs.
const WARM_UP: u64 = 1_000;
/// Connections that a stranger keeps open.
const KEPT: usize = 40;
/// Time that a stranger waits for an answer.
const PATIENCE: Duration = Duration::from_millis(20);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns `mpiexec` with the token, and without the variables of this test: they set no knob.
fn with_token(arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env_remove("VERBENA_TEST_HOSTILE").env_remove("VERBENA_TEST_SEED");
    command.env("VERBENA_TOKEN", TOKEN);
    command
}

fn agent(address: &str) -> Command {
    with_token(&["--join", address, "--slots", "2"])
}

/// Returns the descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a list of descriptors").count()
}

/// Returns the bytes of a process in memory.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("the process runs");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[test]
fn hostile_connections_do_no_harm_to_a_job_that_waits_for_agents() {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let seed = variable("VERBENA_TEST_SEED").unwrap_or(now);
    let count = variable("VERBENA_TEST_HOSTILE").unwrap_or(HOSTILE);
    println!("{count} hostile connections, seed {seed}");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let rank = rank();
    let words = ["--accept", "2", "--listen", &address, "--start-timeout", "0"];
    let job = [&rank, "init", "3:put=found", "value", "finalize"];
    let mpiexec = spawn(&mut with_token(&[&words[..], &job].concat()));
    let pid = mpiexec.id();
    eventually("it listens", || TcpStream::connect(&address).is_ok());
    let first = spawn(&mut agent(&address));
    attack(&address, seed, WARM_UP);
    let (before, memory) = (descriptors(pid), resident(pid));
    attack(&address, !seed, count);
    // What a stranger has left open is closed by the peer's end, which mpiexec reads.
    eventually("strangers are gone", || descriptors(pid) <= before);
    let grown = resident(pid).saturating_sub(memory);
    assert!(grown < 8 << 20, "seed {seed}: {count} connections cost {grown} bytes");
    let second = spawn(&mut agent(&address));
    let ran = finish(mpiexec);
    assert_eq!((ran.code, ran.out.as_str()), (0, "found\n".repeat(4).as_str()), "{seed} {ran:?}");
    let is_notice = |line: &str| line.starts_with("mpiexec: 1 of 2 agents have dialed in");
    assert!(ran.err.lines().all(is_notice), "seed {seed}: a stranger was believed: {ran:?}");
    for ran in [finish(first), finish(second)] {
        assert!(ran.code == 0 && ran.err.is_empty(), "seed {seed}: {ran:?}");
    }
}

/// Makes hostile connections, and ends when all are made and closed.
fn attack(address: &str, seed: u64, count: u64) {
    let left = AtomicU64::new(count);
    let is_left = || {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    };
    std::thread::scope(|scope| {
        for number in 0..2 {
            let mut rng = Rng::with_seed(seed ^ number);
            let keys = KeyPair::derive("a stranger's", &[number as u8; 32]).expect("keys");
            scope.spawn(move || {
                let mut kept = Vec::new();
                while is_left() {
                    let Ok(mut stranger) = TcpStream::connect(address) else {
                        // Ports of closed connections come back after a while.
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let _ = stranger.set_read_timeout(Some(PATIENCE));
                    intrude(&mut stranger, &keys, &mut rng);
                    match rng.u8(..8) {
                        0 => _ = stranger.shutdown(Shutdown::Write),
                        1 => kept.push(stranger),
                        _ => {}
                    }
                    kept.drain(..kept.len().saturating_sub(KEPT));
                }
            });
        }
    });
}

/// Sends what a stranger may: noise, records of TLS that are none, a handshake that is cut or
/// changed, one with another key, the listener's own bytes.
fn intrude(stranger: &mut TcpStream, keys: &KeyPair, rng: &mut Rng) {
    let noise: Vec<u8> = (0..rng.usize(0..400)).map(|_| rng.u8(..)).collect();
    match rng.u8(..8) {
        0 => _ = stranger.write_all(&noise),
        1 => {
            let length = (noise.len() as u16).to_be_bytes();
            let header = [rng.u8(20..25), 3, rng.u8(..5), length[0], length[1]];
            let _ = stranger.write_all(&[&header[..], &noise].concat());
        }
        2..=4 => {
            let mut hello = first_flight(keys);
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..hello.len());
                hello[at] ^= 1 << rng.u8(..8);
            }
            hello.truncate(rng.usize(1..=2 * hello.len()));
            let _ = stranger.write_all(&[&hello[..], &noise].concat());
        }
        5 => {
            let _ = stranger.write_all(&first_flight(keys));
            let mut answer = [0; 2048];
            let read = stranger.read(&mut answer).unwrap_or(0);
            // Its own bytes, whole or in part.
            let from = rng.usize(..=read);
            let _ = stranger.write_all(&answer[from..read]);
        }
        _ => {
            let session = keys.connection(true).expect("a session");
            let Connection::Client(mut session) = session else { return };
            let _ = std::io::Write::write(&mut session.writer(), b"a greeting");
            let _ = session.complete_io(stranger);
        }
    }
}

/// Returns the first bytes of a handshake with these keys.
fn first_flight(keys: &KeyPair) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut session = keys.connection(true).expect("a session");
    session.write_tls(&mut bytes).expect("bytes");
    bytes
}
