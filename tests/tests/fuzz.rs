//! The fuzz targets of `tests::decoders` on stable Rust: each runs for some time on mutations of
//! its corpus in `fuzz/corpus/`.
//!
//! `FUZZ_SECONDS` is the time of each target, `FUZZ_INPUTS` the number of its inputs instead, and
//! `FUZZ_SEED` repeats a run. An input that fails is
//! written to `target/fuzz/`; kept in the corpus, it is a regression test. With
//! `FUZZ_WRITE_SEEDS=1`, the seeds below are written to the corpus again.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bootstrap::control::{ToLauncher, ToRank, encode};
use fabric::transport::Rts;
use fabric::{Header, Kind, Region};
use fastrand::Rng;
use launcher::dial_in::greeting::Greeting;
use launcher::frames::{self, FromHost, ToHost};
use launcher::lost_host::LostHost;
use launcher::tree::store::StoreMessage;
use tests::decoders::TARGETS;

/// Bytes in a mutated input at most.
const MAX_INPUT: usize = 4096;
/// Inputs that are mutated further, besides the corpus.
const MAX_MUTATED_INPUTS: usize = 64;
/// Time of each target unless `FUZZ_SECONDS` is set.
const TARGET_SECONDS: f64 = 0.2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("below the root").to_owned()
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn wire_header() {
    fuzz("wire_header");
}

#[test]
fn control() {
    fuzz("control");
}

#[test]
fn launcher_frames() {
    fuzz("launcher_frames");
}

#[test]
fn wireup() {
    fuzz("wireup");
}

#[test]
fn tcp() {
    fuzz("tcp");
}

#[test]
fn knobs() {
    fuzz("knobs");
}

#[test]
fn hosts() {
    fuzz("hosts");
}

#[test]
fn rank_params() {
    fuzz("rank_params");
}

#[test]
fn process_manager() {
    fuzz("process_manager");
}

#[test]
fn status_page() {
    fuzz("status_page");
}

#[test]
fn command_line() {
    fuzz("command_line");
}

/// Runs a target on its corpus and on mutations of it. The corpus must have accepted inputs:
/// mutations of an input that a decoder refuses at once test nothing.
fn fuzz(name: &str) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    let folder = root().join("fuzz/corpus").join(name);
    if variable::<u8>("FUZZ_WRITE_SEEDS").is_some() {
        write_seeds(name, &folder);
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let corpus: Vec<Vec<u8>> =
        entries.map(|entry| fs::read(entry.path()).expect("a file of the corpus")).collect();
    let accepted = corpus.iter().filter(|input| run(name, *target, input, None)).count();
    assert!(accepted > 0, "no input of {} is accepted: {} files", folder.display(), corpus.len());

    let since = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let seed = variable("FUZZ_SEED").unwrap_or(since);
    let time = Duration::from_secs_f64(variable("FUZZ_SECONDS").unwrap_or(TARGET_SECONDS));
    let (start, mut rng, mut pool, mut runs) =
        (Instant::now(), Rng::with_seed(seed), corpus.clone(), 0u64);
    let inputs: Option<u64> = variable("FUZZ_INPUTS");
    while inputs.map_or_else(|| start.elapsed() < time, |inputs| runs < inputs) {
        for _ in 0..100 {
            let mut input = rng.choice(&pool).expect("not empty").clone();
            let other = rng.choice(&corpus).expect("not empty");
            for _ in 0..rng.u32(1..=6) {
                mutate(&mut input, other, &mut rng);
            }
            let is_accepted = run(name, *target, &input, Some(seed));
            if is_accepted && rng.u8(..4) == 0 {
                match pool.len() < corpus.len() + MAX_MUTATED_INPUTS {
                    true => pool.push(input),
                    false => *rng.choice(&mut pool[corpus.len()..]).expect("not empty") = input,
                }
            }
        }
        runs += 100;
    }
    println!("{name}: {runs} inputs, seed {seed}");
}

