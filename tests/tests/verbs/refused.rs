//! Devices and systems that refuse further queue pairs: an adapter's function that has few, or a
//! limit on locked memory. That is a lack of space, and no fault of the peer.

use std::time::{Duration, Instant};

use fabric::{Atomic, Header, Kind, OneSided, Peer, Post, Rights, Transfer, Transport};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{Settings, VerbsTransport};

use crate::full_queue::Seen;
use crate::stand_in::{alone, settings, transports};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(20);
/// A peer computes for so long: longer than eleven attempts to connect take.
const COMPUTES: Duration = Duration::from_secs(3);
/// The queue pair of datagrams and two connections.
const FEW: &str = "qps=3";

fn post(end: &mut VerbsTransport, to: u32) -> bool {
    let posted = end.post(Peer(to), &Header::new(Kind::Data), 0, |_| ());
    posted.expect("a peer") == Post::Sent
}

/// Messages to a third peer go by datagrams for as long as it computes.
#[test]
fn no_peer_is_given_up_for_lack_of_queue_pairs() {
    alone("refused::no_peer_is_given_up_for_lack_of_queue_pairs", FEW, || {
        let mut ends = transports(4, &Settings { connect_after: 0, ..settings() });
        let mut sinks: Vec<Seen> = ends.iter().map(|_| Seen::default()).collect();
        let (mut left, began) = (vec![1, 2], Instant::now());
        while [1, 2].iter().any(|&peer| !ends[0].is_connected(Peer(peer))) || !left.is_empty() {
            assert!(began.elapsed() < LIMIT, "there is no connection");
            left.retain(|&peer| !post(&mut ends[0], peer));
            ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
        }
        while !post(&mut ends[0], 3) {
            ends[0].poll(&mut sinks[0]);
        }
        let computes = Instant::now();
        while computes.elapsed() < COMPUTES {
            ends[..3].iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            std::thread::sleep(Duration::from_micros(200));
        }
        while sinks[3].frames == 0 {
            assert!(began.elapsed() < LIMIT, "nothing arrives\n{}", ends[0].explain());
            ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
        }
        assert_eq!(ends[0].connections(), 2);
    });
}

/// Atomics go on connections alone: others end for them.
#[test]
fn operations_get_the_queue_pairs_of_others() {
    const RANKS: u32 = 6;
    alone("refused::operations_get_the_queue_pairs_of_others", FEW, || {
        let mut ends = transports(RANKS, &settings());
        let mut sinks: Vec<Seen> = ends.iter().map(|_| Seen::default()).collect();
        let bytes = || Bytes::new(Shape::Run, &[7; 8]);
        let memory = |of: &Bytes| of.buffer().memory().expect("one run");
        let began = Instant::now();
        for (done, peer) in (1..RANKS).enumerate() {
            let (word, old) = (bytes(), bytes());
            let target = ends[peer as usize].register(Peer(0), memory(&word), Rights::All);
            let target = target.expect("a region");
            let mut has_begun = false;
            while sinks[0].reads == done {
                let add = OneSided::Atomic(Atomic::Add(1), memory(&old));
                has_begun = has_begun
                    || ends[0].one_sided(Peer(peer), &target, 0, add, 1) == Ok(Transfer::Started);
                assert!(began.elapsed() < LIMIT, "peer {peer}: {}", ends[0].explain());
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            }
            assert_eq!((word.read()[0], old.read()[0]), (8, 7));
        }
    });
}
