//! Ports that are given other addresses while datagrams are under way.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Transport};
use verbs_transport::{Settings, VerbsTransport};

use crate::Frames;
use crate::stand_in::{alone, control, settings, transports};

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
