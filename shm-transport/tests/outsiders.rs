//! Processes of two jobs on one host, each with a segment of its own.

mod common;

use common::*;
use fabric::{Peer, Post, Transport, WaitOn};
use shm_transport::{Home, SegmentError};

#[test]
fn jobs_exchange_messages_of_all_lengths() {
    let (mut small, mut large) = (job(7, 1, RING), job(400, 3, RING));
    for (at, other) in large.iter_mut().enumerate() {
        let number = Peer(400 + at as u32);
        small[0].meet(number, &home(other)).unwrap();
        other.meet(Peer(7), &home(&small[0])).unwrap();
        other.meet(Peer(7), &home(&small[0])).unwrap();
    }
    for (at, other) in large.iter_mut().enumerate() {
        let number = Peer(400 + at as u32);
        send_all(&mut small[0], other, [Peer(7), number], 500);
        send_all(other, &mut small[0], [number, Peer(7)], 500);
    }
    let [first, second, _] = &mut large[..] else { unreachable!() };
    send_all(first, second, [Peer(400), Peer(401)], 100);
}

#[test]
fn messages_wait_for_a_receiver_that_has_not_met_their_sender() {
    let (mut one, mut other) = (job(0, 2, RING), job(2, 2, RING));
    let (sender, receiver) = (&mut one[1], &mut other[0]);
    sender.meet(Peer(2), &home(receiver)).unwrap();
    for tag in 0..3 {
        assert_eq!(post(sender, Peer(2), tag, 100), Post::Sent);
    }
    let mut inbox = Inbox::default();
    receiver.poll(&mut inbox);
    assert!(inbox.frames.is_empty());
    receiver.meet(Peer(1), &home(sender)).unwrap();
    while inbox.frames.len() < 3 {
        assert!(receiver.poll(&mut inbox));
    }
    assert!(inbox.frames.iter().all(|(from, ..)| *from == Peer(1)));
}

#[test]
fn an_outsider_wakes_a_sleeper() {
    let (mut one, mut other) = (job(0, 1, RING), job(1, 1, RING));
    let homes = [home(&one[0]), home(&other[0])];
    one[0].meet(Peer(1), &homes[1]).unwrap();
    other[0].meet(Peer(0), &homes[0]).unwrap();
    // It looks whether the other one has connected already.
    assert!(!one[0].poll(&mut Inbox::default()));
    let Some(WaitOn::Futex { word, value }) = one[0].arm() else { panic!("nothing has come") };
    assert_eq!(word.load(std::sync::atomic::Ordering::SeqCst), value);
    assert_eq!(post(&mut other[0], Peer(0), 0, 8), Post::Sent);
    assert_ne!(word.load(std::sync::atomic::Ordering::SeqCst), value);
    one[0].disarm();
}

#[test]
fn rings_of_different_lengths_keep_jobs_apart() {
    let jobs = [job(0, 1, RING), job(1, 2, RING), job(3, 1, 16 * RING)];
    let [first, second, longer] = jobs.each_ref().map(|job| home(&job[0]));
    assert!(first.is_near(&second) && !first.is_near(&longer));
}

#[test]
fn of_two_outsiders_with_one_bit_each_has_its_ring() {
    let (mut one, mut near, mut far) = (job(5, 1, RING), job(70, 1, RING), job(134, 1, RING));
    let homes = [home(&one[0]), home(&near[0]), home(&far[0])];
    near[0].meet(Peer(5), &homes[0]).unwrap();
    far[0].meet(Peer(5), &homes[0]).unwrap();
    one[0].meet(Peer(70), &homes[1]).unwrap();
    one[0].meet(Peer(134), &homes[2]).unwrap();
    send_all(&mut far[0], &mut one[0], [Peer(134), Peer(5)], 50);
    send_all(&mut near[0], &mut one[0], [Peer(70), Peer(5)], 50);
    send_all(&mut one[0], &mut near[0], [Peer(5), Peer(70)], 50);
}

#[test]
fn the_home_of_another_segment_is_refused() {
    let (mut one, other, third) = (job(0, 1, RING), job(1, 1, RING), job(2, 1, RING));
    let mut bytes = home(&other[0]).encode();
    // The descriptor is another job's.
    bytes[28..32].copy_from_slice(&home(&third[0]).encode()[28..32]);
    let error = one[0].meet(Peer(1), &Home::decode(&bytes).unwrap()).unwrap_err();
    assert!(error.to_string().contains("it is another file"), "{error}");
    bytes[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = one[0].meet(Peer(1), &Home::decode(&bytes).unwrap()).unwrap_err();
    assert!(matches!(error, SegmentError::Gone { .. }), "{error}");
}
