//! What a process keeps of jobs that have ended. A file of its own, since it counts what the whole
//! process has open.

mod common;

use common::*;
use fabric::{Peer, Post, Transport};
use shm_transport::ShmTransport;

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
