//! Processes that end while others have not taken everything yet.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Transport};
use verbs_transport::{InProcessStore, Settings, Store, VerbsTransport};

use crate::Frames;
use crate::stand_in::{alone, alone_by_seed, control, settings};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(30);
/// Frames of a test, more packets than go at once.
const FRAMES: usize = 10;

/// A store that may show first values alone, as those of some process managers do.
#[derive(Clone, Default)]
struct Values {
    inner: InProcessStore,
    are_final: bool,
}

impl Store for Values {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        match self.are_final && self.inner.try_value(key)?.is_some() {
            true => Ok(()),
            false => self.inner.put(key, value),
        }
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        self.inner.try_value(key)
    }

    fn shows_changes(&self) -> bool {
        !self.are_final
    }

    fn fd(&self) -> Option<i32> {
        None
    }
}

fn pair(are_final: bool) -> [VerbsTransport; 2] {
    let store = Values { are_final, ..Values::default() };
    [0, 1].map(|rank| {
        let settings = Settings { connect_after: u32::MAX, ..settings() };
        VerbsTransport::open(settings, Peer(rank), 2, [3; 32], Box::new(store.clone()))
            .expect("a transport")
    })
}

/// Posts `count` frames of 1 KiB to the second process.
fn post(end: &mut VerbsTransport, count: usize) {
    let (mut left, began, mut sink) = (count, Instant::now(), Frames::default());
    while left > 0 {
        assert!(began.elapsed() < LIMIT, "no space");
        let posted = end.post(Peer(1), &Header::new(Kind::Data), 1024, |slot| slot.fill(1));
        left -= usize::from(posted.expect("a peer") == Post::Sent);
        end.poll(&mut sink);
    }
}

/// Whether `end` may end within `time`.
fn ends(end: &mut VerbsTransport, time: Duration) -> bool {
    let (began, mut sink) = (Instant::now(), Frames::default());
    while began.elapsed() < time {
        end.poll(&mut sink);
        if end.flush() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// At the end of a session there is no barrier: the peer may compute for as long as it likes.
#[test]
fn datagrams_to_a_peer_that_computes_are_not_dropped() {
    alone("ended::datagrams_to_a_peer_that_computes_are_not_dropped", "", || {
        let [mut from, mut to] = pair(false);
        post(&mut from, FRAMES);
        assert!(!ends(&mut from, Duration::from_secs(6)), "frames are dropped");
        let (mut sink, began, mut received) =
            (Frames::default(), Instant::now(), Frames::default());
        while !from.flush() || received.0 < FRAMES {
            assert!(began.elapsed() < LIMIT, "{} frames arrive", received.0);
            from.poll(&mut sink);
            to.poll(&mut received);
        }
    });
}

/// All acknowledgements are lost, and then the peer is gone.
#[test]
fn a_peer_that_has_ended_is_not_waited_for() {
    for (case, are_final) in [false, true].into_iter().enumerate() {
        let name = "ended::a_peer_that_has_ended_is_not_waited_for";
        alone_by_seed(name, case as u64, "", || {
            let [mut from, mut to] = pair(are_final);
            post(&mut from, 1);
            let (mut received, began) = (Frames::default(), Instant::now());
            control("loss=1000000");
            while received.0 == 0 {
                assert!(began.elapsed() < LIMIT, "nothing arrives");
                to.poll(&mut received);
            }
            assert!(to.flush(), "it has sent nothing");
            control("loss=0");
            assert!(ends(&mut from, Duration::from_secs(10)), "it waits for ever");
        });
    }
}

/// A process that has ended one session and begun another one.
#[test]
fn a_peer_that_is_back_is_waited_for() {
    alone("ended::a_peer_that_is_back_is_waited_for", "", || {
        let [mut from, mut to] = pair(false);
        let mut received = Frames::default();
        let (mut sink, began) = (Frames::default(), Instant::now());
        for frames in 1..=2 {
            post(&mut from, 1);
            while !from.flush() || received.0 < frames {
                assert!(began.elapsed() < LIMIT, "nothing arrives");
                from.poll(&mut sink);
                to.poll(&mut received);
            }
            // The second time it has a new session.
            assert!(frames == 2 || ends(&mut to, LIMIT), "it has sent everything");
        }
        post(&mut from, FRAMES);
        assert!(!ends(&mut from, Duration::from_secs(6)), "frames are dropped");
    });
}
