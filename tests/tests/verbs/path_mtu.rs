//! Networks whose switches carry shorter packets than the ports have.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, OneSided, Peer, Post, Rights, Transfer, Transport};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{Settings, VerbsTransport};

use crate::full_queue::Seen;
use crate::stand_in::{alone, settings, transports};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(20);
/// A path that is shorter than the ports' 4096 bytes.
const SHORT: &str = "path=1024";
/// Bytes of a frame of several packets.
const BODY: usize = 8000;

struct Pair {
    ends: [VerbsTransport; 2],
    sinks: [Seen; 2],
    began: Instant,
}

impl Pair {
    fn new(settings: &Settings) -> Pair {
        let ends = transports(2, settings).try_into().ok().expect("two");
        Pair { ends, sinks: Default::default(), began: Instant::now() }
    }

    fn poll(&mut self) {
        self.ends.iter_mut().zip(&mut self.sinks).for_each(|(end, sink)| _ = end.poll(sink));
        assert!(self.began.elapsed() < LIMIT, "it hangs\n{}", self.ends[0].explain());
    }

    /// Sends a frame from the first process to the second one.
    fn send(&mut self, len: usize) {
        let header = Header::new(Kind::Data);
        while self.ends[0].post(Peer(1), &header, len, |slot| slot.fill(1)) != Ok(Post::Sent) {
            self.poll();
        }
    }

    fn wait(&mut self, frames: usize) {
        while self.sinks[1].frames < frames {
            self.poll();
        }
    }
}

#[test]
fn long_datagrams_arrive_in_short_packets() {
    alone("path_mtu::long_datagrams_arrive_in_short_packets", SHORT, || {
        let mut pair = Pair::new(&Settings { connect_after: u32::MAX, ..settings() });
        for count in 1..=20 {
            pair.send(if count % 2 == 0 { BODY } else { 0 });
            pair.wait(count);
        }
    });
}

/// Returns two processes that are connected.
fn connected() -> Pair {
    let mut pair = Pair::new(&Settings { connect_after: 0, ack_timeout: 10, ..settings() });
    let mut frames = 0;
    while !pair.ends[0].is_connected(Peer(1)) {
        pair.send(0);
        frames += 1;
        pair.wait(frames);
    }
    pair
}

#[test]
fn connections_get_short_packets() {
    alone("path_mtu::connections_get_short_packets", SHORT, || {
        let mut pair = connected();
        let before = pair.sinks[1].frames;
        (0..20).for_each(|_| pair.send(BODY));
        pair.wait(before + 20);
    });
}

/// No message shows that long packets are lost.
#[test]
fn a_read_gets_short_packets() {
    alone("path_mtu::a_read_gets_short_packets", SHORT, || {
        let mut pair = connected();
        let bytes = |value| Bytes::new(Shape::Run, &vec![value; 1 << 20]);
        let (data, copy) = (bytes(1), bytes(0));
        let memory = |of: &Bytes| of.buffer().memory().expect("one run");
        let region = pair.ends[1].register(Peer(0), memory(&data), Rights::Get).expect("a region");
        let read = || OneSided::Get(memory(&copy));
        while pair.ends[0].one_sided(Peer(1), &region, 0, read(), 1) != Ok(Transfer::Started) {
            pair.poll();
        }
        while pair.sinks[0].reads == 0 {
            pair.poll();
        }
        assert_eq!(copy.read(), data.read());
    });
}

/// It answers nothing, and so it does not seem that short packets arrive and long ones do not.
#[test]
fn a_peer_that_computes_keeps_long_packets() {
    alone("path_mtu::a_peer_that_computes_keeps_long_packets", "", || {
        let mut pair = Pair::new(&Settings { connect_after: u32::MAX, ..settings() });
        (1..=2).for_each(|count| {
            pair.send(BODY);
            pair.wait(count);
        });
        pair.send(BODY);
        let computes = Instant::now();
        while computes.elapsed() < Duration::from_secs(2) {
            pair.ends[0].poll(&mut pair.sinks[0]);
        }
        pair.wait(3);
        let before = pair.ends[0].datagrams_sent();
        pair.send(BODY);
        pair.wait(4);
        let packets = pair.ends[0].datagrams_sent() - before;
        assert!(packets < 6, "{packets} packets for {BODY} bytes");
    });
}
