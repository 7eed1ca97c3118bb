//! Ports that go down: datagrams find no route, and their queue pair fails.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Transport};
use verbs_transport::{Settings, VerbsTransport};

use crate::Frames;
use crate::stand_in::{LIMIT, alone, control, settings, transports};

/// Longest time until datagrams go again once the port is up: timeouts of the datagram path.
const RECOVERY: Duration = Duration::from_secs(20);
/// Shortest time of an outage.
const OUTAGE: Duration = Duration::from_millis(60);
/// Frames in each direction after each outage: more than there are slots for datagrams.
const FRAMES: usize = 300;

/// Sends frames in both directions at once.
fn exchange(ends: &mut [VerbsTransport]) {
    let (began, mut left) = (Instant::now(), [FRAMES; 2]);
    let mut sinks = [Frames::default(), Frames::default()];
    while sinks.iter().any(|sink| sink.0 < FRAMES) {
        let counts = [sinks[0].0, sinks[1].0];
        assert!(began.elapsed() < RECOVERY, "{counts:?} frames\n{}", ends[0].explain());
        for (at, end) in ends.iter_mut().enumerate() {
            let to = Peer(1 - at as u32);
            let post = |end: &mut VerbsTransport| {
                end.post(to, &Header::new(Kind::Data), 0, |_| ()) == Ok(Post::Sent)
            };
            while left[at] > 0 && post(end) {
                left[at] -= 1;
            }
            end.poll(&mut sinks[at]);
            // As a process that waits: events are looked at before a sleep.
            let _ = end.arm();
            end.disarm();
        }
    }
}

/// Lets the port of both processes go down while they send datagrams, again and again.
fn outages(name: &str, options: &str) {
    alone(name, options, || {
        let settings = Settings { connect_after: u32::MAX, ..settings() };
        let mut ends = transports(2, &settings);
        let began = Instant::now();
        exchange(&mut ends);
        for round in 0..5 {
            control("down=1");
            let header = Header::new(Kind::Data);
            let mut sinks = [Frames::default(), Frames::default()];
            let mut posted = 0;
            // Until it has sent something: a frame, or one again that is not acknowledged yet.
            let (outage, sent) = (Instant::now(), ends[0].datagrams_sent());
            while outage.elapsed() < OUTAGE || ends[0].datagrams_sent() == sent {
                assert!(outage.elapsed() < RECOVERY, "round {round}: nothing is sent");
                let post = ends[0].post(Peer(1), &header, 0, |_| ());
                posted += usize::from(post == Ok(Post::Sent));
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            }
            control("up=1");
            while sinks[1].0 < posted {
                ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| {
                    end.poll(sink);
                    let _ = end.arm();
                    end.disarm();
                });
                assert!(outage.elapsed() < RECOVERY, "round {round}: nothing arrives any more");
            }
            exchange(&mut ends);
        }
        assert!(began.elapsed() < LIMIT, "outages take too long");
    });
}

/// As `rdma_rxe`: the queue pair is in ERR, and its requests are flushed.
#[test]
fn a_queue_pair_in_error_is_set_up_again() {
    let options = "devices=stand0/roce unrouted=1 late=500";
    outages("downed::a_queue_pair_in_error_is_set_up_again", options);
}

/// As adapters: the send queue has stopped.
#[test]
fn a_send_queue_that_has_stopped_goes_on() {
    let options = "devices=stand0/ib unrouted=2 late=500";
    outages("downed::a_send_queue_that_has_stopped_goes_on", options);
}
