//! Processes whose system pins little memory.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Rights, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{InProcessStore, Settings, Unavailable, VerbsTransport};

use crate::Frames;
use crate::stand_in::{alone_by_seed, control, settings, transports};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(20);
/// Bytes of a body that takes a slot for frames of any length.
const BODY: usize = 4000;

/// Sets a limit on locked memory, as the reason that the transport names.
fn set_limit() {
    let maximum = getrlimit(Resource::Memlock).maximum;
    let limit = Rlimit { current: Some(8 << 20), maximum };
    setrlimit(Resource::Memlock, limit).expect("a lower limit");
}

fn post(end: &mut VerbsTransport, to: u32, len: usize) -> bool {
    let posted = end.post(Peer(to), &Header::new(Kind::Data), len, |slot| slot.fill(1));
    posted.expect("a peer") == Post::Sent
}

/// Whatever the limit is: a transport is refused with it as the reason, or it carries messages.
#[test]
fn a_low_limit_shows_at_the_start() {
    for kib in (768..=2816).step_by(128) {
        let name = "locked_memory::a_low_limit_shows_at_the_start";
        alone_by_seed(name, kib, &format!("pinned={kib}"), || {
            set_limit();
            let (store, mut ends) = (InProcessStore::default(), Vec::new());
            for rank in [0, 1] {
                let settings = Settings { connect_after: 4, ..settings() };
                let store = Box::new(store.clone());
                match VerbsTransport::open(settings, Peer(rank), 2, [3; 32], store) {
                    Ok(end) => ends.push(end),
                    Err(Unavailable::Memlock { .. }) => return println!("{kib} KiB: refused"),
                    Err(why) => panic!("{kib} KiB: {why}"),
                }
            }
            println!("{kib} KiB: {:?} bytes pinned", ends[0].pinned_bytes());
            let mut frames = [Frames::default(), Frames::default()];
            let (mut left, began) = ([200, 200], Instant::now());
            while frames.iter().any(|frames| frames.0 < 200) {
                assert!(began.elapsed() < LIMIT, "{kib} KiB: a message does not arrive");
                for (at, end) in ends.iter_mut().enumerate() {
                    let len = if left[at] % 2 == 0 { 0 } else { BODY };
                    if left[at] > 0 && post(end, 1 - at as u32, len) {
                        left[at] -= 1;
                    }
                    end.poll(&mut frames[at]);
                }
            }
        });
    }
}

/// Returns how many frames a process posts to three connected peers that do not poll, when the
/// device pins only 100 KiB more than it has pinned. With `is_cached` that includes the
/// registration of a buffer of 1 MiB, which is not in use.
fn posted_with_little_memory(is_cached: bool) -> u32 {
    set_limit();
    let mut ends = transports(4, &Settings { connect_after: 0, ..settings() });
    let mut frames: Vec<Frames> = (0..4).map(|_| Frames::default()).collect();
    let (mut left, began) = (vec![1, 2, 3], Instant::now());
    while (1..4).any(|peer| !ends[0].is_connected(Peer(peer))) || !left.is_empty() {
        assert!(began.elapsed() < LIMIT, "there is no connection");
        left.retain(|&peer| !post(&mut ends[0], peer, 0));
        ends.iter_mut().zip(&mut frames).for_each(|(end, frames)| _ = end.poll(frames));
    }
    // All is acknowledged now.
    let quiet = Instant::now();
    while quiet.elapsed() < Duration::from_millis(100) {
        ends.iter_mut().zip(&mut frames).for_each(|(end, frames)| _ = end.poll(frames));
    }
    let buffer = Bytes::new(Shape::Run, &vec![0; 1 << 20]);
    let cached = if is_cached { buffer.read().len() } else { 0 };
    if is_cached {
        let memory = buffer.buffer().memory().expect("one run");
        let region = ends[0].register(Peer(1), memory, Rights::Get).expect("a region");
        ends[0].release(Peer(1), region);
    }
    control(&format!("pinned={}", ((ends[0].pinned_bytes()[0] + cached) >> 10) + 100));
    let mut posted = 0;
    for peer in 1..4 {
        while post(&mut ends[0], peer, BODY) {
            posted += 1;
        }
    }
    // What is posted arrives, and the slots come back.
    let (mut left, began) = (vec![1, 2, 3], Instant::now());
    let expected = 3 + posted as usize + 3;
    while frames[1..].iter().map(|frames| frames.0).sum::<usize>() < expected {
        assert!(began.elapsed() < LIMIT, "a message does not arrive");
        left.retain(|&peer| !post(&mut ends[0], peer, BODY));
        ends.iter_mut().zip(&mut frames).for_each(|(end, frames)| _ = end.poll(frames));
    }
    posted
}

/// A pool that cannot grow goes on with its slots; registrations that are not in use give theirs.
#[test]
fn slots_come_before_registrations_that_are_not_in_use() {
    let name = "locked_memory::slots_come_before_registrations_that_are_not_in_use";
    alone_by_seed(name, 1, "", || {
        let posted = posted_with_little_memory(false);
        assert!((32..96).contains(&posted), "{posted} frames");
    });
    alone_by_seed(name, 2, "", || {
        if transports(2, &settings())[0].registration() == config::Registration::None {
            return println!("skipped: nothing is cached here");
        }
        assert_eq!(posted_with_little_memory(true), 96);
    });
}
