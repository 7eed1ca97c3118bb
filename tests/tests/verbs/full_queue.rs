//! A process whose send queue is full: reads are not answered, and what was sent after them is
//! complete only after them.

use std::time::{Duration, Instant};

use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Rights, Sink, Transfer, Transport, WaitOn,
};
use tests::bytes::{Bytes, Shape};
use tests::idle::until_readable;
use verbs_transport::{Settings, VerbsTransport};

use crate::stand_in::{LIMIT, alone, control, settings, transports};

/// Bytes of a read: as many requests as a connection has under way.
const BYTES: usize = 1 << 20;
/// Requests of a full queue.
const FULL: &str = "requests in queue 50,";

/// Counts what a process sees.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) frames: usize,
    pub(crate) reads: usize,
}

impl Sink for Seen {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
        self.frames += 1;
    }

    fn transferred(&mut self, _: u64, outcome: Result<(), PeerFailed>) {
        outcome.expect("the peer is there");
        self.reads += 1;
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// Credit that cannot be returned keeps no process from sleeping.
#[test]
fn a_process_that_cannot_return_credit_sleeps() {
    let name = "full_queue::a_process_that_cannot_return_credit_sleeps";
    alone(name, "devices=stand0/ib", || {
        sleeps(&Settings { eager_rdma_peers: 0, ..settings() }, "credit due");
    });
}

/// Neither does a ring that cannot be closed; what is written there arrives during the sleep.
#[test]
fn a_process_that_cannot_close_a_ring_sleeps() {
    let name = "full_queue::a_process_that_cannot_close_a_ring_sleeps";
    alone(name, "devices=stand0/ib", || {
        sleeps(&Settings { eager_rdma_threshold: 0, ..settings() }, "rings Open");
    });
}

/// Fills the send queue of a process by credit, behind reads that are not answered, until its state
/// has the words `what` as well. Then it must sleep, and receive what its window still permits.
fn sleeps(settings: &Settings, what: &str) {
    let settings = Settings { credits: 4, connect_after: 0, ack_timeout: 14, ..settings.clone() };
    let [mut reader, mut owner] = <[_; 2]>::try_from(transports(2, &settings)).ok().expect("two");
    let (mut ours, mut theirs) = (Seen::default(), Seen::default());
    let bytes = || Bytes::new(Shape::Run, &vec![1; BYTES]);
    let (data, copy) = (bytes(), bytes());
    let memory = |of: &Bytes| of.buffer().memory().expect("one run");
    let region = owner.register(Peer(0), memory(&data), Rights::Get).expect("a region");
    let post = |owner: &mut VerbsTransport| {
        owner.post(Peer(0), &Header::new(Kind::Data), 0, |_| ()) == Ok(Post::Sent)
    };
    control("unanswered=1000000");
    let began = Instant::now();
    let (mut has_begun, mut posted) = (false, 0);
    let is_there = |reader: &VerbsTransport| {
        let state = reader.explain();
        state.contains(FULL) && state.contains(what)
    };
    while !is_there(&reader) {
        assert!(began.elapsed() < LIMIT / 4, "not {what}: {}", reader.explain());
        if !has_begun {
            let read = OneSided::Get(memory(&copy));
            has_begun = reader.one_sided(Peer(1), &region, 0, read, 1) == Ok(Transfer::Started);
        }
        // The connection is there, and nothing is under way that could wake the reader.
        if reader.is_connected(Peer(1)) && posted == ours.frames {
            posted += usize::from(post(&mut owner));
        }
        owner.poll(&mut theirs);
        reader.poll(&mut ours);
    }
    assert_eq!(ours.reads, 0, "a read was answered");
    // The window ends soon, since no credit is returned.
    let (mut is_open, mut sleeps) = (true, 0);
    while is_open || ours.frames < posted {
        assert!(began.elapsed() < LIMIT / 2, "it does not sleep: {}", reader.explain());
        is_open = post(&mut owner);
        posted += usize::from(is_open);
        owner.poll(&mut theirs);
        sleeps += usize::from(sleep(&mut reader));
        reader.poll(&mut ours);
    }
    assert!(sleeps > 0, "it never sleeps: {}", reader.explain());
    control("unanswered=0");
    while ours.reads == 0 {
        assert!(began.elapsed() < LIMIT, "the read does not end: {}", reader.explain());
        owner.poll(&mut theirs);
        reader.poll(&mut ours);
    }
}

/// Lets a process sleep if it would. Returns whether it would.
fn sleep(reader: &mut VerbsTransport) -> bool {
    let sleeps = match reader.arm() {
        Some(WaitOn::Fd(fd)) => {
            until_readable(&[fd], Duration::from_millis(50));
            true
        }
        _ => false,
    };
    reader.disarm();
    sleeps
}
