//! Ports that are given other addresses while datagrams are under way.

use std::time::{Duration, Instant};

use fabric::{Atomic, Header, Kind, OneSided, Peer, Post, Rights, Transfer, Transport};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{InProcessStore, Settings, VerbsTransport};

use crate::full_queue::Seen;
use crate::stand_in::{alone, control, settings, transports};
use crate::{Frames, exchange};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(20);
/// Polls of a process between two looks at the device's events.
const EVENTS_INTERVAL: usize = 4096;
/// Longest time that an acknowledgement waits, and that a device takes.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);

fn post(end: &mut VerbsTransport) -> bool {
    end.post(Peer(1), &Header::new(Kind::Data), 0, |_| ()) == Ok(Post::Sent)
}

/// Both ports move while an acknowledgement lies in the completion queue of the first process. The
/// acknowledged packet had the old address of this process; therefore the peer must get the new
/// one. It has nothing to send but acknowledgements, and looks for no address by itself.
#[test]
fn an_acknowledgement_from_before_does_not_confirm_the_new_address() {
    let name = "moved::an_acknowledgement_from_before_does_not_confirm_the_new_address";
    alone(name, "devices=stand0/roce", || {
        let settings = Settings { connect_after: u32::MAX, credits: 4, ..settings() };
        let [mut from, mut to]: [VerbsTransport; 2] =
            transports(2, &settings).try_into().ok().expect("two");
        let (mut sent, mut received) = (Frames::default(), Frames::default());
        assert!(post(&mut from), "the address is in the store");
        // It looks at the device's events in the next poll, and at completions after them.
        (1..EVENTS_INTERVAL).for_each(|_| _ = from.poll(&mut sent));
        let began = Instant::now();
        while received.0 == 0 || began.elapsed() < ACKNOWLEDGED {
            to.poll(&mut received);
            assert!(began.elapsed() < LIMIT, "nothing arrives");
        }
        assert!(to.datagrams_sent() > 0, "nothing is acknowledged");
        std::thread::sleep(ACKNOWLEDGED);
        control("move=1");
        from.poll(&mut sent);
        // One more than the window: its space is the peer's acknowledgement.
        let (mut left, began) = (5, Instant::now());
        while left > 0 {
            left -= usize::from(post(&mut from));
            for (end, sink) in [(&mut from, &mut sent), (&mut to, &mut received)] {
                end.poll(sink);
                // As a process that waits: events are looked at before a sleep.
                let _ = end.arm();
                end.disarm();
            }
            assert!(began.elapsed() < LIMIT, "no acknowledgement\n{}", from.explain());
        }
    });
}

/// A read goes on, however often in a row its connection ends because a port moves.
#[test]
fn a_port_that_moves_often_loses_no_peer() {
    /// One more than the breaks in a row after which a peer is given up.
    const MOVES: usize = 11;
    alone("moved::a_port_that_moves_often_loses_no_peer", "devices=stand0/ib", || {
        let settings = Settings { connect_after: 0, ack_timeout: 14, ..settings() };
        let mut ends: [VerbsTransport; 2] = transports(2, &settings).try_into().ok().expect("two");
        let (data, copy) = (Bytes::new(Shape::Run, &[1; 64]), Bytes::new(Shape::Run, &[0; 64]));
        let memory = |of: &Bytes| of.buffer().memory().expect("one run");
        let region = ends[1].register(Peer(0), memory(&data), Rights::Get).expect("a region");
        control("unanswered=1000000");
        let began = Instant::now();
        let mut sinks = [Seen::default(), Seen::default()];
        let mut poll = |ends: &mut [VerbsTransport; 2]| {
            ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| {
                end.poll(sink);
                // As a process that waits: events are looked at before a sleep.
                let _ = end.arm();
                end.disarm();
            });
            std::thread::sleep(Duration::from_micros(200));
            assert!(began.elapsed() < 3 * LIMIT, "no connection\n{}", ends[0].explain());
            sinks[0].reads
        };
        let read = || OneSided::Get(memory(&copy));
        while ends[0].one_sided(Peer(1), &region, 0, read(), 1) != Ok(Transfer::Started) {
            poll(&mut ends);
        }
        for _ in 0..MOVES {
            while !ends[0].is_connected(Peer(1)) {
                poll(&mut ends);
            }
            control("move=1");
            while ends[0].is_connected(Peer(1)) {
                poll(&mut ends);
            }
        }
        control("unanswered=0");
        while poll(&mut ends) == 0 {}
        assert_eq!(copy.read(), data.read());
    });
}