/// Runs a target. An input that panics is kept, and its file named.
fn run(name: &str, target: fn(&[u8]) -> bool, input: &[u8], seed: Option<u64>) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|_| {
        let folder = root().join("target/fuzz");
        let file = folder.join(format!("{name}-{}", input.len()));
        let _ = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
        panic!("{name} fails on {} (seed {seed:?}); keep it in fuzz/corpus/{name}", file.display())
    })
}

/// Changes an input in one random way.
fn mutate(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.usize(..=input.len());
    let end = rng.usize(at..=input.len().min(at + 16));
    let odd = *rng
        .choice([0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, u64::from(u32::MAX), u64::MAX].iter())
        .expect("not empty");
    match rng.u8(..8) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = odd as u8,
        2 => drop(input.drain(at..end)),
        3 => input.insert(at, rng.u8(..)),
        4 => {
            let size = end - at;
            let number = odd.to_le_bytes().into_iter().chain([0; 8]);
            input[at..end].iter_mut().zip(number.take(size)).for_each(|(to, from)| *to = from);
        }
        5 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        6 if !other.is_empty() => {
            let from = rng.usize(..other.len());
            let to = rng.usize(from..=other.len().min(from + 64));
            input.splice(at..end, other[from..to].iter().copied());
        }
        _ => input.truncate(at),
    }
    input.truncate(MAX_INPUT);
}

fn write_seeds(name: &str, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for the corpus");
    for (at, seed) in seeds(name).iter().enumerate() {
        fs::write(folder.join(format!("seed-{at}")), seed).expect("a file of the corpus");
    }
}

