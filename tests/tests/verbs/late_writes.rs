//! Writes that are acknowledged long before they are in memory, and the frames that follow them:
//! on the same connection, or after it has ended.

use std::time::Instant;

use config::DynamicTransport;
use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Rights, Sink, Transfer, Transport,
    protocol,
};
use objects::{Datatype, Group};
use rma::{Access, Engine, LockBy, Memory, Place, Remote, Window};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{Settings, VerbsTransport};

use crate::stand_in::{LIMIT, alone, settings, transports};

/// Counts what arrives and what ends.
#[derive(Default)]
struct Counts {
    frames: usize,
    ended: usize,
}

impl Sink for Counts {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {
        self.frames += 1;
    }

    fn transferred(&mut self, _: u64, outcome: Result<(), PeerFailed>) {
        outcome.expect("the peer is there");
        self.ended += 1;
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        panic!("{failure}");
    }
}

/// Two processes, of which the first writes and then sends two frames. `between` happens before
/// these. Returns the number of frames that went by eager RDMA.
fn frames_after_writes(settings: &Settings, between: fn(&mut VerbsTransport)) -> u64 {
    const BYTES: usize = 64 << 10;
    let ends: [VerbsTransport; 2] = transports(2, settings).try_into().ok().expect("two");
    let [mut from, mut to] = ends;
    let bytes = |fill| Bytes::new(Shape::Run, &vec![fill; BYTES]);
    let target = bytes(0);
    let memory = |of: &Bytes| of.buffer().memory().expect("one run");
    let region = to.register(Peer(0), memory(&target), Rights::Put).expect("a region");
    let (mut sent, mut received) = (Counts::default(), Counts::default());
    let began = Instant::now();
    for round in 1..=10 {
        let source = bytes(round);
        let (ended, frames) = (sent.ended, received.frames);
        let mut poll = |from: &mut VerbsTransport| {
            from.poll(&mut sent);
            to.poll(&mut received);
            assert!(began.elapsed() < LIMIT, "round {round} does not end");
            (sent.ended > ended, received.frames > frames)
        };
        let what = OneSided::Put(memory(&source));
        while from.one_sided(Peer(1), &region, 0, what, 1) != Ok(Transfer::Started) {
            poll(&mut from);
        }
        while !poll(&mut from).0 {}
        between(&mut from);
        for _ in 0..2 {
            while from.post(Peer(1), &Header::new(Kind::Data), 0, |_| ()) != Ok(Post::Sent) {
                poll(&mut from);
            }
        }
        while !poll(&mut from).1 {}
        let missing = target.read().iter().filter(|&&byte| byte != round).count();
        assert_eq!(missing, 0, "round {round}: bytes that were not written before the frame");
        while received.frames < frames + 2 {
            from.poll(&mut sent);
            to.poll(&mut received);
            assert!(began.elapsed() < LIMIT, "round {round} does not end");
        }
    }
    from.frames_written()
}

/// The connection breaks after a write; therefore the frames go by datagrams, or on the next
/// connection.
fn frames_after_breaks(settings: &Settings) {
    frames_after_writes(settings, |from| from.interrupt(Peer(1)));
}

/// A frame that is written itself may be in memory before what was written before it.
#[test]
fn frames_by_eager_rdma_wait_for_the_writes_before_them() {
    let options = "place=50000 early=1";
    alone("late_writes::frames_by_eager_rdma_wait_for_the_writes_before_them", options, || {
        let settings = Settings { eager_rdma_threshold: 0, ..settings() };
        let written = frames_after_writes(&settings, |_| ());
        assert!(written > 0, "no frame goes by eager RDMA");
    });
}

#[test]
fn frames_by_datagrams_wait_for_the_writes_before_them() {
    let options = "place=500000 early=1";
    alone("late_writes::frames_by_datagrams_wait_for_the_writes_before_them", options, || {
        frames_after_breaks(&settings());
    });
}

