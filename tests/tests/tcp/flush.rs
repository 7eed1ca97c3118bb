//! The end of a process whose peers compute, or are not reached.

use std::time::{Duration, Instant};

use fabric::{InProcessStore, Peer, Post, Store as _, Transport as _};
use tcp_transport::TcpTransport;

use super::{NOWHERE, SECRET, Told, on_loopback, post, send, transports, until};

/// Polls ranks for so long.
fn poll_for(time: Duration, all: &mut [TcpTransport], told: &mut [Told]) {
    let began = Instant::now();
    while began.elapsed() < time {
        all.iter_mut().zip(&mut *told).for_each(|(transport, told)| _ = transport.poll(told));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Posts frames to rank 1 until there is no space; returns their number.
fn fill(transport: &mut TcpTransport) -> usize {
    let posted = || post(transport, 1, &[5; 30_000]).expect("a peer");
    std::iter::repeat_with(posted).take_while(|&posted| posted == Post::Sent).count()
}

/// A process that ends waits for a peer that computes for longer than for one that nothing reaches,
/// with a connection to it and without.
#[test]
fn a_flush_waits_for_a_process_that_computes() {
    for is_broken in [false, true] {
        let (mut all, mut told) =
            (transports(2, &on_loopback()), vec![Told::default(), Told::default()]);
        send(&mut all, &mut told, (0, 1), b"there");
        until(&mut all, &mut told, |told| told[1].frames.len() == 1);
        let count = fill(&mut all[0]);
        if is_broken {
            all[0].interrupt(Peer(1));
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(6) {
            assert!(!all[0].flush(), "after {:?}; broken: {is_broken}", began.elapsed());
            poll_for(Duration::from_millis(10), &mut all[..1], &mut told[..1]);
        }
        until(&mut all, &mut told, |told| told[1].frames.len() == count + 1);
        let began = Instant::now();
        while !all[0].flush() {
            poll_for(Duration::from_millis(1), &mut all, &mut told);
            assert!(began.elapsed() < Duration::from_secs(15), "broken: {is_broken}");
        }
    }
}

/// A process that ends waits some seconds for a peer that nothing reaches.
#[test]
fn a_flush_does_not_wait_for_a_peer_that_is_not_reached() {
    let mut store = InProcessStore::default();
    let open = |rank| {
        let store = Box::new(store.clone());
        TcpTransport::open(on_loopback(), Peer(rank), 2, SECRET, store).expect("a transport")
    };
    let (mut all, mut told) = (vec![open(0), open(1)], vec![Told::default(), Told::default()]);
    send(&mut all, &mut told, (0, 1), b"there");
    until(&mut all, &mut told, |told| told[1].frames.len() == 1);
    fill(&mut all[0]);
    store.put("tcp/1", NOWHERE).expect("a store");
    all[0].interrupt(Peer(1));
    let began = Instant::now();
    while !all[0].flush() {
        poll_for(Duration::from_millis(10), &mut all[..1], &mut told[..1]);
        assert!(began.elapsed() < Duration::from_secs(15));
    }
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
}
