//! Processes of two jobs on one host, each with a segment of its own.

mod common;

use std::time::{Duration, Instant};

use common::*;
use fabric::{Peer, Post, Transport, WaitOn};
use shm_transport::{Home, Segment, SegmentError, ShmTransport};

const LENGTHS: [usize; 12] =
    [0, 8, 24, 100, 767, 900, 1500, 2048, 5000, 70_000, 300_000, (1 << 20) - 64];

/// The ranks of a job, with the process numbers from `first` on.
fn job(first: u32, size: u32, ring_bytes: u64) -> Vec<ShmTransport> {
    let file = Segment::file().unwrap();
    let rank = |me| {
        let segment =
            Segment::attach(std::os::fd::AsFd::as_fd(&file), 0, me, size, ring_bytes, POOL);
        let peers = (first..first + size).map(Peer).collect();
        ShmTransport::new(segment.unwrap(), SETTINGS, peers, Vec::new())
    };
    (0..size).map(rank).collect()
}

fn home(of: &ShmTransport) -> Home {
    let home = of.home().expect("this process can open its own files");
    Home::decode(&home.encode()).unwrap()
}

/// Sends so many messages from one to the other, which receives meanwhile.
fn send_all(from: &mut ShmTransport, to: &mut ShmTransport, ends: [Peer; 2], rounds: u64) {
    let (mut inbox, mut sent, begun) = (Inbox::default(), 0, Instant::now());
    while inbox.frames.len() < rounds as usize {
        let len = LENGTHS[sent as usize % LENGTHS.len()].min(from.caps(ends[1]).frame);
        if sent < rounds && post(from, ends[1], sent, len) == Post::Sent {
            sent += 1;
        }
        to.poll(&mut inbox);
        assert!(begun.elapsed() < Duration::from_secs(30) && inbox.lost.is_empty());
    }
    for (tag, (sender, header, bytes)) in (0..).zip(&inbox.frames) {
        let len = LENGTHS[tag as usize % LENGTHS.len()].min(from.caps(ends[1]).frame);
        assert_eq!((*sender, header.context), (ends[0], tag));
        assert_eq!(*bytes, body(tag, len), "message {tag}");
    }
}

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

/// Returns how many files and mappings this process has.
fn open_and_mapped() -> [usize; 2] {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("memfd:verbena")).count();
    [std::fs::read_dir("/proc/self/fd").unwrap().count(), mapped]
}

#[test]
fn what_has_ended_is_forgotten_once_its_frames_are_read() {
    let mut one = job(0, 1, RING);
    let server = &mut one[0];
    let (own, [files, _]) = (home(server), open_and_mapped());
    // More than are always polled, so that some rings are idle when others are forgotten.
    for round in 0..3 {
        let first = 1 + 20 * round;
        let mut clients: Vec<ShmTransport> =
            (first..first + 20).flat_map(|number| job(number, 1, RING)).collect();
        for (number, client) in (first..).zip(&mut clients) {
            server.meet(Peer(number), &home(client)).unwrap();
            client.meet(Peer(0), &own).unwrap();
            send_all(client, server, [Peer(number), Peer(0)], 12);
            send_all(server, client, [Peer(0), Peer(number)], 12);
        }
        (0..1000).for_each(|_| _ = server.poll(&mut Inbox::default()));
        let (most, [_, mapped]) = (first..first + 17, open_and_mapped());
        assert_eq!(post(&mut clients[3], Peer(0), 5, 100), Post::Sent);
        assert!(!server.forget(&most), "a frame waits");
        let mut inbox = Inbox::default();
        while !server.forget(&most) {
            server.poll(&mut inbox);
        }
        assert_eq!(inbox.frames.len(), 1);
        for len in [8, 5000, 300_000] {
            assert_eq!(post(server, Peer(first), 0, len), Post::Sent, "it is lost");
        }
        // Those that are left are all polled again.
        for number in most.end..most.end + 3 {
            let client = &mut clients[(number - first) as usize];
            send_all(client, server, [Peer(number), Peer(0)], 12);
            send_all(server, client, [Peer(0), Peer(number)], 12);
        }
        assert!(server.forget(&(most.end..u32::MAX)));
        drop(clients);
        // Of each client its control blocks and bodies, and two rings.
        assert_eq!(open_and_mapped(), [files, mapped - 20 * 4]);
    }
}