/// Inputs that the decoders accept, by the encoders of today.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let text = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match name {
        "wire_header" => {
            let region = Region { addr: 0x7fff_1234_5678, keys: [1, 2, 3, 4] };
            let frame = |kind, body: &[u8]| [&Header::new(kind).encode()[..], body].concat();
            vec![
                frame(Kind::Eager, b"data"),
                frame(Kind::Rts, &Rts { send: 7, region: Some(region) }.encode()),
                frame(Kind::Rts, &Rts { send: 7, region: None }.encode()),
                frame(Kind::Cts, &region.encode()),
                frame(Kind::Credit, &[]),
            ]
        }
        "control" => {
            let (key, value) = ("key".to_owned(), vec![1, 2, 3]);
            vec![
                encode(&ToRank::Welcome { version: 1, secret: [7; 32] }),
                encode(&ToRank::Value { key: key.clone(), value: value.clone() }),
                encode(&ToLauncher::Hello { version: 1, pid: 77 }),
                encode(&ToLauncher::Abort { code: 3, message: "why".to_owned() }),
                encode(&ToLauncher::Put { key: key.clone(), value }),
                [encode(&ToLauncher::Get { key }), encode(&ToLauncher::Finalized)].concat(),
                encode(&ToLauncher::Explained(vec![("topic".to_owned(), "text".to_owned())])),
            ]
        }
        "launcher_frames" => {
            let environment = ToHost::Environment {
                version: frames::VERSION,
                variables: vec![("NAME".into(), "value".into())],
                folder: "/tmp".into(),
            };
            let frames = [
                frames::encode(&environment),
                frames::encode(&ToHost::Store(StoreMessage::Values(vec![(
                    "k".into(),
                    vec![1, 2],
                )]))),
                frames::encode(&ToHost::Signal(15)),
                frames::encode(&ToHost::Input(b"line\n".to_vec())),
                frames::encode(&FromHost::Hello { version: frames::VERSION, host: "a".into() }),
                frames::encode(&FromHost::Output { rank: 0, error: true, bytes: vec![65, 10] }),
                frames::encode(&FromHost::Store(StoreMessage::Put {
                    key: "k".into(),
                    value: vec![9],
                })),
                frames::encode(&FromHost::Lost(LostHost {
                    first: 3,
                    below: vec![4, 5],
                    why: "gone".into(),
                    was_running: true,
                })),
                frames::encode(&FromHost::Failed(3)),
                Greeting::new("worker-0".into(), 4).encode(),
            ];
            frames.into_iter().map(|frame| frame.expect("a short frame")).collect()
        }
        "wireup" => {
            let mut message = [0; 108];
            message[..8].copy_from_slice(b"vrb\x03\x01\0\0\0");
            let coalesced = [&[0; 12][..], &[3, 0, 0, 0, 1, 2, 3]].concat();
            let notice = b"vrb\x04\x01\0\0\0\x03\0\0\0\x09\0\0\0it is gone".to_vec();
            vec![message.to_vec(), vec![5; 22], vec![0; 24], coalesced, vec![1; 64], notice]
        }
        "tcp" => {
            let record = |kind: u8, body: &[u8]| {
                [&(body.len() as u32).to_le_bytes()[..], &[kind], &[0; 11], body].concat()
            };
            let words = |words: &[u64]| -> Vec<u8> {
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            };
            let hello = [&b"vrt\x01\x03\0\0\0\x09\0\0\0\x01\0\0\0"[..], &[0; 136]].concat();
            let header = Header { length: 3, ..Header::new(Kind::Eager) };
            let frame = record(1, &[&header.encode()[..], b"abc"].concat());
            vec![
                hello,
                [&frame[..], &record(8, &[]), &frame].concat(),
                [record(2, &words(&[1, 0, 0, 0])), record(9, &[]), record(6, &words(&[1, 2]))]
                    .concat(),
                [record(4, &words(&[0, 0])), record(5, &words(&[1, 0, 0, 1, 2, 3]))].concat(),
                [&[0, 80, 4, 127, 0, 0, 1, 16][..], &[0; 16]].concat(),
            ]
        }
        "knobs" => text(&[
            "[shm]\neager_max = \"16K\"\nring_bytes = 65536\n[wait]\nspin = \"5us\"\n\0\
             VERBENA_SHM_EAGER_MAX=8K\nHOME=/root\n\0shm.single_copy=off\n",
            "coll.shm = true\nverbs.credits = 64\n",
            "\0VERBENA_PT2PT_UNEXPECTED_MAX=1M\nVERBENA_RANK=3\0\n",
            "\0\0report.traffic=on\nwait.spin=0\n",
        ]),
        "hosts" => text(&[
            "a:2,b,a",
            "[fe80::1]:4,10.0.0.1:2",
            "# two hosts\nnode-1.example slots=16\nnode-2:3 # the second\n",
        ]),
        "rank_params" => text(&[
            "v1 rank=2 size=8 local_rank=1 local_size=4 processors=2 control=198 board=199 \
             launcher=77 job=ffffffffffffffff more=1",
        ]),
        "process_manager" => text(&[
            "(vector,(0,2,2),(2,1,4))",
            "cmd=get_result rc=0 msg=success value=1.00ff",
            "cmd=kvs-get-response;rc=0;found=TRUE;value=1.ab;",
        ]),
        "status_page" => {
            let header = |size: u32| [&b"Verbena\x01\x02\0\0\0"[..], &size.to_le_bytes()].concat();
            vec![header(2), [&header(1)[..], &[1; 128], &[0; 128]].concat()]
        }
        "command_line" => text(&[
            "-n\n2\n--map-by=core:PE=2\n--stdin\nall\nprogram\n\
             cpu 3 core 1 l2 1 l3 0 numa 0 package 0\n",
            "--hosts\na:2,b\n-x\nA=1\nfirst\n:\n-env\nB\n2\nsecond\nargument\n",
            "--hostfile\nnode1\n--timeout\n3\n--bind-to\nnuma\n-l\n--\nprogram\n",
        ]),
        _ => panic!("{name} has no seeds"),
    }
}
