//! Addresses to which the system finds no way for a while. It takes long to find that.

use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Transport};
use tests::device;
use verbs_transport::{InProcessStore, Settings, VerbsTransport};

use crate::Frames;
use crate::stand_in::{alone, control, library, settings};

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(20);
/// Time without a way, and that each look-up takes of it.
const OUTAGE: Duration = Duration::from_secs(4);
const LOOK_UP: Duration = Duration::from_millis(100);

#[test]
fn an_address_without_a_way_is_looked_up_now_and_then() {
    let name = "unreachable::an_address_without_a_way_is_looked_up_now_and_then";
    let options =
        format!("devices=stand0/roce,stand1/roce unreachable=1 lookup={}", LOOK_UP.as_micros());
    alone(name, &options, || {
        let store = InProcessStore::default();
        let mut ends = [(0, "stand0"), (1, "stand1")].map(|(rank, device)| {
            let settings = Settings { device: Some(device.into()), ..settings() };
            VerbsTransport::open(settings, Peer(rank), 2, [3; 32], Box::new(store.clone()))
                .expect("a transport")
        });
        let mut sinks = [Frames::default(), Frames::default()];
        let mut poll = |ends: &mut [VerbsTransport; 2]| {
            ends.iter_mut().zip(&mut sinks).for_each(|(end, sink)| _ = end.poll(sink));
            sinks[1].0
        };
        let began = Instant::now();
        while ends[0].post(Peer(1), &Header::new(Kind::Data), 0, |_| ()) != Ok(Post::Sent) {
            poll(&mut ends);
        }
        while began.elapsed() < OUTAGE {
            poll(&mut ends);
        }
        let refused = device::number(&library(), c"verbs_device_refused_handles");
        println!("{refused} handles refused in {OUTAGE:?}");
        assert!(refused > 1 && LOOK_UP * refused as u32 * 4 < OUTAGE, "{refused} handles refused");
        control("unreachable=9");
        while poll(&mut ends) == 0 {
            assert!(began.elapsed() < LIMIT, "nothing arrives\n{}", ends[0].explain());
        }
    });
}