/// What went by dynamically connected transport is on another way than the frames.
#[test]
fn frames_by_datagrams_wait_for_the_writes_of_an_initiator() {
    let options = "dc=1 place=500000 early=1";
    let name = "late_writes::frames_by_datagrams_wait_for_the_writes_of_an_initiator";
    alone(name, options, || {
        let dynamic = DynamicTransport::On;
        let settings = Settings { dynamic, connect_after: u32::MAX, ..settings() };
        frames_after_writes(&settings, |from| {
            assert!(!from.is_connected(Peer(1)), "the peer has a connection");
        });
    });
}

/// Here the message that ends the connection is lost at times, and the next connection is there
/// before it is noticed.
#[test]
fn the_next_connection_waits_for_the_writes_of_the_last() {
    let options = "place=500000 early=1 loss=100000";
    alone("late_writes::the_next_connection_waits_for_the_writes_of_the_last", options, || {
        frames_after_breaks(&Settings { ack_timeout: 8, connect_after: 0, ..settings() });
    });
}

/// A rank of a window, whose memory is that of `bytes`.
fn rank_of_window(rank: u32, bytes: &Bytes, len: usize) -> Engine {
    let remote = Remote { size: len as u64, unit: 1, is_distant: true, ..Remote::default() };
    let (group, own) = (Group::world(2), Memory::Fixed(bytes.memory()));
    let mut engine = Engine::new();
    engine.open(Window::new((1, rank), group, own, vec![remote; 2], LockBy::Message));
    engine
}

/// A third process may learn of a put that was flushed, and tell the target. Therefore the bytes
/// are in memory when the flush ends, whatever the target does. Returns the bytes that were not,
/// over all rounds; `between` happens after each put has begun.
fn unplaced_after_flush(settings: &Settings, between: fn(&mut VerbsTransport)) -> usize {
    const BYTES: usize = 64 << 10;
    let mut ends: [VerbsTransport; 2] = transports(2, settings).try_into().ok().expect("two");
    let memory = [0, 1].map(|_| Bytes::new(Shape::Run, &[0; BYTES]));
    let mut engines = [0, 1].map(|rank| rank_of_window(rank, &memory[rank as usize], BYTES));
    let byte = Datatype::predefined(0x247).expect("MPI_BYTE");
    let place = Place { target: 1, disp: 0, count: BYTES as u64, datatype: byte.clone() };
    engines[0].lock_all(&mut ends[0], 1, true).expect("an epoch");
    let (began, mut unplaced) = (Instant::now(), 0);
    for round in 1..=10 {
        let source = Bytes::new(Shape::Run, &[round; BYTES]);
        let access = Access::Put(source.buffer());
        engines[0].start(&mut ends[0], 1, access, &place, false).expect("a put begins");
        between(&mut ends[0]);
        engines[0].flush(&mut ends[0], 1, 1).expect("a flush begins");
        while engines[0].poll_flush(1, Some(1)).map(|done| done.expect("flushed")).is_none() {
            for (end, engine) in ends.iter_mut().zip(&mut engines) {
                protocol::progress(end, engine);
            }
            assert!(began.elapsed() < LIMIT, "round {round} does not end");
        }
        unplaced += memory[1].read().iter().filter(|&&byte| byte != round).count();
    }
    assert!(ends[0].is_connected(Peer(1)), "no put was a device's");
    unplaced
}

#[test]
fn flushed_puts_are_in_memory() {
    alone("late_writes::flushed_puts_are_in_memory", "place=50000 early=1", || {
        assert_eq!(unplaced_after_flush(&settings(), |_| ()), 0);
    });
}

/// The connection breaks behind the put: the write, its confirmation, or both go by the next one.
#[test]
fn flushed_puts_are_in_memory_after_breaks() {
    let options = "place=50000 early=1";
    alone("late_writes::flushed_puts_are_in_memory_after_breaks", options, || {
        let settings = Settings { connect_after: 0, ..settings() };
        assert_eq!(unplaced_after_flush(&settings, |from| from.interrupt(Peer(1))), 0);
    });
}
