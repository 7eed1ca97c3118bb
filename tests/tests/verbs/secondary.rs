//! A secondary port whose network is away for longer than a connection may take to come back.

use std::time::{Duration, Instant};

use fabric::{OneSided, Peer, Rights, Transfer, Transport};
use tests::bytes::{Bytes, Shape};
use verbs_transport::{InProcessStore, Rails, Settings};

use crate::full_queue::Seen;
use crate::stand_in::{alone, control, settings};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(40);
/// Longer than connections of secondary ports may take to come back.
const OUTAGE: Duration = Duration::from_secs(6);
/// Bytes of a transfer in two parts.
const BYTES: usize = 1 << 20;

#[test]
fn a_secondary_port_is_used_again_after_an_outage() {
    let name = "secondary::a_secondary_port_is_used_again_after_an_outage";
    alone(name, "devices=stand0/ib,stand1/ib", || {
        let store = InProcessStore::default();
        let mut ends = [0, 1].map(|rank| {
            let settings = Settings { max_rails: 2, ack_timeout: 10, ..settings() };
            Rails::open(settings, Peer(rank), 2, [3; 32], Box::new(store.clone()))
                .expect("a transport")
        });
        let mut sinks = [Seen::default(), Seen::default()];
        let (data, copy) =
            (Bytes::new(Shape::Run, &vec![1; BYTES]), Bytes::new(Shape::Run, &vec![0; BYTES]));
        let memory = |of: &Bytes| of.buffer().memory().expect("one run");
        let region = ends[1].register(Peer(0), memory(&data), Rights::Get).expect("a region");
        let began = Instant::now();
        // Reads everything. Returns the bytes that came through the secondary port.
        let mut transfer = || {
            let before = (ends[0].bytes_on_secondary_ports(), sinks[0].reads);
            let mut has_begun = false;
            while sinks[0].reads == before.1 {
                has_begun = has_begun || {
                    let read = OneSided::Get(memory(&copy));
                    ends[0].one_sided(Peer(1), &region, 0, read, 1) == Ok(Transfer::Started)
                };
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| {
                    end.poll(sink);
                    // As a process that waits: events are looked at before a sleep.
                    let _ = end.arm();
                    end.disarm();
                });
                assert!(began.elapsed() < LIMIT, "a transfer does not end");
            }
            ends[0].bytes_on_secondary_ports() - before.0
        };
        while transfer() == 0 {}
        control("device=stand1 down=1");
        let down = Instant::now();
        while down.elapsed() < OUTAGE {
            transfer();
        }
        control("device=stand1 up=1");
        while transfer() == 0 {}
    });
}
