//! A peer that one process gives up: both end with an error that names the other one and why. And a
//! connection that one process ends: the other one learns of it.

use std::time::{Duration, Instant};

use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Rights, Sink, Transfer, Transport,
};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{InProcessStore, Settings, VerbsTransport};

use crate::stand_in::{alone, control, settings};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(30);

/// Keeps the failures.
#[derive(Default)]
struct Failures {
    frames: usize,
    failures: Vec<PeerFailed>,
}

impl Sink for Failures {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
        self.frames += 1;
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failure: PeerFailed) {
        self.failures.push(failure);
    }
}

/// Two processes.
struct Pair {
    ends: [VerbsTransport; 2],
    sinks: [Failures; 2],
    began: Instant,
}

impl Pair {
    fn new(settings: [Settings; 2]) -> Pair {
        let store = InProcessStore::default();
        let mut rank = 0..;
        let ends = settings.map(|settings| {
            let me = Peer(rank.next().expect("a rank"));
            VerbsTransport::open(settings, me, 2, [3; 32], Box::new(store.clone()))
                .expect("a transport")
        });
        Pair { ends, sinks: Default::default(), began: Instant::now() }
    }

    fn poll(&mut self) {
        self.ends.iter_mut().zip(&mut self.sinks).for_each(|(end, sink)| {
            end.poll(sink);
        });
        assert!(
            self.began.elapsed() < LIMIT,
            "{:?}",
            [&self.sinks[0].failures, &self.sinks[1].failures]
        );
    }

    /// Sends a frame from one to the other.
    fn post(&mut self, from: usize) {
        let header = Header::new(Kind::Data);
        while self.ends[from].post(Peer(1 - from as u32), &header, 0, |_| ()) != Ok(Post::Sent) {
            self.poll();
        }
    }

    /// Waits for the failure that process `at` reports, once and of the other, with these words.
    fn expect(&mut self, at: usize, words: [&str; 2]) {
        while self.sinks[at].failures.is_empty() {
            self.poll();
        }
        let [failure] = self.sinks[at].failures.as_slice() else { panic!("several failures") };
        assert_eq!(failure.peer, Peer(1 - at as u32));
        assert!(words.iter().all(|words| failure.why.contains(words)), "{}", failure.why);
    }
}

/// Each request breaks its connection. The target of a write does nothing but wait.
#[test]
fn a_peer_that_waits_is_told() {
    alone("given_up::a_peer_that_waits_is_told", "broken=1000000 loss=100000", || {
        let mut pair = Pair::new([settings(), settings()]);
        let bytes = Bytes::new(Shape::Run, &[1; 4096]);
        let memory = || bytes.buffer().memory().expect("one run");
        let region = pair.ends[1].register(Peer(0), memory(), Rights::Put).expect("a region");
        let what = OneSided::Put(memory());
        while pair.ends[0].one_sided(Peer(1), &region, 0, what, 1) != Ok(Transfer::Started) {
            pair.poll();
        }
        let why = "the connection broke 10 times in a row";
        pair.expect(0, [why, "the last time because"]);
        pair.expect(1, [why, "it has given this process up"]);
    });
}

/// Returns two processes, of which the first has given the second up. Nothing has arrived there
/// since their connection broke.
fn given_up(reconnect_timeout: Duration) -> Pair {
    let impatient = Settings { connect_after: 0, reconnect_timeout, ack_timeout: 8, ..settings() };
    let patient = Settings { ack_timeout: 8, ..settings() };
    let mut pair = Pair::new([impatient, patient]);
    // The second frame takes the connection; then both ends know that there is one.
    for frames in 1..=2 {
        pair.post(0);
        while !pair.ends[0].is_connected(Peer(1)) || pair.sinks[1].frames < frames {
            pair.poll();
        }
    }
    control("loss=1000000");
    pair.ends[0].interrupt(Peer(1));
    pair.post(0);
    pair.expect(0, ["did not come back", "verbs.reconnect_timeout"]);
    assert!(pair.sinks[1].failures.is_empty());
    pair
}

/// The first notice is lost.
#[test]
fn a_peer_that_says_nothing_is_told_again() {
    alone("given_up::a_peer_that_says_nothing_is_told_again", "", || {
        let mut pair = given_up(Duration::from_secs(1));
        control("loss=0");
        pair.expect(1, ["it has given this process up", "did not come back"]);
    });
}

/// Both ports have other addresses by the time that a notice could arrive.
#[test]
fn a_peer_that_has_moved_is_told() {
    alone("given_up::a_peer_that_has_moved_is_told", "devices=stand0/roce", || {
        let mut pair = given_up(Duration::from_secs(3));
        let before = pair.ends[1].port().address;
        control("move=1");
        while pair.ends[1].port().address == before {
            pair.poll();
        }
        // What the move makes the peer send is lost.
        let moved = Instant::now();
        while moved.elapsed() < Duration::from_millis(100) {
            pair.poll();
        }
        control("loss=0");
        pair.expect(1, ["it has given this process up", "did not come back"]);
    });
}

/// All notices are lost.
#[test]
fn a_peer_that_missed_it_is_told_when_it_speaks() {
    alone("given_up::a_peer_that_missed_it_is_told_when_it_speaks", "", || {
        const TIMEOUT: Duration = Duration::from_millis(100);
        let mut pair = given_up(TIMEOUT);
        let failed = Instant::now();
        while failed.elapsed() < 3 * TIMEOUT {
            pair.poll();
        }
        control("loss=0");
        pair.post(1);
        pair.expect(1, ["it has given this process up", "did not come back"]);
    });
}

/// The peer waits for credit on a connection that has ended, and has posted nothing on it. What it
/// is told at first is lost.
#[test]
fn a_peer_that_waits_for_credit_learns_of_a_break() {
    alone("given_up::a_peer_that_waits_for_credit_learns_of_a_break", "", || {
        let credits = 4;
        let each = Settings { connect_after: 0, credits, ..settings() };
        let mut pair = Pair::new([each.clone(), each]);
        for frames in 1..=2 {
            pair.post(1);
            while !pair.ends[1].is_connected(Peer(0)) || pair.sinks[0].frames < frames {
                pair.poll();
            }
        }
        // Nobody polls at the first process: the frames lie in its queue.
        let (header, mut posted, connected) = (Header::new(Kind::Data), 2, Instant::now());
        while connected.elapsed() < Duration::from_millis(200) {
            let post = pair.ends[1].post(Peer(0), &header, 0, |_| ());
            posted += usize::from(post == Ok(Post::Sent));
            pair.ends[1].poll(&mut pair.sinks[1]);
        }
        assert!(posted > credits as usize, "only {posted} frames were sent");
        control("loss=1000000");
        pair.ends[0].interrupt(Peer(1));
        let broken = Instant::now();
        while pair.sinks[0].frames < posted || broken.elapsed() < Duration::from_millis(100) {
            pair.poll();
        }
        control("loss=0");
        pair.post(1);
    });
}