/// Two operations whose attempts to connect end each other, to peers that have moved: each attempt
/// is too short to find out that nobody answers at the old addresses.
#[test]
fn attempts_that_end_each_other_find_new_addresses() {
    let name = "moved::attempts_that_end_each_other_find_new_addresses";
    alone(name, "devices=stand0/ib", || {
        let settings = Settings { connect_after: u32::MAX, connections: 1, ..settings() };
        let mut ends = transports(3, &settings);
        let mut sinks: Vec<Seen> = ends.iter().map(|_| Seen::default()).collect();
        let [data, word, old] = [7; 3].map(|value| Bytes::new(Shape::Run, &[value; 8]));
        let memory = |of: &Bytes| of.buffer().memory().expect("one run");
        let source = ends[1].register(Peer(0), memory(&data), Rights::Get).expect("a region");
        let target = ends[2].register(Peer(0), memory(&word), Rights::All).expect("a region");
        let began = Instant::now();
        let mut poll = |ends: &mut [VerbsTransport], ranks: &[usize]| {
            ranks.iter().for_each(|&rank| _ = ends[rank].poll(&mut sinks[rank]));
            std::thread::sleep(Duration::from_micros(200));
            assert!(began.elapsed() < LIMIT, "no connection\n{}", ends[0].explain());
            (sinks[0].reads, sinks[2].frames)
        };
        // A datagram: the address of the third process is known, and nothing else is under way.
        assert!(ends[0].post(Peer(2), &Header::new(Kind::Data), 0, |_| ()) == Ok(Post::Sent));
        while poll(&mut ends, &[0, 2]).1 == 0 || began.elapsed() < ACKNOWLEDGED {}
        control("unanswered=1000000");
        let read = || OneSided::Get(memory(&old));
        while ends[0].one_sided(Peer(1), &source, 0, read(), 1) != Ok(Transfer::Started) {
            poll(&mut ends, &[0, 1]);
        }
        // The second process learns that the connection is over, and needs none.
        ends[0].interrupt(Peer(1));
        while ends[1].is_connected(Peer(0)) {
            poll(&mut ends, &[1]);
        }
        let add = OneSided::Atomic(Atomic::Add(1), memory(&old));
        assert_eq!(ends[0].one_sided(Peer(2), &target, 0, add, 2), Ok(Transfer::Started));
        control("move=1 unanswered=0");
        while poll(&mut ends, &[0, 1, 2]).0 < 2 {}
        assert_eq!(word.read()[0], 8);
    });
}

/// An address is withdrawn and given back, as by `ifdown` and `ifup`: meanwhile the port has that
/// of its link alone.
#[test]
fn an_address_that_is_given_back_is_used_again() {
    let name = "moved::an_address_that_is_given_back_is_used_again";
    alone(name, "devices=stand0/roce,stand1/roce", || {
        let store = InProcessStore::default();
        let mut ends = [(0, "stand0"), (1, "stand1")].map(|(rank, device)| {
            let settings = Settings { device: Some(device.into()), ..settings() };
            VerbsTransport::open(settings, Peer(rank), 2, [3; 32], Box::new(store.clone()))
                .expect("a transport")
        });
        let both = |ends: &mut [VerbsTransport]| {
            [0, 1].into_iter().for_each(|from| exchange(ends, from, LIMIT));
        };
        both(&mut ends);
        let before = ends[0].port().address;
        control("device=stand0 withdraw=1");
        let withdrawn = Instant::now();
        while withdrawn.elapsed() < Duration::from_millis(100) {
            for end in &mut ends {
                end.poll(&mut Frames::default());
                let _ = end.arm();
                end.disarm();
            }
        }
        control("device=stand0 restore=1");
        both(&mut ends);
        assert_eq!(ends[0].port().address, before);
    });
}

/// The ports get longer packets while datagrams are under way, then shorter ones: both keep to what
/// their slots hold, and to what the ports carry.
#[test]
fn ports_change_the_length_of_their_packets() {
    let name = "moved::ports_change_the_length_of_their_packets";
    alone(name, "devices=stand0/roce mtu=1024", || {
        const BODY: usize = 8000;
        let settings = Settings { connect_after: u32::MAX, ..settings() };
        let [mut from, mut to]: [VerbsTransport; 2] =
            transports(2, &settings).try_into().ok().expect("two");
        let (mut sent, mut received) = (Frames::default(), Frames::default());
        for (round, change) in ["", "mtu=4096 second=1", "mtu=512 second=1"].iter().enumerate() {
            control(change);
            let (mut left, began) = (16, Instant::now());
            while received.0 < 16 * (round + 1) {
                assert!(began.elapsed() < LIMIT, "{change}: {} frames", received.0);
                if left > 0 {
                    let header = Header::new(Kind::Data);
                    let post = from.post(Peer(1), &header, BODY, |slot| slot.fill(1));
                    left -= usize::from(post == Ok(Post::Sent));
                }
                for (end, sink) in [(&mut from, &mut sent), (&mut to, &mut received)] {
                    end.poll(sink);
                    let _ = end.arm();
                    end.disarm();
                }
            }
        }
    });
}
